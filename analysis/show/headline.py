"""The answer of a campaign in five sentences, generated from the rows of its comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis import numbers
from analysis.judge import family, order, wording
from analysis.judge.compare import Comparison, repeated_groups, watermark
from analysis.judge.rows import Row
from analysis.judge.verdicts import Verdict
from analysis.read.grouping import grouped
from analysis.read.steady import PhaseSteady, SteadyLabel
from analysis.show import factor_sentences
from analysis.show.sentences import Answer, by_gain, evidence, gain, in_words, interval, listed
from analysis.show.why import why
from harness.metrics.catalogue import Better
from harness.store.result import Status


def answers(comparison: Comparison) -> list[Answer]:
    """Return sentences: the best value, why, by how much and how surely, at what cost, and gaps.

    If the study contrasts a factor with ordered values, they follow each level from the first value
    to the last one.

    The metric comes from the first claim with a verdict, else from the first row with a verdict.
    """
    # Cells that repeat another one are not named in sentences about levels.
    twins = repeated_groups(comparison)
    judged = [
        row
        for row in comparison.rows
        if row.verdict.is_judged and (row.level, row.stratum) not in twins
    ]
    gaps = Answer("What it does not show", _gaps(comparison))
    if not judged:
        return [Answer("Which", f"No {comparison.contrast} has a verdict."), gaps]
    metric = next((row for row in judged if row.claim is not None), judged[0]).metric
    rows = [row for row in judged if row.metric == metric]
    # A larger difference that is not shown does not hide one that is.
    best = max([row for row in rows if _is_better(row)] or rows, key=gain)
    if arms := factor_sentences.arms(comparison):
        others = dict.fromkeys(row.metric for row in judged)
        found = factor_sentences.sentences(comparison, metric, arms, others)
        if "level" not in comparison.varying:
            found.insert(0, Answer("Which", _which(comparison, rows, best), metric))
        return [*found, gaps]
    reason = why(comparison, rows, best) if _is_better(best) else ""
    return [
        Answer("Which", _which(comparison, rows, best), metric),
        *([Answer("Why", reason, metric)] if reason else []),
        Answer("How much", _how_much(rows), metric),
        _cost(comparison, judged, best),
        gaps,
    ]


def _is_better(row: Row) -> bool:
    """Return whether a difference in favour of the row's level is shown."""
    return row.verdict.differs and gain(row) > 0


def _which(comparison: Comparison, rows: Sequence[Row], best: Row) -> str:
    name = in_words(best.metric)
    if _is_better(best):
        base, value = (numbers.human(mean, best.info.unit) for mean in best.values)
        direct = order.against_others(comparison, rows, best)
        shown = {row.baseline for row in direct if _is_better(row)}
        open_order = [name for name in order.others(rows, best) if name not in shown]
        text = (
            f"{_where(comparison, best)}{best.level} has "
            f"{_rank(rows, best, shown=not open_order)} {name}: {value}, "
            f"against {base} of {best.baseline}."
        )
        if open_order:
            return f"{text} Its order with {listed(open_order)} is not shown."
        return text + _lead(direct)
    if any(row.is_loss for row in rows):
        return f"No {comparison.contrast} is shown to be better than {best.baseline} in {name}."
    return f"No {comparison.contrast} is shown to differ from {best.baseline} in {name}."


def _where(comparison: Comparison, best: Row) -> str:
    """Return the stratum and the planned utilisation, if all runs have one."""
    targets = {run.spec.cold.target_utilisation for run in comparison.runs if run.spec.cold}
    parts = [f"with {best.stratum}"] * bool(best.stratum)
    parts += [f"at {100 * target:.3g} % utilisation" for target in targets if len(targets) == 1]
    text = ", ".join([*parts, ""])
    return f"{text[:1].upper()}{text[1:]}"


def _rank(rows: Sequence[Row], best: Row, *, shown: bool) -> str:
    """Return the place of the best row in its stratum; ``shown``: it is better than each other."""
    word = "high" if best.info.better is Better.HIGHER else "low"
    if shown:
        return f"the {word}est"
    gains = [gain(row) for row in rows if row.stratum == best.stratum]
    return f"the {word}est mean of" if gain(best) == max(gains) else f"{word}er"


def _lead(direct: Sequence[Row]) -> str:
    """Name the value that comes closest to the best one."""
    if not direct:
        return ""
    nearest = min(direct, key=gain)
    word = "Ratio to" if nearest.estimate.is_ratio else "Against"
    return f" {word} the next, {nearest.baseline}: {wording.ratio(nearest)} ({interval(nearest)})."


def _how_much(rows: Sequence[Row]) -> str:
    parts = [
        f"{wording.level(row)} {wording.ratio(row)} ({interval(row)})" for row in by_gain(rows)
    ]
    word = "Ratios to" if all(row.estimate.is_ratio for row in rows) else "Differences from"
    return f"{word} {rows[0].baseline} (95 % interval): {listed(parts)}, {evidence(rows)}"


def _cost(comparison: Comparison, judged: Sequence[Row], best: Row) -> Answer:
    own = [row for row in judged if (row.level, row.stratum) == (best.level, best.stratum)]
    worse = [row for row in own if row.is_loss]
    label = wording.level(best)
    if not _is_better(best):
        text = f"{comparison.baseline} stays the choice, so there is no cost."
        return Answer("What it costs", text, best.metric)
    if worse:
        parts = [f"{in_words(row.metric)} ({wording.ratio(row)})" for row in worse]
        return Answer("What it costs", f"{label} is worse in {listed(parts)}.", worse[0].metric)
    count = len(own)
    plural = "" if count == 1 else "s"
    text = f"{label} is worse in none of the {count} metric{plural} with a verdict."
    return Answer("What it costs", text, best.metric)


# Phrases for rows without a verdict, by the reason.
_SILENT = {
    Verdict.NOT_A_RESULT: "not a result",
    Verdict.NOT_COMPARABLE: "not comparable",
    Verdict.NOTHING: "nothing to compare",
    Verdict.TIMING_DEPENDENT: "dependent on the guest's speed",
    Verdict.HOST_BOUND: "bound by the processor and not by the drive",
    Verdict.TOO_FEW: "too few values",
}


def _reason(row: Row) -> str:
    """Return why a row has no verdict."""
    if row.verdict is Verdict.TOO_FEW and row.values[0] is None:
        return f"not counted on {row.baseline}"
    return _SILENT[row.verdict]


def _gaps(comparison: Comparison) -> str:
    parts = [mark] if (mark := watermark(comparison.pool)) else []
    for verdict in _SILENT:
        silent = [row for row in comparison.shown if row.verdict is verdict]
        for reason, rows in grouped(silent, _reason).items():
            count = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
            metrics = dict.fromkeys(in_words(row.metric) for row in rows)
            parts.append(f"{reason} ({count}): {listed(list(metrics))}")
    notes = dict.fromkeys(note for row in comparison.rows for note in row.notes)
    parts += [note for note in notes if note.endswith(family.UNKNOWN_SPREAD)]
    if comparison.skipped:
        others = (f"{level} ({reason})" for level, reason in comparison.skipped.items())
        parts.append(f"not compared: {', '.join(others)}")
    if comparison.unmeasured and comparison.any_ok:
        nulls = listed([in_words(metric) for metric in comparison.unmeasured])
        parts.append(f"not measured in any ok run: {nulls}")
    parts += _unsteady(comparison.steady)
    lost = sum(not run.ok and run.result.status is not Status.SKIPPED for run in comparison.runs)
    missing = sum(cell.missing for cell in comparison.cells)
    for number, state in ((lost, "not ok"), (missing, "missing")):
        if number:
            parts.append(f"{number} {'run is' if number == 1 else 'runs are'} {state}")
    if not parts:
        steady = ", and all measured phases are steady" if comparison.steady else ""
        return f"Every metric with a direction has a verdict{steady}."
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _unsteady(phases: Sequence[PhaseSteady]) -> list[str]:
    """Return how many measured phases have each other label, and those with no known state."""
    labels = Counter(phase.steady.label for phase in phases if phase.recorded)
    found: list[str] = []
    for label in (SteadyLabel.NOT_STEADY, SteadyLabel.TOO_SHORT):
        if count := labels[label]:
            of = "" if found else f" of {labels.total()} measured phases"
            found.append(f"{count}{of} {'is' if count == 1 else 'are'} {label.words}")
    unknown = [phase.phase for phase in phases if not phase.recorded]
    parts = [", ".join(found)] * bool(found)
    if unknown:
        names = listed(list(dict.fromkeys(unknown)))
        noun = "phase" if len(unknown) == 1 else "phases"
        parts.append(f"steady state not known in {len(unknown)} {noun} without a series: {names}")
    return parts
