"""A run's time series, reduced to the points that the report draws."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from itertools import pairwise, repeat
from pathlib import Path

from analysis.read.load import RunRecord, corrupt
from harness.errors import RunFailed
from harness.store import packed

# More points make the page larger but no more precise.
_MOST_POINTS = 300
_OPERATIONS, _LATENCY = "operations", "latency_"  # column of a program's series; prefix of columns


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """One line: seconds since the run began, and values of equal length."""

    name: str
    t: tuple[float, ...]
    values: tuple[float, ...]


def read_bytes_written(run: RunRecord) -> tuple[PlotSeries, ...]:
    """Return bytes written since the run began, to the zoned and to the conventional devices."""
    times, written = read_written(run.path)
    zoned = run.result.device.name
    found = []
    for name in ("zoned", "conventional"):
        own = [one for device, one in written.items() if (device == zoned) == (name == "zoned")]
        totals = [sum(values) for values in zip(*own, strict=True)]
        if totals and totals[-1] > totals[0]:
            t = _on_model_clock(run, times)
            found.append(_thinned(name, t, [v - totals[0] for v in totals]))
    return tuple(found)


def read_written(folder: Path) -> tuple[list[float], dict[str, list[float]]]:
    """Return a run's samples of bytes written as (times, device → cumulative bytes)."""
    return read_devices(folder / "series" / "diskstats.csv", ".write_bytes")


def read_devices(path: Path, suffix: str) -> tuple[list[float], dict[str, list[float]]]:
    """Return (times, device → values), from columns named after the device and ``suffix``."""
    header, columns = read_columns(path)
    return next(iter(columns), []), {
        name.removesuffix(suffix): values
        for name, values in zip(header[1:], columns[1:], strict=True)
        if name.endswith(suffix)
    }


def read_throughput(run: RunRecord) -> tuple[PlotSeries, ...]:
    """Return operations per second over time, one series per phase.

    A rate is over the time since the last row. In a stall, db_bench can print no row on levels with
    their own file system. The first row has no interval and is left out.
    """
    found = []
    for phase in run.result.phases:
        path = run.path / "series" / f"{phase.name}.csv"
        header, columns = read_columns(path)
        if _OPERATIONS in header and len(columns[0]) > 1:
            t, done = _on_model_clock(run, columns[0]), columns[header.index(_OPERATIONS)]
            steps = [b - a for a, b in pairwise(t)]
            rates = [n / dt if dt > 0 else 0.0 for n, dt in zip(done[1:], steps, strict=True)]
            found.append(_thinned(phase.name, t[1:], rates))
    return tuple(found)


def _on_model_clock(run: RunRecord, times: list[float]) -> list[float]:
    """Return ``run.seconds`` of each time, but look up the device only once."""
    second = run.seconds(1.0)
    return times if second == 1.0 else [t * second for t in times]


def read_columns(path: Path) -> tuple[list[str], list[list[float]]]:
    """Read a numeric CSV as (header, columns); both are empty without the file.

    Incomplete lines are left out: lines with an empty cell, and a last line without a newline,
    whose number can be cut. But an interval without operations is complete: its latencies are empty
    in the file, and NaN here.

    Raises:
        RunFailed: a cell is not a number.
    """
    text = packed.text(path)
    if not text:
        return [], []
    try:
        return _read_regular(text) or _read_irregular(text)
    except ValueError:
        raise _not_numeric(path) from None


def read_gauges(path: Path) -> tuple[list[str], list[list[float | None]]]:
    """Read the series of gauges as (header, rows); both are empty without the file.

    A gauge that could not be read is null. Incomplete lines are left out.

    Raises:
        RunFailed: a cell is not a number.
    """
    header, lines = _whole_lines(packed.text(path))
    try:
        return header, [[float(cell) if cell else None for cell in line] for line in lines]
    except ValueError:
        raise _not_numeric(path) from None


def _not_numeric(path: Path) -> RunFailed:
    return corrupt(f"{path.parent.parent.name}/series/{path.name} is not numeric")


def _read_regular(text: str) -> tuple[list[str], list[list[float]]] | None:
    """Read a file with only complete lines, in a fifth of the time; None for other files.

    Raises:
        ValueError: a cell is not a number.
    """
    if '"' in text or "\r" in text or ",," in text or not text.endswith("\n"):
        return None
    head, *lines = text[:-1].split("\n")
    commas = head.count(",")
    if set(map(str.count, lines, repeat(","))) != {commas}:  # also without lines
        return None
    cells = ",".join(lines).split(",")
    if "" in cells:
        return None
    values = list(map(float, cells))
    return head.split(","), [values[i :: commas + 1] for i in range(commas + 1)]


def _read_irregular(text: str) -> tuple[list[str], list[list[float]]]:
    header, lines = _whole_lines(text)
    latencies = [i for i, name in enumerate(header) if name.startswith(_LATENCY)]
    done = header.index(_OPERATIONS) if latencies and _OPERATIONS in header else None
    rows = []
    for line in lines:
        if done is not None and line[done] == "0":
            for i in latencies:
                line[i] = line[i] or "nan"
        if all(line):
            rows.append([float(cell) for cell in line])
    return header, [[row[i] for row in rows] for i in range(len(header))]


def _whole_lines(text: str) -> tuple[list[str], list[list[str]]]:
    """Return the header, and the lines that have a cell for each column and end in a newline."""
    complete = text[: text.rfind("\n") + 1]
    header, *lines = list(csv.reader(io.StringIO(complete, newline="\n"))) or [[]]
    return header, [line for line in lines if len(line) == len(header)]


def _thinned(name: str, t: list[float], values: list[float]) -> PlotSeries:
    step = -(-len(t) // _MOST_POINTS)
    return PlotSeries(name, tuple(t[::step]), tuple(values[::step]))
