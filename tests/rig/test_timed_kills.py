"""A campaign on modelled drives goes on after kills of its runner and of the drives' servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import WHOLE, booted
from .timed_kills import RUNNER, Kills

pytestmark = pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
KILLS = 4


def test_every_run_is_there_after_kills(tmp_path: Path) -> None:
    with booted("timed") as rig:
        kills = Kills(rig, tmp_path, seed=4)
        kills.run(KILLS)
    assert kills.killed.total() == KILLS
    # This seed kills the runner twice, and each server once.
    assert kills.killed[RUNNER] == 2
    assert len(kills.killed) == 3
