"""Decides whether two groups of runs can be compared, from a diff of their records.

Every recorded difference blocks the verdict, unless the contrasted factor or the level owns it, or
it is on a short list of harmless ones. See docs/methods.md, "Comparability".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis import numbers
from analysis.judge import code
from analysis.judge.fingerprint import GEOMETRY, geometry
from analysis.read.load import CampaignData, RunRecord
from harness.levels import LEVELS

BUILD = "host.rocksdb"
MEMORY = "host.memory_bytes"
KIND = "device.kind"  # different kinds are never compared
# Names for people.
NAMED = {
    "host.cpus": "CPU count",
    MEMORY: "memory",
    BUILD: "RocksDB build",
    "flags.target_file_size_base": "SST size",
    "flags.use_direct_reads": "direct reads",
    "flags.use_direct_io_for_flush_and_compaction": "direct writes",
    "flags.sync": "WAL sync",
    "flags.disable_wal": "WAL",
    KIND: "device kind",
    "cold.target_utilisation": "target utilisation",
    "workload.phases": "phases",
    "memory_limit": "memory limit",
    "host.kernel": "kernel",
    "host.os": "operating system",
    "manifest.governor": "governor",
    "manifest.remainder_bytes": "bytes on the remainder",
    "utilisation.u_drive": "utilisation of the drive",
}
# No factor of a study changes these by design, unless it has the key's name.
NEVER_BY_DESIGN = frozenset(
    {
        KIND,
        "flags.target_file_size_base",
        "flags.use_direct_reads",
        "flags.use_direct_io_for_flush_and_compaction",
        "flags.sync",
        "flags.disable_wal",
    }
)
# These contrasts change no setting by design. Every other factor can change flags, because the
# planner derives flags from values of factors.
NAMES = frozenset({"level", "host", "campaign"})
# Harmless differences. The runner's source is compared instead of the release.
_HARMLESS = frozenset({"zonelab"})
# The names of one namespace change between boots; namespaces of a drive have their own.
_IDENTITY = frozenset(["path", "key", "eui64", "nguid", "uuid", "nsid"])
# A level that needs a scheduler owns these settings of the zoned queue.
_OF_SCHEDULER = ("async_depth", "nr_requests", "scheduler", "wbt_lat_usec")
_QUEUES = tuple(f"manifest.devices.zoned.queue.{node}." for node in ("own", "path"))
_IN_BYTES = frozenset({"geometry.zone_size", "geometry.zone_capacity", "memory_limit"})
# MemTotal of one machine changes slightly between boots and kernels.
_MEMORY_TOLERANCE = 0.02
# Fields that differ between the devices of two rigs: identity and geometry.
_DEVICE_FIELDS = """
    path key eui64 nguid uuid serial nsid size zones zone_size zone_capacity max_open_zones
    max_active_zones logical_block_size physical_block_size chunk_sectors nr_zones
    """
_OF_DEVICE = frozenset(_DEVICE_FIELDS.split())
NOT_RECORDED = "not recorded"
_MODULES = "manifest.modules."
_OR = " or "  # joins the values of a group whose runs differ
# A level's own record: how it is mounted, and what follows from that.
_OF_LEVEL = ("level.mount_options", "level.gc_source", "level.facts.", "level.direct_io.")
# Keys that a factor changes by design, besides the key with its own name.
_OWNED_BY = {
    "level": (*_OF_LEVEL, "device.model"),
    "target_utilisation": ("cold.",),
    "scheduler": ("devices.",),
    "finish_occupancy_pct": _OF_LEVEL,
    # Limits are left out: namespaces with different zone sizes can have the same limits.
    "zone_size": ("geometry.zone", "devices."),
}
# These differences are listed but do not block a verdict if hosts are compared.
_OF_HOST = ("host.", "manifest.", "device.", "utilisation.")


@dataclass(frozen=True, slots=True)
class Difference:
    """A recorded value that differs between two groups, besides the contrasted factor.

    ``declared``: the study names rigs that differ in it.
    """

    key: str
    baseline: str
    level: str
    blocking: bool
    declared: bool = False

    @property
    def what(self) -> str:
        """A readable name, or the key if there is none."""
        return NAMED.get(self.key) or GEOMETRY.get(self.key) or code.name(self.key)

    @property
    def texts(self) -> tuple[str, str]:
        """The values of both sides as readable text."""
        return _readable(self.key, self.baseline), _readable(self.key, self.level)

    @property
    def consequence(self) -> str:
        """The effect on the verdict, in a word or two."""
        if self.blocking:
            return "no verdict"
        return "declared" if self.declared else "listed"

    @property
    def label(self) -> str:
        """One phrase for a note."""
        base, level = self.texts
        return f"{self.what} {base} vs {level}"


def declared(campaign: CampaignData, runs: Sequence[RunRecord]) -> bool:
    """Return whether the study declared that geometries may differ between these runs.

    It did if it names the rig of each run, and each run used the planned device.
    """
    plans = [(run, campaign.host_plan(run.host)) for run in runs]
    return all(
        plan is not None
        and plan.rig in campaign.plan.rigs
        and geometry(run.result.device) in [geometry(device) for device in plan.inspection.devices]
        for run, plan in plans
    )


def owned_by_levels(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Return the beginnings of recorded keys that belong to the levels of these runs.

    A level declares the settings without which it cannot run.
    """
    found: list[str] = []
    for name in sorted({run.spec.level for run in runs}):
        level = LEVELS.get(name)
        if level is None:
            continue
        found += level.owns
        if level.schedulers:
            found += ["scheduler", "manifest.devices.zoned.scheduler"]
            found += [queue + key for queue in _QUEUES for key in _OF_SCHEDULER]
    return tuple(found)


def gathered(prints: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    """Return key → its values in a group of runs, with NOT_RECORDED if a run has no value."""
    distinct = {id(one): one for one in prints}.values()
    found: dict[str, set[str]] = defaultdict(set)
    having: Counter[str] = Counter()
    for one in distinct:
        having.update(one.keys())
        for key, value in one.items():
            found[key].add(value)
    for key, values in found.items():
        if having[key] < len(distinct):
            values.add(NOT_RECORDED)
    return dict(found)


def differences(
    base: Mapping[str, Collection[str]],
    level: Mapping[str, Collection[str]],
    contrasted: Collection[str],
    *,
    declared: bool = False,
    different_code: bool = False,
    owned: Collection[str] = (),
) -> tuple[Difference, ...]:
    """Return the differences between two gathered groups, besides the contrasted factor.

    Args:
        base: the baseline's values by key.
        level: the level's values by key.
        contrasted: the factors in which the groups differ on purpose.
        declared: the study declared the rigs' differences for both groups, so these do not block.
        different_code: the user wants verdicts although different code produced the runs.
        owned: beginnings of keys that a level or the user declares; they are listed only.

    A mix of RocksDB builds or of code blocks even if both sides have the same mix.
    """
    found = []
    none = (NOT_RECORDED,)
    rigs = {*base.get("rig", none), *level.get("rig", none)}
    for key in sorted({*base, *level}):
        left, right = (sorted(group.get(key, none)) for group in (base, level))
        one = len(left) == 1 or not (key == BUILD or code.is_code(key))
        same = left == right and one
        if same or _owned(key, contrasted) or _close(key, left + right):
            continue
        last = key.rpartition(".")[2]
        recorded = [{*group.get(key, ())} - {NOT_RECORDED} for group in (base, level)]
        if key.startswith(code.PROGRAMS) and not all(recorded):
            continue  # one side does not use the program, or recorded no code
        if key.startswith(_MODULES) and (not all(recorded) or recorded[0] == recorded[1]):
            continue  # a module has no parameters in a run that did not load it
        if key.startswith("manifest.devices."):
            declared_field = declared and len(rigs) > 1 and last in _OF_DEVICE
            # A level that does not use a device has no record of it.
            if declared_field or NOT_RECORDED in left + right:
                continue
        by_rig = key in GEOMETRY or key == "rig"
        is_owned = key != BUILD and any(key.startswith(prefix) for prefix in owned)
        texts = _OR.join(left), _OR.join(right)
        if code.is_of_code(key):
            blocking = not different_code and code.blocks(key, recorded[0], recorded[1], contrasted)
        else:
            blocking = not (
                is_owned
                or (by_rig and declared)
                or _harmless(key, contrasted, NOT_RECORDED in left + right)
            )
        if key.startswith("phase.") and _repeats(key, base, level):
            continue
        is_declared = is_owned or (declared and by_rig)
        found.append(Difference(key, *texts, blocking, declared=is_declared))
    return tuple(found)


def _repeats(
    key: str, base: Mapping[str, Collection[str]], level: Mapping[str, Collection[str]]
) -> bool:
    """Whether this flag's difference is already listed.

    It is listed as the flag over all phases, or because the phases differ.
    """
    merged = _merged(key)
    if any("by phase" in group.get(merged, ()) for group in (base, level)):
        return False
    # Both sides set the flag, but one of them not in this phase.
    return any(base.get(one) != level.get(one) for one in (merged, "workload.phases"))


def _merged(key: str) -> str:
    """Return the key of a flag in all phases."""
    return f"flags.{key.rpartition('.')[2]}"


def _readable(key: str, text: str) -> str:
    """Return one or more values (``a or b``) as readable text."""
    if key not in GEOMETRY and key not in _IN_BYTES:
        return text
    values = text.split(_OR)
    if key in _IN_BYTES:
        values = [numbers.human(int(v), "B") if v.isdigit() else v for v in values]
    elif "max_" in key:
        values = ["any number" if value == "0" else value for value in values]
    return _OR.join(values)


def _owned(key: str, contrasted: Collection[str]) -> bool:
    if key.rpartition(".")[2] in contrasted:
        return True
    name = key.removeprefix("manifest.")
    return any(name.startswith(p) for one in contrasted for p in _OWNED_BY.get(one, ()))


def _harmless(key: str, contrasted: Collection[str], missing: bool) -> bool:
    """Whether a difference is listed only."""
    if key in _HARMLESS or key.rpartition(".")[2] in _IDENTITY:
        return True
    of_host = key.startswith(_OF_HOST) and key not in (BUILD, KIND)
    if "host" in contrasted and of_host:
        return True
    if key.startswith(("flags.", "phase.")):
        return _merged(key) not in NEVER_BY_DESIGN and not NAMES.issuperset(contrasted)
    # If a run did not record a value, nothing is known about a difference.
    return missing and key.startswith(("manifest.", "device.", "utilisation.", "rig"))


def _close(key: str, values: Sequence[str]) -> bool:
    if key != MEMORY or not all(value.isdigit() for value in values):
        return False
    sizes = [int(value) for value in values]
    return max(sizes) - min(sizes) <= _MEMORY_TOLERANCE * max(sizes)
