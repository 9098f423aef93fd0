"""Write amplification over utilisation: one line per level and stratum, a point per run."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge import wording
from analysis.judge.compare import Comparison
from analysis.judge.select import stratum_of, varying_factors
from analysis.judge.stats import geometric_mean
from analysis.read.grouping import grouped
from analysis.read.load import RunRecord
from analysis.show.drawing import MOST_POINTS, Plot, canvas, dots, finish, legend
from analysis.show.groups import PALETTE, Group, marker_of
from harness.metrics.catalogue import MetricKind
from harness.store.spec import PhaseRole

FACTOR = "target_utilisation"
_NAME = "amplification-over-utilisation"
# The figure uses the first of these metrics that every drawn run has.
_METRICS = {
    "wa_total": "media bytes per user byte",
    "write_amplification": "device bytes per user byte",
}


def is_varied(groups: Sequence[Group]) -> bool:
    """Return whether the study varies the utilisation."""
    values = {run.result.factors.get(FACTOR) for group in groups for run in group.runs}
    return len(values - {None}) > 1


def over_utilisation(comparison: Comparison, groups: Sequence[Group]) -> Plot:
    """Draw the last written phase of every run against the utilisation that the run achieved."""
    runs = [run for group in groups for run in group.runs if _achieved(run) is not None]
    phase = _phase(runs)
    known = [name for name in _METRICS if all(run.value(f"{phase}.{name}") for run in runs)]
    title = f"{phase}: write amplification over utilisation"
    if not runs or not known:
        return Plot(_NAME, title, "No phase has a write amplification in every ok run.")
    metric = known[0]
    figure, axes = canvas(3.0)
    for index, (name, own) in enumerate(_lines(runs).items()):
        color, marker = PALETTE[index % len(PALETTE)], marker_of(index)
        drawn = own[:MOST_POINTS]
        places = [100 * (_achieved(run) or 0.0) for run in drawn]
        points = [run.value(f"{phase}.{metric}") or 0.0 for run in drawn]
        dots(axes, places, points, marker, color, label=name)
        x, y = zip(*means(own, f"{phase}.{metric}"), strict=True)
        axes.plot(x, y, color=color, linewidth=1.2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("live bytes before the measured phases, % of zone capacity")
    axes.set_ylabel(_METRICS[metric], fontsize=8)
    legend(axes)
    sentence = (
        f"{_METRICS[metric].capitalize()} in {phase} ({metric}). One point per run, at the "
        "utilisation that it achieved; lines: geometric means at each target."
    )
    return finish(comparison, figure, Plot(_NAME, title, sentence), MetricKind.BYTES)


def _lines(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Return the runs of each level and values of the other factors that vary, by their names."""
    varying = [name for name in varying_factors(runs, FACTOR) if name != "level"]
    return grouped(runs, lambda run: wording.short(run.spec.row, stratum_of(run, varying)))


def _achieved(run: RunRecord) -> float | None:
    return run.result.utilisation.u_ns if run.result.utilisation else None


def _phase(runs: Sequence[RunRecord]) -> str:
    """Return the last measured phase that writes."""
    names = [
        phase.name
        for run in runs
        for phase in run.spec.phases
        if phase.role is PhaseRole.MEASURED and phase.user_bytes_per_operation
    ]
    return list(dict.fromkeys(names))[-1] if names else "run"


def means(runs: Sequence[RunRecord], key: str) -> list[tuple[float, float]]:
    """Return the mean achieved utilisation (%) and the geometric mean of a metric, by target."""
    by_target = grouped(runs, lambda run: run.result.factors.get(FACTOR))
    return sorted(
        (
            100 * sum(_achieved(run) or 0.0 for run in own) / len(own),
            geometric_mean([run.value(key) or 0.0 for run in own]),
        )
        for own in by_target.values()
    )
