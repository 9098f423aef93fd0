"""A phase of zoneprobe: no database, but commands to zones, timed by what zones went through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError
from harness.levels.base import LevelUp
from harness.metrics import CATALOGUE
from harness.store.result import Metric
from harness.store.spec import PhaseSpec, Scalar
from harness.tools import native, zoneprobe
from harness.tools.histogram import SAMPLES_ABOVE
from harness.tools.zoneprobe import Treatment, operations_in
from harness.workloads import base
from harness.workloads.base import Parsed, Rows, text

__all__ = [
    "RESERVED", "Report", "argv", "kept_rows", "operations_in", "parse", "path", "report",
]  # fmt: skip

# Set by the runner for every phase.
RESERVED = frozenset({"device", "seed", "report_file", "ledger_file"})

_NS_PER_US = 1000
_P99 = 0.99


@dataclass(frozen=True, slots=True)
class Report:
    """A line for each command, in a file on the machine's own disk."""

    csv: Path

    @property
    def path(self) -> Path:
        """The file that grows line by line."""
        return self.csv

    @property
    def flags(self) -> dict[str, Scalar]:
        """What zoneprobe has to be told."""
        return {"report_file": str(self.csv)}

    @property
    def columns(self) -> str:
        """The header of the series, behind its time."""
        return zoneprobe.SERIES

    def rows(self, csv: str) -> Rows:
        """Return a row for each cycle; ToolFailed where it is no report."""
        return zoneprobe.cycles(csv)


def path(db_bench: Path) -> Path:  # noqa: ARG001 - a program of its own
    """Return zoneprobe; HostError: it is not installed."""
    return native.program(zoneprobe.PROGRAM)


def report(up: LevelUp, csv: Path, stderr: Path) -> Report:  # noqa: ARG001 - the same everywhere
    """Return where zoneprobe will report."""
    return Report(csv)


def kept_rows(raw: Path, name: str) -> Rows:
    """Return the rows of the report that a phase left; ToolFailed: it is damaged or missing."""
    return Report(raw).rows(text(raw / f"{name}.report.csv"))


def argv(
    spec: PhaseSpec,
    up: LevelUp,
    seed: int,
    *,
    first: bool,  # noqa: ARG001 - no database to make
    program: Path,
    report: base.Report,
    key_seed: int = 0,  # noqa: ARG001 - no keys
) -> list[str]:
    """Return the argument list.

    Raises:
        ConfigError: the workload sets a flag that belongs to the runner, or the level has files.
    """
    taken = sorted(RESERVED & set(spec.flags))
    if taken:
        raise ConfigError(
            f"phase {spec.name} sets --{taken[0]}, which zonelab sets itself",
            hint="remove it from the workload",
            code="reserved-flag",
        )
    if up.db is not None or up.fs_uri is not None:
        raise ConfigError(
            f"phase {spec.name} needs bare zones",
            hint="levels: [raw-device]",
            code="level-and-workload",
        )
    own: dict[str, Scalar] = {
        "device": up.devices[0].path,
        "seed": seed,
        "ledger_file": str(up.records[0]),
        **report.flags,
    }
    return [
        str(program),
        "run",
        *(f"--{name}={value}" for name, value in (own | {**spec.flags}).items()),
    ]


def parse(phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:  # noqa: ARG001 - as of db_bench
    """Read a phase's output. An unfinished phase has no summary and raises nothing.

    Raises:
        ToolFailed: it is damaged.
    """
    summary = zoneprobe.parse(stdout)
    if summary is None:
        return Parsed(None, 0, {}, (), skipped=False, assertions=False)
    return Parsed(
        summary=summary,
        summaries=1,
        histograms={},
        warnings=(),
        skipped=False,
        assertions=False,
        user_bytes=summary.bytes_written,
        more={
            f"{treatment.name}.{name}": Metric(value, CATALOGUE[name].unit)
            for treatment in summary.treatments
            for name, value in _metrics(treatment).items()
        },
    )


def _metrics(one: Treatment) -> dict[str, float | None]:
    """Return the metrics of a treatment by catalogue name, in microseconds."""
    first = [cycle[0] for cycle in one.writes]
    # Behind the first half of what is written after a reset, whatever a transient was is over.
    later = [latency for cycle in one.writes for latency in cycle[(len(cycle) + 1) // 2 :]]
    found = _of("first_write_latency", first) | {"later_write_latency_p50": quantile(later, 0.5)}
    if one.resets:
        found |= _of("reset_latency", one.resets)
    if one.finish:
        found |= _of("finish_latency", one.finishes)
    return found


def _of(name: str, samples: Sequence[int]) -> dict[str, float | None]:
    micros = [sample / _NS_PER_US for sample in samples]
    return {
        f"{name}_mean": sum(micros) / len(micros) if micros else None,
        f"{name}_p50": quantile(samples, 0.5),
        f"{name}_p99": quantile(samples, _P99, least_above=SAMPLES_ABOVE),
        f"{name}_max": max(micros, default=None),
    }


def quantile(samples: Sequence[int], share: float, *, least_above: int = 0) -> float | None:
    """Return a quantile of samples in nanoseconds, in microseconds; each sample is known.

    Linear between the two nearest samples (Hyndman and Fan's type 7). None without samples, or
    when fewer than ``least_above`` lie above it.
    """
    if not samples or len(samples) * (1 - share) < least_above:
        return None
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return (ordered[low] + (ordered[high] - ordered[low]) * (place - low)) / _NS_PER_US
