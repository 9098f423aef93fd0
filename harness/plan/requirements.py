"""Requirements of levels, checked while planning: geometry, room, memory, options, scheduler.

Probes on the host decide whether a level can run at all. The checks here only need the inspection.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness import levels
from harness.errors import ConfigError
from harness.plan.derive import Derived
from harness.plan.level_entry import LevelEntry
from harness.plan.load import nearest
from harness.quantities import format_size
from harness.store.spec import Device, HostFacts, Inspection, PhaseSpec, Plan, RunSpec
from harness.tools import fio
from harness.workloads import PROGRAMS

_MISSING = "program-missing"
# Memory of db_bench without memtables and block cache: code, stacks and table readers.
_PROGRAM_BYTES = 64 * 2**20
_MEMTABLES_DEFAULT = 2
# From this kernel on, zone write plugging keeps writes in order without a scheduler.
_NONE_SINCE = (6, 10)


def check_programs(plan: Plan, *, installed: bool) -> None:
    """Refuse programs that a host lacks or that are too old.

    Unless ``installed``, a missing program is accepted: the playbook installs it before the runs.

    Raises:
        ConfigError: a program of a phase cannot run on its host.
    """
    for host in plan.hosts:
        for name in sorted({phase.program for run in host.runs for phase in run.phases}):
            reason = host.inspection.unusable.get(name)
            if reason is None or (reason.code == _MISSING and not installed):
                continue
            raise ConfigError(
                f"workload.{PROGRAMS[name].field} cannot run on {host.host}: {reason.message}",
                hint=reason.hint,
                code=reason.code,
            )


def is_available(level: str, inspection: Inspection) -> bool:
    """Whether the inspected host can run a level."""
    return any(probe.level == level and probe.available for probe in inspection.levels)


def check_level(level: str, device: Device) -> None:
    """Refuse a level that needs more zones or active zones than the device has.

    Raises:
        ConfigError: the device has too few zones, or its limit of active zones is too low.
    """
    module = levels.LEVELS[level]
    if not (device.zoned and module.uses_zoned):
        return
    needs = module.needs
    zones, active = device.zones or 0, device.max_active_zones or 0
    if zones < needs.zones:
        raise ConfigError(
            f"{level} needs at least {needs.zones} zones, {device.path} has {zones}",
            hint="use a larger namespace, or omit the level (--levels)",
            code="too-few-zones",
        )
    if 0 < active < needs.active:  # 0: the device has no limit
        raise ConfigError(
            f"{level} needs {needs.active} active zones, {device.path} allows {active} "
            f"({needs.why})",
            hint="create the namespace with more active resources, or omit the level (--levels)",
            code="too-few-active-zones",
        )


def check_room(level: str, device: Device, derived: Derived) -> None:
    """Refuse data that exceeds a level's room, if the level can compute its room in advance.

    Raises:
        ConfigError: cold data and the database at its peak exceed the room.
    """
    room = levels.LEVELS[level].room(device) if device.zoned else None
    wanted = derived.cold_bytes + derived.peak_bytes
    if room is not None and wanted > room:
        raise ConfigError(
            f"{level} can fill {format_size(room)} of {format_size(device.capacity)}, but cold "
            f"data and the database at its peak need {format_size(wanted)}",
            hint="lower target_utilisation, use a namespace with more zones, or omit the level",
            code="does-not-fit",
        )


def check_memory(limit: int | None, host: HostFacts, run: RunSpec) -> None:
    """Refuse a memory limit under which db_bench would be killed, or that has no effect.

    Raises:
        ConfigError: the limit is below the needs of db_bench, or not below the host's memory.
    """
    if limit is None:
        return
    needed = _PROGRAM_BYTES + max(_own_memory(phase) for phase in run.phases)
    if limit < needed:
        raise ConfigError(
            f"memory_limit {format_size(limit)} is less than the {format_size(needed)} that "
            f"db_bench, its memtables and its block cache need",
            hint="raise the limit, or lower the workload's cache_size or write_buffers_per_file",
            code="memory-limit",
        )
    if limit >= host.memory_bytes:
        raise ConfigError(
            f"memory_limit {format_size(limit)} has no effect: {host.name} has only "
            f"{format_size(host.memory_bytes)}",
            hint="lower or omit it",
            code="memory-limit",
        )


def _own_memory(phase: PhaseSpec) -> int:
    memtables = int(phase.flags.get("max_write_buffer_number", _MEMTABLES_DEFAULT))
    buffers = memtables * int(phase.flags.get("write_buffer_size", 0))
    return buffers + max(0, int(phase.flags.get("cache_size", 0)))


def check_options(level: LevelEntry) -> None:
    """Refuse options that the level does not have, and values that it does not accept.

    Raises:
        ConfigError: an option or its value is wrong; the hint lists the known ones.
    """
    module = levels.LEVELS[level.name]
    for name in level.options:
        if name not in module.options:
            raise ConfigError(
                f"level {level.name} has no option {name!r}",
                hint=nearest(name, module.options),
                code="unknown-option",
            )
    module.check_options(level.options)


def choose_scheduler(
    level: str | None,
    wanted: str | None,
    inspection: Inspection,
    phases: Sequence[PhaseSpec] = (),
) -> str:
    """Return the wanted scheduler, or by default ``none`` if kernel and level allow it.

    ``level`` is null for a skipped level. The default is the same for all levels of a host, so that
    they can be compared. ``phases`` are the phases of a level without a database.

    Raises:
        ConfigError: the device does not offer the scheduler, the level does not work with it, or
            it would reorder zone writes.
    """
    release = inspection.host.kernel
    module = levels.LEVELS[level] if level else None
    accepted = module.schedulers if module else ()
    default = "none" if _ordered(inspection.device, release) else "mq-deadline"
    choice = wanted or (accepted[0] if accepted else default)
    if accepted and choice not in accepted:
        raise ConfigError(
            f"{level} does not work with scheduler {choice}",
            hint=f"it works with {', '.join(accepted)}; or omit the level",
            code="scheduler-unsupported",
        )
    device = inspection.device
    if module:
        device = module.main_device(device, inspection.conventional)
    if choice != "mq-deadline" and not _ordered(device, release):
        _check_order(choice, release, phases)
    if device.schedulers and choice not in device.schedulers:
        raise ConfigError(
            f"{device.path} does not offer scheduler {choice!r}",
            hint=f"it offers {', '.join(device.schedulers)}",
            code="unknown-scheduler",
        )
    return choice


def _ordered(device: Device, release: str) -> bool:
    """Return whether writes stay in order without a scheduler."""
    # A modelled drive in files has no queue that could reorder writes.
    return not device.zoned or device.native or _version(release) >= _NONE_SINCE


def _check_order(scheduler: str, release: str, phases: Sequence[PhaseSpec]) -> None:
    """Refuse phases that have, or may have (all but fio's), several writes to a zone in flight."""
    unknown = not phases or any(phase.program != fio.PROGRAM for phase in phases)
    what = "zone writes" if unknown else ""
    for phase in phases:
        for flags in fio.sections(phase.name, phase.flags).values():
            depth = int(flags.get("iodepth", 1))
            if "write" in str(flags.get("rw", "")) and depth > 1:
                what = what or f"the writes of sweep {phase.benchmark} at iodepth {depth}"
    if what:
        raise ConfigError(
            f"scheduler {scheduler} reorders {what} on Linux {release}",
            hint="use mq-deadline, or Linux 6.10 or later",
            code="scheduler-unsafe",
        )


def _version(release: str) -> tuple[int, int]:
    parts = release.split("-", maxsplit=1)[0].split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        raise ConfigError(f"cannot read kernel release {release!r}", code="kernel") from None
