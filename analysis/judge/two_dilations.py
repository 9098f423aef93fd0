"""Pairs of equal runs on a modelled drive, the second at twice the dilation of the first.

A value that the drive decides is the same in both, on the clock of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from analysis.judge import noise
from analysis.judge.side import Side
from analysis.read import percentiles
from analysis.read.drives import drive_of
from analysis.read.load import CampaignData, RunRecord
from harness.store.spec import DeviceKind, Scalar

# Options of fio that the planner changes for a modelled drive.
_TIMES = frozenset({"runtime", "startdelay"})
_RATES = frozenset({"rate", "rate_iops"})

Pairs = Sequence[tuple[RunRecord, RunRecord]]


def pairs_of(side: Side, slower: Sequence[CampaignData]) -> Pairs:
    """Return the runs of a side and of its twins that ran at twice the dilation, too."""
    return [(run, other) for run in side.once(_with_twins) if (other := _at_twice(run, slower))]


def dilation_of(pairs: Pairs) -> int:
    """Return the dilation of the slower runs."""
    return pairs[0][1].result.device.dilation


def speed_change(pairs: Pairs, phase: str) -> float | None:
    """Return a phase's speed as a share of its speed in the slower runs; null if one is unknown."""
    return _mean([_speeds(run, other, phase) for run, other in pairs])


def percentile_change(key: str, pairs: Pairs) -> float | None:
    """Return a percentile as a share of its value in the slower runs; null if one is unknown."""
    return _mean([_ratio(_percentile(run, key), _percentile(other, key)) for run, other in pairs])


def _percentile(run: RunRecord, key: str) -> float | None:
    """Return a percentile of a run, from its histogram if it is not stored: runs store no p95."""
    if key in run.result.metrics:
        return run.value(key)
    phase, _, name = key.rpartition(".")
    whole = percentiles.together([run], phase, intended=percentiles.is_intended(name))
    return percentiles.percentile(whole, name)


def _mean(ratios: Sequence[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return geometric_mean(known) if known and len(known) == len(ratios) else None


def _ratio(one: float | None, two: float | None) -> float | None:
    return one / two if one and two else None


def _with_twins(side: Side) -> list[RunRecord]:
    """Return the ok runs of a side, and those of cells that are identical to its cells."""
    own = {run.cell for run in side.ok}
    groups = [cells for cells in noise.identical_cells(side.pool.latest) if own & cells.keys()]
    twins = [run for cells in groups for cell in cells.keys() - own for run in cells[cell]]
    return [*side.ok, *(run for run in twins if run.ok)]


def _at_twice(run: RunRecord, slower: Sequence[CampaignData]) -> RunRecord | None:
    """Return the same run on the same model at twice the dilation."""
    drive = drive_of(run.result.device.model)
    for campaign in slower:
        for other in campaign.latest:
            twin = drive_of(other.result.device.model)
            if (
                drive
                and twin
                and other.ok
                and other.result.device.kind is DeviceKind.MODELLED
                and (twin.served, twin.dilation) == (drive.served, 2 * drive.dilation)
                and _identity(other) == _identity(run)
                and _same_work(run, other)
            ):
                return other
    return None


def _identity(run: RunRecord) -> tuple[object, ...]:
    """Return what identifies a run in both campaigns. Cells with equal settings are equal."""
    phases = {phase.name: phase.flags.keys() for phase in run.spec.phases}
    return (run.settings, run.result.repetition, run.result.seed, phases)


def _same_work(run: RunRecord, slower: RunRecord) -> bool:
    """Return whether all flags are equal, except times and rates that were slowed down alike.

    fio knows nothing of a dilation, so the planner lengthens times of jobs and lowers rates.
    """
    flags = {phase.name: phase.flags for phase in slower.spec.phases}
    return all(
        value == (other := flags[phase.name][name]) or _same_on_the_model(name, value, other)
        for phase in run.spec.phases
        for name, value in phase.flags.items()
    )


def _same_on_the_model(name: str, value: Scalar, slower: Scalar) -> bool:
    """Return whether a time has doubled, or a rate is half, apart from rounding."""
    if not isinstance(value, int) or not isinstance(slower, int):
        return False
    option = name.rpartition(".")[2]
    if option in _TIMES:
        return slower == 2 * value
    return option in _RATES and abs(value - 2 * slower) <= 1


def _speeds(run: RunRecord, other: RunRecord, phase: str) -> float | None:
    """Return the ratio of two runs' speeds by the first measure that both have."""
    for speed in (_media_rate, _throughput, _pace):
        ratio = _ratio(speed(run, phase), speed(other, phase))
        if ratio is not None:
            return ratio
    return None


def _media_rate(run: RunRecord, phase: str) -> float | None:
    """Return the bytes per second that reach the medium; null if the phase reads more.

    A processor that holds the drive up lowers this rate. Chance does not: how often ext4's blocks
    are copied inside a drive changes from run to run, and a run's throughput with it.
    """
    names = ("media_bytes", "device_read", "seconds")
    media, read, seconds = (run.value(f"{phase}.{name}") for name in names)
    return media / seconds if media and seconds and media >= (read or 0.0) else None


def _throughput(run: RunRecord, phase: str) -> float | None:
    return run.value(f"{phase}.throughput")


def _pace(run: RunRecord, phase: str) -> float | None:
    seconds = run.value(f"{phase}.seconds")
    return 1 / seconds if seconds else None
