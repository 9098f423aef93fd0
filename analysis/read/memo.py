"""Results that are expensive to compute per run. They are computed once and freed with the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from analysis.read.load import RunRecord

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """One value per run. A report compares the same runs many times."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[RunRecord, Value] = WeakKeyDictionary()

    def get(
        self,
        runs: Sequence[RunRecord],
        compute: Callable[[Sequence[RunRecord]], Iterable[Value]],
    ) -> list[Value]:
        """Return the value of each run. ``compute`` is called with the runs that have none yet."""
        missing = [run for run in runs if run not in self._known]
        for run, value in zip(missing, compute(missing), strict=True):
            self._known[run] = value
        return [self._known[run] for run in runs]
