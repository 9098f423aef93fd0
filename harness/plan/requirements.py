"""What a level needs of a device before it is worth trying; refused at planning time.

Probes on the host decide whether a level *can* run; these are arithmetic on the geometry.
"""

from __future__ import annotations

from harness import levels
from harness.errors import ConfigError
from harness.levels.base import Level as Module
from harness.plan.derive import DOES_NOT_FIT, Derived
from harness.plan.load import nearest
from harness.plan.models import Level
from harness.plan.probe import ProbeSizes
from harness.plan.units import format_size
from harness.store.spec import Device, HostFacts, Inspection, PhaseSpec, RunSpec

# db_bench without memtables and block cache: its code, stacks and table readers.
_PROGRAM_BYTES = 64 * 2**20
_MEMTABLES_DEFAULT = 2
# zone write plugging, which orders writes without a scheduler, came with this kernel.
_NONE_SINCE = (6, 10)


def check_level(level: str, device: Device) -> None:
    """Refuse a level that this geometry cannot carry.

    Raises:
        ConfigError: too few zones, or too few zones may be active at once.
    """
    module = levels.LEVELS.get(level)
    if not device.zoned or (module is not None and not module.uses_zoned):
        return
    needs = module.needs if module is not None else Module.needs
    zones, active = device.zones or 0, device.max_active_zones or 0
    if zones < needs.zones:
        raise ConfigError(
            f"{level} needs at least {needs.zones} zones, {device.path} has {zones}",
            hint="use a larger namespace, or leave the level out with --levels",
            code="too-few-zones",
        )
    if 0 < active < needs.active:  # 0: the device has no limit
        raise ConfigError(
            f"{level} needs {needs.active} active zones, {device.path} allows {active} "
            f"({needs.why})",
            hint="create the namespace with more active resources, or leave the level out",
            code="too-few-active-zones",
        )


def check_room(level: str, device: Device, derived: Derived | ProbeSizes) -> None:
    """Refuse data that a level which knows its room beforehand cannot take.

    Raises:
        ConfigError: cold data and the largest database need more than it offers.
    """
    module = levels.LEVELS.get(level)
    room = module.room(device) if module is not None and device.zoned else None
    wanted = derived.cold_bytes + derived.peak_bytes
    if room is not None and wanted > room:
        raise ConfigError(
            f"{level} fills at most {format_size(room)} of {format_size(device.capacity)}, cold "
            f"data and the largest database need {format_size(wanted)}",
            hint="lower target_utilisation, use a namespace of more zones, or leave the level out",
            code=DOES_NOT_FIT,
        )


def check_memory(limit: int | None, host: HostFacts, run: RunSpec) -> None:
    """Refuse a memory limit under which db_bench would be killed, or that limits nothing.

    Raises:
        ConfigError: it is less than memtables and block cache take, or all that the host has.
    """
    if limit is None:
        return
    needed = _PROGRAM_BYTES + max(_own_memory(phase) for phase in run.phases)
    if limit < needed:
        raise ConfigError(
            f"memory_limit {format_size(limit)} is less than the {format_size(needed)} that "
            f"db_bench needs for itself, its memtables and its block cache",
            hint="raise it, or lower cache_size or write_buffers_per_file of the workload",
            code="memory-limit",
        )
    if limit >= host.memory_bytes:
        raise ConfigError(
            f"memory_limit {format_size(limit)} limits nothing: {host.name} has "
            f"{format_size(host.memory_bytes)}",
            hint="lower it, or leave it out",
            code="memory-limit",
        )


def _own_memory(phase: PhaseSpec) -> int:
    memtables = int(phase.flags.get("max_write_buffer_number", _MEMTABLES_DEFAULT))
    buffers = memtables * int(phase.flags.get("write_buffer_size", 0))
    return buffers + max(0, int(phase.flags.get("cache_size", 0)))


def check_options(level: Level) -> None:
    """Refuse options, and values of options, that the level's module does not understand.

    Raises:
        ConfigError: there is one; the hint lists what it knows.
    """
    module = levels.LEVELS.get(level.name)
    if module is None:  # a level that only the inspected host has
        return
    for name in level.options:
        if name not in module.options:
            raise ConfigError(
                f"level {level.name} has no option {name!r}",
                hint=nearest(name, module.options), code="unknown-option",
            )  # fmt: skip
    module.check_options(level.options)


def choose_scheduler(level: str | None, wanted: str | None, inspection: Inspection) -> str:
    """Return the scheduler of a run: the wanted one, else ``none`` where kernel and level allow it.

    ``level`` is null for one that is skipped.

    Raises:
        ConfigError: the device does not offer it, the kernel needs mq-deadline on zones, or the
            level works with others only.
    """
    device, release = inspection.device, inspection.host.kernel
    ordered = not device.zoned or _version(release) >= _NONE_SINCE
    module = levels.LEVELS.get(level) if level else None
    accepted = module.schedulers if module is not None else ()
    choice = wanted or (accepted[0] if accepted else "none" if ordered else "mq-deadline")
    if accepted and choice not in accepted:
        raise ConfigError(
            f"{level} does not work with scheduler {choice}",
            hint=f"it works with {', '.join(accepted)}; or leave the level out",
            code="scheduler-unsupported",
        )
    if choice != "mq-deadline" and not ordered:
        raise ConfigError(
            f"scheduler {choice} reorders zone writes on Linux {release}",
            hint="use mq-deadline, or a kernel from 6.10 on",
            code="scheduler-unsafe",
        )
    if device.schedulers and choice not in device.schedulers:
        raise ConfigError(
            f"{device.path} does not offer scheduler {choice!r}",
            hint=f"it offers {', '.join(device.schedulers)}",
            code="unknown-scheduler",
        )
    return choice


def _version(release: str) -> tuple[int, int]:
    parts = release.split("-", maxsplit=1)[0].split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        raise ConfigError(f"cannot read kernel release {release!r}", code="kernel") from None
