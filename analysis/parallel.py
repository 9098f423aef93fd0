"""The same work for each of many runs: in this process where they are few, else on all cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import TypeVar

Item = TypeVar("Item")
Done = TypeVar("Done")

# Starting a process and importing what it needs takes as long as some hundred runs.
MANY = 1500
_MOST_WORKERS = 8  # each has its own copy of the libraries
_CHUNK = 64


def workers() -> int:
    """Return how many processes work where items are many; 1: none but this one."""
    return min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


def each(work: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
    """Yield what ``work``, a function of a module, makes of each item, in their order.

    Raises:
        What ``work`` raises, when its item's turn comes.
    """
    if len(items) < MANY or workers() == 1:
        yield from map(work, items)
        return
    yield from _pool().map(work, items, chunksize=_CHUNK)


@cache
def _pool() -> ProcessPoolExecutor:
    # Not forked: this process may have threads, whose locks a copy of it would hold for ever.
    return ProcessPoolExecutor(workers(), mp_context=multiprocessing.get_context("spawn"))
