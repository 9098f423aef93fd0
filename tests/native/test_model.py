"""The table of `zonelab model validate zn540-1tb`, with the program built from this tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.plan import model_verdicts
from harness.plan.drive_files import load_model

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "native-release"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_published_curves_are_met_as_stored() -> None:
    for command in (
        ["cmake", "-S", ROOT / "harness/native", "-B", BUILD, "--preset", "release"],
        ["nice", "cmake", "--build", BUILD, "--target", "zonemodel"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    command = [sys.executable, "-m", "harness.cli.main", "model", "validate", "zn540-1tb"]
    env = {**os.environ, "ZONELAB_NATIVE": str(BUILD / "bin")}
    done = subprocess.run(
        [*command, "--format", "json"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    rows = json.loads(done.stdout)
    failed = [
        f"{row['curve']} {row['statistic']}"
        for row in rows
        if (row["grade"], row["result"]) == ("core", "fail")
    ]
    stored = model_verdicts.load(load_model("zn540-1tb"))
    assert stored is not None, "run: zonelab model validate zn540-1tb --save"
    assert tuple(failed) == stored.core_failed
    assert done.returncode == (4 if failed else 0)
    assert len(rows) == 46
