"""Shipped studies that repeat their runs have identical cells: cells differ also without a cause.

docs/simulations.md, "Whole campaigns": without a twin, 78 % of campaigns had a false claim.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.plan.devices import zone_sizes
from harness.plan.load import load_study, names
from harness.plan.reference import with_zones_of
from tests.fixtures.planner import Planner

# `overhead` compares its single level with db_bench by hand, which is no cell. A twin would take
# `block-level` beyond its 12 hours. Its guidelines mostly compare phases of one run.
WITHOUT = {"overhead", "block-level", "block-level-timed"}
REPEATING = [name for name in names("studies") if load_study(name)[0].repetitions > 1]


def test_most_studies_repeat_their_runs() -> None:
    assert len(REPEATING) >= 16
    assert set(REPEATING) > WITHOUT


@pytest.mark.parametrize("name", sorted({*REPEATING} - WITHOUT))
def test_a_study_has_a_twin_of_its_baseline(name: str) -> None:
    study, _ = load_study(name)
    if study.twin:
        return
    # Where levels are not compared, the first one has the twin.
    wanted = study.baseline if study.contrast == "level" else study.entries[0].label
    (base,) = (entry for entry in study.entries if entry.label == wanted)
    twins = [one for one in study.entries if (one.name, one.options) == (base.name, base.options)]
    assert [one.variant or "" for one in twins] == ["", "twin"]


@pytest.mark.parametrize(
    ("study", "cell", "row"),
    [
        (
            "finish-thresholds-small",
            "zlfs-twin_finish_occupancy_pct-100_zone_size-8mib",
            "zlfs-twin",
        ),
        ("smoke", "conventional-ext4-twin", "conventional-ext4-twin"),
        ("block-smoke", "raw-device-twin_scheduler-none", "raw-device-twin"),
        ("tenants", "aggressor-victim-twin_mix-solo-victim", "aggressor-victim-twin"),
    ],
)
def test_the_planner_repeats_one_cell_of_the_baseline(
    planner: Planner, study: str, cell: str, row: str
) -> None:
    devices = with_zones_of(zone_sizes(load_study(study)[0]))
    assert planner(study, "--set", "twin=true", inspection=devices) == 0
    runs = [run for host in planner.plan().hosts for run in host.runs]
    (twins,) = [{run.repetition: run for run in runs if run.cell == cell}]
    one = cell.replace("-twin", "")
    assert {run.row for run in twins.values()} == {row}
    assert sorted(twins) == sorted({run.repetition for run in runs})
    for run in runs:
        if run.cell == one:
            same = {name: getattr(run, name) for name in ("run", "cell", "variant", "position")}
            assert replace(twins[run.repetition], **same) == run
    assert sum(run.variant == "twin" for run in runs) == len(twins)
