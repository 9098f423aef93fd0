"""Shipped studies contain identical cells where the time of another cell is small."""

from __future__ import annotations

import pytest

from harness.plan.load import load_study

# A twin costs as much as every other level: an hour on a drive, a day where it is filled first.
WITH_TWINS = ("integration-levels", "levels-full", "atc21-rig", "zlfs-collection-needed")


@pytest.mark.parametrize("name", WITH_TWINS)
def test_the_baseline_has_a_twin(name: str) -> None:
    study, _ = load_study(name)
    (base,) = (entry for entry in study.entries if entry.label == study.baseline)
    twins = [one for one in study.entries if (one.name, one.options) == (base.name, base.options)]
    assert [one.variant or "" for one in twins] == ["", "twin"]
