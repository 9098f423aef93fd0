"""The grid of a replay: every trace with every setting, several at once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from harness.replay.sources import RecordedTrace
from harness.store.spec import Scalar
from harness.tools import zlfs_replay
from harness.tools.zlfs_replay import Replayed

_MIB = 2**20
_BAR_WIDTH = 24
# Uses of the capacity in an infeasible setting: keys of zlfs-replay's answer, and texts.
_SPACE = {
    "live": "live",
    "pad": "filling",
    "garbage": "garbage",
    "given_up": "given up by finishing",
    "free": "free",
}


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """One trace with one setting; ``changes`` are the options of zlfs-replay."""

    source: RecordedTrace
    repetition: int
    changes: Mapping[str, Scalar]


def jobs(sources: Sequence[RecordedTrace], axes: Mapping[str, Sequence[Scalar]]) -> list[ReplayJob]:
    """Return the grid; the traces of one setting follow each other."""
    settings = [
        dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
    ]
    return [
        ReplayJob(source, number, changes)
        for changes in settings
        for number, source in enumerate(sources, 1)
    ]


def play(
    todo: Sequence[ReplayJob],
    *,
    at_once: int,
    own_rules: bool,
    model: Mapping[str, Any] | None = None,
    on_progress: Callable[[int, float], None],
) -> list[Replayed]:
    """Play all jobs and return their results in the same order.

    ``model`` is a drive as zonemodel reads it; results then have times.
    ``on_progress`` is called with the number of finished jobs and the seconds since the start.

    Raises:
        ToolFailed: the program failed; the remaining jobs are cancelled.
    """
    begin = time.monotonic()
    with (
        zlfs_replay.model_file(model) as drive,
        ThreadPoolExecutor(max_workers=at_once) as pool,
    ):
        futures = [
            pool.submit(
                zlfs_replay.replay,
                job.source.trace,
                job.changes,
                own_rules=own_rules,
                model=drive,
                dilation=job.source.dilation,
            )
            for job in todo
        ]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                on_progress(done, time.monotonic() - begin)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def bar(done: int, total: int, seconds: float) -> str:
    """Return a progress bar with the time that is left."""
    filled = _BAR_WIDTH * done // total
    left = seconds / done * (total - done)
    shown = f"{'#' * filled}{'.' * (_BAR_WIDTH - filled)}"
    return f"[{shown}] {done}/{total} settings, {seconds:.1f} s, {left:.0f} s to go"


def why_infeasible(replayed: Replayed) -> str:
    """Return why the setting cannot hold the data, with the arithmetic; empty if it can."""
    cause = replayed.infeasible
    if cause is None:
        return ""
    if cause["cause"] == "mkfs":
        zone = int(replayed.setting["zone_capacity"]) / _MIB
        return (
            f"{replayed.setting['zones']} zones of {zone:g} MiB; zlfs needs {cause['least_zones']}"
        )
    space = cause["space"]
    parts = " + ".join(f"{space[key] / _MIB:.1f} {name}" for key, name in _SPACE.items())
    return (
        f"no zone for {cause['cause']} ({cause['asked'] / _MIB:.1f} MiB) in mount "
        f"{cause['mount']} after {cause['written'] / _MIB:.0f} MiB: "
        f"{space['capacity'] / _MIB:.0f} MiB = {parts}; {space['empty_zones']} zones are empty, "
        f"{space['kept'] / _MIB:.0f} MiB are reserved"
    )
