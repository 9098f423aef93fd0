"""The sentences on a study whose contrast is a factor: from its first arm to its last one."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from analysis.judge.compare import Comparison, compare
from analysis.read.load import load
from analysis.show import factor_sentences
from analysis.show.headline import answers
from harness.store.result import Result, Status
from harness.store.spec import DeviceKind, Scalar
from tests.fixtures.campaigns import with_metric, with_status, write_on_demand
from tests.fixtures.twins import WRITTEN, as_variants

FACTOR = "size"
MIB = 1 << 20
EXT4 = "conventional-ext4"
# MiB by level and arm. zlfs fails at 128 MiB; at 8 MiB, zenfs and zlfs write the same.
MEANS = {
    EXT4: {"8MiB": 200.0, "128MiB": 150.0, "16MiB": 140.0},
    "zlfs": {"8MiB": 60.0, "16MiB": 60.0, "128MiB": 60.0},
    "zenfs": {"8MiB": 60.0, "16MiB": 80.0, "128MiB": 130.0},
}


def compared(
    folder: Path,
    *,
    baseline: str = "8MiB",
    more: tuple[dict[str, Scalar], ...] = ({},),
    failed: tuple[str, str] = ("zlfs", "128MiB"),
) -> Comparison:
    """Compare a campaign of three levels, a twin of zlfs, and three arms."""

    def change(result: Result) -> Result:
        level, arm = result.level.removesuffix("-again"), str(result.factors[FACTOR])
        wobble = 1 + 1e-3 * (7 * result.repetition * (len(result.level) + len(arm)) % 5)
        size = 2.0 if result.factors.get("threads") == 2 else 1.0
        result = with_metric(result, WRITTEN, MEANS[level][arm] * MIB * wobble * size)
        result = with_metric(result, "overwrite.gc_bytes", 1e6 * wobble * float(arm[:-3]))
        return with_status(result, Status.FAILED) if (level, arm) == failed else result

    arms = MEANS[EXT4]  # the plan shuffles the runs
    write_on_demand(
        folder,
        series=False,
        levels=(EXT4, "zlfs", "zlfs-again", "zenfs"),
        factors=tuple({FACTOR: arm, **own} for own in more for arm in arms),
        repetitions=4,
        change=change,
        metrics=(WRITTEN, "overwrite.gc_bytes"),
        kind=DeviceKind.HARDWARE,
    )
    as_variants(folder)
    return compare(load(folder), contrast=FACTOR, baseline=baseline)


def text(comparison: Comparison) -> dict[str, str]:
    return {one.topic: one.text for one in answers(comparison)}


def test_each_level_is_followed_and_the_best_one_of_each_arm_is_named(tmp_path: Path) -> None:
    found = text(compared(tmp_path / "c"))
    assert [*found] == [
        "Which",
        "How much",
        "How sure",
        "What else changes",
        "What it does not show",
    ]
    best, order = found["Which"].split(". ", 1)
    assert best.startswith("Lowest device written in overwrite: zlfs at 8MiB (60.")
    assert " 16MiB (60." in best
    assert "; zenfs at 128MiB (130 MiB)" in best
    assert order == "The order is not shown at 8MiB (zenfs)."
    head, _, parts = found["How much"].partition(": ")
    assert head == f"From {FACTOR} 8MiB to 128MiB, device written in overwrite"
    ext4, zlfs, zenfs = parts.split("; ")
    assert ext4.startswith(f"{EXT4} falls from 200 MiB")
    assert ext4.endswith(" MiB (0.750)")
    assert zlfs.startswith("zlfs is not shown to change (60.")
    assert " at 16MiB)" in zlfs
    assert zenfs.startswith("zenfs rises from 60.")
    assert zenfs.endswith(" MiB (2.167).")
    assert f"{EXT4} 0.7" in found["How sure"]
    assert len(re.findall(r"\d to \d", found["How sure"])) == 3
    assert "from 4 runs a side" in found["How sure"]
    assert found["What else changes"] == f"Gc bytes in overwrite rises ({EXT4}, zlfs, zenfs)."
    assert "again" not in " ".join([*found.values()][:-1])


def test_the_order_of_arms_does_not_depend_on_the_baseline(tmp_path: Path) -> None:
    found = text(compared(tmp_path / "c", baseline="16MiB"))
    assert found["How much"].startswith(f"From {FACTOR} 8MiB to 128MiB, ")
    assert f"{EXT4} falls from 200 MiB" in found["How much"]


def test_a_series_without_the_first_arm_names_its_own(tmp_path: Path) -> None:
    found = text(compared(tmp_path / "c", failed=(EXT4, "8MiB")))
    head, _, parts = found["How much"].partition(": ")
    assert head == f"From {FACTOR} 8MiB to 128MiB, device written in overwrite"
    ext4, zlfs, _ = parts.split("; ")
    assert ext4.startswith(f"{EXT4} rises from 140 MiB at 16MiB to 15")
    assert " at " not in zlfs
    assert f": {EXT4} (16MiB to 128MiB) 1.06" in found["How sure"]
    assert ", zlfs 0.99" in found["How sure"]


def test_other_factors_are_named_with_their_arm(tmp_path: Path) -> None:
    found = text(compared(tmp_path / "c", more=({"threads": 1}, {"threads": 2})))
    assert "128MiB (threads 2) (261 MiB)" in found["Which"]
    assert f"{EXT4}, threads 2 falls from 401 MiB" in found["How much"]


def test_without_several_levels_the_best_arm_is_named(tmp_path: Path) -> None:
    whole = compared(tmp_path / "c")
    runs = load(tmp_path / "c")
    found = text(compare(runs, contrast=FACTOR, baseline="8MiB", where={"level": EXT4}))
    assert found["Which"].startswith("At 80 % utilisation, 16MiB has the lowest")
    assert found["How much"].startswith(
        f"From {FACTOR} 8MiB to 128MiB, device written in overwrite: fal"
    )
    assert factor_sentences.arms(whole) == ["8MiB", "16MiB", "128MiB"]
    assert factor_sentences.arms(compare(runs)) == []  # levels have no order


@pytest.mark.parametrize(
    ("values", "arms"),
    [
        (("16MiB", "8MiB", "2GiB"), ["8MiB", "16MiB", "2GiB"]),
        ((100, 0, 20), ["0", "20", "100"]),
        (("none", "mq-deadline"), ["none", "mq-deadline"]),
        (("kyber", "none", "mq-deadline"), []),
    ],
)
def test_arms_have_an_order(tmp_path: Path, values: tuple[Scalar, ...], arms: list[str]) -> None:
    folder = write_on_demand(
        tmp_path / "c", series=False, repetitions=1, factors=tuple({"arm": one} for one in values)
    )
    baseline = str(values[0])
    whole = compare(load(folder), contrast="arm", baseline=baseline)
    assert factor_sentences.arms(whole) == arms
    shares = dataclasses.replace(whole, values=("85%", "100%", "40%"))
    assert factor_sentences.arms(shares) == ["40%", "85%", "100%"]
