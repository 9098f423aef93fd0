"""One ratio over several campaigns, and bytes that depend on the speed of an emulated guest."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pytest

from analysis import numbers
from analysis.judge import campaigns, timing, wording
from analysis.judge.compare import Comparison, compare
from analysis.judge.over_campaigns import SAME_KEYS, compare_over
from analysis.judge.rows import Row
from analysis.judge.side import Side
from analysis.judge.stats import Estimate, Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import load, load_pool
from analysis.show.render import render
from harness.cli.main import main
from harness.errors import UsageError
from harness.metrics import catalogue
from harness.store.result import Result, Status
from harness.store.spec import Claim, DeviceKind
from tests.bench import campaign_simulation as simulation
from tests.fixtures.campaigns import with_metric, with_status, write_campaign

WRITTEN = "overwrite.device_written"
EXT4 = "conventional-ext4"
CLAIM = Claim("C1", WRITTEN, "f2fs", EXT4, "worse")


def campaign(
    folder: Path,
    ratio: float,
    *,
    speed: float = 1.0,
    kind: DeviceKind = DeviceKind.EMULATED,
    failed: Collection[int] = (),
) -> Path:
    """Write a campaign in which f2fs writes ``ratio`` times the bytes of ext4.

    ``failed`` are repetitions in which f2fs fails.
    """

    def change(result: Result) -> Result:
        if result.level == "f2fs" and result.repetition in failed:
            return with_status(result, Status.FAILED)
        bytes_ = 1e9 * (1 + 0.002 * result.repetition)
        if result.level == "f2fs":
            bytes_ *= ratio * (1 + 0.0005 * (result.repetition - 2))
        result = with_metric(result, WRITTEN, bytes_)
        for key in ("fillrandom.throughput", "overwrite.throughput", "readrandom.throughput"):
            value = result.metrics[key].value
            assert value is not None
            result = with_metric(result, key, value * speed, "ops/s")
        return result

    return write_campaign(
        folder, levels=(EXT4, "f2fs"), kind=kind, series=False, change=change, claims=(CLAIM,)
    )


def over(
    tmp_path: Path,
    ratios: Sequence[float],
    speeds: Sequence[float] = (),
    *,
    kind: DeviceKind = DeviceKind.EMULATED,
) -> Comparison:
    folders = [
        campaign(tmp_path / f"c{index}", ratio, speed=speed, kind=kind)
        for index, (ratio, speed) in enumerate(
            zip(ratios, speeds or [1.0] * len(ratios), strict=True)
        )
    ]
    return compare_over(compare(load_pool(folders), contrast="level", metrics=[WRITTEN]))


def test_campaigns_with_equal_keys_are_named(tmp_path: Path) -> None:
    def seeded(name: str, seed: int) -> Path:
        def change(result: Result) -> Result:
            value = 1e9 * (1 + 0.001 * (result.seed + seed) * (result.level == "f2fs"))
            return dataclasses.replace(with_metric(result, WRITTEN, value), seed=result.seed + seed)

        folder = tmp_path / name
        return write_campaign(folder, levels=(EXT4, "f2fs"), series=False, change=change)

    folders = [seeded("a", 0), seeded("b", 0), seeded("c", 10**6)]
    for chosen, named in (((0, 1), True), ((0, 2), False), ((2, 0, 1), True)):
        pool = load_pool([folders[index] for index in chosen])
        row = only(compare_over(compare(pool, contrast="level", metrics=[WRITTEN])))
        assert (SAME_KEYS in row.notes) is named, chosen


def only(comparison: Comparison) -> Row:
    (row,) = comparison.rows
    return row


@pytest.mark.parametrize("kind", [DeviceKind.EMULATED, DeviceKind.HARDWARE])
def test_the_interval_is_that_of_the_campaigns(tmp_path: Path, kind: DeviceKind) -> None:
    """The three campaigns of f2fs's bytes: 1.011, 1.046, 1.050. By hand: t(2) = 4.3027."""
    row = only(over(tmp_path, [1.011, 1.046, 1.050], [1.0, 1.0, 0.5], kind=kind))
    logs = np.log([1.011, 1.046, 1.050])
    half = 4.302653 * logs.std(ddof=1) / math.sqrt(3)
    assert row.estimate.center == pytest.approx(math.exp(logs.mean()), rel=1e-4)
    assert row.estimate.low == pytest.approx(math.exp(logs.mean() - half), rel=1e-4)
    assert row.estimate.high == pytest.approx(math.exp(logs.mean() + half), rel=1e-4)
    assert (row.estimate.method, row.estimate.n, row.stratum) == (Method.CAMPAIGNS, 3, "")
    assert "c0 1.011, c1 1.046, c2 1.050" in row.notes[0]
    assert not [note for note in row.notes if note.startswith(("c0:", "c1:", "c2:"))]
    base = (1.002e9 * 1.004e9 * 1.006e9) ** (1 / 3)
    assert row.values == (
        pytest.approx(base, rel=1e-5),
        pytest.approx(base * math.exp(logs.mean()), rel=1e-3),
    )
    assert any("of the variance is between campaigns" in note for note in row.notes)


def test_bytes_that_collect_in_the_background_are_no_result_at_one_speed(tmp_path: Path) -> None:
    alone = compare(load(campaign(tmp_path / "one", 1.2)), metrics=[WRITTEN])
    row = only(alone)
    assert row.verdict is Verdict.TIMING_DEPENDENT
    assert (row.claim, row.p_holm) == ("C1", None)
    assert "the bytes of f2fs depend on the guest's speed" in row.notes
    same = only(over(tmp_path, [1.2, 1.2, 1.201]))
    assert same.verdict is Verdict.TIMING_DEPENDENT
    assert "all campaigns ran at one guest speed" in same.notes


def test_two_speeds_that_agree_give_a_verdict(tmp_path: Path) -> None:
    row = only(over(tmp_path, [1.200, 1.201, 1.199], [1.0, 0.5, 1.0]))
    assert row.verdict is Verdict.WORSE
    assert row.claim == "C1"
    assert row.p_holm is not None
    assert row.p_holm < 0.05


def test_two_speeds_that_disagree_show_both_values(tmp_path: Path) -> None:
    row = only(over(tmp_path, [1.20, 1.20, 1.30], [1.0, 1.0, 0.5]))
    assert row.verdict is Verdict.TIMING_DEPENDENT
    (note,) = [note for note in row.notes if note.startswith("guest speeds disagree")]
    assert "1.200 at 100%, 1.300 at 50% of the fastest guest's speed" in note


def test_on_hardware_nothing_depends_on_the_guest(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", 1.2, kind=DeviceKind.HARDWARE)
    assert only(compare(load(folder), metrics=[WRITTEN])).verdict is Verdict.WORSE


def _modelled(folder: Path, level: str, virtual_time: object) -> Row:
    """Return the row of a level on a modelled drive, whose rig's time is virtual or not."""

    def change(result: Result) -> Result:
        host = {**result.manifest["host"], "virtual_time": virtual_time}
        manifest = {**result.manifest, "host": host}
        factor = 1.2 if result.level == level else 1.0
        spread = 1 + 0.0005 * (result.repetition - 2) * (result.level == level)
        result = dataclasses.replace(result, manifest=manifest)
        return with_metric(result, WRITTEN, 1e9 * factor * spread)

    write_campaign(
        folder, levels=(EXT4, level), kind=DeviceKind.MODELLED, series=False, change=change
    )
    return only(compare(load(folder), metrics=[WRITTEN]))


@pytest.mark.parametrize("level", ["f2fs", "btrfs", "xfs", "dm-zoned", "dm-zap"])
def test_a_modelled_drive_gives_bytes_of_background_collection_only_in_virtual_time(
    tmp_path: Path, level: str
) -> None:
    for index, real in enumerate((None, False, "true")):
        row = _modelled(tmp_path / f"real{index}", level, real)
        assert row.verdict is Verdict.TIMING_DEPENDENT, real
        assert f"the bytes of {level} depend on the guest's speed" in row.notes
    assert _modelled(tmp_path / "virtual", level, True).verdict is Verdict.HIGHER


@pytest.mark.parametrize("level", ["zlfs", "conventional-xfs", "zenfs"])
def test_levels_that_collect_on_demand_need_no_virtual_time(tmp_path: Path, level: str) -> None:
    assert _modelled(tmp_path / "real", level, False).verdict is Verdict.HIGHER


@pytest.mark.parametrize(
    ("metric", "depends"),
    [
        ("device_written", True),
        ("gc_bytes", True),
        ("wa_total", True),
        ("zone_resets", True),
        ("level_write_amplification", True),  # a part comes from RocksDB
        ("gc_seconds", False),  # times have their own rules
        ("device_read", False),  # only describes
        ("rocksdb_written", False),
    ],
)
def test_bytes_of_level_and_device_depend_on_the_guest(
    tmp_path: Path, metric: str, *, depends: bool
) -> None:
    pool = load_pool([campaign(tmp_path / "c", 1.2)])
    base, level = (
        Side(name, pool, [run for run in pool.latest if run.spec.level == name])
        for name in (EXT4, "f2fs")
    )
    assert timing.dependent(catalogue.lookup(metric), base, level) == ("f2fs" if depends else "")


def test_a_rig_without_facts_has_no_virtual_time(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        return dataclasses.replace(result, manifest={**result.manifest, "host": None})

    folder = write_campaign(
        tmp_path / "c", levels=("f2fs",), kind=DeviceKind.MODELLED, series=False, change=change
    )
    pool = load_pool([folder])
    side = Side("f2fs", pool, list(pool.latest))
    assert timing.dependent(catalogue.lookup("device_written"), side, side) == "f2fs"


def test_a_phase_of_one_campaign_alone_is_no_other_speed(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        return with_metric(result, "more.throughput", 1e9, "ops/s")

    folders = [
        write_campaign(tmp_path / "a", levels=(EXT4,), series=False),
        write_campaign(tmp_path / "b", levels=(EXT4,), series=False, change=change),
    ]
    found = timing.speeds(load_pool(folders), "level", EXT4)
    assert found["b"] == pytest.approx(found["a"], rel=0.05)


def test_the_speed_of_a_guest_is_that_of_the_baseline_in_ok_runs(tmp_path: Path) -> None:
    """Two throughputs of 100 and 400 have the geometric mean 200; all others are left out."""

    def change(result: Result) -> Result:
        left_out = result.level == "f2fs" or result.repetition == 2
        for phase, value in {"fillrandom": 100.0, "overwrite": 400.0, "readrandom": None}.items():
            rate = 9e9 if left_out else value
            result = with_metric(result, f"{phase}.throughput", rate, "ops/s")
        return with_status(result, Status.INVALID) if result.repetition == 2 else result

    folders = [
        write_campaign(
            tmp_path / name, levels=(EXT4, "f2fs"), repetitions=2, series=False, change=change
        )
        for name in ("c0", "c1")
    ]
    folders.append(write_campaign(tmp_path / "c2", levels=("f2fs",), series=False))
    speeds = timing.speeds(load_pool(folders), "level", EXT4)
    assert speeds == {"c0": pytest.approx(200), "c1": pytest.approx(200)}


def _ratio(center: float | None, error: float | None = None, df: float | None = None) -> Estimate:
    return Estimate(
        True, center, None, None, None, 3, 3, Method.PAIRED, 1.0, center, error=error, df=df
    )


AGREE, ONE_SPEED, DISAGREE = "", "all campaigns ran at one guest speed", "guest speeds disagree"
EXACT = _ratio(1.2)


@pytest.mark.parametrize(
    ("one", "other", "speeds", "found"),
    [
        (EXACT, EXACT, (100, 80), AGREE),  # 100 is 1.25 times 80
        (EXACT, EXACT, (80, 100), AGREE),
        (EXACT, EXACT, (100, 81), ONE_SPEED),
        (EXACT, EXACT, (100,), ONE_SPEED),  # the other campaign has no throughput
        (EXACT, EXACT, (), ONE_SPEED),
        (EXACT, _ratio(1.2 * 1.009), (100, 50), AGREE),  # within a floor of 1 %
        (EXACT, _ratio(1.2 * 1.011), (100, 50), DISAGREE),
        (EXACT, _ratio(0.0), (100, 50), DISAGREE),  # without a log nothing is shown to agree
        (_ratio(0.0), EXACT, (100, 50), DISAGREE),
        (EXACT, _ratio(None), (100, 50), DISAGREE),
        # t of 95 % is 12.7 with one degree of freedom, and 1.98 with 100.
        (_ratio(1.0, 0.02, 100), _ratio(1.1, 0.02, 100), (100, 50), DISAGREE),
        (_ratio(1.0, 0.02, 1), _ratio(1.1, 0.02, 100), (100, 50), AGREE),
        (_ratio(1.0, 0.02, 100), _ratio(1.1, 0.02, 1), (100, 50), AGREE),
        (_ratio(1.0, 0.1, 100), _ratio(1.1), (100, 50), AGREE),
        (_ratio(1.0), _ratio(1.1, 0.1, 100), (100, 50), AGREE),
        (_ratio(1.0), _ratio(1.1, 0.02, 100), (100, 50), DISAGREE),
    ],
)
def test_ratios_at_two_speeds_must_not_differ_beyond_floor_and_interval(
    one: Estimate, other: Estimate, speeds: tuple[float, ...], found: str
) -> None:
    of = dict(zip("ab", speeds, strict=False))
    text = timing.disagreement({"a": one, "b": other}, of, 0.01)
    assert text.partition(":")[0] == found


@pytest.mark.parametrize("floors", [(0.01, 0.3), (0.3, 0.01)])
def test_the_floor_over_campaigns_is_the_largest(
    tmp_path: Path, floors: tuple[float, float]
) -> None:
    kind = DeviceKind.HARDWARE
    pool = load_pool([campaign(tmp_path / f"c{i}", 1.2 + i / 1000, kind=kind) for i in range(2)])
    whole = compare(pool, contrast="level", metrics=[WRITTEN])
    judged = tuple(
        one._replace(row=dataclasses.replace(one.row, floor=floor))
        for one, floor in zip(whole.judged, floors, strict=True)
    )
    assert only(compare_over(dataclasses.replace(whole, judged=judged))).floor == 0.3


def test_a_row_without_a_result_shows_its_values_and_no_ratio(tmp_path: Path) -> None:
    row = _modelled(tmp_path / "real", "f2fs", False)
    assert (wording.ratio(row), wording.interval(row)) == (numbers.DASH, numbers.DASH)
    assert None not in row.values


def test_a_campaign_without_a_usable_row_is_named(tmp_path: Path) -> None:
    folders = [campaign(tmp_path / f"c{i}", 1.2, speed=1 / (1 + i)) for i in range(2)]
    folders.append(write_campaign(tmp_path / "c2", levels=(EXT4, "f2fs"), repetitions=1))
    row = only(compare_over(compare(load_pool(folders), contrast="level", metrics=[WRITTEN])))
    assert row.estimate.n == 2
    assert "c2: too few" in row.notes
    assert row.claim is None  # c2 declares no claim


def test_a_single_usable_campaign_is_too_few(tmp_path: Path) -> None:
    folders = [campaign(tmp_path / "c0", 1.2)]
    folders.append(write_campaign(tmp_path / "c1", levels=(EXT4, "f2fs"), repetitions=1))
    row = only(compare_over(compare(load_pool(folders), contrast="level", metrics=[WRITTEN])))
    assert (row.verdict, row.estimate.low, row.estimate.n) == (Verdict.TOO_FEW, None, 1)


def test_the_usable_campaign_gives_the_ratio_also_if_it_is_not_the_first(tmp_path: Path) -> None:
    folders = [write_campaign(tmp_path / "c0", levels=(EXT4, "f2fs"), repetitions=1)]
    folders.append(campaign(tmp_path / "c1", 1.2))
    row = only(compare_over(compare(load_pool(folders), contrast="level", metrics=[WRITTEN])))
    assert row.estimate.center == pytest.approx(1.2, rel=0.001)
    assert "campaigns: c1 1.200" in row.notes


def test_the_legend_is_that_of_campaigns(tmp_path: Path) -> None:
    text = " ".join(render(over(tmp_path, (1.2, 1.21)), "table").split())
    assert "n = campaigns" in text
    assert "n = runs" not in text


def test_claims_over_campaigns_have_a_table(tmp_path: Path) -> None:
    found = over(tmp_path, (1.2, 1.201, 1.202), (1.0, 0.5, 0.25))
    (row,), (claim,) = found.rows, found.claims
    assert claim.p_holm is not None
    assert (claim.claim, claim.p_holm) == ("C1", row.p_holm)


@pytest.mark.parametrize("contrast", ["campaign", "cell"])
def test_a_contrast_that_is_of_one_campaign_is_refused(tmp_path: Path, contrast: str) -> None:
    pool = load_pool([campaign(tmp_path / f"c{i}", 1.2) for i in range(2)])
    with pytest.raises(UsageError, match="another contrast"):
        compare_over(compare(pool, contrast=contrast))


def test_campaigns_that_differ_less_than_their_error_keep_their_error() -> None:
    found = campaigns.random_effects(np.zeros(4), np.full(4, 0.1)).interval
    assert float(found.error) == pytest.approx(0.05)
    assert float(found.df) == 3


@pytest.mark.parametrize("between", simulation.BETWEEN)
@pytest.mark.parametrize("count", simulation.COUNTS)
def test_the_interval_over_campaigns_covers(count: int, between: float) -> None:
    found = simulation.shares(count, 3, between, of=5000)
    assert found.covered >= 0.93
    assert found.false <= 0.025


def test_the_interval_of_one_campaign_does_not_cover() -> None:
    assert simulation.one_campaign(5, 0.02, of=5000).covered < 0.6


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(campaign(tmp_path / f"c{i}", 1.2, speed=1 / (1 + i))) for i in range(3)]
    words = ["compare", *folders, "--over", "campaigns", "--metric", WRITTEN]
    assert main([*words, "--format", "csv"]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (line["method"], line["n_level"]) == ("random effects", "3")
    assert main(words) == 0
    assert "campaigns: c0 1.200" in " ".join(capsys.readouterr().out.split())
    assert main(["compare", folders[0], "--over", "campaigns"]) == 2
    assert "needs at least two campaigns" in capsys.readouterr().err
    assert main([*words, "--effect", "5"]) == 2


def test_speeds_need_every_pair_to_agree(tmp_path: Path) -> None:
    """Of three speeds the last alone disagrees."""
    row = only(over(tmp_path, [1.2, 1.2, 1.3], [1.0, 0.7, 0.4]))
    assert row.verdict is Verdict.TIMING_DEPENDENT
    assert timing.SPEEDS == 1.25


def test_a_campaign_whose_sides_are_not_comparable_is_left_out(tmp_path: Path) -> None:
    folders = [campaign(tmp_path / f"c{i}", 1.2, speed=1 / (1 + i)) for i in range(2)]
    unfair = write_campaign(
        tmp_path / "c2", levels=(EXT4, "f2fs"), series=False, flags={"f2fs": {"sync": True}}
    )
    row = only(
        compare_over(compare(load_pool([*folders, unfair]), contrast="level", metrics=[WRITTEN]))
    )
    assert row.estimate.n == 2
    assert "c2: not comparable" in row.notes


@pytest.mark.parametrize(("failed", "counts"), [((2,), True), ((1, 2, 3), False)])
def test_a_claim_over_campaigns_needs_an_ok_run_of_the_level_in_each(
    tmp_path: Path, failed: tuple[int, ...], counts: bool
) -> None:
    kind = DeviceKind.HARDWARE
    folders = [campaign(tmp_path / f"c{i}", 1.2 + i / 1000, kind=kind) for i in range(2)]
    folders.append(campaign(tmp_path / "c2", 1.2, kind=kind, failed=failed))
    pool = load_pool(folders)
    (row,) = compare_over(compare(pool, contrast="level", metrics=[WRITTEN])).claims
    assert row.verdict is Verdict.WORSE
    assert row.estimate.n == 2 + counts
    assert ("c2: no row" in row.notes) is not counts


def test_campaigns_that_all_lack_a_ratio_keep_their_verdict(tmp_path: Path) -> None:
    unfair = [
        write_campaign(
            tmp_path / name, levels=(EXT4, "f2fs"), series=False, flags={"f2fs": {"sync": True}}
        )
        for name in ("c0", "c1")
    ]
    row = only(compare_over(compare(load_pool(unfair), contrast="level", metrics=[WRITTEN])))
    assert (row.verdict, row.estimate.center) == (Verdict.NOT_COMPARABLE, None)


@pytest.mark.parametrize("names", [("main", "main2"), ("x-slow", "x")])
def test_a_name_that_begins_another_is_another_campaign(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    def sizes(folder: Path) -> Path:
        factors = ({"block_size": 4}, {"block_size": 8})  # sorts before the campaign
        return write_campaign(folder, levels=(EXT4, "f2fs"), factors=factors, series=False)

    pool = load_pool([sizes(tmp_path / name) for name in names])
    rows = compare_over(compare(pool, contrast="level", metrics=[WRITTEN])).rows
    assert [row.stratum for row in rows] == ["block_size 4", "block_size 8"]
    assert not any("no row" in note for row in rows for note in row.notes)


def test_a_narrower_view_does_not_change_the_p_of_a_claim(tmp_path: Path) -> None:
    claims = (CLAIM, Claim("C2", WRITTEN, "btrfs", EXT4, "worse"))
    factors = ({"block_size": 4}, {"block_size": 8})
    pool = load_pool(
        [
            write_campaign(
                tmp_path / name,
                kind=DeviceKind.HARDWARE,
                factors=factors,
                hosts=("one", "two"),
                series=False,
                claims=claims,
            )
            for name in ("a", "b")
        ]
    )

    def p_of(**view: object) -> float | None:
        rows = compare_over(compare(pool, contrast="level", **view)).rows  # type: ignore[arg-type]
        return next((row.p_holm for row in rows if row.claim == "C1"), None)

    whole = p_of()
    assert whole is not None
    assert p_of(against=["f2fs"]) == whole
    assert p_of(where={"block_size": "4"}, metrics=[WRITTEN], against=["f2fs"]) == whole
    assert p_of(where={"host": "one"}) is None  # part of the runs is not the declared claim
