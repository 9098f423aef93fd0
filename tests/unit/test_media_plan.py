"""Study field ``media_model``: resolved, sized for the device, refused where it cannot work."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.plan import derived_again
from harness.store.spec import DeviceKind, RunSpec
from tests.fixtures.planner import Planner, rig

SET = ("--set", "media_model=conventional-7op", "--set", "twin=false")


def runs(planner: Planner) -> dict[str, RunSpec]:
    return {run.level: run for run in planner.plan().hosts[0].runs}


def test_each_run_carries_the_model_at_the_size_of_its_device(planner: Planner) -> None:
    assert planner("smoke", *SET) == 0
    found = runs(planner)
    device = rig().conventional
    assert device is not None
    model = found["conventional-ext4"].media_model
    assert model is not None
    assert model.name.startswith("conventional-7op-")
    assert model.parameters["ftl"]["capacity"] == f"{device.size}B"
    assert model.parameters["ftl"]["over_provisioning_pct"] == 7
    assert "curves" not in model.parameters
    with_device = {level for level, run in found.items() if run.media_model is not None}
    assert with_device == {"conventional-ext4", "f2fs"}


def test_the_plan_is_derived_again_from_its_own_model(planner: Planner) -> None:
    assert planner("smoke", *SET) == 0
    plan = planner.plan()
    assert plan.definition is not None
    assert plan.definition["study"]["media_model"]["name"] == "conventional-7op"
    assert derived_again.of_plan(plan) == []
    text = json.dumps(plan.definition).replace(
        '"over_provisioning_pct": {"value": 7', '"over_provisioning_pct": {"value": 9'
    )
    forged = replace(plan, definition=json.loads(text))
    assert any("media_model" in line for line in derived_again.of_plan(forged))


def test_without_the_field_nothing_changes(planner: Planner) -> None:
    assert planner("smoke") == 0
    plan = planner.plan()
    assert {run.media_model for run in plan.hosts[0].runs} == {None}
    assert plan.definition is not None
    assert "media_model" not in plan.definition["study"]


def test_a_modelled_drive_counts_for_itself(planner: Planner) -> None:
    found = rig()
    assert found.conventional is not None
    drive = replace(found.conventional, kind=DeviceKind.MODELLED, model="zoneblk conventional x8")
    assert planner("smoke", *SET, inspection=replace(found, conventional=drive)) == 0
    assert {run.media_model for run in planner.plan().hosts[0].runs} == {None}


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("conventional-8op", "there is no model 'conventional-8op'", "conventional-7op"),
        ("zn540-1tb", "model zn540-1tb has no conventional namespace", "name a model with ftl"),
    ],
)
def test_a_wrong_model_is_refused(planner: Planner, value: str, message: str, hint: str) -> None:
    text = planner.refused("smoke", "--set", f"media_model={value}")
    assert message in text
    assert hint in text


def test_a_study_with_tenants_has_no_model(planner: Planner) -> None:
    text = planner.refused("tenants", "--set", "media_model=conventional-7op")
    assert "a study with a mix has no media_model" in text
