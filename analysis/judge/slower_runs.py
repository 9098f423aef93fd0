"""Whether a campaign on modelled drives needs runs at twice the dilation."""

from __future__ import annotations

from pathlib import Path

from analysis.judge.compare import compare
from analysis.judge.modelled import UNCHECKED
from analysis.read.load import load


def times_unchecked(campaign: Path) -> bool:
    """Return whether a time of the study has no verdict only because such runs are missing."""
    return any(UNCHECKED in note for row in compare(load(campaign)).rows for note in row.notes)
