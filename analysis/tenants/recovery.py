"""Time until a tenant recovers from the burst of another tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.read.arrays import FloatArray
from analysis.read.load import RunRecord
from analysis.tenants.aligned import Line, read_lines
from analysis.tenants.mix import Mix, read

# Times below are seconds in the run's files, which have a sample per second on every drive.
# A burst exceeds the first share of the tenant's highest rate; idle time is below the second.
_ON, _OFF = 0.5, 0.25
_SHORTEST = 2.0  # seconds; shorter times have only one sample
# Recovered: the mean of this many seconds is within this share of the rate before the burst.
_STEADY_FOR = 3.0
_BACK = 0.1


@dataclass(frozen=True, slots=True)
class Burst:
    """A busy time of a tenant, in seconds since the run began."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """A tenant's recovery from the burst of another tenant, on the clock of the drive's model.

    ``lost`` is the share of its throughput that it lost during the burst. ``seconds`` is the time
    from the burst's end to recovery, null when it did not recover before the series ended.
    """

    run: str
    tenant: str
    burst_of: str
    burst: Burst
    lost: float
    seconds: float | None


def recoveries(mix: Mix) -> list[Recovery]:
    """Return every tenant's recovery from the bursts of every other tenant, in all shared runs."""
    return [recovery for run in mix.shared for recovery in _recoveries(run)]


def bursts(line: Line, ended: float) -> list[Burst]:
    """Return the busy times of a tenant that is nearly idle in between.

    A tenant that is always busy has no bursts. One that starts late or stops early has one.
    """
    if not line.throughput.max() > 0:
        return []
    share = line.throughput / line.throughput.max()
    busy_times: list[Burst] = []
    since: float | None = float(line.t[0])
    busy, quiet = share >= _ON, share < _OFF
    if quiet[0]:
        since = None
    for index in range(1, len(share)):
        if since is None and busy[index]:
            since = float(line.t[index - 1])
        elif since is not None and quiet[index]:
            busy_times.append(Burst(since, float(line.t[index - 1])))
            since = None
    if since is not None and line.t[-1] < ended - _SHORTEST:  # it stopped before the others
        busy_times.append(Burst(since, float(line.t[-1])))
    return [burst for burst in busy_times if burst.end - burst.begin >= _SHORTEST]


def recover(line: Line, burst: Burst, usual: float) -> tuple[float, float | None]:
    """Return the share of throughput lost in another tenant's burst, and seconds to recovery.

    ``usual`` is the undisturbed throughput in operations per second, positive.
    """
    during = line.throughput[(line.t > burst.begin) & (line.t <= burst.end)]
    lost = max(0.0, 1 - float(during.mean()) / usual) if during.size else 0.0
    after = line.t > burst.end
    t, rate = line.t[after], line.throughput[after]
    for index, moment in enumerate(t):
        window = rate[index:][t[index:] <= moment + _STEADY_FOR]
        if t[-1] < moment + _STEADY_FOR:
            break
        if float(window.mean()) >= (1 - _BACK) * usual:
            before = t[index - 1] if index else burst.end
            return lost, float(before - burst.end)
    return lost, None


def _recoveries(run: RunRecord) -> list[Recovery]:
    together = read(run)
    if together is None:
        return []
    lines = read_lines(run, together)
    busy = {name: bursts(line, together.ended) for name, line in lines.items()}
    result: list[Recovery] = []
    for name, line in lines.items():
        for other, times in busy.items():
            usual = _usual(line, times)
            if other == name or usual is None:
                continue
            for index, burst in enumerate(times):
                until = times[index + 1].begin if index + 1 < len(times) else float("inf")
                lost, seconds = recover(_until(line, until), burst, usual)
                result.append(
                    Recovery(
                        run.name,
                        name,
                        other,
                        Burst(run.seconds(burst.begin), run.seconds(burst.end)),
                        lost,
                        None if seconds is None else run.seconds(seconds),
                    )
                )
    return result


def _usual(line: Line, others: Sequence[Burst]) -> float | None:
    """Return the median throughput before the first burst, None with too few samples."""
    if not others:
        return None
    before: FloatArray = line.throughput[line.t <= others[0].begin]
    usual = float(np.median(before)) if before.size >= _STEADY_FOR else 0.0
    return usual if usual > 0 else None


def _until(line: Line, moment: float) -> Line:
    seen = line.t <= moment
    return Line(line.t[seen], line.throughput[seen], line.latency[seen], line.source)
