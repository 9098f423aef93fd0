"""Counts how the runs of each cell ended; finds levels and values without an ok run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.judge.select import label
from analysis.read.grouping import grouped
from analysis.read.load import Pool, RunRecord
from harness.store.result import Status

NO_OK_RUN = "no ok run"
INFEASIBLE = "infeasible"


@dataclass(frozen=True, slots=True)
class CellStatus:
    """How the latest attempts of a cell ended. ``missing`` runs were planned, but did not run."""

    cell: str
    level: str
    counts: dict[str, int]
    missing: int
    earlier_attempts: int
    issues: dict[str, int]


def cell_statuses(pool: Pool, runs: Sequence[RunRecord], *, chosen: bool) -> Iterator[CellStatus]:
    """Return how each cell's runs ended. If runs were chosen, cells without runs are left out."""
    for campaign in pool.campaigns:
        prefix = f"{campaign.label}/" if campaign.label else ""
        latest = [run for run in runs if run.campaign == campaign.label]
        members = grouped(latest, lambda run: run.result.cell)
        attempts = Counter(run.result.cell for run in campaign.runs)
        missing = Counter(planned.spec.cell for planned in campaign.missing)
        planned = [spec for host in campaign.plan.hosts for spec in host.runs]
        levels = {spec.cell: spec.row for spec in (() if chosen else planned)} | {
            run.result.cell: run.spec.row for run in latest
        }
        places = {level: campaign.level_order(level) for level in set(levels.values())}
        for cell, level in sorted(levels.items(), key=lambda item: (places[item[1]], item[0])):
            ended = members.get(cell, [])
            issues = Counter(issue.code for run in ended for issue in run.result.issues)
            yield CellStatus(
                cell=prefix + cell,
                level=level,
                counts=dict(Counter(run.result.status.value for run in ended)),
                missing=missing[cell],
                earlier_attempts=0 if chosen else attempts[cell] - len(ended),
                issues=dict(sorted(issues.items())),
            )


def skipped_values(
    pool: Pool, contrast: str, values: Sequence[str], runs: Sequence[RunRecord], *, chosen: bool
) -> dict[str, str]:
    """Return levels that could not run and values without an ok run, with the reason.

    If runs were chosen, other levels are left out.
    """
    skipped = {
        f"{level} ({campaign.label})" if campaign.label else level: reason.message
        for campaign in pool.campaigns
        for level, reason in campaign.skipped().items()
        if (level in values if contrast == "level" else not chosen)
    }
    for value in values:
        ended = [r.result.status for r in runs if label(r, contrast) == value]
        if value not in skipped and Status.OK not in ended:
            skipped[value] = _how(ended, "none finished yet")
    return skipped


def absent_strata(
    contrast: str, baseline: str, values: Sequence[str], groups: Mapping[str, list[RunRecord]]
) -> dict[str, str]:
    """Return the values without an ok run in a stratum, with the reason.

    A stratum in which both sides were skipped has nothing to compare.
    """
    found = {}
    for stratum, members in groups.items():
        by_value = grouped(members, lambda run: label(run, contrast))
        ended = {value: [run.result.status for run in own] for value, own in by_value.items()}
        began = {value for value, own in by_value.items() if began_any(own)}
        for value in values:
            sides = began if value == baseline else began & {value, baseline}
            own = ended.get(value, [])
            if sides and Status.OK not in own:
                name = f"{value} ({stratum})" if stratum else value
                is_planned = own and all(run.spec.infeasible for run in by_value[value])
                found[name] = INFEASIBLE if is_planned else _how(own, "none there")
    return found


def began_any(runs: Sequence[RunRecord]) -> bool:
    """Whether a run was not skipped."""
    return any(run.result.status is not Status.SKIPPED for run in runs)


def _how(ended: Sequence[Status], none: str) -> str:
    counts = sorted(Counter(status.value for status in ended).items())
    return f"{NO_OK_RUN} ({', '.join(f'{count} {status}' for status, count in counts) or none})"
