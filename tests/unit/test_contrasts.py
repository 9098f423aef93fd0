"""Contrasts of campaigns, hosts, cells and factors: pairing and obstacles."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.judge import wal
from analysis.judge.cell_status import absent_strata
from analysis.judge.compare import Comparison, compare
from analysis.judge.rows import Row
from analysis.judge.stats import Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import Pool, load, load_pool
from harness.cli.main import main
from harness.errors import UsageError
from harness.store import checksums
from harness.store.result import Result, Status
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import MIB, with_metric, with_status, write_on_demand
from tests.fixtures.ledgers import recorded_run

WRITTEN = "overwrite.device_written"
RATE = "overwrite.throughput"
Change = Callable[[Result], Result]


def grown(factor: float, level: str = "") -> Change:
    """Write more to the devices in the overwrite."""

    def change(result: Result) -> Result:
        value = result.metrics[WRITTEN].value
        if value is None or (level and result.level != level):
            return result
        return with_metric(result, WRITTEN, int(value * factor))

    return change


def campaigns(tmp_path: Path, change: Change, **options: Any) -> list[Path]:
    return [
        write_on_demand(tmp_path / "before", series=False, **options),
        write_on_demand(tmp_path / "after", series=False, change=change, **options),
    ]


def row(comparison: Comparison, stratum: str, metric: str = WRITTEN) -> Row:
    return next(r for r in comparison.rows if (r.metric, r.stratum) == (metric, stratum))


def test_two_campaigns_are_paired_by_their_runs_other_factors(tmp_path: Path) -> None:
    comparison = compare(load_pool(campaigns(tmp_path, grown(1.2, "zlfs"))))
    assert (comparison.contrast, comparison.baseline) == ("campaign", "before")
    assert comparison.values == ("before", "after")
    zlfs, zenfs = row(comparison, "zlfs"), row(comparison, "zenfs")
    assert (zlfs.estimate.method, zlfs.estimate.n) == (Method.PAIRED, 3)
    assert zlfs.estimate.center == pytest.approx(1.2, rel=1e-6)
    assert zlfs.verdict is Verdict.HIGHER
    assert zenfs.verdict is Verdict.NO_DIFFERENCE
    assert not comparison.differences
    assert {cell.cell for cell in comparison.cells} >= {"before/zlfs", "after/zlfs"}


def test_campaigns_with_other_seeds_are_not_paired(tmp_path: Path) -> None:
    before, after = campaigns(
        tmp_path, lambda r: dataclasses.replace(grown(1.2)(r), seed=r.seed + 7)
    )
    found = row(compare(load_pool([before, after])), "zlfs")
    assert (found.estimate.method, found.verdict) == (Method.WELCH, Verdict.HIGHER)


def test_a_campaign_can_be_the_gate_of_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = map(str, campaigns(tmp_path, grown(1.2, "zlfs")))
    gate = ["compare", before, after, "--metric", WRITTEN, "--threshold"]
    assert main([*gate, "5"]) == 1
    assert (
        "regression: overwrite.device_written of after (zlfs) is worse" in capsys.readouterr().err
    )
    assert main([*gate, "25"]) == 0
    assert main(["compare", after, before, *gate[3:], "5"]) == 0  # it became better


def test_a_gate_does_not_open_for_runs_that_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(result: Result) -> Result:
        return with_status(result, Status.FAILED) if result.level == "zlfs" else result

    before, after = campaigns(tmp_path, change)
    comparison = compare(load_pool([before, after]))
    assert comparison.absent == ("after (zlfs)",)
    assert comparison.skipped["after (zlfs)"] == "no ok run (3 failed)"
    assert main(["compare", str(before), str(after), "--threshold", "5"]) == 4
    assert "after (zlfs): no ok run (3 failed)" in capsys.readouterr().err
    assert (
        main(
            [
                "compare",
                str(before),
                str(after),
                "--where",
                "level=zenfs",
                "--metric",
                WRITTEN,
                "--threshold",
                "5",
            ]
        )
        == 0
    )


def test_a_gate_does_not_open_for_a_baseline_that_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(result: Result) -> Result:
        return with_status(result, Status.FAILED) if result.level == "zlfs" else result

    before, after = campaigns(tmp_path, change)
    assert compare(load_pool([after, before])).absent == ("after (zlfs)",)
    assert main(["compare", str(after), str(before), "--threshold", "5"]) == 4
    assert "after (zlfs): no ok run (3 failed)" in capsys.readouterr().err


def test_a_gate_opens_for_runs_that_the_plan_found_infeasible(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        return with_status(result, Status.SKIPPED) if result.level == "zlfs" else result

    before, after = campaigns(tmp_path, change)
    for path in after.glob("hosts/*/runs/zlfs*/run.json"):
        reason = {"code": "infeasible", "message": "9 MiB do not fit 8 MiB", "hint": "less"}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"infeasible": reason}))
        checksums.write(path.parent)
    for pair in ([before, after], [after, before]):
        comparison = compare(load_pool(pair))
        assert comparison.skipped["after (zlfs)"] == "infeasible"
        assert comparison.absent == ()
        words = ["compare", *map(str, pair), "--metric", WRITTEN, "--threshold", "5"]
        assert main(words) == 0


OK, FAILED, SKIPPED, PLANNED = "ok", "failed", "skipped", "planned"
NEITHER = "no ok run (1 {})"


@pytest.mark.parametrize(
    ("base", "level", "absent"),
    [
        (OK, OK, {}),
        (OK, FAILED, {"b (s)": NEITHER.format(FAILED)}),
        (OK, SKIPPED, {"b (s)": NEITHER.format(SKIPPED)}),
        (OK, PLANNED, {"b (s)": "infeasible"}),
        (OK, None, {"b (s)": "no ok run (none there)"}),
        (FAILED, OK, {"a (s)": NEITHER.format(FAILED)}),
        (PLANNED, OK, {"a (s)": "infeasible"}),
        (None, OK, {"a (s)": "no ok run (none there)"}),
        (FAILED, FAILED, dict.fromkeys(("a (s)", "b (s)"), NEITHER.format(FAILED))),
        (FAILED, PLANNED, {"a (s)": NEITHER.format(FAILED), "b (s)": "infeasible"}),
        # Neither could run, for example without a program of this level.
        (SKIPPED, SKIPPED, {}),
        (PLANNED, PLANNED, {}),
        (None, SKIPPED, {}),
    ],
)
def test_values_without_an_ok_run_in_a_stratum(
    base: str | None, level: str | None, absent: dict[str, str]
) -> None:
    runs: list[Any] = [
        SimpleNamespace(
            factor={"arm": arm}.get,
            result=SimpleNamespace(status=Status(SKIPPED if status == PLANNED else status)),
            spec=SimpleNamespace(infeasible="why" if status == PLANNED else None),
        )
        for arm, status in (("a", base), ("b", level))
        if status is not None
    ]
    assert absent_strata("arm", "a", ("a", "b"), {"s": runs}) == absent


def test_hosts_are_compared_although_their_hardware_differs(tmp_path: Path) -> None:
    folder = write_on_demand(
        tmp_path / "c", series=False, hosts=("one", "two"), host_changes={"two": {"cpus": 8}}
    )

    comparison = compare(load(folder), contrast="host", baseline="one")
    found = row(comparison, "zlfs")
    assert (found.estimate.method, found.estimate.n) == (Method.PAIRED, 3)
    assert found.verdict is not Verdict.NOT_COMPARABLE
    levels = compare(load(folder))
    assert levels.rows[0].estimate.n == 6  # blocks of both hosts, each within its own


def test_any_two_cells(tmp_path: Path) -> None:
    factors = ({"scheduler": "none"}, {"scheduler": "mq-deadline"})
    pool = load_pool([write_on_demand(tmp_path / "c", series=False, factors=factors)])
    comparison = compare(
        pool,
        contrast="cell",
        baseline="zlfs-scheduler-none",
        against=["zenfs-scheduler-mq-deadline"],
    )
    (found,) = [r for r in comparison.rows if r.metric == WRITTEN]
    assert (found.level, found.stratum) == ("zenfs-scheduler-mq-deadline", "")
    assert (found.estimate.method, found.estimate.n) == (Method.PAIRED, 3)
    assert not comparison.differences  # level and scheduler are what is compared
    with pytest.raises(UsageError, match="no other cell 'ext4'"):
        compare(pool, contrast="cell", baseline="zlfs-scheduler-none", against=["ext4"])


def test_cells_of_two_campaigns(tmp_path: Path) -> None:
    comparison = compare(
        load_pool(campaigns(tmp_path, grown(1.1))),
        contrast="cell",
        baseline="before/zlfs",
        against=["after/zenfs"],
    )
    assert {(r.baseline, r.level) for r in comparison.rows} == {("before/zlfs", "after/zenfs")}
    assert row(comparison, "").estimate.method is Method.PAIRED


def test_campaigns_of_one_name_get_their_paths_as_labels(tmp_path: Path) -> None:
    one = write_on_demand(tmp_path / "a" / "c", series=False)
    other = write_on_demand(tmp_path / "b" / "c", series=False, change=grown(1.1))
    assert compare(load_pool([one, other])).values == (str(one), str(other))
    assert load_pool([one, other], ["a", "b/c.tar.xz"]).campaigns[1].label == "b/c.tar.xz"


def test_a_copy_of_a_campaign_is_no_second_measurement(tmp_path: Path) -> None:
    """Runs that count twice make intervals too narrow."""
    one = write_on_demand(tmp_path / "c", series=False)
    copy = shutil.copytree(one, tmp_path / "copy")
    for path in copy.glob("hosts/*/runs/*--r0[12]*"):
        shutil.rmtree(path)  # what is left of it was counted
    for paths, problem in (
        ([one, one], "a campaign is named twice"),
        ([one, copy], r"c and copy share the run .*--r03"),
    ):
        with pytest.raises(UsageError, match=problem):
            load_pool(paths)


def test_campaign_is_no_contrast_where_there_is_one(tmp_path: Path) -> None:
    pool = load_pool([write_on_demand(tmp_path / "c", series=False)])
    with pytest.raises(UsageError, match="no factor 'campaign'"):
        compare(pool, contrast="campaign")
    with pytest.raises(UsageError, match="no level 'xfs'"):
        compare(pool, where={"level": "xfs"})
    assert main(["compare", str(tmp_path / "c"), "--where", "level"]) == 2


def with_flag(name: str, value: object) -> Callable[[Path], None]:
    """Change a flag in every run.json of a campaign, as if it had been planned so."""

    def apply(folder: Path) -> None:
        for path in folder.glob("hosts/*/runs/*/run.json"):
            spec = json.loads(path.read_text())
            for phase in spec["phases"]:
                phase["flags"][name] = value
            path.write_text(json.dumps(spec))
            checksums.write(path.parent)

    return apply


@pytest.mark.parametrize(
    ("name", "value"),
    [("num", 7), ("value_size", 100), ("threads", 8), ("use_direct_reads", False)],
)
def test_campaigns_that_did_other_work_are_not_judged(
    tmp_path: Path, name: str, value: object
) -> None:
    before, after = campaigns(tmp_path, grown(1.2))
    with_flag(name, value)(after)
    found = row(compare(load_pool([before, after])), "zlfs")
    assert found.verdict is Verdict.NOT_COMPARABLE


@pytest.mark.parametrize(("before", "blocks"), [({"writes": True}, True), ({}, False)])
def test_direct_writes_that_were_direct_once_only_block_the_verdict(
    tmp_path: Path, before: dict[str, bool], blocks: bool
) -> None:
    def change(effective: dict[str, bool]) -> Change:
        def changed(result: Result) -> Result:
            level = {**result.manifest["level"], "direct_io": {"effective": effective}}
            return dataclasses.replace(result, manifest={**result.manifest, "level": level})

        return changed

    paths = [
        write_on_demand(tmp_path / name, series=False, change=change(effective))
        for name, effective in (("before", before), ("after", {"writes": False}))
    ]
    comparison = compare(load_pool(paths))
    assert (row(comparison, "zlfs").verdict is Verdict.NOT_COMPARABLE) is blocks
    assert comparison.differences["after (zlfs)"]  # listed in any case


def test_consequences_of_a_contrasted_factor_do_not_block(tmp_path: Path) -> None:
    factors = ({"value_size": 100}, {"value_size": 8000})
    folder = write_on_demand(tmp_path / "c", series=False, factors=factors)
    for path in folder.glob("hosts/*/runs/*/run.json"):
        spec = json.loads(path.read_text())
        for phase in spec["phases"]:
            size = spec["factors"]["value_size"]
            phase["flags"] |= {"value_size": size, "num": 10**6 // size}
        path.write_text(json.dumps(spec))
        checksums.write(path.parent)
    comparison = compare(load(folder), contrast="value_size", baseline="100")
    assert row(comparison, "zlfs").verdict is not Verdict.NOT_COMPARABLE
    assert [d.blocking for d in comparison.differences["8000 (zlfs)"] if "num" in d.key] == [False]


def test_a_factor_that_two_cells_share_does_not_explain_a_fuller_drive(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        assert result.utilisation is not None
        u_drive = 0.4 if result.factors["scheduler"] == "none" else 0.8
        drive = dataclasses.replace(result.utilisation, u_drive=u_drive)
        return dataclasses.replace(result, utilisation=drive)

    factors = [
        {"target_utilisation": share, "scheduler": scheduler}
        for share, scheduler in ((0.8, "none"), (0.8, "mq-deadline"), (0.4, "none"))
    ]
    campaign = load(write_on_demand(tmp_path / "c", series=False, factors=factors, change=change))
    base, other = (
        next(r.cell for r in campaign.latest if (r.result.level, r.result.factors) == ("zlfs", one))
        for one in factors[:2]
    )
    cells = compare(campaign, contrast="cell", baseline=base, against=[other], metrics=[WRITTEN])
    assert [one.verdict for one in cells.rows] == [Verdict.NOT_COMPARABLE]


@pytest.mark.parametrize(
    ("factor", "values", "blocks"),
    [("target_utilisation", (0.4, 0.8), False), ("scheduler", ("none", "mq-deadline"), True)],
)
def test_only_a_contrasted_utilisation_explains_a_fuller_drive(
    tmp_path: Path, factor: str, values: tuple[Any, Any], *, blocks: bool
) -> None:
    def change(result: Result) -> Result:
        assert result.utilisation is not None
        u_drive = 0.4 if result.factors[factor] == values[0] else 0.8
        drive = dataclasses.replace(result.utilisation, u_drive=u_drive)
        return dataclasses.replace(result, utilisation=drive)

    factors = [{factor: value} for value in values]
    campaign = load(write_on_demand(tmp_path / "c", series=False, factors=factors, change=change))
    comparison = compare(campaign, contrast=factor, baseline=str(values[0]))
    assert (row(comparison, "zlfs").verdict is Verdict.NOT_COMPARABLE) is blocks
    low, high = (
        next(
            run.cell
            for run in campaign.latest
            if (run.result.level, run.result.factors[factor]) == ("zlfs", value)
        )
        for value in values
    )
    cells = compare(campaign, contrast="cell", baseline=low, against=[high], metrics=[WRITTEN])
    (found,) = cells.rows
    assert (found.verdict is Verdict.NOT_COMPARABLE) is blocks


def logged(share: float | None, others: float = 1.0, phase: str = "overwrite") -> Change:
    """Set how a phase's WAL was written, for zlfs and for all other levels."""

    def change(result: Result) -> Result:
        wal_bytes, tables = 200 * MIB, 250 * MIB
        part = share if result.level == "zlfs" else others
        for name, value in (("flush_bytes", tables), ("compaction_bytes", tables)):
            result = with_metric(result, f"{phase}.{name}", value)
        known = None if part is None else wal_bytes
        result = with_metric(result, f"{phase}.wal_bytes", known)
        # Not quite the same in each run, or it would be exact.
        wobble = result.repetition * MIB // 8
        written = 2 * tables + int((part or 0) * wal_bytes) + wobble
        for name in (phase, "run"):
            result = with_metric(result, f"{name}.device_written", written)
        return result

    return change


@pytest.mark.parametrize("key", [WRITTEN, RATE])
def test_a_log_that_stayed_in_the_page_cache_blocks_the_verdict(tmp_path: Path, key: str) -> None:
    folder = write_on_demand(
        tmp_path / "c", series=False, change=logged(0.08), kind=DeviceKind.HARDWARE
    )
    found = next(r for r in compare(load(folder)).rows if (r.metric, r.level) == (key, "zlfs"))
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "100% of conventional-ext4's WAL reached the devices, 8% of zlfs's" in found.notes
    zenfs = next(r for r in compare(load(folder)).rows if (r.metric, r.level) == (key, "zenfs"))
    assert zenfs.verdict is not Verdict.NOT_COMPARABLE


@pytest.mark.parametrize("phase", ["fillrandom", "overwrite"])
def test_the_log_of_each_phase_that_writes_is_part_of_the_run(tmp_path: Path, phase: str) -> None:
    folder = write_on_demand(tmp_path / "c", series=False, change=logged(0.08, phase=phase))
    found = {row.level: row for row in compare(load(folder), metrics=["run.device_written"]).rows}
    assert found["zlfs"].verdict is Verdict.NOT_COMPARABLE
    assert (
        "100% of conventional-ext4's WAL reached the devices, 8% of zlfs's" in found["zlfs"].notes
    )
    assert found["zenfs"].verdict is not Verdict.NOT_COMPARABLE


@pytest.mark.parametrize("share", [0.93, None])
def test_a_log_that_was_written_alike_or_not_counted_is_no_obstacle(
    tmp_path: Path, share: float | None
) -> None:
    folder = write_on_demand(
        tmp_path / "c", series=False, change=logged(share), kind=DeviceKind.HARDWARE
    )
    found = compare(load(folder)).rows
    assert not any(r.verdict is Verdict.NOT_COMPARABLE for r in found)


def test_metrics_above_the_log_are_still_compared(tmp_path: Path) -> None:
    folder = write_on_demand(
        tmp_path / "c", series=False, change=logged(0.08), kind=DeviceKind.HARDWARE
    )
    rows = compare(load(folder), metrics=["overwrite.flush_bytes", "readrandom.throughput"]).rows
    assert not any(r.verdict is Verdict.NOT_COMPARABLE for r in rows)


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ({"disable_wal": 0, "sync": 0}, True),
        ({"disable_wal": 1}, False),
        ({"disable_wal": 0, "sync": 1}, False),
        ({}, False),
    ],
)
def test_an_uncounted_log_gives_a_warning(
    tmp_path: Path, flags: dict[str, int], warned: bool
) -> None:
    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        flags=dict.fromkeys(("conventional-ext4", "zlfs", "zenfs"), flags),
        change=lambda result: with_metric(result, "run.device_written", result.repetition),
    )
    rows = {(r.metric, r.level): r.notes for r in compare(load(folder)).rows}
    for metric in (WRITTEN, "run.device_written"):
        assert any("WAL not synced" in note for note in rows[metric, "zlfs"]) is warned
    assert not any("WAL" in note for note in rows["readrandom.throughput", "zlfs"])


def test_share_of_the_log_equals_recorded_runs() -> None:
    """Two real runs: f2fs kept most of its log in the page cache, zlfs wrote all of it."""
    assert wal.reached(recorded_run("f2fs_disable_wal-0--r01"), "overwrite") == pytest.approx(
        0.079, abs=0.001
    )
    assert wal.reached(recorded_run("zlfs-gc-early_disable_wal-0--r01"), "overwrite") == 1.0


def test_pool_maps_each_run_to_its_campaign(tmp_path: Path) -> None:
    pool = load_pool(campaigns(tmp_path, grown(1.0), repetitions=1))
    assert isinstance(pool, Pool)
    assert {pool.campaign_of(run).path.name for run in pool.runs} == {"before", "after"}
    assert all(pool.campaign_of(run).path in run.path.parents for run in pool.runs)
