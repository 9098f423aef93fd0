"""A shipped study that claims something has identical cells: cells differ also without a cause.

docs/simulations.md, "Whole campaigns": without a twin, 78 % of campaigns had a false claim.
"""

from __future__ import annotations

import pytest

from harness.plan.load import load_study, names

CLAIMING = [name for name in names("studies") if load_study(name)[0].claims]


def test_several_studies_claim_something() -> None:
    assert len(CLAIMING) >= 7


@pytest.mark.parametrize("name", CLAIMING)
def test_a_study_with_claims_has_a_twin(name: str) -> None:
    study, _ = load_study(name)
    # Where levels are not compared, the first one has the twin.
    wanted = study.baseline if study.contrast == "level" else study.entries[0].label
    (base,) = (entry for entry in study.entries if entry.label == wanted)
    twins = [one for one in study.entries if (one.name, one.options) == (base.name, base.options)]
    assert [one.variant or "" for one in twins] == ["", "twin"]
