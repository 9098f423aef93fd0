"""Plays every source at every setting, a few at a time, and tells how far it is."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from harness.replay.sources import Source
from harness.store.spec import Scalar
from harness.tools import zlfs_replay
from harness.tools.zlfs_replay import Replayed

_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Job:
    """One source at one setting; ``changes`` are options of zlfs-replay."""

    source: Source
    repetition: int
    changes: Mapping[str, Scalar]


def jobs(sources: Sequence[Source], axes: Mapping[str, Sequence[Scalar]]) -> list[Job]:
    """Return the grid, all sources of a setting next to each other."""
    settings = [
        dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
    ]
    return [
        Job(source, number, changes)
        for changes in settings
        for number, source in enumerate(sources, 1)
    ]


def play(
    todo: Sequence[Job], *, at_once: int, own_rules: bool, tell: Callable[[int, float], None]
) -> list[Replayed]:
    """Return what became of each job, in their order; ``tell`` gets how many are done, and seconds.

    Raises:
        ToolFailed: the program failed; the rest is given up.
    """
    begin = time.monotonic()
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        futures = {
            pool.submit(zlfs_replay.replay, job.source.trace, job.changes, own_rules=own_rules): i
            for i, job in enumerate(todo)
        }
        found: dict[int, Replayed] = {}
        try:
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                tell(len(found), time.monotonic() - begin)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [found[i] for i in range(len(todo))]


def bar(done: int, total: int, seconds: float) -> str:
    """Return a line for people: how far it is, and how long it will take."""
    filled = _WIDTH * done // total
    left = seconds / done * (total - done)
    shown = f"{'#' * filled}{'.' * (_WIDTH - filled)}"
    return f"[{shown}] {done}/{total} settings, {seconds:.1f} s, {left:.0f} s to go"


def sentence(replayed: Replayed) -> Iterator[str]:
    """Say why the setting cannot hold the data, with the arithmetic."""
    found = replayed.infeasible
    if found is None:
        return
    mib = 2**20
    space = found["space"]
    if found["cause"] == "mkfs":
        yield (
            f"{replayed.setting['zones']} zones of "
            f"{int(replayed.setting['zone_capacity']) / mib:g} MiB; zlfs needs "
            f"{found['least_zones']}"
        )
        return
    kinds = {
        "live": "live", "pad": "filling", "garbage": "garbage",
        "given_up": "given up by finishing", "free": "free",
    }  # fmt: skip
    parts = " + ".join(f"{space[kind] / mib:.1f} {words}" for kind, words in kinds.items())
    yield (
        f"no zone for {found['cause']} ({found['asked'] / mib:.1f} MiB) in mount "
        f"{found['mount']} after {found['written'] / mib:.0f} MiB: {space['capacity'] / mib:.0f} "
        f"MiB = {parts}; {space['empty_zones']} zones are empty, {space['kept'] / mib:.0f} MiB "
        "are kept so"
    )
