"""Judges pairs of sides: all rows of a level against the baseline within a stratum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.judge import comparability, noise
from analysis.judge.comparability import Difference
from analysis.judge.fingerprint import fingerprint
from analysis.judge.noise import Floor
from analysis.judge.rows import Row, judge_row
from analysis.judge.select import label
from analysis.judge.side import Side
from analysis.read.load import CampaignData, Pool, RunRecord


@dataclass(frozen=True, slots=True)
class Judge:
    """The settings of a comparison.

    ``floors`` has the noise floor by metric, ``default_floor`` the floor without twins.
    ``may_differ``: beginnings of recorded keys in which the user permits differences. ``slower``
    are campaigns on modelled drives with twice the dilation.
    """

    pool: Pool
    contrast: str
    floors: Mapping[str, Floor]
    default_floor: float
    different_code: bool
    may_differ: tuple[str, ...] = ()
    slower: tuple[CampaignData, ...] = ()

    def sides(self, values: Iterable[str], runs: Iterable[RunRecord]) -> list[Side]:
        """Return one side per value, in their order, with its runs."""
        sides = {value: Side(value, self.pool) for value in values}
        for run in runs:
            sides[label(run, self.contrast)].runs.append(run)
        return list(sides.values())

    def differences(self, base: Side, level: Side) -> tuple[Difference, ...]:
        """Return the recorded differences of two sides, besides the contrasted factor."""
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
        declared = base.once(_declared) and level.once(_declared)
        found = comparability.differences(
            base.once(_recorded),
            level.once(_recorded),
            contrasted,
            declared=declared,
            different_code=self.different_code,
            owned=(*self.may_differ, *comparability.owned_by_levels((*base.ok, *level.ok))),
        )
        return (*found, *_drive(base, level, contrasted, self.may_differ))

    def rows(
        self,
        keys: Sequence[str],
        stratum: str,
        base: Side,
        level: Side,
        diff: Sequence[Difference],
    ) -> list[Row]:
        """Return one row per metric."""
        # Twins set the floor, so it does not apply to them.
        twins = noise.are_twins(base.ok, level.ok)
        levels = base.once(_configured), level.once(_configured)
        floors = {key: self.floors[key].between(*levels) for key in keys}
        return [
            judge_row(
                key,
                stratum,
                base,
                level,
                contrast=self.contrast,
                diff=diff,
                floor=self.default_floor if twins else floors[key].floor,
                cells=None if twins else floors[key].cells,
                slower=self.slower,
            )
            for key in keys
        ]


def _recorded(side: Side) -> dict[str, set[str]]:
    prints = (fingerprint(side.pool.campaign_of(run), run) for run in side.ok)
    return comparability.gathered(prints)


def _configured(side: Side) -> set[str]:
    return {run.configured for run in side.ok}


def _declared(side: Side) -> bool:
    return not side.pool.several and comparability.declared(side.pool.first, side.ok)


# The planner's tolerance of a utilisation (harness/plan/study_models.py).
_SAME_UTILISATION = 0.02
_U_DRIVE = "utilisation.u_drive"


def _drive(
    base: Side, level: Side, contrasted: set[str], may_differ: tuple[str, ...]
) -> tuple[Difference, ...]:
    """Compare the utilisation of the whole drive: an empty remainder is free over-provisioning."""
    if contrasted & {"target_utilisation", "host"}:
        return ()
    left, right = base.mean(_u_drive, ""), level.mean(_u_drive, "")
    if left is None or right is None or abs(left - right) <= _SAME_UTILISATION:
        return ()
    permitted = _U_DRIVE.startswith(may_differ)
    texts = f"{left:.1%}", f"{right:.1%}"
    return (Difference(_U_DRIVE, *texts, blocking=not permitted, declared=permitted),)


def _u_drive(run: RunRecord, _: str) -> float | None:
    return run.result.utilisation.u_drive if run.result.utilisation else None
