"""What held a phase back, by its own numbers (docs/methods.md, "Bottleneck").

A label is a reading of the evidence, which is shown with it; it changes no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from analysis.load import CampaignData, RunRecord
from harness.store.spec import PhaseSpec


class Label(StrEnum):
    """In the order in which they are chosen: what is named first explains those behind it."""

    TABLE_OPEN = "table-open-bound"  # reads that open files are not reads of the level
    GC = "gc-bound"  # the device is busy with the level's own copies
    STALL = "stall-bound"  # writers wait for flushes or compactions
    CACHE = "cache-bound"  # the device was hardly asked
    DEVICE = "device-bound"
    CPU = "cpu-bound"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Sign:
    """A share that was measured, and from where on it makes a label."""

    label: Label
    what: str
    share: float
    limit: float

    @property
    def holds(self) -> bool:
        """Whether it makes the label."""
        return self.share >= self.limit


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The label of a phase and every sign there is; those that hold first."""

    label: Label
    signs: tuple[Sign, ...]

    @property
    def evidence(self) -> str:
        """All signs in one phrase."""
        return "; ".join(
            f"{sign.what} {sign.share:.0%} ({'' if sign.holds else 'below '}{sign.limit:.0%})"
            for sign in self.signs
        )


@dataclass(frozen=True, slots=True)
class Load:
    """A phase: its metrics by name (null or absent: not measured), threads and CPUs."""

    values: Mapping[str, float | None]
    reads_only: bool
    threads: int
    cpus: int | None

    def get(self, name: str) -> float | None:
        """Return a metric."""
        return self.values.get(name)

    def share(self, above: str, below: str, times: float = 1.0) -> float | None:
        """Return above / (below x times)."""
        part, whole = self.get(above), self.get(below)
        return part / (whole * times) if part is not None and whole and times else None


def _gc(load: Load) -> float | None:
    return load.share("gc_bytes", "device_written")


def _cache(load: Load) -> float | None:
    return load.get("cache_served_share") if load.reads_only else None


def _block_cache(load: Load) -> float | None:
    return load.get("cache_hit_share") if load.reads_only else None


def _cpus(load: Load) -> float | None:
    return load.share("cpu_seconds", "seconds", load.cpus or 0)


def _threads(load: Load) -> float | None:
    """Return CPU time over that of db_bench's own threads: one that computes all the time."""
    return load.share("cpu_seconds", "seconds", load.threads) if load.reads_only else None


# Half of the time, or of the reads, decides. A database whose tables stay open spends nothing on
# opening them: a quarter of the time is no database of the level any more (a published study had
# 79 %). GC: a fifth of the writes takes more of the device, as copies are read too. CPUs and
# devices are never quite full.
_SIGNS: tuple[tuple[Label, str, Callable[[Load], float | None], float], ...] = (
    (Label.TABLE_OPEN, "opening tables, of thread time", lambda x: x.get("table_open_share"), 0.25),
    (Label.GC, "moved by GC, of written bytes", _gc, 0.2),
    (Label.STALL, "writers stalled, of the time", lambda x: x.get("stall_share"), 0.5),
    (Label.CACHE, "reads served by the page cache", _cache, 0.5),
    (Label.CACHE, "lookups served by the block cache", _block_cache, 0.9),
    (Label.DEVICE, "device busy, of the time", lambda x: x.get("device_busy_share"), 0.9),
    (Label.CPU, "CPU time, of all CPUs", _cpus, 0.9),
    (Label.CPU, "CPU time, of db_bench's threads", _threads, 0.9),
)


def judge(load: Load) -> Bottleneck:
    """Label a phase; ``unclear`` when no sign holds."""
    found = []
    for label, what, measure, limit in _SIGNS:
        share = measure(load)
        if share is not None:
            found.append(Sign(label, what, share, limit))
    held = [sign for sign in found if sign.holds]
    others = [sign for sign in found if not sign.holds]
    return Bottleneck(held[0].label if held else Label.UNCLEAR, (*held, *others))


def of_run(run: RunRecord) -> list[tuple[PhaseSpec, Bottleneck]]:
    """Return the label of every measured phase that a run has begun."""
    return [(spec, judge(_load(run, spec))) for spec in run.measured]


def rows(campaign: CampaignData) -> list[tuple[str, ...]]:
    """Return (run, phase, label, evidence) of the ok runs."""
    return [
        (run.name, spec.name, found.label.value, found.evidence)
        for run in campaign.latest if run.ok
        for spec, found in of_run(run)
    ]  # fmt: skip


def _load(run: RunRecord, spec: PhaseSpec) -> Load:
    host: Any = run.result.manifest.get("host")
    cpus = host.get("cpus") if isinstance(host, Mapping) else None
    prefix = f"{spec.name}."
    return Load(
        values={
            key.removeprefix(prefix): run.value(key)
            for key in run.result.metrics
            if key.startswith(prefix)
        },
        reads_only=spec.user_bytes_per_operation == 0,
        threads=int(spec.flags.get("threads", 1)),
        cpus=cpus if isinstance(cpus, int) else None,
    )
