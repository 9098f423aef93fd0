"""Checks that levels did the work by which they differ: garbage collection.

Before that, while the device still has empty zones, levels look alike.
"""

from __future__ import annotations

from analysis.judge.side import Side
from harness.store.result import Issue

_GC_NEVER_RAN, _GC_UNCOUNTED = "gc-never-ran", "gc-counter-missing"
# After writes of this many capacities, a level must have used zones again.
_REUSED = 1.0


def idle(key: str, base: Side, level: Side) -> list[str]:
    """Return why two sides did not do the work by which they differ; empty if they did.

    Two settings of one level can differ without any collection, but only after the device writes
    that their study declares.
    """
    found = _without_collection(key, base, level) if base.levels != level.levels else []
    for side in (base, level):
        wanted, least = side.once(_declared), side.once(_turnover)
        if wanted is not None and least is not None and least < wanted:
            found.append(
                f"{side.name}: wrote {least:.2f} times the capacity, the study declares {wanted:g}"
            )
    return found


def _without_collection(key: str, base: Side, level: Side) -> list[str]:
    phase = key.rpartition(".")[0]
    found = [
        f"{side.name}: garbage collection never ran in {count} runs"
        for side in (base, level)
        if (count := side.once(_with_issue, phase, _GC_NEVER_RAN))
    ]
    for side in (base, level):
        if not side.once(_with_issue, phase, _GC_UNCOUNTED):
            continue
        least = side.once(_turnover)
        if least is None or least < _REUSED:
            found.append(
                f"{side.name}: nothing counts its garbage collection, and it wrote less than the "
                "capacity"
            )
    return found


def uncounted(key: str, base: Side, level: Side) -> list[str]:
    """Return a note per side whose garbage collection nothing counts."""
    phase = key.rpartition(".")[0]
    return [
        f"{side.name}: nothing counts its garbage collection"
        for side in (base, level)
        if side.once(_with_issue, phase, _GC_UNCOUNTED)
    ]


def _with_issue(side: Side, phase: str, code: str) -> int:
    """Count the runs with an issue in the phase, or in any phase for a metric of the whole run."""

    def matters(issue: Issue) -> bool:
        return issue.code == code and (phase == "run" or issue.phase in (None, phase))

    return sum(any(matters(issue) for issue in run.result.issues) for run in side.ok)


def _turnover(side: Side) -> float | None:
    """Return the smallest multiple of the capacity that a run wrote after the cold fill."""
    written = [
        value / run.result.device.capacity
        for run in side.ok
        if (value := run.value("run.device_written")) is not None
    ]
    return min(written) if written else None


def _declared(side: Side) -> float | None:
    """Return the turnover that the studies of a side declare; None where none does."""
    campaigns = {run.campaign: side.pool.campaign_of(run) for run in side.ok}
    studies = [(one.plan.definition or {}).get("study", {}) for one in campaigns.values()]
    found = [float(study["turnover"]) for study in studies if "turnover" in study]
    return max(found) if found else None
