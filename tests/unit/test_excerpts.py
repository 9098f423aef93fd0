"""The parts of pages that come from campaigns (tests/excerpts.py)."""

from __future__ import annotations

import re

import pytest

from harness.store.numbers_version import NUMBERS
from tests import excerpts
from tests.upkeep import ROOT

ORIGIN = re.compile(
    r"^Recorded on \d{4}-\d\d-\d\d, with version (\d+) of the numbers\.$", re.MULTILINE
)


def test_a_campaign_on_another_rig_has_its_own_excerpt() -> None:
    other = "integration-levels on timed-28op"
    assert excerpts.name_of("integration-levels", ["rig-timed-1"]) == "integration-levels"
    assert excerpts.name_of("integration-levels", ["rig-timed-28op-1", "rig-timed-28op-2"]) == other
    assert excerpts.name_of("xfs-zones", ["rig-timed-28op-1"]) == "xfs-zones"


def test_an_excerpt_shows_the_chosen_values_of_each_stratum() -> None:
    excerpt = excerpts.Excerpt(
        "page.md",
        "numbers.csv",
        {"run.wa_total": ("bytes", "{:.1f}")},
        keys=("zone size", "threshold"),
        values=("0",),
    )
    fields = (
        "metric,baseline,stratum,level,baseline_mean,level_mean,is_ratio,center,low,high,verdict"
    )
    numbers = f"""{fields}
run.wa_total,100,zone_size 8MiB,0,2.04,3.06,true,1.5,1.2,1.8,higher
run.wa_total,100,zone_size 8MiB,50,2.04,2.04,true,1,,,descriptive
,,,,,,,,,,
run.wa_total,100,zone_size 4MiB,0,2.04,3,true,,,,host-bound
run.wa_total,100,zone_size 2MiB,0,0,3,false,3,2,4,higher
run.wa_total,100,zone_size 1MiB,0,2.04,,false,,,,nothing to compare
"""
    rows = excerpt.rows(numbers)
    assert excerpt.table("run.wa_total", rows)[:6] == [
        "| zone size | threshold | bytes, baseline 100 | this row | ratio (95 % interval) | "
        "verdict |",
        "|---|---|---|---|---|---|",
        "| 8MiB | 0 | 2.0 | 3.1 | 1.50 (1.20 to 1.80) | higher |",
        "| 4MiB | 0 | 2.0 | 3.0 | - | host-bound |",
        "| 2MiB | 0 | 0.0 | 3.0 | - | higher |",  # a difference, because a value is zero
        "| 1MiB | 0 | 2.0 | - | - | nothing to compare |",
    ]


def test_phases_that_are_not_steady_are_named() -> None:
    fields = ("metric", "baseline", "level", "steady_baseline", "steady_level")
    lines = [
        ("overwrite.wa_total", "f2fs", "zlfs", "not steady", "too short"),
        ("overwrite.throughput", "f2fs", "ext4", "not steady", "steady"),
        ("overwrite.throughput", "f2fs", "xfs", "not steady", "not steady"),
        ("readrandom.throughput", "f2fs", "zlfs", "steady", "not steady"),
        ("run.utilisation", "f2fs", "zlfs", "", ""),
    ]
    rows = [dict(zip(fields, line, strict=True)) for line in lines]
    assert excerpts.unsteady(rows) == [
        "- Not steady: overwrite (f2fs, xfs); readrandom (zlfs)",
        "- Too short to show a steady state: overwrite (zlfs)",
    ]
    assert excerpts.unsteady(rows[4:]) == []


def test_a_block_is_replaced_and_others_stay() -> None:
    page = (
        "# A\n<!-- s: make examples -->\nold\n<!-- end -->\nb\n<!-- s answer: make examples -->\n"
    )
    page += "x\n<!-- end -->\n"
    new = excerpts.replaced(page, "s", ["new", ""])
    assert new == page.replace("old", "new")
    assert excerpts.replaced(new, "s answer", ["y"]) == new.replace("\nx\n", "\ny\n")


@pytest.mark.parametrize("study", excerpts.EXCERPTS)
def test_a_page_names_the_version_of_its_numbers(study: str) -> None:
    page = (ROOT / excerpts.EXCERPTS[study].page).read_text()
    own = page.partition(excerpts.BEGIN.format(study))[2].partition(excerpts.END)[0]
    found = ORIGIN.findall(own)
    assert len(found) == 1
    assert int(found[0]) <= NUMBERS
