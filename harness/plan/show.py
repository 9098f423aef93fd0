"""A plan as text: runs in order, totals, skipped levels and derived numbers."""

from __future__ import annotations

from collections.abc import Sequence

from harness import tables
from harness.plan.cells import Cell
from harness.quantities import format_size
from harness.store.spec import Inspection, Plan, RunSpec, Scalar
from harness.workloads.planning import DerivedNumbers


def minutes(seconds: float) -> str:
    """Return a duration as ``75 s`` or ``12 min``."""
    return f"{seconds:.0f} s" if seconds < 180 else f"{seconds / 60:.0f} min"  # noqa: PLR2004


def grid(header: Sequence[str], rows: Sequence[Sequence[str]], *, markdown: bool) -> str:
    """Return rows as an aligned text table or a Markdown one."""
    if markdown:
        return tables.markdown(header, rows) + "\n"
    return "\n".join(tables.aligned(header, rows)) + "\n"


def render(
    plan: Plan, cells: Sequence[tuple[str, Sequence[Cell]]], *, markdown: bool = False
) -> str:
    """Return the plan as text; ``cells`` are the cells of each host, for the derived numbers."""
    parts = [f"{plan.question}\n"]
    parts.append(_runs(plan, markdown=markdown))
    parts.append(_totals(plan))
    for host in plan.hosts:
        skipped = _skipped(host.inspection, host.runs)
        if skipped:
            parts.append(f"skipped on {host.host}:\n{skipped}")
        if _lacks_baseline(plan, host.inspection, host.runs):
            parts.append(
                f"the baseline {plan.baseline} cannot run on {host.host}: rows against it get no"
                " verdict there; name other levels with --levels (playbook: -e levels=A,B)\n"
            )
    for host_name, host_cells in cells:
        parts.extend(_derived(host_name, host_cells, markdown=markdown))
    return "\n".join(parts)


def records(plan: Plan) -> list[dict[str, Scalar]]:
    """Return one plain record per run, in the order of execution; bytes and seconds."""
    return [
        {
            "host": host.host,
            "run": run.run,
            "level": run.level,
            "scheduler": run.scheduler,
            "seed": run.seed,
            "bytes_written": run.predicted.bytes_written,
            "seconds": run.predicted.seconds,
        }
        for host in plan.hosts
        for run in host.runs
    ]


def _runs(plan: Plan, *, markdown: bool) -> str:
    rows: list[Sequence[str]] = []
    for host in plan.hosts:
        missing = _missing(host.inspection)
        for run in host.runs:
            unable = not missing.isdisjoint(run.levels)
            skip = "skipped" if unable else "infeasible" if run.infeasible else ""
            rows.append(
                (
                    str(len(rows) + 1),
                    host.host,
                    run.run,
                    run.scheduler,
                    str(run.seed),
                    skip or format_size(run.predicted.bytes_written),
                    "-" if skip else minutes(run.predicted.seconds),
                )
            )
    header = ("#", "host", "run", "scheduler", "seed", "writes", "time")
    return grid(header, rows, markdown=markdown)


def _totals(plan: Plan) -> str:
    per_host = [[run.predicted for run in host.runs] for host in plan.hosts]
    written = sum(p.bytes_written for host in per_host for p in host)
    longest = max(sum(p.seconds for p in host) for host in per_host)
    runs = sum(len(host) for host in per_host)
    return f"{runs} runs, {format_size(written)} written, about {minutes(longest)} (predicted)\n"


def _missing(inspection: Inspection) -> set[str]:
    """Return the levels that the host cannot run."""
    return {probe.level for probe in inspection.levels if not probe.available}


def _lacks_baseline(plan: Plan, inspection: Inspection, runs: Sequence[RunSpec]) -> bool:
    """Return whether all runs of the baseline level on a host are skipped or infeasible."""
    missing = _missing(inspection)
    own = [run for run in runs if plan.contrast == "level" and run.row == plan.baseline]
    able = (run.infeasible is None and missing.isdisjoint(run.levels) for run in own)
    return bool(own) and not any(able)


def _skipped(inspection: Inspection, runs: Sequence[RunSpec]) -> str:
    planned = {level for run in runs for level in run.levels}
    lines = []
    for probe in inspection.levels:
        if not probe.available and probe.level in planned:
            why = probe.reason
            text = f"{why.message}{f' ({why.hint})' if why.hint else ''}" if why else "unknown"
            lines.append(f"  {probe.level}: {text}\n")
    return "".join(lines)


def _derived(host: str, cells: Sequence[Cell], *, markdown: bool) -> list[str]:
    """Return one table per distinct set of derived numbers."""
    groups: list[tuple[DerivedNumbers, list[str]]] = []
    for cell in cells:
        found = next((names for derived, names in groups if derived == cell.derived), None)
        if found is None:
            groups.append((cell.derived, [cell.name]))
        else:
            found.append(cell.name)
    return [_derived_table(host, d, names, markdown=markdown) for d, names in groups]


def _derived_table(
    host: str, derived: DerivedNumbers, names: Sequence[str], *, markdown: bool
) -> str:
    rows = []
    for name, (value, formula) in derived.items():
        text = format_size(value) if value >= 10 * 1024 and name != "keys" else ""
        rows.append((name, str(value), text, formula))
    title = f"derived on {host} for {', '.join(names)}:\n"
    return title + grid(("number", "value", "", "from"), rows, markdown=markdown)
