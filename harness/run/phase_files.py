"""Files that a phase leaves in the run directory: series, histograms, RocksDB's LOG and options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import ToolFailed
from harness.rules.facts import PhaseFacts
from harness.run.context import RunningLevel
from harness.store.rundir import RunWriter
from harness.store.spec import PhaseSpec
from harness.tools import rocksdb_log
from harness.tools.rocksdb_log import Log, LsmShape
from harness.workloads import program_of

LOG_TAIL = 256 * 1024  # the end of RocksDB's LOG holds the error that stopped it


def read_log(log: Path | None) -> Log | None:
    """Parse RocksDB's LOG; null if the level does not make it readable.

    Raises:
        ToolFailed: it is not a LOG of RocksDB.
    """
    if log is None or not log.exists():
        return None
    with log.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        return rocksdb_log.parse(lines)


def keep_log(running: RunningLevel, name: str) -> str:
    """Store RocksDB's LOG whole as ``name`` and return its end; '' without a LOG."""
    path = running.up.database_log
    if path is None:
        return ""
    running.writer.pack(path, name)
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - LOG_TAIL, 0))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def keep_options(running: RunningLevel, name: str) -> None:
    """Store the options of the database, if its folder is visible.

    Otherwise only RocksDB can read them from the device; its LOG begins with the same options.
    """
    log = running.up.database_log
    files = sorted(log.parent.glob("OPTIONS-*[0-9]")) if log else []
    if files:
        running.writer.pack(files[-1], name)


def write_series(writer: RunWriter, spec: PhaseSpec, report: Path, offset: float) -> None:
    """Store operations per interval on the time axis of the run; nothing without a report."""
    program = program_of(spec)
    try:
        points = program.rows(report)
    except ToolFailed:
        return  # the program ended too early; its raw file stays
    rows = [f"{offset + second:.3f},{rest}\n" for second, rest in points]
    writer.write(f"series/{spec.name}.csv", f"t,{program.columns(report)}\n" + "".join(rows))


def write_tree(writer: RunWriter, spec: PhaseSpec, lsm: Log | None, shift: float) -> None:
    """Store the state of the LSM tree after each flush and compaction; nothing without a LOG.

    ``shift`` turns seconds since the epoch into seconds on the time axis of the run. The column of
    pending bytes is absent if RocksDB does not log them.
    """
    if lsm is None:
        return
    pending = ",pending_compaction_bytes" if _has_pending(lsm.points) else ""
    rows = [f"{seconds + shift:.3f},{rest}\n" for seconds, rest in tree_rows(lsm.points)]
    writer.write(f"series/{spec.name}.lsm.csv", f"t,l0_files,files{pending}\n" + "".join(rows))


def tree_rows(points: Sequence[LsmShape]) -> list[tuple[float, str]]:
    """Return seconds since the epoch and the other columns of ``series/<phase>.lsm.csv``."""
    pending = _has_pending(points)
    return [
        (
            point.micros / 1e6,
            f"{point.files[0]},{sum(point.files)}" + (f",{point.pending}" if pending else ""),
        )
        for point in points
    ]


def _has_pending(points: Sequence[LsmShape]) -> bool:
    return bool(points) and all(point.pending is not None for point in points)


def write_histograms(writer: RunWriter, spec: PhaseSpec, facts: PhaseFacts) -> str | None:
    """Store the histogram of each operation; return the path of the first."""
    paths = []
    for operation, histogram in (facts.parsed.stored if facts.parsed else {}).items():
        paths.append(f"histograms/{spec.name}.{operation}.json")
        writer.write(paths[-1], histogram)
    return paths[0] if paths else None
