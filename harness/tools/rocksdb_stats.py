"""What RocksDB tells of itself on db_bench's stdout (7.8 and 9.10).

``--statistics`` prints tickers and histograms of the process behind the last benchmark; the
pseudo-benchmark ``stats`` prints the property ``rocksdb.stats``, whose first table is the tree with
what flushes and compactions did to each level. Both come before the database is closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import ToolFailed

# "STATISTICS:", then "rocksdb.wal.bytes COUNT : 8640000" and "rocksdb.db.get.micros P50 : 0.000000
# P95 : 0.000000 P99 : 0.000000 P100 : 0.000000 COUNT : 0 SUM : 0".
_STATISTICS = "STATISTICS:"
_TICKER = re.compile(r"^(?P<name>rocksdb\.[\w.-]+) COUNT : (?P<count>\d{1,20})$")
_TIMES = re.compile(
    r"^(?P<name>rocksdb\.[\w.-]+) P50 : [\d.]+ P95 : [\d.]+ P99 : [\d.]+ P100 : [\d.]+"
    r" COUNT : (?P<count>\d{1,20}) SUM : (?P<sum>\d{1,20})$"
)

_TABLE = "** Compaction Stats [default] **"
_BY_LEVEL = "Level    Files   Size "
_COLUMNS = ("Score", "Read(GB)", "Write(GB)", "Moved(GB)", "W-Amp", "Comp(sec)", "Comp(cnt)")
_ROW = re.compile(
    r"^ *(?P<level>L\d+|Sum) +(?P<files>\d{1,9})/\d+ +(?P<size>\d{1,9}\.\d\d)"
    r" (?P<unit>[KMGT]B) +(?P<rest>.+)$"
)
_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts by ticker; (number of samples, sum of samples) by histogram."""

    tickers: Mapping[str, int]
    histograms: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class LevelRow:
    """A level of the tree, or ``Sum``. RocksDB rounds: ``size`` in bytes to 1/100 of its unit.

    ``read_gb``, ``write_gb`` and ``moved_gb`` (2³⁰ bytes, to a tenth), ``seconds`` and ``jobs`` are
    of flushes and compactions into this level since the database was opened.
    """

    level: str
    files: int
    size: int
    score: float
    read_gb: float
    write_gb: float
    moved_gb: float
    write_amplification: float
    seconds: float
    jobs: int


def statistics(lines: Sequence[str]) -> Statistics | None:
    """Return what stands below the headline; None without one.

    Lines of other shapes are no fault: their absence shows when one of them is looked up.
    """
    if _STATISTICS not in lines:
        return None
    tickers, histograms = {}, {}
    for line in lines[lines.index(_STATISTICS) + 1 :]:
        if found := _TICKER.match(line):
            tickers[found["name"]] = int(found["count"])
        elif found := _TIMES.match(line):
            histograms[found["name"]] = (int(found["count"]), int(found["sum"]))
    return Statistics(tickers, histograms)


def levels(lines: Sequence[str]) -> tuple[LevelRow, ...] | None:
    """Return the last table by level, its sum last; None when ``stats`` did not print.

    Raises:
        ToolFailed: the table is cut short or not RocksDB's; the message names the line.
    """
    starts = [
        number for number, line in enumerate(lines[:-1])
        if line == _TABLE and lines[number + 1].startswith(_BY_LEVEL)
    ]  # fmt: skip
    if not starts:
        return None
    first = starts[-1] + 1
    columns = lines[first].split()[3:]
    rows = []
    for number in range(first + 2, len(lines)):
        rows.append(_row(lines[number], number + 1, columns))
        if rows[-1].level == "Sum":
            return tuple(rows)
    raise _damaged(len(lines), "the compaction table has no sum")


def _row(line: str, number: int, columns: Sequence[str]) -> LevelRow:
    found = _ROW.match(line)
    cells = dict(zip(columns, found["rest"].split(), strict=False)) if found else {}
    try:
        score, read, written, moved, amplification, seconds, jobs = (
            float(cells[name]) for name in _COLUMNS
        )
        whole = int(jobs)
    except (KeyError, ValueError, OverflowError):
        raise _damaged(number, line.strip()[:80]) from None
    if found is None:
        raise _damaged(number, line.strip()[:80])
    return LevelRow(
        found["level"], int(found["files"]), round(float(found["size"]) * _UNITS[found["unit"]]),
        score, read, written, moved, amplification, seconds, whole,
    )  # fmt: skip


def _damaged(number: int, text: str) -> ToolFailed:
    return ToolFailed(
        f"line {number} of db_bench's output: RocksDB's table of levels is damaged: {text}",
        hint="see the phase's stdout in raw/",
        code="output-malformed",
    )
