"""Settings that a level declares because it cannot run without them; they are part of it."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.judge.comparability import SCHEDULER
from analysis.read.load import RunRecord
from harness.levels import LEVELS

_QUEUES = tuple(f"manifest.devices.zoned.queue.{node}." for node in ("own", "path"))


def by_levels(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Return the beginnings of recorded keys that the levels of these runs own."""
    found: list[str] = []
    for name in sorted({run.spec.level for run in runs}):
        level = LEVELS.get(name)
        if level is None:
            continue
        found += level.owns
        if level.schedulers:
            found += ["scheduler", "manifest.devices.zoned.scheduler"]
            found += [queue + key for queue in _QUEUES for key in sorted(SCHEDULER)]
    return tuple(found)
