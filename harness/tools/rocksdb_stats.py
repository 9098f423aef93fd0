"""Parse RocksDB's own statistics on db_bench's stdout (7.8 and 9.10).

``--statistics`` prints tickers and histograms of the process after the last benchmark. The
pseudo-benchmark ``stats`` prints the property ``rocksdb.stats``; its first table has flushes and
compactions by level. Both are printed before the database is closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import ToolFailed
from harness.quantities import BINARY_PREFIXES

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
_ROW = re.compile(
    r"^ *(?P<level>L\d+|Sum) +(?P<files>\d{1,9})/\d+ +(?P<size>\d{1,9}\.\d\d)"
    r" (?P<unit>[KMGT])B +(?P<rest>.+)$"
)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts by ticker; (number of samples, sum of samples) by histogram."""

    tickers: Mapping[str, int]
    histograms: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class LevelRow:
    """A level of the tree, or ``Sum``, with its flushes and compactions since opening."""

    level: str  # L0, L1 … or Sum
    files: int
    size: int  # bytes, rounded to 1/100 of the printed unit
    score: float
    read_gb: float  # units of 2³⁰ bytes, one decimal; so are the next two
    write_gb: float
    moved_gb: float
    write_amplification: float
    seconds: float
    jobs: int


def statistics(lines: Sequence[str]) -> Statistics | None:
    """Parse the lines below ``STATISTICS:``, or return None without that line.

    Lines of another form are ignored. A missing counter is noticed when it is looked up.
    """
    if _STATISTICS not in lines:
        return None
    tickers, histograms = {}, {}
    for line in lines[lines.index(_STATISTICS) + 1 :]:
        if match := _TICKER.match(line):
            tickers[match["name"]] = int(match["count"])
        elif match := _TIMES.match(line):
            histograms[match["name"]] = (int(match["count"]), int(match["sum"]))
    return Statistics(tickers, histograms)


def levels(lines: Sequence[str]) -> tuple[LevelRow, ...] | None:
    """Return the rows of the last table by level, or None if ``stats`` did not run.

    Raises:
        ToolFailed: the table is truncated or malformed; the message names the line.
    """
    starts = [
        number
        for number, line in enumerate(lines[:-1])
        if line == _TABLE and lines[number + 1].startswith(_BY_LEVEL)
    ]
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
    if found is None:
        raise _damaged(number, line.strip()[:80])
    cells = dict(zip(columns, found["rest"].split(), strict=False))
    size = round(float(found["size"]) * BINARY_PREFIXES[found["unit"]])
    try:
        return LevelRow(
            level=found["level"],
            files=int(found["files"]),
            size=size,
            score=float(cells["Score"]),
            read_gb=float(cells["Read(GB)"]),
            write_gb=float(cells["Write(GB)"]),
            moved_gb=float(cells["Moved(GB)"]),
            write_amplification=float(cells["W-Amp"]),
            seconds=float(cells["Comp(sec)"]),
            jobs=int(float(cells["Comp(cnt)"])),
        )
    except (KeyError, ValueError, OverflowError):
        raise _damaged(number, line.strip()[:80]) from None


def _damaged(number: int, text: str) -> ToolFailed:
    return ToolFailed(
        f"line {number} of db_bench's output: RocksDB's table of levels is damaged: {text}",
        hint="see the phase's stdout in raw/",
        code="output-malformed",
    )
