"""The best level against each other level, in the same blocks and corrected for all pairs."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.judge import order
from analysis.judge.compare import Comparison, compare
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from analysis.show.headline import answers
from harness.store.result import Result
from harness.store.spec import Claim, DeviceKind
from tests.fixtures.campaigns import with_metric, write_on_demand
from tests.fixtures.twins import WRITTEN

EXT4 = "conventional-ext4"


def compared(folder: Path, wobble: float, **more: Any) -> Comparison:
    """Compare levels whose bytes vary together, and zenfs by ``wobble`` alone, with ext4.

    zenfs writes 6 % more than zlfs, or 2 % more where there are two threads. The bytes of ext4 vary
    much more, so the intervals of all ratios to it overlap.
    """

    def change(result: Result) -> Result:
        together = 1 + 0.05 * (result.repetition % 2)
        threads = result.factors.get("threads", 1)
        alone = 1 + wobble * (result.repetition % 3 - 1)
        value = {
            EXT4: 1000e6 * (1 + 0.2 * (result.repetition % 3)),
            "zlfs": 400e6 * together,
            "zenfs": (1.06 if threads == 1 else 1.02) * 400e6 * together * alone,
            "f2fs": 600e6 * together * (1 + 0.001 * (result.repetition % 3)),
        }[result.level]
        value *= 1 if threads == 1 or result.level == EXT4 else 1.5
        used = {"zlfs": 0.815, "zenfs": 0.785}.get(result.level, 0.8) if apart else 0.8
        assert result.utilisation is not None
        drive = replace(result.utilisation, u_drive=used)
        return replace(with_metric(result, WRITTEN, value), utilisation=drive)

    apart = more.pop("apart", False)
    write_on_demand(
        folder,
        series=False,
        levels=(EXT4, "f2fs", "zenfs", "zlfs"),
        repetitions=4,
        change=change,
        metrics=(WRITTEN,),
        kind=DeviceKind.HARDWARE,
        **more,
    )
    return compare(load(folder))


def test_overlapping_intervals_of_two_ratios_decide_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path / "c", 0.001)
    bounds = {row.level: row.estimate.bounds for row in found.rows}
    assert (bounds["zlfs"][1] or 0) > (bounds["zenfs"][0] or 0)
    which = answers(found)[0].text
    assert which.startswith(
        "At 80 % utilisation, zlfs has the lowest device written in overwrite: "
    )
    assert re.search(r" Ratio to the next, zenfs: 0\.943 \(0\.94\d to 0\.94\d\)\.$", which)


def test_the_order_is_open_where_it_is_not_shown(tmp_path: Path) -> None:
    which = answers(compared(tmp_path / "c", 0.05))[0].text
    assert which.startswith(
        "At 80 % utilisation, zlfs has the lowest mean of device written in overwrite: "
    )
    assert which.endswith(" Its order with zenfs is not shown.")


def test_the_order_is_corrected_for_all_pairs(tmp_path: Path) -> None:
    """p of the pair alone is 0.0097; four values have six pairs."""
    found = compared(tmp_path / "c", 0.02)
    (alone,) = compare(found.pool, baseline="zenfs", against=("zlfs",)).rows
    assert alone.verdict is Verdict.LOWER
    assert answers(found)[0].text.endswith(" Its order with zenfs is not shown.")
    nearer = compared(tmp_path / "nearer", 0.018)  # 6 times 0.0072
    assert "Ratio to the next, zenfs" in answers(nearer)[0].text


def test_a_claimed_pair_is_corrected_for_the_claims_and_not_for_all_pairs(tmp_path: Path) -> None:
    """p of the pair alone is 0.0097: five claims leave it below 0.05, and six do not."""
    claimed = Claim("C1", WRITTEN, "zlfs", "zenfs", "better")
    untested = [Claim(f"U{n}", WRITTEN, f"dm-zap-{n}", EXT4, "better") for n in range(5)]
    five = compared(tmp_path / "five", 0.02, claims=(claimed, *untested[1:]))
    assert " Ratio to the next, zenfs: 0.943 (" in answers(five)[0].text
    six = compared(tmp_path / "six", 0.02, claims=(claimed, *untested))
    assert answers(six)[0].text.endswith(" Its order with zenfs is not shown.")
    another = compared(tmp_path / "another", 0.02, claims=(replace(claimed, baseline=EXT4),))
    assert answers(another)[0].text.endswith(" Its order with zenfs is not shown.")


def test_values_of_other_strata_do_not_count(tmp_path: Path) -> None:
    """With two threads, zenfs is nearer; the lowest value is one of one thread."""
    found = compared(tmp_path / "c", 0.018, factors=({"threads": 1}, {"threads": 2}))
    which = answers(found)[0].text
    assert which.startswith(
        "With threads 1, at 80 % utilisation, zlfs has the lowest device written in overwrite: "
    )
    assert " Ratio to the next, zenfs: 0.943 (" in which
    (best,) = (row for row in found.rows if (row.level, row.stratum) == ("zlfs", "threads 1"))
    assert len(order.against_others(found, found.rows, best)) == 2


def test_levels_that_cannot_be_compared_have_no_order(tmp_path: Path) -> None:
    """Each is near ext4's utilisation of the drive, but they are not near each other."""
    found = compared(tmp_path / "c", 0.001, apart=True)
    assert {row.verdict for row in found.rows} == {Verdict.LOWER}
    assert answers(found)[0].text.endswith(" Its order with zenfs is not shown.")
    (best,) = (row for row in found.rows if row.level == "zlfs")
    words = {row.baseline: row.verdict for row in order.against_others(found, found.rows, best)}
    assert words == {"f2fs": Verdict.LOWER, "zenfs": Verdict.NOT_COMPARABLE}
