"""Are a run's metrics what its raw files say? For ``zonelab verify``: computes them again."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from harness.errors import ToolFailed, ZonelabError
from harness.run import phases
from harness.store import rundir
from harness.store.campaign import CampaignPaths
from harness.store.result import Metric, Result
from harness.store.spec import PhaseSpec
from harness.tools import rocksdb_log
from harness.tools.rocksdb_log import Log
from harness.workloads import db_bench

# How LOGs have been packed: xz now, gzip by the first releases.
_OPEN: dict[str, Callable[..., IO[Any]]] = {".xz": lzma.open, ".gz": gzip.open}


def problems(paths: CampaignPaths) -> list[str]:
    """Return one line per metric of a campaign that its raw files do not bear out."""
    return [
        f"{host}: {folder.name}: {line}"
        for host in paths.hosts()
        for folder in rundir.completed(paths.runs(host))
        for line in of_run(folder)
    ]


def of_run(folder: Path) -> list[str]:
    """Return the same of one run; nothing where its records cannot be read (others tell).

    Metrics that an older zonelab did not store are no difference.
    """
    try:
        result, spec = rundir.load_result(folder), rundir.load_spec(folder)
    except ZonelabError:
        return []
    began = {phase.name for phase in result.phases}
    return [
        line
        for phase in spec.phases
        if phase.name in began
        for line in _of_phase(folder, phase, result)
    ]


def _of_phase(folder: Path, phase: PhaseSpec, result: Result) -> list[str]:
    raw = folder / "raw"
    parsed, lsm = None, None
    try:
        lsm = _log(raw, phase.name)
        stdout, stderr = (
            phases.text(raw / f"{phase.name}.{kind}") for kind in ("stdout", "stderr")
        )
        parsed = db_bench.parse(phase, stdout, stderr)
    except (ToolFailed, OSError, EOFError, lzma.LZMAError) as error:
        # The runner gives up at the same place, and then stores nothing of what db_bench printed.
        if f"{phase.name}.operations" in result.metrics:
            return [f"raw/ of phase {phase.name} cannot be read: {error}"]
    written = result.metrics.get(f"{phase.name}.device_written", Metric(None, "B")).value
    again = phases.recomputable(phase, parsed, lsm, written)
    lines = []
    for name, metric in again.items():
        key = f"{phase.name}.{name}"
        if key in result.metrics and result.metrics[key] != metric:
            stored = result.metrics[key].value
            lines.append(f"{key}: result.json has {stored}, raw/ gives {metric.value}")
    return lines


def _log(raw: Path, phase: str) -> Log | None:
    for suffix, opened in _OPEN.items():
        path = raw / f"{phase}.LOG{suffix}"
        if path.is_file():
            with opened(path, "rt", encoding="utf-8", errors="replace", newline="\n") as lines:
                return rocksdb_log.parse(lines)
    return None
