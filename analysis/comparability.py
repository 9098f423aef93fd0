"""May two groups of runs be compared? Diffs what was recorded of them (docs/methods.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from analysis import units
from analysis.load import CampaignData, RunRecord
from harness.store.codec import encode
from harness.store.spec import Device

BUILD = "host.rocksdb"
# Where these differ, a difference in the metric may be theirs and not the factor's: no verdict.
# Keys are the ends of dotted paths in the fingerprint.
BLOCKING = {
    "host.cpus": "CPU count",
    "host.memory_bytes": "memory",
    BUILD: "RocksDB build",
    "flags.target_file_size_base": "SST size",
    "flags.use_direct_reads": "direct reads",
    "flags.use_direct_io_for_flush_and_compaction": "direct writes",
    "flags.sync": "WAL sync",
    "flags.disable_wal": "WAL",
    "device.kind": "device kind",
    "cold.target_utilisation": "target utilisation",
    "workload.phases": "phases",
    "memory_limit": "memory limit",
}
# How much of what is written and read, by the last part of a flag's key. What follows from a
# contrasted factor (a value's size) is its own; between levels, hosts and campaigns it blocks.
AMOUNTS = frozenset({
    "num", "writes", "reads", "duration", "key_size", "value_size", "threads", "compression_type",
})  # fmt: skip
EFFECTIVE = "manifest.level.direct_io."
# Not factors of a study, but names of who ran it: they own no setting.
NAMES = frozenset({"level", "host", "campaign"})
# The zoned device's shape. Blocks as well, unless the study declared it by naming several rigs.
GEOMETRY = {
    "geometry.zones": "zones",
    "geometry.zone_size": "zone size",
    "geometry.zone_capacity": "zone capacity",
    "geometry.max_open_zones": "open zones allowed",
    "geometry.max_active_zones": "active zones allowed",
    "geometry.logical_block_size": "block size",
}
_IN_BYTES = frozenset({"geometry.zone_size", "geometry.zone_capacity", "memory_limit"})
# MemTotal of the same machine moves a little between boots and kernels.
_MEMORY_TOLERANCE = 0.02
# Flags that differ between any two runs, and say nothing about how they compare.
_RUN_FLAGS = {"seed", "db", "fs_uri", "wal_dir", "env_uri", "report_file", "histogram"}
# What is compared of a level's record; the rest are counters.
_OF_LEVEL = ("mount_options", "gc_source", "program", "facts")
# What another rig's device is by its nature: identity, and geometry once more.
_OF_DEVICE = frozenset({
    "path", "key", "eui64", "nguid", "uuid", "serial", "nsid", "size", "zones", "zone_size",
    "zone_capacity", "max_open_zones", "max_active_zones", "logical_block_size",
    "physical_block_size", "chunk_sectors", "nr_zones",
})  # fmt: skip
NOT_RECORDED = "not recorded"
_OR = " or "  # between the values of a group whose runs are not alike
# What a factor changes by its nature, beside the key that carries its own name.
_OWNED_BY = {
    "level": ("level.", "device."),
    "target_utilisation": ("cold.",),
    "scheduler": ("devices.",),
    "finish_occupancy_pct": ("level.",),
    # Not the limits: a namespace of other zones may have the same.
    "zone_size": ("geometry.zone", "devices."),
}
# What a host is: listed, and no obstacle where hosts themselves are compared.
_OF_HOST = frozenset({"host.cpus", "host.memory_bytes"})


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that differs between two groups although it is not the contrasted factor.

    ``declared``: the study itself names rigs that differ so.
    """

    key: str
    base: str
    level: str
    blocking: bool
    declared: bool = False

    @property
    def what(self) -> str:
        """The key in words, where there are some."""
        return BLOCKING.get(self.key) or GEOMETRY.get(self.key) or self.key

    @property
    def texts(self) -> tuple[str, str]:
        """Both sides for people."""
        return _readable(self.key, self.base), _readable(self.key, self.level)

    @property
    def label(self) -> str:
        """One phrase for a note."""
        base, level = self.texts
        return f"{self.what} {base} vs {level}"


def fingerprint(campaign: CampaignData, run: RunRecord) -> Mapping[str, str]:
    """Flatten what is known of a run's surroundings to dotted key → text.

    Runs of one cell mostly have the same: then it is one object.
    """
    if id(run) not in campaign.prints:
        found = _fingerprint(campaign, run)
        campaign.prints[id(run)] = run, _shared(frozenset(found.items()))
    return campaign.prints[id(run)][1]


@lru_cache(maxsize=1024)
def _shared(items: frozenset[tuple[str, str]]) -> Mapping[str, str]:
    return dict(items)


def _fingerprint(campaign: CampaignData, run: RunRecord) -> dict[str, str]:
    found: dict[str, Any] = {
        "scheduler": run.spec.scheduler,
        "zonelab": campaign.plan.zonelab_version,
        "workload": {"phases": [f"{phase.name}={phase.benchmark}" for phase in run.spec.phases]},
        "memory_limit": run.spec.memory_limit or "none",
    }
    recorded = _record(run.result.manifest.get("host"))
    level = _record(run.result.manifest.get("level"))
    found["host"] = _host(campaign, run.host, recorded, level)
    device = run.result.device
    found["device"] = {"kind": device.kind.value, "model": device.model}
    found["geometry"] = _geometry(device)
    planned = campaign.host_plan(run.host)
    if planned and planned.rig:
        found["rig"] = planned.rig
    if run.spec.cold:
        found["cold"] = {"target_utilisation": run.spec.cold.target_utilisation}
    recorded["devices"] = _devices(recorded.get("devices"))
    # The rest of the level's record are its counters, which differ between any two runs.
    found["manifest"] = recorded | {
        "level": {key: level[key] for key in _OF_LEVEL if key in level}
        | {"direct_io": _record(_record(level.get("direct_io")).get("effective"))}
    }
    flat = _flatten(found)
    for phase in run.spec.phases:
        for flag, value in phase.flags.items():
            if flag not in _RUN_FLAGS:
                flat.setdefault(f"flags.{flag}", _text(value))
                if flat[f"flags.{flag}"] != _text(value):
                    flat[f"flags.{flag}"] = "by phase"
                flat[f"phase.{phase.name}.{flag}"] = _text(value)
    return {key: value for key, value in flat.items() if not _volatile(key)}


def declared(campaign: CampaignData, runs: Sequence[RunRecord]) -> bool:
    """Return whether the study said of these runs beforehand that their geometries may differ.

    It did when all of them are of rigs that it names, and were on the device that was planned.
    """
    plans = [(run, campaign.host_plan(run.host)) for run in runs]
    return all(
        plan is not None
        and plan.rig in campaign.plan.rigs
        and _geometry(run.result.device)
        in [_geometry(device) for device in plan.inspection.devices]
        for run, plan in plans
    )


def gathered(prints: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    """Return key → its values over a group of runs; where one has none, NOT_RECORDED is one."""
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
) -> tuple[Difference, ...]:
    """Return what differs between two gathered groups beyond the contrasted factor.

    ``contrasted`` are the factors in which the groups differ on purpose: one, or two cells'.
    ``declared`` is of both groups' runs: differences between rigs are then no reason against a
    verdict, and are listed as what they are. Builds of RocksDB may not even differ in the same way
    on both sides.
    """
    found = []
    none = (NOT_RECORDED,)
    rigs = {*base.get("rig", none), *level.get("rig", none)}
    for key in sorted({*base, *level}):
        left, right = (sorted(group.get(key, none)) for group in (base, level))
        same = left == right and (key != BUILD or len(left) == 1)
        if same or _owned(key, contrasted) or _close(key, left + right):
            continue
        # A level that does not touch a device has nothing recorded of it.
        if key.startswith("manifest.devices.") and NOT_RECORDED in left + right:
            continue
        if declared and len(rigs) > 1 and _is_device_itself(key):
            continue
        by_rig = key in GEOMETRY or key == "rig"
        blocking = _blocks(key, contrasted) or (key in GEOMETRY and not declared)
        # What became of O_DIRECT is a level's nature; of one level it has to be the same.
        blocking |= key.startswith(EFFECTIVE) and NOT_RECORDED not in left + right
        # Per-phase flags repeat the merged one; keep them only where phases differ.
        if key.startswith("phase.") and f"flags.{key.rpartition('.')[2]}" not in _by_phase(base):
            continue
        texts = _OR.join(left), _OR.join(right)
        found.append(Difference(key, *texts, blocking, declared=declared and by_rig))
    return tuple(found)


def _geometry(device: Device) -> dict[str, str]:
    """Return the device's shape by the ends of the keys in GEOMETRY; bytes, 0: no limit."""
    names = [key.rpartition(".")[2] for key in GEOMETRY]
    return {name: _text(getattr(device, name)) for name in names}


def _readable(key: str, text: str) -> str:
    """Return one or more values (``a or b``) for people."""
    if key not in GEOMETRY and key not in _IN_BYTES:
        return text
    values = text.split(_OR)
    if key in _IN_BYTES:
        values = [units.human(int(v), "B") if v.isdigit() else v for v in values]
    elif "max_" in key:
        values = ["any number" if value == "0" else value for value in values]
    return _OR.join(values)


def _is_device_itself(key: str) -> bool:
    return key.startswith("manifest.devices.") and key.rpartition(".")[2] in _OF_DEVICE


def _record(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _host(
    campaign: CampaignData, name: str, recorded: dict[str, Any], level: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the host's facts; what the run itself recorded (taken out of it) beats the plan."""
    inspection = campaign.inspection(name)
    host: dict[str, Any] = encode(inspection.host) if inspection else {}
    host.pop("name", None)
    for key in ("cpus", "memory_bytes", "kernel", "os"):
        if key in recorded:
            host[key] = recorded.pop(key)
    packages = _record(recorded.get("packages"))
    # A level may have run a db_bench of its own (zenfs).
    build = _record(recorded.pop("rocksdb_build", None)) | _record(level.get("rocksdb_build"))
    if "id" in build or "rocksdb-tools" in packages:
        host["rocksdb"] = build.get("id", packages.get("rocksdb-tools"))
    return host


def _devices(devices: Any) -> dict[str, Any]:
    """Key the manifest's devices by what they are, so that equal ones meet in a diff.

    Names are dealt anew at each boot: nvme0n2 of one rig may be nvme0n3 of the next.
    """
    if not isinstance(devices, list):
        return {}
    return {_role(device): _without_names(device) for device in devices if isinstance(device, dict)}


def _role(device: Mapping[str, Any]) -> str:
    names = {True: "zoned", False: "conventional"}
    return names.get(device.get("zoned", ""), _node(device))


def _node(device: Mapping[str, Any]) -> str:
    return Path(str(device.get("path"))).name


def _without_names(device: Mapping[str, Any]) -> dict[str, Any]:
    """Return the device with its queues called after what they are: its own, a path's."""
    queues = _record(device.get("queue"))
    named = {"own" if name == _node(device) else "path": queue for name, queue in queues.items()}
    return {**device, "queue": named}


def _by_phase(group: Mapping[str, Collection[str]]) -> set[str]:
    return {key for key, values in group.items() if "by phase" in values}


def _owned(key: str, contrasted: Collection[str]) -> bool:
    if key.rpartition(".")[2] in contrasted:
        return True
    if key in BLOCKING:
        return False
    name = key.removeprefix("manifest.")
    return any(name.startswith(p) for one in contrasted for p in _OWNED_BY.get(one, ()))


def _blocks(key: str, contrasted: Collection[str]) -> bool:
    if key in BLOCKING:
        return key not in _OF_HOST or "host" not in contrasted
    is_flag = key.startswith(("flags.", "phase."))
    return is_flag and key.rpartition(".")[2] in AMOUNTS and NAMES.issuperset(contrasted)


def _close(key: str, values: Sequence[str]) -> bool:
    if "memory" not in key or not all(value.isdigit() for value in values):
        return False
    sizes = [int(value) for value in values]
    return max(sizes) - min(sizes) <= _MEMORY_TOLERANCE * max(sizes)


# Differ from run to run by nature: clocks, identities of the run, counters.
_VOLATILE = (
    "time", "date", "uptime", "boot_id", "started", "finished", "run", "pid", "free", "available",
    "loadavg", "used", "hostname", "seconds", "temperature", "mount_point",
)  # fmt: skip


@cache  # keys are the same in each run
def _volatile(key: str) -> bool:
    if not key.startswith("manifest."):
        return False
    last = key.rpartition(".")[2]
    return any(last == word or last.endswith(f"_{word}") for word in _VOLATILE)


def _flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = _text(value)
    return flat


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(item) for item in value)
    return "null" if value is None else str(value)
