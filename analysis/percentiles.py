"""Percentiles of a cell: from the merged histograms of its runs, never averages of percentiles."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from analysis.load import RunRecord
from harness.errors import RunFailed
from harness.tools import histogram
from harness.tools.histogram import Histogram

_NAME = re.compile(r"latency_p(\d+(?:_\d+)?)")


def per_myriad(name: str) -> int | None:
    """Return a quantile's ten-thousandths by a metric's name (``latency_p99_9``: 9990), if any."""
    found = _NAME.fullmatch(name)
    return round(float(found[1].replace("_", ".")) * 100) if found else None


def merged(runs: Sequence[RunRecord], key: str) -> float | None:
    """Return the percentile ``<phase>.latency_p…`` over all operations of all runs, microseconds.

    None where a run has no histogram of the phase, or too few samples lie above the percentile.
    """
    phase, _, name = key.rpartition(".")
    wanted = per_myriad(name)
    parts = [_histograms(run.path, phase) for run in runs]
    if wanted is None or not all(parts):
        return None
    whole = histogram.merge([one for part in parts for one in part])
    return histogram.quantile(whole, wanted) if whole else None


@lru_cache(maxsize=4096)  # each is asked for by every percentile and every other side
def _histograms(folder: Path, phase: str) -> list[Histogram]:
    paths = sorted((folder / "histograms").glob(f"{phase}.*.json"))
    try:
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    except ValueError:
        raise RunFailed(
            f"corrupt run directory: {folder.name}: a histogram of {phase} is no JSON",
            hint="check the campaign with: zonelab verify",
            code="corrupt-run",
        ) from None
