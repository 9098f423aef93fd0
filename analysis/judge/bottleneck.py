"""Labels what held a phase back, from its own metrics (docs/methods.md, "Bottleneck").

A label is an interpretation; the evidence is shown with it. No verdict depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from analysis.read.load import CampaignData, RunRecord
from harness.store.spec import PhaseSpec
from harness.tables import Table, tabulate

UNCLEAR = "unclear"
_JOBS = 2  # RocksDB's default of max_background_jobs
_STALLED = 0.5  # from this share of the time on, writers mostly wait
_CAUSES = ("stalls_level0", "stalls_memtable", "stalls_pending")


@dataclass(frozen=True, slots=True)
class PhaseMetrics:
    """A phase: its metrics by name (None or absent: not measured), threads and CPUs.

    All metrics are on one clock, so that shares of the time are right. ``threads`` run operations,
    ``jobs`` flush and compact.
    """

    values: Mapping[str, float | None]
    reads_only: bool
    threads: int
    cpus: int | None
    jobs: int = _JOBS

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

    def while_stalled(self, name: str) -> float | None:
        """Return a metric of a phase whose writers waited; None for other phases."""
        return self.get(name) if self.stalled else None

    @property
    def stalled(self) -> bool:
        """Whether writers waited most of the time."""
        return (self.get("stall_share") or 0.0) >= _STALLED

    @property
    def workers(self) -> float:
        """Threads that had work: without stalled writers, at most one per CPU; 0 if unknown."""
        if self.cpus is None:
            return 0.0
        writing = self.threads * (1 - min(1.0, self.get("stall_share") or 0.0))
        threads = float(self.threads) if self.reads_only else self.jobs + writing
        return min(float(self.cpus), threads)

    def of_stalls(self, cause: str) -> float | None:
        """Return a cause's share of the stalls, if the phase's writers waited."""
        total = sum(self.get(name) or 0.0 for name in _CAUSES)
        return (self.get(cause) or 0.0) / total if self.stalled and total else None


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


# A phase gets the label of the first sign that holds. Resources come before stalls: a busy device
# or busy processors make writers wait. A stall without such a cause is labelled by what was full.
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
        "collecting garbage, of the time",
        lambda phase: phase.share("gc_seconds", "seconds"),
        0.5,
        "collection delays writers most of the time, by its copies or by its locks",
    ),
    Sign(
        "gc-bound",
        "moved by GC, of written bytes",
        lambda phase: phase.share("gc_bytes", "device_written"),
        0.2,
        "copies are read too, so they take more of the device than their share of the writes",
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
        "CPU time, of the threads that had work",
        lambda phase: phase.share("cpu_seconds", "seconds", phase.workers),
        0.9,
        "threads that compute all the time wait for nothing else",
    ),
    Sign(
        "cpu-bound",
        "CPU time of the compaction threads, while writers wait",
        lambda phase: phase.while_stalled("compaction_cpu_share"),
        0.9,
        "compactions compute and wait for no device, so more threads or processors would help",
    ),
    Sign(
        "cpu-bound",
        "CPU time of the flush threads, while writers wait",
        lambda phase: phase.while_stalled("flush_cpu_share"),
        0.9,
        "the same for flushes",
    ),
    Sign(
        "level0-bound",
        "stalls by a full level 0",
        lambda phase: phase.of_stalls("stalls_level0"),
        0.5,
        "compactions out of level 0 are one at a time",
    ),
    Sign(
        "flush-bound",
        "stalls by full memtables",
        lambda phase: phase.of_stalls("stalls_memtable"),
        0.5,
        "the flush threads do not keep up",
    ),
    Sign(
        "compaction-bound",
        "stalls by bytes that wait for compaction",
        lambda phase: phase.of_stalls("stalls_pending"),
        0.5,
        "the compaction threads do not keep up",
    ),
    Sign(
        "stall-bound",
        "writers stalled, of the time",
        lambda phase: phase.get("stall_share"),
        _STALLED,
        "writers wait most of the time, and no cause is known",
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
            key.removeprefix(prefix): run.recorded(key)  # CPU time is on no model's clock
            for key in run.result.metrics
            if key.startswith(prefix)
        },
        reads_only=spec.user_bytes_per_operation == 0,
        threads=int(spec.flags.get("threads", 1)),
        cpus=cpus if isinstance(cpus, int) else None,
        jobs=int(spec.flags.get("max_background_jobs", _JOBS)),
    )


_COLUMNS: dict[str, Callable[[_LabelledPhase], str]] = {
    "run": lambda row: row.run.name,
    "phase": lambda row: row.phase,
    "label": lambda row: row.bottleneck.label,
    "evidence": lambda row: row.bottleneck.evidence,
}
