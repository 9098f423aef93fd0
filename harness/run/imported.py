"""Metrics of a run of an imported campaign, computed from the files that others wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import ToolFailed
from harness.store import packed
from harness.store.result import Metric, catalogued
from harness.store.spec import RunSpec
from harness.tools import fio, histogram
from harness.tools.fio import FioDirection, FioJob, FioLatency, FioOutput
from harness.tools.histogram import Histogram

# The files come from any release of fio whose JSON has these fields.
OLDEST = (3, 0)
# Flag of a phase whose writes overwrite data, as the user declares.
OVERWRITES = "overwrites"
# Metric → fio's percentile in percent, and the quantile in ten-thousandths.
_QUANTILES = {
    "latency_p50": (50.0, 5000),
    "latency_p95": (95.0, 9500),
    "latency_p99": (99.0, 9900),
    "latency_p99_9": (99.9, 9990),
    "latency_p99_99": (99.99, 9999),
}


def read(text: str) -> FioOutput:
    """Parse a file of fio.

    Raises:
        ToolFailed: it is not a complete output of fio, or a job failed.
    """
    output = fio.parse(text, oldest=OLDEST)
    if output is None:
        raise ToolFailed(
            "it is not JSON output of fio", hint="fio writes it with --output-format=json or json+"
        )
    return output


def of_folder(folder: Path, spec: RunSpec) -> dict[str, Metric]:
    """Return the metrics of a stored run.

    Raises:
        ToolFailed: a stored file is missing or damaged.
    """
    return {
        f"{phase.name}.{name}": metric
        for phase in spec.phases
        for name, metric in metrics(read(packed.text(folder / stored(phase.name)))).items()
    }


def stored(phase: str) -> str:
    """Return the place of a phase's file in the run's folder."""
    return f"raw/{phase}.stdout"


def metrics(output: FioOutput) -> dict[str, Metric]:
    """Return the metrics of a file by catalogue name.

    Rates and latencies are null if the job ended inside its ramp: fio then reports no latency.
    Only latencies are null if options turn them off.
    """
    done = _done(output)
    kind = latency(output)
    timed = done if kind or latencies_off(output) else ()
    latencies = _latencies(output) if kind else dict.fromkeys((*_QUANTILES, "latency_max"))
    values: dict[str, int | float | None] = {
        "throughput": sum(one.commands_per_second for one in timed) if timed else None,
        "seconds": max((one.seconds for one in timed), default=None),
        "operations": sum(one.commands for one in done),
        "user_bytes": fio.total(output.jobs, "write")[0],
        **latencies,
    }
    return catalogued(values)


def latency(output: FioOutput) -> str:
    """Return the latency that all jobs have: ``lat``, else ``clat``; '' for none.

    ``lat`` counts from submission. fio reports its percentiles only with ``lat_percentiles=1``.
    """
    done = _done(output)
    kinds = _recorded(output)
    for kind in kinds:
        kept = [one.latencies[kind] for one in done if kind in one.latencies]
        if kept and len(kept) == len(done) and all(one.percentiles for one in kept):
            return kind
    plain = (kind for kind in reversed(kinds) if all(kind in one.latencies for one in done))
    return next(plain, "") if done else ""


def latencies_off(output: FioOutput) -> bool:
    """Whether options turn off ``lat`` and ``clat``, so that only rates are known."""
    return not _recorded(output)


def _recorded(output: FioOutput) -> list[str]:
    """Return ``lat`` and ``clat``, but none that options of a job turn off.

    Old releases of fio report 0 for a latency that is off.
    """
    return [kind for kind in ("lat", "clat") if not any(_off(job, kind) for job in output.jobs)]


def _off(job: FioJob, kind: str) -> bool:
    return any(job.options.get(key, "0") != "0" for key in ("gtod_reduce", f"disable_{kind}"))


def histograms(output: FioOutput) -> dict[str, Histogram]:
    """Return the merged histogram of each direction; {} where a job has none (plain JSON)."""
    kind = latency(output)
    found = {}
    for way in fio.DIRECTIONS:
        parts = [job.directions[way].latencies for job in output.jobs if way in job.directions]
        kept = [one[kind].histogram for one in parts if kind in one]
        merged = histogram.merge(one for one in kept if one is not None)
        if merged is not None and None not in kept and len(kept) == len(parts):
            found[way] = merged
    return found


def _latencies(output: FioOutput) -> dict[str, int | float | None]:
    """Return quantiles of the merged histograms; without them, fio's own of a single job.

    Percentiles of several jobs are unknown without histograms: they are never averaged. Those with
    too few samples above them are null.
    """
    kind, done = latency(output), _done(output)
    kept: Sequence[FioLatency] = [one.latencies[kind] for one in done]
    parts = [one.histogram for one in kept]
    whole = histogram.merge(part for part in parts if part is not None)
    quantiles: Mapping[str, float | None] = dict.fromkeys(_QUANTILES)
    if whole is not None and None not in parts:
        quantiles = {
            name: histogram.quantile(whole, share) for name, (_, share) in _QUANTILES.items()
        }
    elif len(kept) == 1:
        commands = done[0].commands  # old releases do not count samples
        quantiles = {
            name: kept[0].percentiles.get(at) if histogram.enough(commands, share) else None
            for name, (at, share) in _QUANTILES.items()
        }
    return {**quantiles, "latency_max": max(one.maximum for one in kept)}


def _done(output: FioOutput) -> list[FioDirection]:
    return [way for job in output.jobs for way in job.directions.values()]
