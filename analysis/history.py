"""What resets, finishes and first writes took, by what zones went through before (zoneprobe)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis import stats, units, zn540
from analysis.compare import Comparison
from analysis.load import RunRecord
from analysis.zn540 import Curve
from harness.store import packed
from harness.tools import zoneprobe
from harness.tools.histogram import SAMPLES_ABOVE
from harness.tools.zoneprobe import Summary, Treatment
from harness.workloads.zoneprobe import quantile

HEADER = ("run", "treatment", "zone written", "command", "n", "mean", "median", "p99", "largest",
          "ZN540 mean")  # fmt: skip
DIRECTIONS_HEADER = ("cell", "direction", "ratio", "95 % interval", "n", "ZN540", "verdict")

_NS_PER_US = 1000
_US_PER_MS = 1000
_LIMIT = 4 << 20  # as the runner reads it (harness/workloads/base.py)


@dataclass(frozen=True, slots=True)
class Probed:
    """A run of zoneprobe."""

    run: RunRecord
    summary: Summary

    @property
    def block(self) -> str:
        """What tells repetitions apart."""
        return f"{self.run.host}/{self.run.result.repetition}"

    def percent(self, treatment: Treatment) -> float:
        """Return how much of the capacity was written before the reset."""
        return 100 * treatment.occupied / self.summary.zone_capacity

    def named(self, name: str) -> Treatment | None:
        """Return a treatment."""
        return next((one for one in self.summary.treatments if one.name == name), None)


def probed(comparison: Comparison) -> list[Probed]:
    """Return the ok runs of zoneprobe with every latency that they measured."""
    return [
        Probed(run, summary)
        for run in comparison.campaign.latest if run.ok
        for phase in run.spec.phases if phase.program == zoneprobe.PROGRAM
        if (summary := _summary(run, phase.name)) is not None
    ]  # fmt: skip


def _summary(run: RunRecord, phase: str) -> Summary | None:
    return zoneprobe.parse(packed.text(run.path / "raw" / f"{phase}.stdout", _LIMIT))


def rows(runs: Sequence[Probed]) -> list[tuple[str, ...]]:
    """Return a row for each run, treatment and command."""
    return [
        (one.run.name, treatment.name, f"{one.percent(treatment):.4g} %", *_row(command))
        for one in runs
        for treatment in one.summary.treatments
        for command in commands(one, treatment)
    ]


@dataclass(frozen=True, slots=True)
class Command:
    """Latencies of one command of a treatment in a run (ns), and what the ZN540 took (ms)."""

    name: str
    samples: tuple[int, ...]
    published: float | None

    @property
    def mean(self) -> float:
        """In microseconds."""
        return sum(self.samples) / len(self.samples) / _NS_PER_US


def commands(one: Probed, treatment: Treatment) -> list[Command]:
    """Return what was timed of a treatment."""
    percent = one.percent(treatment)
    reset = zn540.RESET_AFTER_FINISH if treatment.finish else zn540.RESET
    found = [
        Command("finish", treatment.finishes, zn540.at(zn540.FINISH, percent)),
        Command("reset", treatment.resets, zn540.at(reset, percent)),
        Command("first write", tuple(cycle[0] for cycle in treatment.writes), zn540.FIRST_WRITE),
    ]
    return [command for command in found if command.samples]


def _row(command: Command) -> tuple[str, ...]:
    tail = quantile(command.samples, 0.99, least_above=SAMPLES_ABOVE)
    published = None if command.published is None else command.published * _US_PER_MS
    return (
        command.name,
        str(len(command.samples)),
        units.human(command.mean, "us"),
        units.human(quantile(command.samples, 0.5), "us"),
        units.human(tail, "us"),
        units.human(max(command.samples) / _NS_PER_US, "us"),
        units.human(published, "us"),
    )


# --- directions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Direction:
    """Something that is longer than something else: (treatment, command) of each.

    ``published`` is the ratio of the means on the ZN540, null where nobody told.
    """

    text: str
    longer: tuple[str, str]
    shorter: tuple[str, str]
    published: float | None


def _published(curve: Curve, percent: float, other: Curve, against: float) -> float | None:
    above, below = zn540.at(curve, percent), zn540.at(other, against)
    return above / below if above and below else None


DIRECTIONS = (
    Direction(
        "resetting a full zone takes longer than one with a block in it",
        ("reset-100", "reset"), ("reset-block", "reset"),
        _published(zn540.RESET, 100, zn540.RESET, 0.1),
    ),
    Direction(
        "resetting a zone with a block in it takes longer than an empty one",
        ("reset-block", "reset"), ("reset-0", "reset"),
        _published(zn540.RESET, 0.1, zn540.RESET, 0),
    ),
    Direction(
        "finishing a zone with a block in it takes longer than one that is half full",
        ("finish-block", "finish"), ("finish-50", "finish"),
        _published(zn540.FINISH, 0.1, zn540.FINISH, 50),
    ),
    Direction(
        "resetting a half-full zone takes longer than one that was finished half full",
        ("reset-50", "reset"), ("finish-50", "reset"),
        _published(zn540.RESET, 50, zn540.RESET_AFTER_FINISH, 50),
    ),
    Direction(
        "the first write behind the reset of a full zone takes longer than that to a fresh one",
        ("reset-100", "first write"), ("fresh", "first write"), None,
    ),
    Direction(
        "the first write to a fresh zone takes longer than later ones",
        ("fresh", "first write"), ("fresh", "later writes"),
        zn540.FIRST_WRITE / zn540.LATER_WRITE,
    ),
)  # fmt: skip


def directions(runs: Sequence[Probed], *, emulated: bool) -> list[tuple[str, ...]]:
    """Return a row for each cell and direction: ratio of geometric means, and whether it holds.

    Paired within runs; p values are Holm-adjusted over all rows. Times of emulated devices are no
    result, so nothing holds there.
    """
    cells: dict[str, list[Probed]] = {}
    for one in runs:
        cells.setdefault(one.run.cell, []).append(one)
    found = [
        (cell, direction, stats.estimate(
            _means(own, direction.shorter), _means(own, direction.longer), exact_allowed=False
        ))
        for cell, own in cells.items()
        for direction in DIRECTIONS
    ]  # fmt: skip
    adjusted = stats.holm([1.0 if e.p_value is None else e.p_value for _, _, e in found])
    return [
        (
            cell,
            direction.text,
            units.ratio(one.center),
            "-" if one.low is None or one.high is None else
            f"{units.ratio(one.low)} … {units.ratio(one.high)}",
            str(one.n),
            units.ratio(direction.published),
            "not a result" if emulated else _word(one, p),
        )
        for (cell, direction, one), p in zip(found, adjusted, strict=True)
    ]  # fmt: skip


def _word(found: stats.Estimate, p: float) -> str:
    if found.method is stats.Method.NONE or found.center is None:
        return "too few"
    if p >= 1 - stats.CONFIDENCE:
        return "not shown"
    return "holds" if found.center > 1 else "does not hold"


def _means(runs: Sequence[Probed], wanted: tuple[str, str]) -> Mapping[str, float]:
    """Return block → mean in microseconds of the runs that have it."""
    name, command = wanted
    found = {}
    for one in runs:
        treatment = one.named(name)
        samples = _samples(treatment, command) if treatment else ()
        if samples:
            found[one.block] = sum(samples) / len(samples) / _NS_PER_US
    return found


def _samples(treatment: Treatment, command: str) -> Sequence[int]:
    if command == "reset":
        return treatment.resets
    if command == "finish":
        return treatment.finishes
    if command == "first write":
        return [cycle[0] for cycle in treatment.writes]
    return [one for cycle in treatment.writes for one in cycle[(len(cycle) + 1) // 2 :]]
