"""Decides whether two groups of runs can be compared, from a diff of their records.

See docs/methods.md, "Comparability".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from analysis import numbers
from analysis.judge import code
from analysis.read.load import CampaignData, RunRecord
from analysis.read.memo import Memo
from harness.store.codec import encode
from harness.store.spec import Device

BUILD = "host.rocksdb"
# A difference in one of these could explain a difference in the metric: there is no verdict then.
# Keys are dotted paths in the fingerprint.
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
# Flags for the amount of work, by the last part of the key. They block between levels, hosts and
# campaigns. A contrasted factor can change them by design.
_AMOUNTS = "num writes reads duration key_size value_size threads compression_type"
AMOUNTS = frozenset(_AMOUNTS.split())
EFFECTIVE = "manifest.level.direct_io."
# Names rather than factors of a study: they own no setting.
NAMES = frozenset({"level", "host", "campaign"})
# The shape of the zoned device. It blocks too, unless the study declared it by naming several rigs.
GEOMETRY = {
    "geometry.zones": "zones",
    "geometry.zone_size": "zone size",
    "geometry.zone_capacity": "zone capacity",
    "geometry.max_open_zones": "open zones allowed",
    "geometry.max_active_zones": "active zones allowed",
    "geometry.logical_block_size": "block size",
}
_IN_BYTES = frozenset({"geometry.zone_size", "geometry.zone_capacity", "memory_limit"})
# MemTotal of one machine changes slightly between boots and kernels.
_MEMORY_TOLERANCE = 0.02
# Flags that differ between any two runs and do not affect the comparison.
_RUN_FLAGS = {"seed", "db", "fs_uri", "wal_dir", "env_uri", "report_file", "histogram"}
# Compared fields of a level's record. The rest are counters.
_OF_LEVEL = ("mount_options", "gc_source", "program", "facts")
# Fields that differ between the devices of two rigs: identity and geometry.
_DEVICE_FIELDS = """
    path key eui64 nguid uuid serial nsid size zones zone_size zone_capacity max_open_zones
    max_active_zones logical_block_size physical_block_size chunk_sectors nr_zones
    """
_OF_DEVICE = frozenset(_DEVICE_FIELDS.split())
NOT_RECORDED = "not recorded"
_OR = " or "  # joins the values of a group whose runs differ
# Keys that a factor changes by design, besides the key with its own name.
_OWNED_BY = {
    "level": ("level.", "device."),
    "target_utilisation": ("cold.",),
    "scheduler": ("devices.",),
    "finish_occupancy_pct": ("level.",),
    # Without the limits: namespaces with different zone sizes can have the same.
    "zone_size": ("geometry.zone", "devices."),
}
# Properties of a host. They are listed but do not block where hosts are compared.
_OF_HOST = frozenset({"host.cpus", "host.memory_bytes"})


@dataclass(frozen=True, slots=True)
class Difference:
    """A record that differs between two groups beyond the contrasted factor.

    ``declared``: the study names rigs that differ in it.
    """

    key: str
    base: str
    level: str
    blocking: bool
    declared: bool = False

    @property
    def what(self) -> str:
        """A name for people, or else the key."""
        return BLOCKING.get(self.key) or GEOMETRY.get(self.key) or code.name(self.key)

    @property
    def texts(self) -> tuple[str, str]:
        """The values of both sides for people."""
        return _readable(self.key, self.base), _readable(self.key, self.level)

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


_fingerprints: Memo[Mapping[str, str]] = Memo()


def fingerprint(campaign: CampaignData, run: RunRecord) -> Mapping[str, str]:
    """Return a run's recorded surroundings as dotted key → text.

    Runs of one cell mostly have equal fingerprints. They share one object then.
    """

    def compute(fresh: Sequence[RunRecord]) -> list[Mapping[str, str]]:
        return [_shared(frozenset(_fingerprint(campaign, one).items())) for one in fresh]

    return _fingerprints.get([run], compute)[0]


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
    found["code"] = code.fingerprint(recorded.pop("code", None))
    recorded["devices"] = _devices(recorded.get("devices"))
    # The rest of the level's record are counters, which differ between any two runs.
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
    """Return whether the study declared that the geometries of these runs can differ.

    It did if it names the rig of each run, and each run used the planned device.
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
) -> tuple[Difference, ...]:
    """Return the differences between two gathered groups beyond the contrasted factor.

    Args:
        base: the baseline's values by key.
        level: the level's values by key.
        contrasted: the factors in which the groups differ on purpose.
        declared: differences between rigs were declared for both groups. They do not block then.
        different_code: the user wants verdicts although different code produced the runs.

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
            continue  # one side does not use the program, or recorded no code: see code.runner
        if key.startswith("manifest.devices."):
            declared_field = declared and len(rigs) > 1 and last in _OF_DEVICE
            # A level that does not use a device has no record of it.
            if declared_field or NOT_RECORDED in left + right:
                continue
        by_rig = key in GEOMETRY or key == "rig"
        blocking = _blocks(key, contrasted) or (key in GEOMETRY and not declared)
        # Levels treat O_DIRECT differently. Within one level the effect must be the same.
        blocking |= key.startswith(EFFECTIVE) and NOT_RECORDED not in left + right
        blocking |= not different_code and code.blocks(key, recorded[0], recorded[1], contrasted)
        # Per-phase flags repeat the merged flag. They are kept only where phases differ.
        if key.startswith("phase.") and "by phase" not in base.get(f"flags.{last}", none):
            continue
        texts = _OR.join(left), _OR.join(right)
        found.append(Difference(key, *texts, blocking, declared=declared and by_rig))
    return tuple(found)


def _geometry(device: Device) -> dict[str, str]:
    """Return the device's shape by the last part of the keys in GEOMETRY; 0 means no limit."""
    names = [key.rpartition(".")[2] for key in GEOMETRY]
    return {name: _text(getattr(device, name)) for name in names}


def _readable(key: str, text: str) -> str:
    """Return one or more values (``a or b``) for people."""
    if key not in GEOMETRY and key not in _IN_BYTES:
        return text
    values = text.split(_OR)
    if key in _IN_BYTES:
        values = [numbers.human(int(v), "B") if v.isdigit() else v for v in values]
    elif "max_" in key:
        values = ["any number" if value == "0" else value for value in values]
    return _OR.join(values)


def _record(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _host(
    campaign: CampaignData, name: str, recorded: dict[str, Any], level: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the host's facts. The run's records replace the plan's and are removed there."""
    inspection = campaign.inspection(name)
    host: dict[str, Any] = encode(inspection.host) if inspection else {}
    host.pop("name", None)
    for key in ("cpus", "memory_bytes", "kernel", "os"):
        if key in recorded:
            host[key] = recorded.pop(key)
    packages = _record(recorded.get("packages"))
    # A level can run its own db_bench (zenfs).
    build = _record(recorded.pop("rocksdb_build", None)) | _record(level.get("rocksdb_build"))
    if "id" in build or "rocksdb-tools" in packages:
        host["rocksdb"] = build.get("id", packages.get("rocksdb-tools"))
    return host


def _devices(devices: Any) -> dict[str, Any]:
    """Key the manifest's devices by role, so that the diff compares like with like.

    Kernel names change between boots: nvme0n2 of one rig can be nvme0n3 of the next.
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
    """Return the device with its queues keyed by role: its own queue, or the queue of a path."""
    queues = _record(device.get("queue"))
    named = {"own" if name == _node(device) else "path": queue for name, queue in queues.items()}
    return {**device, "queue": named}


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


# Keys that differ in every run: clocks, identities of the run, counters.
_VOLATILE_WORDS = """
    time date uptime boot_id started finished run pid free available loadavg used hostname seconds
    temperature mount_point
    """
_VOLATILE = tuple(_VOLATILE_WORDS.split())


@cache  # all runs have the same keys
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
