"""Finish threshold and zone size, for studies that vary a threshold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from analysis import numbers
from analysis.judge import directions
from analysis.judge.compare import Comparison
from analysis.judge.directions import Along, Direction, FinishSetting, SettingValue
from analysis.judge.select import stratum_of, varying_factors
from analysis.judge.wording import has_only_values
from analysis.read import zones
from analysis.read.grouping import grouped
from analysis.read.load import RunRecord
from analysis.show import finish_figures
from analysis.show.drawing import Plot, mark_of
from analysis.show.finish_figures import Axis, Label
from analysis.show.parts import Grid, Heading, Paragraph, Part, Plots, ReportData, Section
from harness.metrics.catalogue import MetricKind
from harness.nulls import total
from harness.run import replayed
from harness.store.result import Status
from harness.store.spec import TRADES_ROOM, DeviceKind, RunSpec
from harness.tables import tabulate

ORDER = 30
ID, TITLE = "finish", "Finish threshold"
METHOD = "finish-threshold-and-zone-size"
FACTOR = "finish_occupancy_pct"
_ABOUT = (
    "Page's test for ordered alternatives, over all values of the other factor and at each. A "
    "block is one seed. A published direction holds or not; a time rises or falls with the factor."
)
_ABOUT_COSTS = (
    "Means over runs. Measured: seconds in these commands at the driver, not a result on an "
    "emulated device. Modelled: time of the same commands on a ZN540. The share relates to the "
    "modelled time of these commands and of the writes."
)
_PAD = Axis("run.pad_bytes", "pad", "B")
_SA = Axis("run.sa_host", "sa_host", "1", MetricKind.RATIO)
_RUN_AXES = (
    Axis("run.space_amplification", "allocated / live", "1", MetricKind.RATIO),
    Axis("run.gc_bytes", "bytes moved by collection", "B"),
    Axis(
        "run.modelled_cost_share", "modelled: share of finishes and resets", "1", MetricKind.RATIO
    ),
)
# Columns for replays on a modelled drive.
_MODELLED_AXES = (
    Axis("run.modelled_bandwidth", "bandwidth of appends", "B/s", MetricKind.COUNT),
    Axis("run.modelled_append_flush_p99", "p99 of appends by flushes", "us", MetricKind.COUNT),
    Axis("run.modelled_sync_flush_mean", "mean sync of flushed tables", "us", MetricKind.COUNT),
    Axis(
        "run.modelled_sync_compaction_mean", "mean sync of compacted tables", "us", MetricKind.COUNT
    ),
    Axis("run.modelled_finish_device_seconds", "time in finishes", "s", MetricKind.COUNT),
    Axis("run.modelled_reset_device_seconds", "time in resets", "s", MetricKind.COUNT),
)
_ABOUT_TIMES = (
    "Times of the replayed requests on a modelled drive: results of the model, not of a drive. "
    "Means over runs. Device time is the sum of the commands' latencies."
)
_PHASE_AXES = (
    ("bandwidth", "user bandwidth", "B/s"),
    ("latency_p99", "p99 latency", "us"),
    ("latency_p99_9", "p99.9 latency", "us"),
)
_TESTED_TIMES = (
    ("throughput", "operations per second", "1/s"),
    ("latency_p99", "99th percentile of latency", "us"),
)
_FACTORS = {Along.THRESHOLD: "the finish occupancy", Along.ZONE_SIZE: "the zone size"}
_DIRECTIONS = ("level", "direction", "verdict", "p", "blocks", "evidence: means")
_INFEASIBLE = ("cell", "runs", "why it cannot hold the data")


@dataclass(frozen=True, slots=True)
class _Costs:
    """The ok runs of a level at one setting."""

    level: str
    setting: FinishSetting
    runs: tuple[RunRecord, ...]

    def mean(self, key: str) -> float | None:
        """Return the mean of a metric over the runs that have it."""
        return _mean([run.value(key) for run in self.runs])

    def mean_sum(self, name: str) -> float | None:
        """Return the mean over runs of a metric's sum over all phases; replays have one sum."""
        return _mean(
            [
                total(run.value(f"{phase.name}.{name}") for phase in run.spec.phases)
                if run.spec.phases
                else run.value(f"run.{name}")
                for run in self.runs
            ]
        )

    @property
    def measured_seconds(self) -> float | None:
        """Seconds in finishes and resets at the driver."""
        return total(self.mean(f"run.{command}_seconds") for command in ("finish", "reset"))

    @property
    def modelled_percent(self) -> float | None:
        """Share of modelled time in finishes and resets."""
        share = self.mean("run.modelled_cost_share")
        return None if share is None else 100 * share


def section(data: ReportData) -> Section | None:
    """Return verdicts, figures and costs of each level; None for a study without the factor."""
    comparison = data.comparison
    planned = [run for run in comparison.runs if FACTOR in run.spec.factors]
    if not planned:
        return None
    by_row = _by_row(planned)
    ok = {row: [run for run in runs if run.ok] for row, runs in by_row.items()}
    ok = {row: runs for row, runs in ok.items() if runs}
    tested = [line for row, runs in ok.items() for line in _test(comparison, row, runs)]
    plots = [p for row, runs in ok.items() for p in _plots(comparison, row, runs, by_row[row])]
    costs = [cost for row, runs in ok.items() for cost in _costs(row, runs)]
    parts: list[Part] = [
        Paragraph(_ABOUT),
        Grid("directions", _DIRECTIONS, tested, method=METHOD),
        Plots(plots),
    ]
    if full := _infeasible(planned):
        parts += [
            Heading("infeasible", "Settings that cannot hold the data"),
            Grid("infeasible", _INFEASIBLE, full, method=METHOD),
        ]
    parts += [
        Heading("finish-costs", "Cost of finishes and resets"),
        Paragraph(_ABOUT_COSTS),
        Grid("finish_costs", *tabulate(_COSTS, costs), source="", method=METHOD),
    ]
    if timed := [cost for cost in costs if cost.mean("run.modelled_seconds") is not None]:
        parts += [
            Heading("modelled-times", f"Times on a modelled drive ({_models(planned)})"),
            Paragraph(_ABOUT_TIMES),
            Grid("modelled_times", *tabulate(_TIMES, timed), source="", method=METHOD),
        ]
    return Section(ID, TITLE, parts)


def _by_row(planned: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Return the runs by level and by the other factors that vary, for example ``zlfs, gc off``."""
    apart = {*Along, "level", "campaign"}
    varying = [name for name in varying_factors(planned, FACTOR) if name not in apart]
    return grouped(
        planned, lambda run: ", ".join(filter(None, [run.spec.row, stratum_of(run, varying)]))
    )


def points_of(runs: Sequence[RunRecord]) -> list[SettingValue]:
    """Return every metric of the runs as points; adds U / seconds of each phase as bandwidth."""
    points = []
    for run in runs:
        values = {key: run.value(key) for key in run.result.metrics}
        for phase in run.spec.phases:
            user, seconds = (values.get(f"{phase.name}.{of}") for of in ("user_bytes", "seconds"))
            if user and seconds:
                values[f"{phase.name}.bandwidth"] = user / seconds
        block = str(run.result.seed)
        points += [
            SettingValue(*setting_of(run.spec), key, value, block)
            for key, value in values.items()
            if value is not None
        ]
    return points


def setting_of(spec: RunSpec) -> FinishSetting:
    """Return zone size and threshold of a run."""
    return spec.device.zone_size or 0, float(spec.factors[FACTOR])


def _test(comparison: Comparison, row: str, runs: Sequence[RunRecord]) -> Iterator[tuple[str, ...]]:
    points = points_of(runs)
    strata = grouped(runs, lambda run: stratum_of(run, comparison.varying))
    for direction in (*directions.PUBLISHED, *_orders(comparison, points, runs)):
        found = _refusals(comparison, direction.metric)
        refused = {name: word for name, word in found.items() if name in strata}
        if refused.keys() == strata.keys():
            words = ", ".join(sorted(set(refused.values())))
            yield row, direction.text, words, numbers.DASH, numbers.DASH, ""
            continue
        left_out = [f"without {name} ({word})" for name, word in refused.items()]
        kept = [run for name, own in strata.items() if name not in refused for run in own]
        for one in directions.judge(points_of(kept) if refused else points, direction):
            p = numbers.formatted(one.p, ".2g")
            evidence = "; ".join([one.evidence, *(() if one.where else left_out)])
            yield row, one.text, one.word.value, p, str(one.blocks), evidence


def _orders(
    comparison: Comparison, points: Sequence[SettingValue], runs: Sequence[RunRecord]
) -> Iterator[Direction]:
    """Return the compared times of measured phases, over each factor that varies."""
    compared = {row.metric for row in comparison.rows}
    varying = [along for along in Along if len({along.sides(point)[0] for point in points}) > 1]
    for phase in dict.fromkeys(phase.name for run in runs for phase in run.measured):
        for name, text, unit in _TESTED_TIMES:
            metric = f"{phase}.{name}"
            for along in varying if metric in compared else ():
                over = f"{phase}: {text} over {_FACTORS[along]}"
                yield Direction(over, metric, unit, along, rises=None)


def _refusals(comparison: Comparison, metric: str) -> dict[str, str]:
    """Return the strata in which a time was not tested in each row, with the rows' verdicts.

    Empty for bytes. Too few runs are no refusal: Page's test needs no pairs, and counts its blocks.
    """
    words: dict[str, set[str]] = defaultdict(set)
    for row in comparison.rows:
        if row.metric == metric and row.info.kind is MetricKind.TIME and has_only_values(row):
            words[row.stratum].add(row.verdict)
    return {stratum: ", ".join(sorted(own)) for stratum, own in words.items()}


def _plots(
    comparison: Comparison, row: str, runs: Sequence[RunRecord], planned: Sequence[RunRecord]
) -> list[Plot]:
    points = points_of(runs)
    label = Label(row, mark_of(comparison, MetricKind.BYTES), mark_of(comparison, MetricKind.TIME))
    full = {setting_of(run.spec) for run in planned if _is_full(run)}
    phase = next((phase.name for run in runs for phase in run.measured), "")
    axes = (
        Axis(f"{phase}.{metric}", f"{phase}: {name}", unit, MetricKind.TIME)
        for metric, name, unit in (_PHASE_AXES if phase else ())
    )
    draw = partial(finish_figures.against_threshold, points, label=label, infeasible=full)
    samples: dict[FinishSetting, list[float]] = defaultdict(list)
    for run in runs:
        samples[setting_of(run.spec)] += _occupancies(run)
    return [
        draw(axis=_PAD),
        draw(axis=_SA),
        finish_figures.pareto(points, _PAD, _SA, label),
        *(draw(axis=axis) for axis in (*_RUN_AXES, *axes)),
        *_modelled_plots(points, row, runs, full),
        finish_figures.occupancies(samples, label),
        finish_figures.wear(points, label),
    ]


def _modelled_plots(
    points: Sequence[SettingValue], row: str, runs: Sequence[RunRecord], full: set[FinishSetting]
) -> Iterator[Plot]:
    """Draw the times of a modelled drive, if the runs have them."""
    models = _models(runs)
    if not models:
        return
    label = Label(row, f"modelled: {models}")
    for axis in _MODELLED_AXES:
        if any(point.metric == axis.metric for point in points):
            yield finish_figures.against_threshold(points, axis, label, full)


def _models(runs: Sequence[RunRecord]) -> str:
    """Return the modelled drives on which traces were replayed, '' for none."""
    replays = [run.result.manifest.get("replay") for run in runs]
    models = [replay.get("model") for replay in replays if isinstance(replay, Mapping)]
    return ", ".join(sorted({model["name"] for model in models if isinstance(model, Mapping)}))


def _occupancies(run: RunRecord) -> list[float]:
    """Return how full each zone was when it was finished, in %."""
    if run.result.device.kind is DeviceKind.REPLAYED:
        return replayed.occupancies_of(run.path)
    return [*zones.read_occupancies(run)]


def _costs(row: str, runs: Sequence[RunRecord]) -> list[_Costs]:
    """Return the runs by setting: large zones first, then by threshold."""
    by_setting = grouped(runs, lambda run: setting_of(run.spec))
    ordered = sorted(by_setting, key=lambda setting: (-setting[0], setting[1]))
    return [_Costs(row, setting, tuple(by_setting[setting])) for setting in ordered]


def _infeasible(runs: Sequence[RunRecord]) -> list[tuple[str, ...]]:
    counts = Counter(
        (run.cell, run.result.reason.message)
        for run in runs
        if _is_full(run) and run.result.reason is not None
    )
    return [(cell, str(count), why) for (cell, why), count in counts.items()]


def _is_full(run: RunRecord) -> bool:
    reason = run.result.reason
    full = reason is not None and reason.code == "infeasible"
    return run.result.status is Status.SKIPPED and full and bool(TRADES_ROOM & {*run.spec.factors})


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _number(value: float | None, unit: str = "") -> str:
    return numbers.DASH if value is None else f"{numbers.digits(value)}{unit}"


_COSTS: dict[str, Callable[[_Costs], str]] = {
    "level": lambda costs: costs.level,
    "zone size": lambda costs: numbers.human(costs.setting[0], "B"),
    "occupancy %": lambda costs: f"{costs.setting[1]:g}",
    "remaining %": lambda costs: f"{100 - costs.setting[1]:g}",
    "finishes": lambda costs: _number(costs.mean_sum("zone_finishes")),
    "at finish (median)": lambda costs: _number(costs.mean("run.finish_occupancy_p50"), " %"),
    "pad": lambda costs: numbers.human(costs.mean("run.pad_bytes"), "B"),
    "resets": lambda costs: _number(costs.mean_sum("zone_resets")),
    "measured finish + reset": lambda costs: _number(costs.measured_seconds, " s"),
    "modelled finish": lambda costs: _number(costs.mean("run.modelled_finish_seconds"), " s"),
    "modelled reset": lambda costs: _number(costs.mean("run.modelled_reset_seconds"), " s"),
    "modelled share": lambda costs: _number(costs.modelled_percent, " %"),
}


def _modelled(metric: str, unit: str) -> Callable[[_Costs], str]:
    return lambda costs: numbers.human(costs.mean(f"run.modelled_{metric}"), unit)


_TIMES: dict[str, Callable[[_Costs], str]] = {
    "level": lambda costs: costs.level,
    "zone size": lambda costs: numbers.human(costs.setting[0], "B"),
    "occupancy %": lambda costs: f"{costs.setting[1]:g}",
    "seconds": _modelled("seconds", "s"),
    "appended": _modelled("bandwidth", "B/s"),
    "WAL append p50": _modelled("append_wal_p50", "us"),
    "WAL append p99.9": _modelled("append_wal_p99_9", "us"),
    "flush append p99": _modelled("append_flush_p99", "us"),
    "compaction append p99": _modelled("append_compaction_p99", "us"),
    "WAL sync p99": _modelled("sync_wal_p99", "us"),
    "flush sync": _modelled("sync_flush_mean", "us"),
    "compaction sync": _modelled("sync_compaction_mean", "us"),
    "reads": _modelled("read_device_seconds", "s"),
    "writes": _modelled("write_device_seconds", "s"),
    "finishes": _modelled("finish_device_seconds", "s"),
    "resets": _modelled("reset_device_seconds", "s"),
}
