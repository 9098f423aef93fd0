"""When times on modelled drives get a verdict, and how every view names them (docs/methods.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from analysis import numbers
from analysis.judge.select import metric_info
from analysis.judge.side import Side
from analysis.judge.two_dilations import (
    Pairs,
    dilation_of,
    pairs_of,
    percentile_change,
    speed_change,
)
from analysis.judge.verdicts import Verdict
from analysis.read.drives import RecordedDrive, drive_of
from analysis.read.load import CampaignData, RunRecord
from harness.plan import model_verdicts
from harness.plan.model_verdicts import ModelVerdict
from harness.store.spec import DeviceKind

# With fewer requests on time, percentiles describe the machine and not the model.
ON_TIME = 0.99
# Requests that take longer than in the model by more than this share make all times too long.
LATE = 0.02
# A phase whose speed in model time changes more at twice the dilation is held up by the processor.
SAME = 0.05
# Without this second campaign: a faster processor shortens a phase at most by the time in which
# CPUs work [Amdahl 1967].
BUSY = SAME
# The same for a percentile: a bucket of the histograms. A smaller change widens the row's floor.
SAME_PERCENTILE = 0.5

# A reason to repeat runs at twice the dilation.
UNCHECKED = "no such run at twice the dilation (--slower)"
OF_PROCESSOR = "the processor decides it, and not the drive's model"

# Metrics that a few late requests can change.
_PERCENTILE = re.compile(r"latency_(p\d|max)")


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """Why a time gets no verdict."""

    verdict: Verdict
    reason: str = ""


@cache
def core_of(served: str) -> ModelVerdict | None:
    """Return the validation of a served drive's core: its flash and controller."""
    found = model_verdicts.of_drive(served)
    return found[1] if found else None


def drives_of(campaigns: Iterable[CampaignData]) -> list[RecordedDrive]:
    """Return the modelled drives of campaigns, sorted by name."""
    runs = [run for campaign in campaigns for run in campaign.runs]
    known = (drive_of(model) for model in _models(runs))
    return sorted((one for one in known if one), key=lambda one: (one.model, one.dilation))


def label(campaigns: Iterable[CampaignData]) -> str:
    """Return ``modelled: zn540-1tb, mean error 1.3 %, dilation 8`` for the drives of campaigns."""
    drives = drives_of(campaigns)
    if not drives:
        return "modelled drive"
    names = ", ".join(dict.fromkeys(drive.model for drive in drives))
    cores = ", ".join(sorted({_error(core_of(drive.served)) for drive in drives}))
    factors = ", ".join(str(k) for k in sorted({drive.dilation for drive in drives}))
    return f"modelled: {names}, {cores}, dilation {factors}"


def _error(core: ModelVerdict | None) -> str:
    if core is None or core.core_error is None:
        return "core not validated"
    failed = f", {len(core.core_failed)} core curves fail" if core.core_failed else ""
    return f"mean error {_percent(core.core_error)}" + failed


def refusal(key: str, base: Side, level: Side, slower: Sequence[CampaignData]) -> NoVerdict | None:
    """Return why a time of two sides gets no verdict; None if it can get one.

    ``slower`` are campaigns of the same study on drives with twice the dilation.
    """
    runs = [*base.ok, *level.ok] or [*base.runs, *level.runs]
    kinds = {run.result.device.kind for run in runs}
    if kinds <= {DeviceKind.HARDWARE}:
        return None
    if kinds != {DeviceKind.MODELLED}:
        return NoVerdict(Verdict.NOT_A_RESULT)
    if metric_info(key).of_processor:
        return NoVerdict(Verdict.NOT_A_RESULT, OF_PROCESSOR)
    sides = [side for side in (base, level) if side.ok]  # a side without runs has other reasons
    for judged in (_core, _late_requests):
        for side in sides:
            if found := judged(side, key):
                return found
    for side in sides:
        if found := _processor_bound(side, key, slower):
            return found
    return None


def _core(side: Side, _: str) -> NoVerdict | None:
    for model in side.once(_models_of):
        drive = drive_of(model)
        core = core_of(drive.served) if drive else None
        if core is None:
            return NoVerdict(Verdict.NOT_A_RESULT, f"{model}: its core is not validated")
        if core.core_failed:
            failed = ", ".join(core.core_failed)
            return NoVerdict(Verdict.NOT_A_RESULT, f"{model}: core curves fail: {failed}")
    return None


def _models_of(side: Side) -> list[str]:
    return _models(side.ok)


def _models(runs: Iterable[RunRecord]) -> list[str]:
    """Return the modelled drives: under test, and beside it, where all of the data may be."""
    # The first planned device is under test. For it, the result records the device as it was.
    drives = (drive for run in runs for drive in (run.result.device, *run.spec.devices[1:]))
    return sorted({drive.model for drive in drives if drive.kind is DeviceKind.MODELLED})


def _late_requests(side: Side, key: str) -> NoVerdict | None:
    extreme = _PERCENTILE.search(key) is not None
    name = "on_time_share" if extreme else "late_share"
    shares = [run.value(f"{phase}.{name}") for run in side.ok for phase in _phases(run, key)]
    known = [share for share in shares if share is not None]
    if not known or len(known) < len(shares):
        return NoVerdict(Verdict.NOT_A_RESULT, f"{side.name}: late requests were not counted")
    if extreme and min(known) < ON_TIME:
        text = f"{_percent(min(known))} of requests on time"
        return NoVerdict(Verdict.HOST_BOUND, f"{side.name}: {text}")
    if not extreme and max(known) > LATE:
        text = f"requests take {_percent(max(known))} longer than in the model"
        return NoVerdict(Verdict.HOST_BOUND, f"{side.name}: {text}")
    return None


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _phases(run: RunRecord, key: str) -> list[str]:
    """Return the phases of a metric: its own, or all measured ones for a metric of the run."""
    begun = [phase.name for phase in run.result.begun(run.spec.phases)]
    return [name for name in begun if key.startswith(f"{name}.")] or [
        phase.name for phase in run.measured
    ]


def _processor_bound(side: Side, key: str, slower: Sequence[CampaignData]) -> NoVerdict | None:
    """Return a refusal unless runs at twice the dilation have the same speed in model time.

    Without such runs, CPUs must have been nearly idle. A percentile must be the same, too: waits of
    the kernel can make a few requests slow that do not change the speed. Single runs differ by
    chance, so the geometric mean over all pairs of runs decides. Runs of identical cells (twins)
    count as further repetitions, which reduce the effect of chance.
    """
    pairs = pairs_of(side, slower)
    if not pairs:
        return _busy_processor(side, key)
    for phase in _phases(pairs[0][0], key):
        change = speed_change(pairs, phase)
        if change is None:
            return NoVerdict(Verdict.NOT_A_RESULT, f"{side.name}: {phase} has no speed")
        if abs(change - 1) > SAME:
            text = f"{phase} runs at {numbers.ratio(change)} of its speed"
            return _depends(side, text, pairs)
    return _changed_percentile(side, key, pairs) if _PERCENTILE.search(key) else None


def percentile_floor(key: str, base: Side, level: Side, slower: Sequence[CampaignData]) -> float:
    """Return the difference of a percentile that the processor can explain; 0 for other metrics."""
    return explained(log_change(key, base, slower), log_change(key, level, slower))


def log_change(key: str, side: Side, slower: Sequence[CampaignData]) -> float:
    """Return the log of a percentile's change at twice the dilation.

    It is 0 for other metrics, and without slower runs.
    """
    change = percentile_change(key, pairs_of(side, slower)) if _PERCENTILE.search(key) else None
    return math.log(change) if change else 0.0


def explained(base: float, level: float) -> float:
    """Return the difference that the processor can explain, from the log changes of both sides.

    At twice the dilation, the processor's part of a ratio is about half as large. So the whole part
    is twice the ratio's change.
    """
    return math.expm1(2 * abs(level - base))


def _busy_processor(side: Side, key: str) -> NoVerdict | None:
    """Return a refusal unless a faster processor would change the speed by less than ``SAME``.

    Percentiles are always refused: a few requests can wait for a processor that is mostly idle.
    """
    shares = [run.value(f"{phase}.busy_cpus") for run in side.ok for phase in _phases(run, key)]
    known = [share for share in shares if share is not None]
    why = UNCHECKED
    if known and len(known) == len(shares) and not _PERCENTILE.search(key):
        if max(known) <= BUSY:
            return None
        why = f"CPUs work {_percent(max(known))} of the time, and {UNCHECKED}"
    return NoVerdict(Verdict.NOT_A_RESULT, f"{side.name}: {why}")


def _changed_percentile(side: Side, key: str, pairs: Pairs) -> NoVerdict | None:
    change = percentile_change(key, pairs)
    if change is None:
        return NoVerdict(Verdict.NOT_A_RESULT, f"{side.name}: {key} is unknown at one dilation")
    if abs(math.log(change)) <= math.log(1 + SAME_PERCENTILE):
        return None
    return _depends(side, f"{key} is {numbers.ratio(change)} of its value", pairs)


def _depends(side: Side, what: str, pairs: Pairs) -> NoVerdict:
    """Return the refusal of a value that depends on the dilation, and so on the processor."""
    text = f"{side.name}: {what} at dilation {dilation_of(pairs)}"
    return NoVerdict(Verdict.HOST_BOUND, text)
