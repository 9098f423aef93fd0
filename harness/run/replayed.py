"""Metrics of a replayed trace, with the names and formulas of live runs (docs/replay.md).

zlfs' own counts take the place of device counters. Times are those of a modelled drive, if any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.nulls import ratio
from harness.run import replayed_times, zone_costs
from harness.run.zone_costs import Costs
from harness.store import packed
from harness.store.ledger import RUN
from harness.store.result import Metric, catalogued
from harness.tools import zlfs_replay
from harness.tools.zlfs_replay import Replayed

DOCUMENT = "raw/replay.json"
_OLD_METADATA_ZONES = 2  # of replays that do not record their number
_CAUSES = {
    "threshold": "threshold",
    "active_limit": "active_limit",
    "metadata": "metadata_roll",
    "import": "explicit",
}
_MEASURED = frozenset({"finish_seconds", "reset_seconds", "finish_reset_share"})

Mounts = Sequence[Mapping[str, Any]]


def is_cold(mount: Mapping[str, Any]) -> bool:
    """Whether a mount only imported cold data."""
    payload = {cause: part["payload"] for cause, part in mount["written"].items()}
    data = sum(bytes_ for cause, bytes_ in payload.items() if cause != "metadata")
    return bool(data == payload["import"])


def metrics(replayed: Replayed) -> dict[str, Metric]:
    """Return ``run.<name>`` of a trace that was replayed to its end.

    As in live runs, only ``sa_host`` and metrics of finishes and resets include cold data.
    """
    if replayed.infeasible is not None or not replayed.mounts:
        return {}
    measured = [mount for mount in replayed.mounts if not is_cold(mount)] or [*replayed.mounts]
    found = catalogued(_counts(measured, replayed.mounts), RUN)
    costs = _costs(replayed)
    zones = int(replayed.setting["zones"]) - _metadata_zones(replayed)
    modelled = zone_costs.metrics(costs, zones, _written(replayed.mounts), None)
    unknown = {f"run.{name}" for name in _MEASURED}
    if replayed.modelled is not None:
        found |= replayed_times.metrics(replayed.modelled)
    return found | {key: metric for key, metric in modelled.items() if key not in unknown}


def of_folder(folder: Path) -> dict[str, Metric]:
    """Return the metrics of a stored run.

    Raises:
        ToolFailed: its replay document is damaged or missing.
    """
    return metrics(zlfs_replay.parse(packed.text(folder / DOCUMENT)))


def occupancies_of(folder: Path) -> list[float]:
    """Return the occupancy of a stored run's zones at their finish, in % of their capacity.

    Raises:
        ToolFailed: its replay document is damaged or missing.
    """
    return _costs(zlfs_replay.parse(packed.text(folder / DOCUMENT))).occupancies


def _counts(mounts: Mounts, all_mounts: Mounts) -> dict[str, int | float | None]:
    written, since_up = _written(mounts), _written(all_mounts)
    pad = {cause: _finishes(mounts, cause, "given_up") for cause in _CAUSES}
    finishes = {cause: _finishes(mounts, cause, "count") for cause in _CAUSES}
    lost, space = sum(pad.values()), mounts[-1]["space"]
    live, garbage = space["live"], space["garbage"]
    allocated = live + garbage + space["pad"] + space["given_up"]
    return {
        "device_written": written,
        "rocksdb_written": sum(_payload(mounts, one) for one in ("wal", "flush", "compaction")),
        "small_files_bytes": _payload(mounts, "other"),
        "gc_bytes": _payload(mounts, "gc"),
        "pad_bytes": lost,
        **{f"pad_{name}": pad[cause] for cause, name in _CAUSES.items()},
        **{f"finishes_{name}": finishes[cause] for cause, name in _CAUSES.items()},
        "media_bytes": written + lost,
        "wa_pad": ratio(written + lost, written),
        "allocated_bytes": allocated,
        "live_bytes": live,
        "dead_bytes": allocated - live,
        "garbage_bytes": garbage,
        "space_amplification": ratio(allocated, live),
        "sa_host": ratio(since_up + garbage, since_up),
        "zone_finishes": sum(finishes.values()),
        "zone_resets": sum(sum(mount["resets"].values()) for mount in mounts),
    }


def _metadata_zones(replayed: Replayed) -> int:
    return int(replayed.setting.get("metadata_zones", _OLD_METADATA_ZONES))


def _costs(replayed: Replayed) -> Costs:
    """Add up the events of data zones in their order."""
    capacity = int(replayed.setting["zone_capacity"])
    costs = Costs()
    first = _metadata_zones(replayed)
    costs.resets.update({zone: count for zone, count in enumerate(replayed.wear) if zone >= first})
    finished: dict[int, int] = {}  # zone: bytes at its finish
    modelled_finish = modelled_reset = 0.0
    for mount in replayed.mounts:
        for zone, event, held, *_ in mount["retired"]:
            if event == "finish":
                costs.occupancies.append(100 * held / capacity)
                finished[zone] = held
                modelled_finish += zone_costs.finish_seconds(held, capacity)
            else:
                at_finish = finished.pop(zone, None)
                modelled_reset += zone_costs.reset_seconds(
                    held if at_finish is None else at_finish, finished=at_finish is not None
                )
    costs.modelled_finish, costs.modelled_reset = modelled_finish, modelled_reset
    return costs


def _written(mounts: Mounts) -> int:
    return sum(
        part["payload"] + part["pad"] for mount in mounts for part in mount["written"].values()
    )


def _payload(mounts: Mounts, cause: str) -> int:
    return sum(mount["written"][cause]["payload"] for mount in mounts)


def _finishes(mounts: Mounts, cause: str, what: str) -> int:
    return sum(mount["finishes"][cause][what] for mount in mounts)
