"""The recorded settings and environment of a run, as dotted key → text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from analysis.judge import code
from analysis.read.load import CampaignData, RunRecord
from analysis.read.memo import Memo
from harness.store.codec import encode
from harness.store.spec import Device, HostPlan

# The shape of the zoned device.
GEOMETRY = {
    "geometry.zones": "zones",
    "geometry.zone_size": "zone size",
    "geometry.zone_capacity": "zone capacity",
    "geometry.max_open_zones": "open zones allowed",
    "geometry.max_active_zones": "active zones allowed",
    "geometry.logical_block_size": "block size",
}
# Flags that differ between any two runs and do not affect the comparison.
_RUN_FLAGS = {"seed", "db", "fs_uri", "wal_dir", "env_uri", "report_file", "histogram"}
# Compared fields of a level's record, besides its direct I/O. The rest are counters,
# which differ between any two runs.
_OF_LEVEL = ("mount_options", "gc_source", "program", "facts", "tracing")


_fingerprints: Memo[Mapping[str, str]] = Memo()


def fingerprint(campaign: CampaignData, run: RunRecord) -> Mapping[str, str]:
    """Return a run's recorded settings and environment as dotted key → text.

    Runs of one cell mostly have equal fingerprints, which then share one object.
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
    planned = campaign.host_plan(run.host)
    found["host"] = _host(planned, recorded, level)
    device = run.result.device
    found["device"] = {"kind": device.kind.value, "model": device.model}
    found["geometry"] = geometry(device)
    if planned and planned.rig:
        found["rig"] = planned.rig
    if run.spec.cold:
        found["cold"] = {"target_utilisation": run.spec.cold.target_utilisation}
    found["code"] = code.fingerprint(recorded.pop("code", None))
    recorded["devices"] = _devices(recorded.get("devices"))
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


def geometry(device: Device) -> dict[str, str]:
    """Return the device's shape by the last part of the keys in GEOMETRY; 0 means no limit."""
    names = [key.rpartition(".")[2] for key in GEOMETRY]
    return {name: _text(getattr(device, name)) for name in names}


def _record(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _host(
    planned: HostPlan | None, recorded: dict[str, Any], level: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the host's facts. The run's records replace the plan's and are removed there."""
    host: dict[str, Any] = encode(planned.inspection.host) if planned else {}
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
    """Return the manifest's devices by role, so that devices of one role are compared.

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


# Recorded keys that differ between any two runs. Every other key is compared.
_VOLATILE = ("manifest.boot_id", "manifest.loadavg")
_VOLATILE_OF_DEVICE = ".preconditioned.ended"  # of each device


def _volatile(key: str) -> bool:
    of_device = key.startswith("manifest.devices.") and key.endswith(_VOLATILE_OF_DEVICE)
    return of_device or key in _VOLATILE


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
