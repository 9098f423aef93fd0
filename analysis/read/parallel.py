"""Applies a function to many runs: in this process if they are few, else on all cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")

# Starting a process with its imports takes as long as about a hundred runs.
MANY = 1500
_MOST_WORKERS = 8  # each process needs memory for its libraries
_CHUNK = 64


def workers() -> int:
    """Return the number of processes for many items; 1 means only this one."""
    return min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


def each(work: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
    """Yield ``work(item)`` for each item, in order. ``work`` must be a module's function.

    Raises:
        Exception: whatever ``work`` raises, at its item's turn.
    """
    if len(items) < MANY or workers() == 1:
        yield from map(work, items)
        return
    yield from _pool().map(work, items, chunksize=_CHUNK)


@cache
def _pool() -> ProcessPoolExecutor:
    # Spawned, because a forked copy would keep the locks of this process's threads forever.
    return ProcessPoolExecutor(workers(), mp_context=multiprocessing.get_context("spawn"))
