"""Compares the report of kvmix with its summary: both count every operation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.errors import ZonelabError
from harness.store import packed
from harness.tools import kvmix
from harness.workloads.load_program import EndedPhase

_KINDS = ("operations", *kvmix.KINDS)
_ROUNDING = 0.0006  # kvmix prints three decimals of a second
# kvmix writes its last interval after its threads have ended, at most one interval later.
_INTERVAL = 1.0


def of_report(raw: Path, phase: EndedPhase) -> Iterator[str]:
    """Check that the report has every operation: its last interval ends with the mix."""
    summary = phase.parsed.summary if phase.parsed else None
    if phase.parsed is None or summary is None:
        return
    name = phase.spec.name
    text = packed.text(raw / f"{name}.report.csv")
    try:
        rows, columns = kvmix.intervals(text), kvmix.columns(text.partition("\n")[0])
    except ZonelabError as error:
        yield f"raw/{name}.report.csv: {error.message}"
        return
    counts = [[int(cell) for cell in rest.split(",")[: len(_KINDS)]] for _, rest in rows]
    totals = dict(zip(columns.split(","), map(sum, zip(*counts, strict=True)), strict=False))
    wanted = {kind: times["count"] for kind, times in phase.parsed.histograms.items()}
    wanted["operations"] = summary.operations
    for kind in _KINDS:
        if totals.get(kind, 0) != wanted.get(kind, 0):
            yield (
                f"raw/{name}.report.csv: has {totals.get(kind, 0)} of {kind}, "
                f"raw/{name}.stdout has {wanted.get(kind, 0)}"
            )
    last = rows[-1][0] if rows else 0.0
    if not -_ROUNDING <= last - summary.seconds <= _INTERVAL:
        yield f"raw/{name}.report.csv: ends at {last} s, raw/{name}.stdout has {summary.seconds} s"
