"""Block-level sweeps of fio: curves, and the guidelines of the published study."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from analysis import numbers
from analysis.judge import agreement, block_level
from analysis.judge.block_level import JudgedGuideline
from analysis.judge.compare import Comparison
from analysis.judge.stats import geometric_mean
from analysis.read.block import BlockPoint, points_of
from analysis.read.block_clients import ClientPoint, clients_of
from analysis.show import block_figures
from analysis.show.block_figures import SweepLine, line
from analysis.show.drawing import Plot, mark_of
from analysis.show.parts import Grid, Heading, Paragraph, Part, Plots, ReportData, Section
from harness.metrics.catalogue import MetricKind
from harness.store.spec import DeviceKind
from harness.tables import tabulate

ORDER = 16  # near the top: the main result of such a study
ID, TITLE = "block", "Block level"
METHOD = "block-level-guidelines"
_ABOUT = (
    "Each line compares this campaign with a published guideline. Found and interval come from "
    "the repetitions; 95 %."
)


@dataclass(frozen=True, slots=True)
class _Setting:
    """The runs of one point of a sweep."""

    points: tuple[BlockPoint, ...]

    @property
    def first(self) -> BlockPoint:
        """One of the points; their settings are equal."""
        return self.points[0]

    def mean(self, value: Callable[[BlockPoint], float | None]) -> float | None:
        """Return the geometric mean of the known values."""
        known = [one for point in self.points if (one := value(point))]
        return geometric_mean(known) if known else None

    @property
    def merged(self) -> float | None:
        """The arithmetic mean, because it can be 0."""
        known = [one.merged for one in self.points if one.merged is not None]
        return fmean(known) if known else None


def section(data: ReportData) -> Section | None:
    """Return guidelines, figures and the table of points; None without phases of fio."""
    comparison = data.comparison
    points = points_of(comparison.campaign.latest)
    clients = clients_of(comparison.campaign.latest)
    jobs: list[Part] = [Heading("block-jobs", "Jobs"), _jobs(clients)] if clients else []
    if not points:
        return Section(ID, TITLE, jobs) if jobs else None
    judged = block_level.judge(comparison.campaign)
    rows = [_row(one) for one in judged]
    parts: list[Part] = [
        Paragraph(f"{agreement.tally(one.outcome.agreement for one in judged)}. {_ABOUT}"),
        Grid("guidelines", _GUIDELINES, rows, source="", method=METHOD),
        *(
            Paragraph(f"{one.title}. {one.hardware}. Caveats: {one.caveats}.", soft=True)
            for one in dict.fromkeys(one.reference for one in judged)
        ),
        *_differences(comparison),
        Plots(_plots(comparison, points)),
        *jobs,
        Grid(
            "block_points",
            *tabulate(_POINTS, _settings(points)),
            folded="Every point: geometric means over runs",
            source="",
            method=METHOD,
        ),
    ]
    return Section(ID, TITLE, parts)


def _jobs(clients: Sequence[ClientPoint]) -> Grid:
    """Return a table of each client of each job; runs are repetitions."""
    groups: dict[tuple[str, ...], list[ClientPoint]] = defaultdict(list)
    for one in clients:
        groups[one.row, one.scheduler, one.job, one.client, one.operation].append(one)
    rows = [
        (
            *key,
            str(len(own)),
            *(
                numbers.human(_mean([getattr(one, name) for one in own]), unit)
                for name, unit in _OF_CLIENTS.values()
            ),
        )
        for key, own in groups.items()
    ]
    header = ("device", "scheduler", "job", "client", "operation", "runs", *_OF_CLIENTS)
    return Grid("block_jobs", header, rows, source="", method=METHOD)


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean; null where a run has no value."""
    known = [value for value in values if value]
    return geometric_mean(known) if len(known) == len(values) else None


def _row(one: JudgedGuideline) -> tuple[str, ...]:
    outcome, where = one.outcome, f" ({one.outcome.where})" if one.outcome.where else ""
    return (
        f"{one.guideline.text}{where}",
        one.guideline.published,
        outcome.found,
        outcome.interval,
        str(outcome.runs or ""),
        outcome.agreement.value,
        outcome.why,
    )


def _differences(comparison: Comparison) -> Iterator[Part]:
    """Yield the options that differ between files of an imported campaign."""
    if DeviceKind.IMPORTED not in comparison.campaign.kinds:
        return
    found = dict.fromkeys(
        (issue.code, issue.message)
        for run in comparison.campaign.latest
        for issue in run.result.issues
    )
    yield Heading("imported", "Differences between the files")
    yield Grid("imported", ("code", "what"), [*found], source="")


def _plots(comparison: Comparison, points: Sequence[BlockPoint]) -> list[Plot]:
    mark = mark_of(comparison, MetricKind.TIME)
    by_device: dict[tuple[str, ...], list[BlockPoint]] = defaultdict(list)
    by_operation: dict[tuple[str, ...], list[BlockPoint]] = defaultdict(list)
    for point in points:
        by_device[_words(point.row, point.scheduler, *point.others)].append(point)
        if _is_small(point, points):
            spread = "over zones" if point.jobs > 1 else ""
            by_operation[_words(point.row, point.operation, *point.others, spread)].append(point)
    plots = []
    for device, own in by_device.items():
        name = ", ".join(device)
        small = [point for point in own if _is_small(point, points)]
        plots.append(block_figures.throughput(name, list(_by_depth(small)), mark))
        plots.append(block_figures.bandwidth(name, list(_by_size(own)), mark))
    for operation, own in by_operation.items():
        plots.append(block_figures.latency(", ".join(operation), list(_by_scheduler(own)), mark))
    return [plot for plot in plots if plot.svg]


def _words(*texts: str) -> tuple[str, ...]:
    return tuple(filter(None, texts))


def _is_small(point: BlockPoint, points: Sequence[BlockPoint]) -> bool:
    """Return whether a point has its device's smallest size, with which depths are swept."""
    return point.bs == min(other.bs for other in points if other.row == point.row)


def _by_depth(points: Sequence[BlockPoint]) -> Iterator[SweepLine]:
    """Yield a line for each operation, by depth and over zones."""
    groups: dict[str, list[BlockPoint]] = defaultdict(list)
    for point in points:
        spread = " over zones" if point.jobs > 1 and point.zoned else ""
        spread = " by jobs" if point.jobs > 1 and not point.zoned else spread
        groups[f"{point.operation}{spread}"].append(point)
    for label, own in groups.items():
        yield line(label, own, lambda one: one.in_flight, lambda one: one.iops)


def _by_size(points: Sequence[BlockPoint]) -> Iterator[SweepLine]:
    """Yield a line for each operation and depth that has several sizes."""
    groups: dict[str, list[BlockPoint]] = defaultdict(list)
    for point in points:
        groups[f"{point.operation}, depth {point.in_flight}"].append(point)
    for label, own in groups.items():
        if len({point.bs for point in own}) > 1:
            yield line(label, own, lambda one: one.bs, lambda one: one.bandwidth)


def _by_scheduler(points: Sequence[BlockPoint]) -> Iterator[SweepLine]:
    """Yield median and p95 of each scheduler."""
    for scheduler in sorted({point.scheduler for point in points}):
        own = [point for point in points if point.scheduler == scheduler]
        label = scheduler or "scheduler not recorded"
        yield line(label, own, lambda one: one.in_flight, lambda one: one.p50)
        yield line(label, own, lambda one: one.in_flight, lambda one: one.p95, dashed=True)


def _settings(points: Sequence[BlockPoint]) -> list[_Setting]:
    groups: dict[tuple[object, ...], list[BlockPoint]] = defaultdict(list)
    for one in points:
        key = (one.row, one.scheduler, one.others, one.operation, one.bs, one.jobs, one.iodepth)
        groups[key].append(one)
    return [_Setting(tuple(own)) for _, own in sorted(groups.items())]


_OF_CLIENTS = {
    "IOPS": ("iops", "ops/s"),
    "bandwidth": ("bandwidth", "B/s"),
    "median": ("p50", "us"),
    "p95": ("p95", "us"),
    "p99": ("p99", "us"),
}
_GUIDELINES = ("guideline", "published", "found", "interval", "runs", "verdict", "why")
_POINTS: dict[str, Callable[[_Setting], str]] = {
    "device": lambda one: ", ".join((one.first.row, *one.first.others)),
    "scheduler": lambda one: one.first.scheduler,
    "operation": lambda one: one.first.operation,
    "size": lambda one: numbers.block_size(one.first.bs),
    "depth": lambda one: str(one.first.iodepth),
    "jobs": lambda one: str(one.first.jobs),
    "runs": lambda one: str(len(one.points)),
    "IOPS": lambda one: numbers.human(one.mean(lambda p: p.iops), "ops/s"),
    "bandwidth": lambda one: numbers.human(one.mean(lambda p: p.bandwidth), "B/s"),
    "median": lambda one: numbers.human(one.mean(lambda p: p.p50), "us"),
    "p95": lambda one: numbers.human(one.mean(lambda p: p.p95), "us"),
    "merged writes (mean share)": lambda one: numbers.human(one.merged, "1"),
    "instructions / command": lambda one: numbers.human(one.mean(lambda p: p.instructions), "1"),
}
