"""Recomputes the series and histograms of a phase from raw files, for ``zonelab verify``.

Times in series count from the start of the run, which no raw file contains. So a series must agree
with its raw file except for a constant shift of its times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from harness.errors import ToolFailed
from harness.rules.facts import PhaseFacts
from harness.run import phase_files
from harness.store import packed
from harness.store.files import dumps
from harness.verify.separate import check
from harness.workloads import program_of
from harness.workloads.load_program import Rows

# Series have milliseconds, so both times of a difference have a rounding error.
_ROUNDING = 0.0021


def differences(folder: Path, facts: PhaseFacts) -> Iterator[str]:
    """Return one line per file that differs from the raw files."""
    name = facts.spec.name
    histograms = facts.parsed.stored if facts.parsed else {}
    for operation, histogram in histograms.items():
        path = f"histograms/{name}.{operation}.json"
        if packed.text(folder / path) != dumps(histogram):
            yield f"{path}: differs from raw/{name}.stdout"
    tree = phase_files.tree_rows(facts.lsm.points) if facts.lsm else None
    for path, wanted in (
        (f"series/{name}.csv", operations(folder / "raw", facts)),
        (f"series/{name}.lsm.csv", tree),
    ):
        yield from check(series(folder, path, wanted), path)


def added_histograms(folder: Path, phases: Iterable[PhaseFacts]) -> Iterator[str]:
    """Return one line per histogram that no phase of the run has; reports would merge it."""
    given = {
        f"{facts.spec.name}.{operation}.json"
        for facts in phases
        for operation in (facts.parsed.stored if facts.parsed else ())
    }
    for path in sorted((folder / "histograms").glob("*")):
        if path.name not in given:
            yield f"histograms/{path.name}: raw/ gives no such histogram"


def operations(raw: Path, facts: PhaseFacts) -> Rows | None:
    """Return operations per second of the benchmark; null if its program reported none."""
    try:
        return program_of(facts.spec).kept_rows(raw, facts.spec.name)
    except ToolFailed:
        return None


def series(
    folder: Path,
    path: str,
    wanted: Rows | None,
    *,
    key: Callable[[tuple[object, str]], str] | None = None,
) -> Iterator[str]:
    """Return a line if a series differs from these rows in more than a shift of its times.

    ``key`` sorts the stored rows before the comparison; null: they keep their order.
    """
    stored = packed.text(folder / path)
    if wanted is None:
        if stored:
            yield f"{path}: raw/ gives no such series"
        return
    found = [line.partition(",")[::2] for line in stored.splitlines()[1:]]
    if key is not None:
        found.sort(key=key)
    if [rest for _, rest in found] != [rest for _, rest in wanted]:
        yield f"{path}: has other values than raw/ gives"
    elif not _shifted([t for t, _ in found], [t for t, _ in wanted]):
        yield f"{path}: has other times than raw/ gives"


def _shifted(stored: Sequence[str], wanted: Sequence[float]) -> bool:
    try:
        shifts = [float(t) - second for t, second in zip(stored, wanted, strict=True)]
    except ValueError:
        return False
    return not shifts or max(shifts) - min(shifts) <= _ROUNDING
