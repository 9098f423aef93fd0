"""Metrics of the times that a modelled drive took for a replayed trace (docs/replay.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.nulls import ratio
from harness.store.ledger import RUN
from harness.store.result import Metric, catalogued

_NS, _US = 10**9, 10**3
_COMMANDS = ("read", "write", "flush", "finish", "reset")
_CAUSES = {"append": ("wal", "flush", "compaction", "gc"), "sync": ("wal", "flush", "compaction")}
_PARTS = ("p50", "p99", "p99_9")


def metrics(times: Mapping[str, Any]) -> dict[str, Metric]:
    """Return ``run.modelled_…``. Latencies without a sample are null."""
    return catalogued(dict(_values(times)), RUN)


def _values(times: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    seconds = times["modelled_ns"] / _NS
    commands = times["commands"]
    yield "modelled_seconds", seconds
    yield "modelled_turn_seconds", times["turns_ns"] / _NS
    appended = sum(of["bytes"] for cause, of in times["appends"].items() if cause != "gc")
    yield "modelled_bandwidth", ratio(appended, seconds)
    for command in _COMMANDS:
        total = commands.get(command, {}).get("total_ns", 0)
        yield f"modelled_{command}_device_seconds", total / _NS
    for what, causes in _CAUSES.items():
        for cause in causes:
            yield from _latencies(f"modelled_{what}_{cause}", times[f"{what}s"].get(cause))


def _latencies(name: str, of: Mapping[str, Any] | None) -> Iterator[tuple[str, float | None]]:
    yield f"{name}_mean", of["total_ns"] / of["count"] / _US if of else None
    for part in _PARTS:
        value = of[f"{part}_ns"] if of else None
        yield f"{name}_{part}", None if value is None else value / _US
