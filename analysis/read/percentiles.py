"""Percentiles of a cell, from the merged histograms of its runs. Percentiles are never averaged."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from analysis.read.clock import on_model_clock
from analysis.read.load import RunRecord, corrupt
from harness.tools import histogram
from harness.tools.histogram import Histogram

_INTENDED = "intended"
_NAME = re.compile(rf"(?:{_INTENDED}_)?latency_p(\d+(?:_\d+)?)")


def per_myriad(name: str) -> int | None:
    """Return the quantile in a metric's name in 1/10,000 (``latency_p99_9``: 9990), or None."""
    found = _NAME.fullmatch(name)
    return round(float(found[1].replace("_", ".")) * 100) if found else None


def percentile(whole: Histogram | None, name: str) -> float | None:
    """Return the percentile ``latency_p…`` of a histogram in microseconds.

    None without a histogram, or if too few samples lie above the percentile.
    """
    wanted = per_myriad(name)
    return histogram.quantile(whole, wanted) if whole and wanted is not None else None


def is_intended(name: str) -> bool:
    """Return whether a latency counts from the intended start of each operation."""
    return name.startswith(f"{_INTENDED}_")


def together(runs: Sequence[RunRecord], phase: str, *, intended: bool = False) -> Histogram | None:
    """Return the merged histogram of a phase's operations in all runs.

    An open loop has two histograms of each operation: from its start, and from its intended start.

    None if a run has no histogram, or if all are empty.

    Raises:
        RunFailed: a histogram is damaged.
    """
    parts = []
    for run in runs:
        own = _histograms(run.path, phase, intended=intended)
        if not own:
            return None
        parts += [on_model_clock(part, run.result.device.dilation) for part in own]
    return histogram.merge(parts)


def _histograms(folder: Path, phase: str, *, intended: bool) -> list[Histogram]:
    try:
        paths = sorted((folder / "histograms").iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    own = [
        path
        for path in paths
        if fnmatchcase(path.name, f"{phase}.*.json")
        and path.stem.endswith(f"-{_INTENDED}") is intended
    ]
    try:
        return [json.loads(path.read_text(encoding="utf-8")) for path in own]
    except ValueError:
        raise corrupt(f"{folder.name}: a histogram of {phase} is not JSON") from None
