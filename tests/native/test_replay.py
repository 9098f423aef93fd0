"""zlfs-replay, built from this tree, on a trace of format 1."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "native-release"
FIXTURES = ROOT / "tests" / "fixtures" / "zlfs_replay"
# The first two repeat what was recorded. The others ask what zlfs of today would have done. When
# its placement or collection changes on purpose, their answers are recorded again.
CASES = {
    "info": ("--info",),
    "recorded": (),
    "own": ("--own-rules",),
    "threshold-0": ("--finish-occupancy-pct=0", "--zone-capacity=524288"),
    "full": ("--zones=16", "--finish-occupancy-pct=0"),
}


def without_new_fields(data: Any) -> Any:
    """Return an answer without what programs of that time did not print."""
    if isinstance(data, list):
        return [without_new_fields(part) for part in data]
    if not isinstance(data, dict):
        return data
    return {k: without_new_fields(v) for k, v in data.items() if k != "metadata_zones"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_an_old_trace_replays_as_when_it_was_recorded() -> None:
    for command in (
        ["cmake", "-S", ROOT / "harness/native", "-B", BUILD, "--preset", "release"],
        ["nice", "cmake", "--build", BUILD, "--target", "zlfs_replay"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for name, options in CASES.items():
        done = subprocess.run(
            [BUILD / "replay/zlfs-replay", FIXTURES / "trace", *options],
            capture_output=True,
            text=True,
            check=True,
        )
        stored = json.loads((FIXTURES / f"{name}.json").read_text())
        assert without_new_fields(json.loads(done.stdout)) == stored, name
    # A wrong drive is refused before it is played.
    model = FIXTURES / "info.json"
    done = subprocess.run(
        [BUILD / "replay/zlfs-replay", FIXTURES / "trace", f"--model={model}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "bad-model" in done.stderr) == (2, True)
