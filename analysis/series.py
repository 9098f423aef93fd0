"""A run's time series, reduced to what the report draws."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from analysis.load import RunRecord
from harness.errors import RunFailed
from harness.store import packed

# More points than this add bytes to the page and nothing to see.
_MOST_POINTS = 300


@dataclass(frozen=True, slots=True)
class Series:
    """One line: seconds since the run began, and values of equal length."""

    name: str
    t: tuple[float, ...]
    values: tuple[float, ...]


def read_bytes_written(run: RunRecord) -> tuple[Series, ...]:
    """Return bytes written since the run began, to the zoned and to the conventional devices."""
    header, rows = read_columns(run.path / "series" / "diskstats.csv")
    zoned = Path(run.result.device.path).name
    found = []
    for name in ("zoned", "conventional"):
        columns = [
            i
            for i, column in enumerate(header)
            if column.endswith(".write_bytes")
            and (column.split(".")[0] == zoned) == (name == "zoned")
        ]
        totals = [sum(row[i] for i in columns) for row in rows]
        if columns and totals and totals[-1] > totals[0]:
            first = totals[0]
            found.append(_thinned(name, [row[0] for row in rows], [v - first for v in totals]))
    return tuple(found)


def read_throughput(run: RunRecord) -> tuple[Series, ...]:
    """Return operations per second over time (db_bench reports each second), one per phase."""
    found = []
    for phase in run.result.phases:
        path = run.path / "series" / f"{phase.name}.csv"
        header, rows = read_columns(path)
        if rows and "operations" in header:
            column = header.index("operations")
            t, values = [row[0] for row in rows], [row[column] for row in rows]
            found.append(_thinned(phase.name, t, values))
    return tuple(found)


def read_columns(path: Path) -> tuple[list[str], list[list[float]]]:
    """Read a numeric CSV; nothing where there is no such file.

    Lines that are not whole are left out: the last of a killed run, and samples of something that
    was not there (an empty cell).

    Raises:
        RunFailed: a cell is not a number.
    """
    file = packed.opened(path)
    if file is None:
        return [], []
    with file:
        header, *lines = list(csv.reader(file)) or [[]]
    try:
        return header, [
            [float(cell) for cell in line]
            for line in lines
            if len(line) == len(header) and all(line)
        ]
    except ValueError:
        raise RunFailed(
            f"corrupt run directory: {path.parent.parent.name}/series/{path.name} is not numeric",
            hint="check the campaign with: zonelab verify",
            code="corrupt-run",
        ) from None


def _thinned(name: str, t: list[float], values: list[float]) -> Series:
    step = -(-len(t) // _MOST_POINTS)
    return Series(name, tuple(t[::step]), tuple(values[::step]))
