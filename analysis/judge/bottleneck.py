"""Labels what held a phase back, from its own metrics (docs/methods.md, "Bottleneck").

A label is a reading of the evidence, which is shown with it. No verdict depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from analysis.read.load import CampaignData, RunRecord
from harness.store.spec import PhaseSpec
from harness.tables import Table, tabulate

UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class PhaseMetrics:
    """A phase: its metrics by name (None or absent: not measured), threads and CPUs."""

    values: Mapping[str, float | None]
    reads_only: bool
    threads: int
    cpus: int | None

    def get(self, name: str) -> float | None:
        """Return a metric."""
        return self.values.get(name)

    def share(self, part: str, whole: str, times: float = 1.0) -> float | None:
        """Return part / (whole x times)."""
        above, below = self.get(part), self.get(whole)
        return above / (below * times) if above is not None and below and times else None

    def of_reads(self, name: str) -> float | None:
        """Return a metric of a phase that only reads; None for other phases."""
        return self.get(name) if self.reads_only else None


@dataclass(frozen=True, slots=True)
class Sign:
    """A condition for a label: a share that reaches ``limit``.

    ``what`` names the share in the evidence, ``why`` explains the limit.
    """

    label: str
    what: str
    share: Callable[[PhaseMetrics], float | None]
    limit: float
    why: str


# A phase gets the label of the first sign that holds: an earlier sign explains later ones.
SIGNS = (
    Sign(
        "table-open-bound",
        "opening tables, of thread time",
        lambda phase: phase.get("table_open_share"),
        0.25,
        "reads that open files do not measure the level; a published study had 79 %",
    ),
    Sign(
        "gc-bound",
        "moved by GC, of written bytes",
        lambda phase: phase.share("gc_bytes", "device_written"),
        0.2,
        "copies are read too, so they take more of the device than their share of the writes",
    ),
    Sign(
        "stall-bound",
        "writers stalled, of the time",
        lambda phase: phase.get("stall_share"),
        0.5,
        "writers wait for flushes or compactions half of the time",
    ),
    Sign(
        "cache-bound",
        "reads served by the page cache",
        lambda phase: phase.of_reads("cache_served_share"),
        0.5,
        "half of the reads do not reach the device",
    ),
    Sign(
        "cache-bound",
        "lookups served by the block cache",
        lambda phase: phase.of_reads("cache_hit_share"),
        0.9,
        "hardly any lookup leaves RocksDB",
    ),
    Sign(
        "device-bound",
        "device busy, of the time",
        lambda phase: phase.get("device_busy_share"),
        0.9,
        "a device is never quite full",
    ),
    Sign(
        "cpu-bound",
        "CPU time, of all CPUs",
        lambda phase: phase.share("cpu_seconds", "seconds", phase.cpus or 0),
        0.9,
        "CPUs are never quite full",
    ),
    Sign(
        "cpu-bound",
        "CPU time, of db_bench's threads",
        lambda phase: (
            phase.share("cpu_seconds", "seconds", phase.threads) if phase.reads_only else None
        ),
        0.9,
        "threads that only read and compute all the time wait for nothing else",
    ),
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sign whose share was measured."""

    sign: Sign
    share: float

    @property
    def holds(self) -> bool:
        """Whether the share reaches the limit."""
        return self.share >= self.sign.limit

    def __str__(self) -> str:
        """Return one phrase, such as ``device busy, of the time 97% (90%)``."""
        below = "" if self.holds else "below "
        return f"{self.sign.what} {self.share:.0%} ({below}{self.sign.limit:.0%})"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The label of a phase, and every measured sign. Signs that hold come first."""

    label: str
    signs: tuple[Evidence, ...]

    @property
    def evidence(self) -> str:
        """All signs in one phrase."""
        return "; ".join(map(str, self.signs))


class _LabelledPhase(NamedTuple):
    run: RunRecord
    phase: str
    bottleneck: Bottleneck


def judge(phase: PhaseMetrics) -> Bottleneck:
    """Label a phase; ``unclear`` if no sign holds."""
    measured = [Evidence(sign, share) for sign in SIGNS if (share := sign.share(phase)) is not None]
    measured.sort(key=lambda evidence: not evidence.holds)
    label = measured[0].sign.label if measured and measured[0].holds else UNCLEAR
    return Bottleneck(label, tuple(measured))


def label_phases(run: RunRecord) -> dict[str, Bottleneck]:
    """Return the label of every measured phase that a run began, by the phase's name."""
    return {spec.name: judge(_metrics(run, spec)) for spec in run.measured}


def table(campaign: CampaignData) -> Table:
    """Return one row per measured phase of the ok runs."""
    return tabulate(
        _COLUMNS,
        (
            _LabelledPhase(run, phase, bottleneck)
            for run in campaign.latest
            if run.ok
            for phase, bottleneck in label_phases(run).items()
        ),
    )


def _metrics(run: RunRecord, spec: PhaseSpec) -> PhaseMetrics:
    host: Any = run.result.manifest.get("host")
    cpus = host.get("cpus") if isinstance(host, Mapping) else None
    prefix = f"{spec.name}."
    return PhaseMetrics(
        values={
            key.removeprefix(prefix): run.value(key)
            for key in run.result.metrics
            if key.startswith(prefix)
        },
        reads_only=spec.user_bytes_per_operation == 0,
        threads=int(spec.flags.get("threads", 1)),
        cpus=cpus if isinstance(cpus, int) else None,
    )


_COLUMNS: dict[str, Callable[[_LabelledPhase], str]] = {
    "run": lambda row: row.run.name,
    "phase": lambda row: row.phase,
    "label": lambda row: row.bottleneck.label,
    "evidence": lambda row: row.bottleneck.evidence,
}
