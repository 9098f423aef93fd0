"""Judges pairs of sides: all rows of a level against the baseline within a stratum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.judge import comparability, noise
from analysis.judge.comparability import Difference
from analysis.judge.noise import Floor
from analysis.judge.rows import Row, judge_row
from analysis.judge.select import label
from analysis.judge.side import Side
from analysis.read.load import Pool


@dataclass(frozen=True, slots=True)
class Judge:
    """The settings of a comparison.

    ``floors`` has the noise floor by metric, ``default_floor`` the one without twins.
    """

    pool: Pool
    contrast: str
    floors: Mapping[str, Floor]
    default_floor: float
    different_code: bool

    def differences(self, base: Side, level: Side) -> tuple[Difference, ...]:
        """Return the recorded differences of two sides beyond the contrasted factor."""
        if not base.ok:
            return ()
        contrasted = {self.contrast}
        if self.contrast == "cell":
            names = {
                "level",
                "campaign",
                *(n for run in (*base.ok, *level.ok) for n in run.result.factors),
            }
            contrasted = {
                n
                for n in names
                if {label(r, n) for r in base.ok} != {label(r, n) for r in level.ok}
            }
        left, right = base.once(_recorded), level.once(_recorded)
        declared = base.once(_declared) and level.once(_declared)
        return comparability.differences(
            left, right, contrasted, declared=declared, different_code=self.different_code
        )

    def rows(
        self,
        keys: Sequence[str],
        stratum: str,
        base: Side,
        level: Side,
        diff: Sequence[Difference],
    ) -> list[Row]:
        """Return one row per metric."""
        # Twins are not judged by the floor that they set.
        twins = noise.are_twins(base.ok, level.ok)
        return [
            judge_row(
                key,
                stratum,
                base,
                level,
                pool=self.pool,
                contrast=self.contrast,
                diff=diff,
                floor=self.default_floor if twins else self.floors[key].floor,
            )
            for key in keys
        ]


def _recorded(side: Side) -> dict[str, set[str]]:
    prints = (comparability.fingerprint(side.pool.campaign_of(run), run) for run in side.ok)
    return comparability.gathered(prints)


def _declared(side: Side) -> bool:
    return not side.pool.several and comparability.declared(side.pool.first, side.ok)
