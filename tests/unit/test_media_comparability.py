"""M of conventional devices is compared only if one model or counter gave it on both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.judge.compare import compare
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from harness.store import checksums
from harness.store.result import Result
from tests.fixtures.campaigns import with_metric, write_on_demand

BASE, OTHER, ZONES = "conventional-ext4", "zlfs", "zenfs"
SEVEN, OVER = "conventional-7op-0a1b2c3d", "conventional-28op-0a1b2c3d"
NO_DEVICE, NO_MODEL = "no device", ""

# Sources of the baseline and the level, and whether their media are compared: by hand.
CASES = [
    (SEVEN, SEVEN, True),
    (SEVEN, OVER, False),
    (SEVEN, NO_MODEL, False),
    (NO_MODEL, SEVEN, False),
    (NO_MODEL, NO_MODEL, True),
    (SEVEN, NO_DEVICE, True),  # M of zones is H + P
    (NO_DEVICE, NO_DEVICE, True),
]


METRICS = {"media_bytes": "B", "wa_dev": "1", "wa_total": "1"}


def campaign(tmp_path: Path) -> Path:
    """Write a campaign whose runs all have M, with a spread."""

    def change(result: Result) -> Result:
        for metric, unit in METRICS.items():
            result = with_metric(result, f"overwrite.{metric}", 2 + result.repetition / 9, unit)
        return result

    return write_on_demand(tmp_path / "c", series=False, change=change)


def set_model(folder: Path, level: str, model: str, repetition: int | None = None) -> None:
    """Give runs of a level a conventional device and a model."""
    for file in folder.glob(f"hosts/*/runs/{level}--r*/run.json"):
        spec = json.loads(file.read_text())
        if repetition in (None, spec["repetition"]):
            spec["conventional"] = None if model == NO_DEVICE else spec["device"]
            known = model not in (NO_DEVICE, NO_MODEL)
            spec["media_model"] = {"name": model, "parameters": {}} if known else None
            file.write_text(json.dumps(spec))
            checksums.write(file.parent)


def refused(folder: Path, metric: str) -> dict[str, tuple[str, ...]]:
    """Return the notes of the levels that are not comparable."""
    rows = compare(load(folder), metrics=[metric]).rows
    return {row.level: row.notes for row in rows if row.verdict is Verdict.NOT_COMPARABLE}


@pytest.mark.parametrize(("base", "level", "expected"), CASES)
@pytest.mark.parametrize("metric", METRICS)
def test_media_of_two_sources(
    tmp_path: Path, metric: str, base: str, level: str, expected: bool
) -> None:
    folder = campaign(tmp_path)
    for name, model in ((BASE, base), (OTHER, level), (ZONES, NO_DEVICE)):
        set_model(folder, name, model)
    notes = refused(folder, f"overwrite.{metric}")
    assert set(notes) == (set() if expected else {OTHER})
    if not expected:
        names = [one or "no model" for one in (base, level)]
        assert f"media of conventional devices: {names[0]} vs {names[1]}" in notes[OTHER]
    assert refused(folder, "overwrite.device_written") == {}


def test_a_mix_of_models_within_one_side_is_not_compared(tmp_path: Path) -> None:
    folder = campaign(tmp_path)
    for name, model in ((BASE, SEVEN), (OTHER, SEVEN), (ZONES, NO_DEVICE)):
        set_model(folder, name, model)
    set_model(folder, BASE, OVER, repetition=1)
    notes = refused(folder, "overwrite.wa_dev")
    assert set(notes) == {OTHER, ZONES}
    assert f"media of conventional devices: {OVER} or {SEVEN} vs zones" in notes[ZONES]
