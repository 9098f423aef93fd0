"""``make test-crash`` runs each campaign of zlfs-torture, in ten minutes at most."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CAMPAIGNS = {"kill", "loss", "faults"}
MOST_SECONDS = 600


def test_each_campaign_has_a_bounded_test() -> None:
    text = (ROOT / "harness/native/zlfs/crash/CMakeLists.txt").read_text()
    tests = re.findall(r"add_test\(NAME (\w+) COMMAND zlfs-torture (\w+) .*--seconds=(\d+)\)", text)
    assert {campaign for _, campaign, _ in tests} == CAMPAIGNS
    assert sum(int(seconds) for _, _, seconds in tests) <= MOST_SECONDS
    labelled = re.search(r"set_tests_properties\(([\w ]+) PROPERTIES\s+LABELS crash", text)
    assert labelled is not None
    assert {name for name, _, _ in tests} == set(labelled[1].split())


def test_make_runs_the_bounded_tests_and_the_long_campaigns() -> None:
    text = (ROOT / "Makefile").read_text()
    recipes = dict(re.findall(r"(?m)^(test-crash(?:-long)?):.*\n((?:\t.*\n)+)", text))
    assert "ctest" in recipes["test-crash"]
    assert "-L crash" in recipes["test-crash"]
    assert set(re.findall(r"zlfs-torture (\w+)", recipes["test-crash-long"])) == CAMPAIGNS
