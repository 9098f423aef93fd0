"""One side of a comparison. Many rows ask the same of it: it is computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from analysis.load import Pool, RunRecord
from analysis.steady import PhaseSteady
from harness.store.spec import DeviceKind

Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Side:
    """One value of the contrasted factor, with its runs in a stratum, however they ended.

    ``labels`` are those of its ok runs' measured phases.
    """

    name: str
    pool: Pool
    runs: list[RunRecord] = field(default_factory=list)
    labels: list[PhaseSteady] = field(default_factory=list)
    _known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, measure: Callable[..., Told], *of: Any) -> Told:
        """Return ``measure(side, *of)`` as it was when it was first asked for."""
        key = (measure, *of)
        if key not in self._known:
            self._known[key] = measure(self, *of)
        known: Told = self._known[key]
        return known

    @property
    def ok(self) -> list[RunRecord]:
        """The runs whose numbers may enter a comparison."""
        return self.once(_ok)

    @property
    def emulated(self) -> bool:
        """Whether any run's device was none of hardware."""
        return self.once(_emulated)

    def by_block(self, key: str, contrast: str) -> dict[str, float]:
        """Return block → value of the ok runs that measured it."""
        return self.once(_by_block, key, contrast)

    def nulls(self, key: str) -> int:
        """Return how many ok runs did not measure it."""
        return self.once(_values, key).count(None)

    def mean(self, measure: Callable[[RunRecord, str], float | None], of: str) -> float | None:
        """Return the mean of ``measure(run, of)`` over the ok runs that have it, if any has."""
        return self.once(_mean, measure, of)


def _ok(side: Side) -> list[RunRecord]:
    return [run for run in side.runs if run.ok]


def _emulated(side: Side) -> bool:
    return any(run.result.device.kind is not DeviceKind.HARDWARE for run in side.runs)


def _blocks(side: Side, contrast: str) -> list[str]:
    return [run.block_key(contrast) for run in side.ok]


def _values(side: Side, key: str) -> list[float | None]:
    return [run.value(key) for run in side.ok]


def _by_block(side: Side, key: str, contrast: str) -> dict[str, float]:
    told = zip(side.once(_blocks, contrast), side.once(_values, key), strict=True)
    return {block: value for block, value in told if value is not None}


def _mean(side: Side, measure: Callable[[RunRecord, str], float | None], of: str) -> float | None:
    values = [value for run in side.ok if (value := measure(run, of)) is not None]
    return sum(values) / len(values) if values else None
