"""The native programs' own tests, so that ``make test`` runs them while the rig's tests wait."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAST_CHARACTERS = 20_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "words",
    # A shorter crash campaign than by hand: half a minute of each kind.
    [["test-native-sanitize"], ["test-native-threads"], ["test-crash", "CRASH_SECONDS=30"]],
    ids=lambda words: words[0],
)
def test_native(words: list[str]) -> None:
    command = ["nice", "make", "-C", str(ROOT), *words]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-LAST_CHARACTERS:]
