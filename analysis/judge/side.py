"""One side of a comparison. Its rows share the values that it computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from analysis.read.load import Pool, RunRecord
from analysis.read.steady import PhaseSteady

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Side:
    """A value of the contrasted factor with all its runs in a stratum.

    ``labels`` has the steady-state labels of its measured phases.
    """

    name: str
    pool: Pool
    runs: list[RunRecord] = field(default_factory=list)
    labels: list[PhaseSteady] = field(default_factory=list)
    _known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, measure: Callable[..., Value], *arguments: Any) -> Value:
        """Return ``measure(side, *arguments)``, computed at the first call."""
        key = (measure, *arguments)
        if key not in self._known:
            self._known[key] = measure(self, *arguments)
        known: Value = self._known[key]
        return known

    @property
    def ok(self) -> list[RunRecord]:
        """The runs whose numbers enter a comparison."""
        return self.once(_ok)

    @property
    def levels(self) -> set[str]:
        """The storage levels of its ok runs."""
        return {run.spec.level for run in self.ok}

    def by_block(self, key: str, contrast: str) -> dict[str, float]:
        """Return block → value, from the ok runs that measured the metric."""
        return self.once(_by_block, key, contrast)

    def nulls(self, key: str) -> int:
        """Return the number of ok runs that did not measure the metric."""
        return self.once(_values, key).count(None)

    def mean(self, measure: Callable[[RunRecord, str], float | None], phase: str) -> float | None:
        """Return the mean of ``measure(run, phase)`` over the ok runs with a value, or None."""
        return self.once(_mean, measure, phase)


def _ok(side: Side) -> list[RunRecord]:
    return [run for run in side.runs if run.ok]


def _blocks(side: Side, contrast: str) -> list[str]:
    return [run.block_key(contrast) for run in side.ok]


def _values(side: Side, key: str) -> list[float | None]:
    return [run.value(key) for run in side.ok]


def _by_block(side: Side, key: str, contrast: str) -> dict[str, float]:
    pairs = zip(side.once(_blocks, contrast), side.once(_values, key), strict=True)
    return {block: value for block, value in pairs if value is not None}


def _mean(
    side: Side, measure: Callable[[RunRecord, str], float | None], phase: str
) -> float | None:
    values = [value for run in side.ok if (value := measure(run, phase)) is not None]
    return sum(values) / len(values) if values else None
