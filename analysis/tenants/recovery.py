"""How long a tenant takes to be itself again once another one's burst has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.load import RunRecord
from analysis.stats import FloatArray
from analysis.tenants.aligned import Line, line
from analysis.tenants.mix import Mix, read

# A burst: above half of the tenant's highest rate, after or before silence of less than a quarter.
_ON, _OFF = 0.5, 0.25
_SHORTEST = 2.0  # seconds; less is one sample of a series
# Back: the mean of this many seconds is within this share of what was before the burst.
_STEADY_FOR = 3.0
_BACK = 0.1


@dataclass(frozen=True, slots=True)
class Burst:
    """When a tenant was busy, in seconds since the run began."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Recovery:
    """A tenant behind another one's burst.

    ``lost`` is the share of its throughput that it lacked during the burst. ``seconds`` from the
    burst's end until it was back; null where it was not by the end of what was seen.
    """

    run: str
    tenant: str
    burst_of: str
    burst: Burst
    lost: float
    seconds: float | None


def recoveries(mix: Mix) -> list[Recovery]:
    """Return every tenant's recovery from every other one's bursts, in all shared runs."""
    return [one for run in mix.shared for one in _of_run(run)]


def bursts(one: Line, ended: float) -> list[Burst]:
    """Return when a tenant was busy between times in which it did next to nothing.

    A tenant that is busy all the time has no bursts; one that starts late or stops early has one.
    """
    if not one.throughput.max() > 0:
        return []
    share = one.throughput / one.throughput.max()
    found: list[Burst] = []
    since: float | None = float(one.t[0])
    busy, quiet = share >= _ON, share < _OFF
    if quiet[0]:
        since = None
    for index in range(1, len(share)):
        if since is None and busy[index]:
            since = float(one.t[index - 1])
        elif since is not None and quiet[index]:
            found.append(Burst(since, float(one.t[index - 1])))
            since = None
    if since is not None and one.t[-1] < ended - _SHORTEST:  # it stopped before the others
        found.append(Burst(since, float(one.t[-1])))
    return [burst for burst in found if burst.end - burst.begin >= _SHORTEST]


def recover(one: Line, burst: Burst, usual: float) -> tuple[float, float | None]:
    """Return the share of throughput lost during a burst, and seconds until it was back.

    Args:
        one: the series of who recovers.
        burst: of somebody else.
        usual: its throughput when nobody disturbs, operations per second, positive.
    """
    during = one.throughput[(one.t > burst.begin) & (one.t <= burst.end)]
    lost = max(0.0, 1 - float(during.mean()) / usual) if during.size else 0.0
    after = one.t > burst.end
    t, rate = one.t[after], one.throughput[after]
    for index, moment in enumerate(t):
        window = rate[index:][t[index:] <= moment + _STEADY_FOR]
        if t[-1] < moment + _STEADY_FOR:
            break
        if float(window.mean()) >= (1 - _BACK) * usual:
            before = t[index - 1] if index else burst.end
            return lost, float(before - burst.end)
    return lost, None


def _of_run(run: RunRecord) -> list[Recovery]:
    together = read(run)
    if together is None:
        return []
    lines = [found for one in together.tenants if (found := line(run, one)) is not None]
    busy = {one.tenant: bursts(one, together.ended) for one in lines}
    result: list[Recovery] = []
    for one in lines:
        for other, times in busy.items():
            usual = _usual(one, times)
            if other == one.tenant or usual is None:
                continue
            for index, burst in enumerate(times):
                until = times[index + 1].begin if index + 1 < len(times) else float("inf")
                lost, seconds = recover(_until(one, until), burst, usual)
                result.append(Recovery(run.name, one.tenant, other, burst, lost, seconds))
    return result


def _usual(one: Line, others: Sequence[Burst]) -> float | None:
    """Return the median throughput before the first burst; None where there is too little."""
    if not others:
        return None
    before: FloatArray = one.throughput[one.t <= others[0].begin]
    usual = float(np.median(before)) if before.size >= _STEADY_FOR else 0.0
    return usual if usual > 0 else None


def _until(one: Line, moment: float) -> Line:
    seen = one.t <= moment
    return Line(one.tenant, one.t[seen], one.throughput[seen], one.latency[seen], one.source)
