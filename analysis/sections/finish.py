"""The report's section on finish thresholds and zone sizes, for studies that vary a threshold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from analysis import directions, finish_figures, units, zones
from analysis.compare import Comparison
from analysis.drawing import Plot, mark_of
from analysis.finish_figures import Axis, Label
from analysis.finish_points import Point, Setting
from analysis.load import RunRecord
from analysis.sections.base import Context, Grid, Heading, Part, Plots, Section, Text
from harness.metrics import Kind
from harness.run import replayed
from harness.store.result import Status
from harness.store.spec import TRADES_ROOM, DeviceKind, RunSpec

ID, TITLE = "finish", "Finish threshold"
METHOD = "finish-threshold-and-zone-size"
FACTOR = "finish_occupancy_pct"
_ABOUT = (
    "Published directions, by Page's test for ordered alternatives; a block is a repetition at one "
    "value of the other factor."
)
_OF_COSTS = (
    "Means over runs. Measured: seconds in these commands at the driver, not a result on an "
    "emulated device. Modelled: what the same commands would take on a ZN540; the share is of "
    "these and of its writes together."
)
_PAD = Axis("run.pad_bytes", "pad", "B")
_SA = Axis("run.sa_host", "sa_host", "1", Kind.RATIO)
# Shares of what the level holds at the end, and what finishing and resetting would take.
_OF_RUN = (
    _PAD,
    _SA,
    Axis("run.space_amplification", "allocated / live", "1", Kind.RATIO),
    Axis("run.gc_bytes", "bytes moved by collection", "B"),
    Axis("run.modelled_cost_share", "modelled: share of finishes and resets", "1", Kind.RATIO),
)
# Of the measured phase.
_OF_PHASE = (
    ("bandwidth", "user bandwidth", "B/s"),
    ("latency_p99", "p99 latency", "us"),
    ("latency_p99_9", "p99.9 latency", "us"),
)
_DIRECTIONS = ("level", "published direction", "verdict", "p", "blocks", "evidence: means")
_COSTS = (
    "level", "zone size", "occupancy %", "remaining %", "finishes", "at finish (median)", "pad",
    "resets", "measured finish + reset", "modelled finish", "modelled reset", "modelled share",
)  # fmt: skip
_INFEASIBLE = ("cell", "runs", "why it cannot hold the data")


def section(context: Context) -> Section | None:
    """Return verdicts, figures and costs of each level; None for a study without the factor."""
    comparison = context.comparison
    runs = [run for run in comparison.runs if FACTOR in run.spec.factors]
    if not runs:
        return None
    rows = dict.fromkeys(run.spec.row for run in runs if run.ok)
    mine = {row: [run for run in runs if run.ok and run.spec.row == row] for row in rows}
    found = [line for row in rows for line in _found(row, mine[row])]
    plots = [plot for row in rows for plot in _plots(comparison, row, mine[row], runs)]
    costs = [line for row in rows for line in _costs(row, mine[row])]
    parts: list[Part] = [
        Text(_ABOUT),
        Grid("directions", _DIRECTIONS, found, method=METHOD),
        Plots(plots),
    ]
    if full := list(_infeasible(runs)):
        parts += [
            Heading("infeasible", "Settings that cannot hold the data"),
            Grid("infeasible", _INFEASIBLE, full, method=METHOD),
        ]
    costs_of = Grid("finish_costs", _COSTS, costs, source="", method=METHOD)
    parts += [Heading("finish-costs", "What finishing and resetting costs"), Text(_OF_COSTS)]
    return Section(ID, TITLE, [*parts, costs_of])


def points_of(runs: Sequence[RunRecord]) -> list[Point]:
    """Return every metric of runs as points, and U / seconds of each phase as ``bandwidth``."""
    found = []
    for run in runs:
        size, occupancy = setting_of(run.spec)
        values = {key: run.value(key) for key in run.result.metrics}
        for phase in run.spec.phases:
            user, seconds = (values.get(f"{phase.name}.{of}") for of in ("user_bytes", "seconds"))
            if user and seconds:
                values[f"{phase.name}.bandwidth"] = user / seconds
        block = f"{run.host}/{run.result.repetition}"
        found += [
            Point(size, occupancy, key, value, block)
            for key, value in values.items()
            if value is not None
        ]
    return found


def setting_of(spec: RunSpec) -> Setting:
    """Return zone size and threshold of a run."""
    return spec.device.zone_size or 0, float(spec.factors[FACTOR])


def _found(row: str, runs: Sequence[RunRecord]) -> Iterator[tuple[str, ...]]:
    for one in directions.judge_all(points_of(runs)):
        p = "-" if one.p is None else f"{one.p:.2g}"
        yield row, one.direction.text, one.word.value, p, str(one.blocks), one.evidence


def _plots(
    comparison: Comparison, row: str, runs: Sequence[RunRecord], planned: Sequence[RunRecord]
) -> list[Plot]:
    points = points_of(runs)
    label = Label(row, mark_of(comparison, Kind.BYTES), mark_of(comparison, Kind.TIME))
    full = {setting_of(run.spec) for run in planned if run.spec.row == row and _is_full(run)}
    phase = next(iter(dict.fromkeys(p.name for run in runs for p in run.measured)), "")
    axes = [*_OF_RUN]
    for metric, name, unit in _OF_PHASE:
        axes.append(Axis(f"{phase}.{metric}", f"{phase}: {name}", unit, Kind.TIME))
    drawn = [finish_figures.against_threshold(points, axis, label, full) for axis in axes]
    return [
        *drawn[:2],
        finish_figures.pareto(points, _PAD, _SA, label),
        *drawn[2:],
        finish_figures.occupancies(_at_finish(runs), label),
        finish_figures.wear(points, label),
    ]


def _at_finish(runs: Sequence[RunRecord]) -> dict[Setting, list[float]]:
    """Return how full zones were when they were finished, in %, of all runs of a setting."""
    found: dict[Setting, list[float]] = defaultdict(list)
    for run in runs:
        found[setting_of(run.spec)] += _occupancies(run)
    return dict(found)


def _occupancies(run: RunRecord) -> list[float]:
    if run.result.device.kind is DeviceKind.REPLAYED:
        return replayed.occupancies_of(run.path)
    return [*zones.read_occupancies(run)]


def _costs(row: str, runs: Sequence[RunRecord]) -> Iterator[tuple[str, ...]]:
    of: dict[Setting, list[RunRecord]] = defaultdict(list)
    for run in runs:
        of[setting_of(run.spec)].append(run)
    for (size, occupancy), here in sorted(of.items(), key=lambda item: (-item[0][0], item[0][1])):
        measured = [_mean(here, f"run.{what}_seconds") for what in ("finish", "reset")]
        both = None if None in measured else sum(value or 0 for value in measured)
        yield (
            row, units.human(size, "B"), f"{occupancy:g}", f"{100 - occupancy:g}",
            _number(_sum(here, "zone_finishes")),
            _number(_mean(here, "run.finish_occupancy_p50"), " %"),
            units.human(_mean(here, "run.pad_bytes"), "B"),
            _number(_sum(here, "zone_resets")), _number(both, " s"),
            _number(_mean(here, "run.modelled_finish_seconds"), " s"),
            _number(_mean(here, "run.modelled_reset_seconds"), " s"),
            _number(_percent(_mean(here, "run.modelled_cost_share")), " %"),
        )  # fmt: skip


def _infeasible(runs: Sequence[RunRecord]) -> Iterator[tuple[str, ...]]:
    found: dict[tuple[str, str], int] = defaultdict(int)
    for run in runs:
        if _is_full(run) and run.result.reason is not None:
            found[run.cell, run.result.reason.message] += 1
    for (cell, why), count in found.items():
        yield cell, str(count), why


def _is_full(run: RunRecord) -> bool:
    reason = run.result.reason
    full = reason is not None and reason.code == "infeasible"
    return run.result.status is Status.SKIPPED and full and bool(TRADES_ROOM & {*run.spec.factors})


def _mean(runs: Sequence[RunRecord], key: str) -> float | None:
    values = [value for run in runs if (value := run.value(key)) is not None]
    return sum(values) / len(values) if values else None


def _sum(runs: Sequence[RunRecord], name: str) -> float | None:
    """Return the mean over runs of the sum over their phases."""
    sums = []
    for run in runs:
        parts = [run.value(f"{phase.name}.{name}") for phase in run.spec.phases]
        if None not in parts:
            sums.append(sum(part or 0 for part in parts))
    return sum(sums) / len(sums) if sums else None


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _number(value: float | None, unit: str = "") -> str:
    return units.DASH if value is None else f"{units.digits(value)}{unit}"
