"""``make test-crash`` runs each campaign of zlfs-torture, in ten minutes at most."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAMPAIGNS = {"kill", "loss", "faults"}
MOST_SECONDS = 600


def test_make_runs_bounded_and_long_campaigns() -> None:
    text = (ROOT / "Makefile").read_text()
    recipes = dict(re.findall(r"(?m)^(test-crash(?:-long)?):.*\n((?:\t.*\n)+)", text))
    for recipe in recipes.values():
        assert set(re.findall(r"\$\(TORTURE\) (\w+)", recipe)) == CAMPAIGNS
    bounded = re.findall(r"\$\(TORTURE\) .*--seconds=\$\(CRASH_SECONDS\)", recipes["test-crash"])
    (seconds,) = re.findall(r"(?m)^CRASH_SECONDS \?= (\d+)$", text)
    assert len(bounded) * int(seconds) <= MOST_SECONDS
    assert len(bounded) == len(CAMPAIGNS)
