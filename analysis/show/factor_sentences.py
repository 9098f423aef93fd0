"""Sentences on a study that contrasts a factor: from its first arm to its last one.

An *arm* is a value of the factor, a *series* the runs with equal values of all other factors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analysis import numbers
from analysis.judge import family, noise, order, stats, wording
from analysis.judge.compare import Comparison
from analysis.judge.rows import Row
from analysis.judge.select import label, metric_info, stratum_of
from analysis.read.grouping import grouped
from analysis.read.load import RunRecord
from analysis.show.sentences import Answer, gain, in_words, intervals, listed
from harness.errors import ConfigError
from harness.metrics.catalogue import Better
from harness.quantities import parse_share, parse_size

_NO_FACTOR = ("level", "cell", "host", "campaign")
_PAIR = 2


class Best(NamedTuple):
    """The best level of an arm, its value as text, and the levels whose order with it is open."""

    level: str
    place: str
    value: str
    open_order: tuple[str, ...]


def arms(comparison: Comparison) -> list[str]:
    """Return the arms from the first one to the last one; [] if they have no order.

    Numbers, shares and sizes have one. Two other values begin with the baseline.
    """
    if comparison.contrast in _NO_FACTOR:
        return []
    values = list(comparison.values)
    for parse in (float, parse_share, parse_size):
        try:
            return sorted(values, key=parse)
        except (ValueError, ConfigError):
            continue
    return sorted(values, key=comparison.baseline.__ne__) if len(values) == _PAIR else []


def sentences(
    comparison: Comparison, metric: str, order_of_arms: Sequence[str], others: Iterable[str]
) -> list[Answer]:
    """Return the best level of each arm, how the metric changes, how surely, and what else changes.

    The first sentence is left out if the study does not vary the level. ``others`` are the other
    metrics with verdicts.
    """
    runs = _without_twins(comparison)
    series = grouped(runs, lambda run: stratum_of(run, comparison.varying))
    rows = [
        row for own in series.items() if (row := _change(comparison, metric, *own, order_of_arms))
    ]
    tested = [row for row in rows if row.verdict.is_judged]
    found = []
    if text := _best_levels(comparison, metric, order_of_arms, runs):
        found.append(Answer("Which", text, metric))
    first, last = order_of_arms[0], order_of_arms[-1]
    parts = [_in_words(row, first, last) for row in rows]
    text = "; ".join(parts) or "no series has two arms"
    head = f"From {comparison.contrast} {first} to {last}, {in_words(metric)}"
    found.append(Answer("How much", f"{head}: {text}.", metric))
    if tested:
        sure = intervals(tested, lambda row: _between(row, first, last))
        found.append(Answer("How sure", sure, metric))
    changed = {
        other: [
            row
            for own in series.items()
            if (row := _change(comparison, other, *own, order_of_arms)) and row.verdict.differs
        ]
        for other in others
        if other != metric
    }
    found.append(_else(changed, metric))
    return found


def _without_twins(comparison: Comparison) -> list[RunRecord]:
    twins = noise.repeated_cells(comparison.runs, comparison.contrast, comparison.baseline)
    return [run for run in comparison.runs if run.cell not in twins]


def _change(
    comparison: Comparison,
    metric: str,
    stratum: str,
    runs: Sequence[RunRecord],
    order_of_arms: Sequence[str],
) -> Row | None:
    """Return the row of a series' last arm against its first one; None with fewer than two."""
    measured = {
        label(run, comparison.contrast) for run in runs if run.ok and run.value(metric) is not None
    }
    own = [arm for arm in order_of_arms if arm in measured]
    if len(own) < _PAIR:
        return None
    (found,) = family.rows_of_pair(comparison.judge, runs, metric, own[0], own[-1])
    return dataclasses.replace(found.row, stratum=stratum)


def _name(row: Row) -> str:
    return row.stratum or row.level


def _between(row: Row, first: str, last: str) -> str:
    """Return a series, with its arms if they are not the study's first and last one."""
    arms = "" if (row.baseline, row.level) == (first, last) else f"{row.baseline} to {row.level}"
    return wording.level_in(row.stratum, arms) if row.stratum else arms or row.level


def _verb(row: Row) -> str:
    return "rises" if stats.relative_change(row.estimate) > 0 else "falls"


def _in_words(row: Row, first: str, last: str) -> str:
    """Return how a series changes; an arm is named if it is not the study's first or last one."""
    base, value = (numbers.human(one, row.info.unit) for one in row.values)
    begin = "" if row.baseline == first else f" at {row.baseline}"
    end = "" if row.level == last else f" at {row.level}"
    name = f"{row.stratum} " if row.stratum else ""
    if row.verdict.differs:
        return f"{name}{_verb(row)} from {base}{begin} to {value}{end} ({wording.ratio(row)})"
    if row.verdict.is_judged:
        return f"{name}is not shown to change ({base}{begin}, {value}{end})"
    against = begin and f" against {row.baseline}"
    return f"{name}has no verdict{end}{against}: {row.verdict.value}"


def _else(changed: dict[str, list[Row]], metric: str) -> Answer:
    parts = []
    for other, rows in changed.items():
        verbs = grouped(rows, _verb)
        named = (f"{verb} ({listed([_name(row) for row in own])})" for verb, own in verbs.items())
        if rows:
            parts.append(f"{in_words(other)} {' and '.join(named)}")
    text = f"{listed(parts, '; ')}." if parts else "No other metric is shown to change."
    return Answer("What else changes", f"{text[0].upper()}{text[1:]}", metric)


def _best_levels(
    comparison: Comparison, metric: str, order_of_arms: Sequence[str], runs: Sequence[RunRecord]
) -> str:
    """Name the best level of each arm; '' if the study does not vary the level."""
    if "level" not in comparison.varying:
        return ""
    others = [name for name in comparison.varying if name != "level"]
    places = {
        (arm, stratum): own
        for stratum, members in sorted(grouped(runs, lambda run: stratum_of(run, others)).items())
        for arm in order_of_arms
        if (own := [run for run in members if label(run, comparison.contrast) == arm])
    }
    found = [
        best
        for (arm, stratum), own in places.items()
        if (best := _best(comparison, metric, wording.level_in(arm, stratum), own, len(places)))
    ]
    if not found:
        return "No two levels have a verdict at the same arm."
    better = metric_info(metric).better
    word = "Highest" if better is Better.HIGHER else "Lowest"
    parts = [
        f"{level} at {', '.join(f'{one.place} ({one.value})' for one in own)}"
        for level, own in grouped(found, lambda one: one.level).items()
    ]
    text = f"{word} {in_words(metric)}: {'; '.join(parts)}."
    unsure = [f"{one.place} ({listed(one.open_order)})" for one in found if one.open_order]
    return f"{text} The order is not shown at {', '.join(unsure)}." if unsure else text


def _best(
    comparison: Comparison, metric: str, place: str, runs: Sequence[RunRecord], places: int
) -> Best | None:
    """Return the best level of one arm; None if fewer than two levels can be compared.

    The runs decide which level it is, so each p counts for all pairs of levels in all places.
    """
    judge = dataclasses.replace(comparison.judge, contrast="level")
    measured = {label(run, "level") for run in runs if run.ok and run.value(metric) is not None}
    levels = sorted(measured, key=comparison.campaign.level_order)

    def row(base: str, level: str) -> Row:
        (found,) = family.rows_of_pair(judge, runs, metric, base, level)
        return found.row

    tested = [one for level in levels[1:] if (one := row(levels[0], level)).verdict.is_judged]
    means = {one.level: one.values[1] or 0.0 for one in tested}
    if not tested:
        return None
    means[levels[0]] = tested[0].values[0] or 0.0
    info = tested[0].info
    best = (max if info.better is Better.HIGHER else min)(means, key=lambda level: means[level])
    pairs = math.comb(len(means), _PAIR) * places
    direct = [order.corrected(row(other, best), pairs) for other in means if other != best]
    unsure = tuple(one.baseline for one in direct if not one.verdict.differs or gain(one) <= 0)
    return Best(best, place, numbers.human(means[best], info.unit), unsure)
