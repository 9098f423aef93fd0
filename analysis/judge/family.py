"""Judges the claims that a study declared, as one family, whichever rows are shown.

The Holm correction always covers every claim in every stratum of the whole campaign. A row is a
claim if it compares the same runs as the declared claim.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from analysis.judge import noise, stats
from analysis.judge.cell_status import began_any
from analysis.judge.pairs import Judge
from analysis.judge.rows import Row
from analysis.judge.select import label, strata
from analysis.judge.side import Side
from analysis.judge.stats import Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import RunRecord
from harness.store.spec import Claim

K = TypeVar("K")


class Key(NamedTuple):
    """The identity of a comparison: a metric, and the names and runs of both sides.

    A side without a run has only its name.
    """

    metric: str
    names: tuple[str, str]
    base: frozenset[RunRecord]
    level: frozenset[RunRecord]


class KeyedRow(NamedTuple):
    """A row with the runs that it compares."""

    key: Key
    row: Row

    @classmethod
    def of(cls, row: Row, base: Side, level: Side) -> KeyedRow:
        """Return a row of two sides."""
        names = (base.name, level.name)
        return cls(Key(row.metric, names, frozenset(base.runs), frozenset(level.runs)), row)


# Verdicts that were certain before the first run. Such rows are not part of the family.
KNOWN_BEFORE = (Verdict.NOT_A_RESULT, Verdict.TIMING_DEPENDENT)
UNKNOWN_SPREAD = "so the difference between equal cells is unknown"
NO_TWINS = f"the study has no twins, {UNKNOWN_SPREAD}"
_MOST_TWINS = 4  # names in one note


class Claimed(NamedTuple):
    """The claim that a comparison tests, with its adjusted p value; None outside the family."""

    claim: Claim
    p_holm: float | None


# Every comparison that a claim of the study declares.
Declared = Mapping[Key, Claimed]


def mark(judge: Judge, rows: Sequence[KeyedRow], declared: Declared) -> list[Row]:
    """Return the rows; rows of declared claims get better or worse by Holm-adjusted p values."""
    marked = [victory(one.row, declared.get(one.key)) for one in rows]
    return [_with_warning(row, judge) for row in marked]


def _with_warning(row: Row, judge: Judge) -> Row:
    """Add a warning to a better or worse row if the difference between equal cells is unknown."""
    known = judge.floors[row.metric].cells is not None or row.estimate.method is Method.EXACT
    if known or row.verdict not in (Verdict.BETTER, Verdict.WORSE):
        return row
    return dataclasses.replace(row, notes=(*row.notes, _why_unknown(judge, row.metric)))


def _why_unknown(judge: Judge, metric: str) -> str:
    """Return why no twins show the difference between equal cells."""
    cells = noise.planned_twins(judge.pool)
    if not cells:
        return NO_TWINS
    measured = [run for run in judge.pool.latest if run.ok and run.value(metric) is not None]
    runs = Counter(run.cell for run in measured)
    few = [f"{cell}: {runs[cell]}" for cell in cells if runs[cell] < stats.MINIMUM_RUNS]
    if not few:
        return f"values of twins are 0 or have too few common blocks, {UNKNOWN_SPREAD}"
    listed = ", ".join([*few[:_MOST_TWINS], *["…"] * (len(few) > _MOST_TWINS)])
    return (
        f"twins exist but have fewer than {stats.MINIMUM_RUNS} ok runs with a value ({listed}), "
        f"{UNKNOWN_SPREAD}"
    )


def victory(row: Row, claimed: Claimed | None) -> Row:
    """Return the row; a claim's verdict becomes better or worse if a difference is shown."""
    if claimed is None:
        return row
    word, p_holm = row.verdict, claimed.p_holm
    if p_holm is not None and word.is_judged:
        word = stats.verdict(row.estimate, row.info.better, p_value=p_holm)
    else:
        p_holm = None
    claim = claimed.claim
    return dataclasses.replace(
        row, verdict=word, claim=claim.id, expect=claim.expect, p_holm=p_holm
    )


def declared(judge: Judge) -> tuple[Declared, list[Row]]:
    """Return every comparison that a claim declares, and their rows in the order of the claims.

    Rows that cannot have a verdict, such as times on an emulated device, do not count in the
    family: this was certain before the first run.
    """
    campaign = judge.pool.first
    if judge.pool.several or judge.contrast != campaign.plan.contrast:
        return {}, []
    found = [(claim, list(rows_of(judge, claim))) for claim in campaign.plan.claims]
    claimed = adjusted(found, KNOWN_BEFORE)
    rows = {one.key: one for _, own in found for one in own}
    return claimed, mark(judge, [*rows.values()], claimed)


def adjusted(
    found: Iterable[tuple[Claim, Sequence[tuple[K, Row]]]], uncounted: Collection[Verdict]
) -> dict[K, Claimed]:
    """Return every comparison of claims with its claim and its Holm-adjusted p value."""
    kept = [(claim, list(rows)) for claim, rows in found]
    gaps = [int(not rows) for _, rows in kept]
    p_values = holm([rows for _, rows in kept], uncounted, gaps)
    return {key: Claimed(claim, p_values.get(key)) for claim, rows in kept for key, _ in rows}


def holm(
    found: Sequence[Sequence[tuple[K, Row]]],
    uncounted: Collection[Verdict],
    gaps: Sequence[int],
) -> dict[K, float]:
    """Return the Holm-adjusted p value of each row that counts; ``found`` has the rows by claim.

    A row without a test counts with p = 1, and so do the tests without a row: ``gaps`` has their
    number by claim. Rows with ``uncounted`` verdicts do not count.
    """
    p_values: dict[K, float] = {}
    for rows in found:
        for key, row in rows:
            if row.verdict not in uncounted:
                p = stats.p_beyond(row.estimate, row.floor)
                p_values[key] = p if row.verdict.is_judged and p is not None else 1.0
    adjusted_p = stats.holm([*p_values.values(), *[1.0] * sum(gaps)])
    corrected = dict(zip(p_values, adjusted_p, strict=False))  # without those of the gaps
    return {key: corrected[key] for rows in found for key, _ in rows if key in corrected}


def rows_of(judge: Judge, claim: Claim) -> Iterable[KeyedRow]:
    """Return the claim's rows in all runs of all campaigns, one per stratum.

    Twins of the study's baseline are no stratum.
    """
    latest = judge.pool.latest
    apart = noise.floor_cells(latest, judge.contrast, judge.pool.first.plan.baseline)
    runs = [run for run in latest if run.cell not in apart]
    return rows_of_pair(judge, runs, claim.metric, claim.baseline, claim.level)


def rows_of_pair(
    judge: Judge, runs: Sequence[RunRecord], metric: str, baseline: str, level: str
) -> Iterable[KeyedRow]:
    """Return the rows of two values of the contrasted factor, one per stratum.

    Strata in which both sides were skipped have none.
    """
    if metric not in judge.floors:
        return
    pair = [run for run in runs if label(run, judge.contrast) in (baseline, level)]
    for stratum, members in strata(pair, judge.contrast).items():
        base, other = judge.sides((baseline, level), members)
        if began_any(members):
            diff = judge.differences(base, other) if other.ok else ()
            for row in judge.rows([metric], stratum, base, other, diff):
                yield KeyedRow.of(row, base, other)
