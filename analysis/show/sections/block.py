"""Block-level sweeps of fio: curves, and the guidelines of the published study."""

from __future__ import annotations

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
from analysis.read.grouping import grouped
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
    judged = block_level.judge(comparison.campaign, comparison.judge.slower)
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
    groups = grouped(
        clients, lambda one: (one.row, one.scheduler, one.job, one.client, one.operation)
    )
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
    by_device = grouped(points, lambda one: _words(one.row, one.scheduler, *one.others))
    # Depths are swept with the smallest size of a device.
    rows = grouped(points, lambda one: one.row)
    smallest = {row: min(one.bs for one in own) for row, own in rows.items()}
    small = [one for one in points if one.bs == smallest[one.row]]
    plots = []
    for device, own in by_device.items():
        depths = [one for one in own if one.bs == smallest[one.row]]
        plots.append(block_figures.throughput(device, list(_by_depth(depths)), mark))
        plots.append(block_figures.bandwidth(device, list(_by_size(own)), mark))
    for operation, own in grouped(small, _operation).items():
        plots.append(block_figures.latency(operation, list(_by_scheduler(own)), mark))
    return [plot for plot in plots if plot.svg]


def _operation(point: BlockPoint) -> str:
    return _words(point.row, point.operation, *point.others, _spread(point))


def _spread(point: BlockPoint) -> str:
    """Return where the commands of several jobs go, '' for one job."""
    if point.jobs == 1:
        return ""
    return "over zones" if point.zoned else "by jobs"


def _words(*texts: str) -> str:
    return ", ".join(filter(None, texts))


def _by_depth(points: Sequence[BlockPoint]) -> Iterator[SweepLine]:
    """Yield a line for each operation, by depth and over zones."""

    def label_of(point: BlockPoint) -> str:
        return f"{point.operation} {_spread(point)}".strip()

    for label, own in grouped(points, label_of).items():
        yield line(label, own, lambda one: one.in_flight, lambda one: one.iops)


def _by_size(points: Sequence[BlockPoint]) -> Iterator[SweepLine]:
    """Yield a line for each operation and depth that has several sizes."""
    groups = grouped(points, lambda one: f"{one.operation}, depth {one.in_flight}")
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
    groups = grouped(
        points,
        lambda p: (p.row, p.scheduler, p.others, p.operation, p.bs, p.jobs, p.iodepth),
    )
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
