"""Errors of a model against measured points, by curve and statistic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.read.grouping import grouped
from analysis.read.points import MeasuredPoint
from harness.errors import ConfigError
from harness.plan.curve_models import Case, CurveSet, Grade, job_data, job_name
from harness.plan.drive_files import job_input, program_input
from harness.plan.drive_models import DriveModel
from harness.plan.job_models import Job
from harness.plan.load import build
from harness.tools import zonemodel
from harness.tools.zonemodel import Played

# Largest mean error of a core curve, and the most tolerances by which a point may miss.
CORE_MEAN, CORE_FACTOR = 0.05, 2.0
# Share of a tail's points that must be within tolerance.
TAIL_WITHIN = 0.8
_KILO, _US = 1e3, 1e3
# Field and divisor with which each statistic is read from zonemodel's numbers.
_FIELDS: Mapping[str, tuple[str, float]] = {
    "mean": ("mean_ns", _US),
    "p50": ("p50_ns", _US),
    "p95": ("p95_ns", _US),
    "p99": ("p99_ns", _US),
    "p99.9": ("p99_9_ns", _US),
    "p99.99": ("p99_99_ns", _US),
    "kiops": ("per_second", _KILO),
    "bw": ("mib_per_second", 1),
    "rate": ("per_second", 1),
}


@dataclass(frozen=True, slots=True)
class Compared:
    """A point and the model's value; null if the model gave too few samples."""

    point: MeasuredPoint
    grade: Grade
    modelled: float | None

    @property
    def error(self) -> float | None:
        """Signed error as a share of the measured value."""
        return None if self.modelled is None else self.modelled / self.point.value - 1

    @property
    def judged(self) -> bool:
        """Whether the point has a tolerance."""
        return self.point.tolerance is not None

    def within(self, factor: float = 1.0) -> bool:
        """Return whether the error is at most ``factor`` tolerances."""
        if self.error is None or self.point.tolerance is None:
            return False
        return abs(self.error) <= factor * self.point.tolerance


@dataclass(frozen=True, slots=True)
class CurveError:
    """Errors of one statistic of a curve. ``passed`` is null if no point is judged.

    ``why`` is the reason of a known miss, '' for none.
    """

    curve: str
    statistic: str
    grade: Grade
    points: tuple[Compared, ...]
    why: str = ""

    @property
    def judged(self) -> tuple[Compared, ...]:
        """Points with a tolerance; all points if none has one."""
        return tuple(one for one in self.points if one.judged) or self.points

    @property
    def mean(self) -> float | None:
        """Mean of the absolute errors."""
        errors = [abs(one.error) for one in self.judged if one.error is not None]
        return sum(errors) / len(errors) if len(errors) == len(self.judged) else None

    @property
    def worst(self) -> Compared:
        """The point with the largest error; one without a value comes first."""
        return max(
            self.judged, key=lambda one: float("inf") if one.error is None else abs(one.error)
        )

    @property
    def passed(self) -> bool | None:
        """Whether the errors are as small as the curve's grade requires."""
        if not any(one.judged for one in self.points):
            return None
        if self.grade == "core":
            near = self.mean is not None and self.mean <= CORE_MEAN
            return near and self._in_bounds
        return sum(one.within() for one in self.judged) >= TAIL_WITHIN * len(self.judged)

    @property
    def missed(self) -> bool:
        """Whether a core curve is a known miss, which fails only in its mean."""
        return self.passed is False and bool(self.why) and self._in_bounds

    @property
    def _in_bounds(self) -> bool:
        return all(one.within(CORE_FACTOR) for one in self.judged)


def jobs(curves: CurveSet, points: Sequence[MeasuredPoint], model: DriveModel) -> list[Job]:
    """Return one job for each x of each curve.

    Raises:
        ConfigError: a curve has no job for a point or a wrong one.
    """
    made: dict[str, Job] = {}
    for point in points:
        case = _case(curves, point)
        name = job_name(point.curve, point.x)
        if name not in made:
            data = job_data(point.curve, case, point.x, model)
            made[name] = build(Job, data, f"curve {point.curve}, x = {point.x:g}")
    return list(made.values())


def validate(
    model: DriveModel, curves: CurveSet, points: Sequence[MeasuredPoint], threads: int
) -> list[CurveError]:
    """Play every point's job and return the errors by curve and statistic, in the points' order.

    Raises:
        ConfigError: the curves do not fit the points, or the model refuses a job.
        HostError: the program is not installed.
    """
    inputs = [job_input(job) for job in jobs(curves, points, model)]
    played = zonemodel.run(program_input(model), inputs, threads)
    return compare(curves, points, {one.job: one for one in played})


def compare(
    curves: CurveSet, points: Sequence[MeasuredPoint], played: Mapping[str, Played]
) -> list[CurveError]:
    """Return the errors by curve and statistic; ``played`` is by name of the job."""
    compared = [
        Compared(
            point,
            curves.curves[point.curve].statistics[point.statistic],
            value(_case(curves, point), point, played[job_name(point.curve, point.x)]),
        )
        for point in points
    ]
    groups = grouped(compared, lambda one: (one.point.curve, one.point.statistic, one.grade))
    return [
        CurveError(*key, tuple(members), curves.curves[key[0]].known_misses.get(key[1], ""))
        for key, members in groups.items()
    ]


def value(case: Case, point: MeasuredPoint, played: Played) -> float | None:
    """Return the model's value for a point, in the unit of ``MeasuredPoint.value``."""
    if case.client is None or case.command is None:
        return _number(played.media, "write_amplification")
    field, divisor = _FIELDS[point.statistic]
    number = _number(played.clients.get(case.client, {}).get(case.command, {}), field)
    return None if number is None else number / divisor


def core_failed(errors: Sequence[CurveError]) -> list[str]:
    """Return the names of core curves that fail, without known misses."""
    return [
        f"{one.curve} {one.statistic}"
        for one in errors
        if one.grade == "core" and one.passed is False and not one.missed
    ]


def core_unjudged(errors: Sequence[CurveError], curves: CurveSet) -> list[str]:
    """Return the names of core curves of the set that no point judges."""
    judged = {(one.curve, one.statistic) for one in errors if one.passed is not None}
    return [
        f"{name} {statistic}"
        for name, curve in curves.curves.items()
        for statistic, grade in curve.statistics.items()
        if grade == "core" and (name, statistic) not in judged
    ]


def core_missed(errors: Sequence[CurveError]) -> list[str]:
    """Return the names of core curves that are known misses."""
    return [f"{one.curve} {one.statistic}" for one in errors if one.grade == "core" and one.missed]


def core_mean(errors: Sequence[CurveError]) -> float:
    """Return the mean error over all judged points of core curves; a missing value counts as 1."""
    shares = [
        1.0 if one.error is None else abs(one.error)
        for curve in errors
        if curve.grade == "core" and curve.passed is not None
        for one in curve.judged
    ]
    return sum(shares) / len(shares) if shares else 0.0


def tails_within(errors: Sequence[CurveError]) -> float:
    """Return the share of judged points of tails within tolerance."""
    judged = [
        one.within()
        for curve in errors
        if curve.grade == "tail" and curve.passed is not None
        for one in curve.judged
    ]
    return sum(judged) / len(judged) if judged else 1.0


def _case(curves: CurveSet, point: MeasuredPoint) -> Case:
    curve = curves.curves[point.curve]
    case = curve.case(point.x)
    if case is None or point.statistic not in curve.statistics:
        wrong = f"x = {point.x:g}" if case is None else f"statistic {point.statistic}"
        raise ConfigError(
            f"curve {point.curve} has no {wrong}",
            hint=f"statistics: {', '.join(curve.statistics)}; see configs/models/curves",
            code="points",
        )
    return case


def _number(values: Mapping[str, Any], field: str) -> float | None:
    number = values.get(field)
    return None if number is None else float(number)
