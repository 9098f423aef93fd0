"""Comparison of synthetic campaigns: verdicts, fairness, exit codes, formats."""

import csv
import dataclasses
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.judge import stats
from analysis.judge.comparability import differences, gathered
from analysis.judge.compare import Comparison, compare
from analysis.judge.fingerprint import fingerprint
from analysis.judge.rows import Row
from analysis.judge.stats import Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from analysis.show.render import render
from analysis.show.report import write_report
from harness.cli.main import main
from harness.errors import UsageError
from harness.store import checksums
from harness.store.result import Issue, Result, Severity, Status
from harness.store.spec import Bytes, Claim, DeviceKind, Reason
from tests.fixtures.campaigns import MIB, with_metric, with_status, write_on_demand

WRITTEN = "overwrite.device_written"
RATE = "overwrite.throughput"


def made(tmp_path: Path, **options: Any) -> Comparison:
    return compare(load(write_on_demand(tmp_path / "c", series=False, **options)))


def row(comparison: Comparison, metric: str, level: str) -> Row:
    return next(r for r in comparison.rows if (r.metric, r.level) == (metric, level))


def if_run(
    level: str, repetition: int, change: Callable[[Result], Result]
) -> Callable[..., Result]:
    def changed(result: Result) -> Result:
        return (
            change(result) if (result.level, result.repetition) == (level, repetition) else result
        )

    return changed


def test_times_are_no_result_on_an_emulated_device_but_bytes_are(tmp_path: Path) -> None:
    comparison = made(tmp_path)
    assert row(comparison, RATE, "zenfs").verdict is Verdict.NOT_A_RESULT
    assert row(comparison, WRITTEN, "zlfs").verdict is Verdict.HIGHER
    for form in ("table", "md", "json"):
        assert "emulated device: times are not a result" in render(comparison, form)


def test_times_get_verdicts_on_hardware(tmp_path: Path) -> None:
    comparison = made(tmp_path, kind=DeviceKind.HARDWARE)
    assert row(comparison, RATE, "zenfs").verdict is Verdict.LOWER
    assert "emulated" not in render(comparison, "table")


def test_a_row_of_percentiles_names_both_statistics(tmp_path: Path) -> None:
    comparison = made(tmp_path, kind=DeviceKind.HARDWARE)
    for one in comparison.rows:
        named = any(note.startswith("values: the percentile of all runs") for note in one.notes)
        assert named == one.info.name.startswith("latency_p"), one.metric


def test_rows_are_in_the_order_of_the_metrics(tmp_path: Path) -> None:
    rows = made(tmp_path, metrics=("overwrite.gc_events", RATE)).rows
    levels = len(dict.fromkeys(row.level for row in rows))
    assert levels > 1
    expected = ["overwrite.gc_events"] * levels + [RATE] * levels
    assert [row.metric for row in rows] == expected


def test_study_metrics_select_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    comparison = made(tmp_path, metrics=("throughput", "overwrite.gc_events"))
    assert list(dict.fromkeys(r.metric for r in comparison.rows)) == [
        "fillrandom.throughput",
        RATE,
        "readrandom.throughput",
        "overwrite.gc_events",
    ]
    for asked, meant in (
        ("thruput", "did you mean throughput? "),
        ("fillrandom.p99", "did you mean latency_p99 or latency_p99_9 or latency_p99_99? "),
        ("zzz", ""),
    ):
        with pytest.raises(UsageError, match=f"no metric '{asked}'") as refused:
            compare(comparison.campaign, metrics=[asked])
        assert refused.value.hint == f"{meant}--metric '*' --format csv lists all"
    with pytest.raises(UsageError, match="no level 'dm-zap'"):
        compare(comparison.campaign, baseline="dm-zap")
    with pytest.raises(UsageError, match="no factor 'colour'"):
        compare(comparison.campaign, contrast="colour")


def served(share: float | None, base: float | None = 0.02) -> Callable[[Result], Result]:
    """Set the share of reads served by caches, for zlfs and for all other levels."""
    key = "readrandom.cache_served_share"
    return lambda r: with_metric(r, key, share if r.level == "zlfs" else base)


def test_reads_that_another_cache_served_get_no_verdict(tmp_path: Path) -> None:
    comparison = made(tmp_path, kind=DeviceKind.HARDWARE, change=served(0.6))
    rate = row(comparison, "readrandom.throughput", "zlfs")
    assert rate.verdict is Verdict.NOT_COMPARABLE
    assert "caches served 2% of conventional-ext4's reads, 60% of zlfs's" in rate.notes
    # Neither the option of another level, nor the bytes written.
    for metric, level in (("readrandom.throughput", "zenfs"), (RATE, "zlfs"), (WRITTEN, "zlfs")):
        assert row(comparison, metric, level).verdict is not Verdict.NOT_COMPARABLE


@pytest.mark.parametrize("share", [0.12, 0.0, None])
def test_caches_that_served_about_alike_are_no_obstacle(
    tmp_path: Path, share: float | None
) -> None:
    comparison = made(tmp_path, kind=DeviceKind.HARDWARE, change=served(share))
    found = row(comparison, "readrandom.throughput", "zlfs")
    assert found.verdict is not Verdict.NOT_COMPARABLE
    assert "caches served" not in " ".join(found.notes)


def test_another_baseline_inverts_the_ratio(tmp_path: Path) -> None:
    comparison = made(tmp_path)
    other = compare(comparison.campaign, baseline="zlfs")
    forward = row(comparison, WRITTEN, "zlfs").estimate.center
    back = row(other, WRITTEN, "conventional-ext4").estimate.center
    assert forward is not None
    assert back == pytest.approx(1 / forward)


def test_order_does_not_follow_the_shuffled_plan(tmp_path: Path) -> None:
    folder = write_on_demand(tmp_path / "c", series=False)
    plan = json.loads((folder / "plan.json").read_text())
    plan["hosts"][0]["runs"].reverse()
    (folder / "plan.json").write_text(json.dumps(plan))
    comparison = compare(load(folder))
    assert comparison.values == ("conventional-ext4", "zlfs", "zenfs")
    assert [cell.level for cell in comparison.cells] == list(comparison.values)


def test_failed_run_is_left_out_and_counted(tmp_path: Path) -> None:
    change = if_run("zlfs", 2, lambda r: with_status(r, Status.FAILED, "benchmark-failed"))
    comparison = made(tmp_path, change=change)
    found = row(comparison, WRITTEN, "zlfs")
    assert (found.estimate.method, found.estimate.n) == (Method.PAIRED, 2)
    assert "2 common blocks; without a partner: 1" in found.notes
    cell = next(c for c in comparison.cells if c.level == "zlfs")
    assert cell.counts == {"ok": 2, "failed": 1}
    assert cell.issues == {"benchmark-failed": 1}
    assert "benchmark-failed x1" in render(comparison, "table")


def test_null_is_excluded_and_counted(tmp_path: Path) -> None:
    change = if_run("zlfs", 2, lambda r: with_metric(r, WRITTEN, None))
    found = row(made(tmp_path, change=change), WRITTEN, "zlfs")
    assert found.estimate.n_level == 2
    assert "zlfs: 1 null" in found.notes


def test_metric_null_everywhere_is_named_not_judged(tmp_path: Path) -> None:
    comparison = made(tmp_path, metrics=(WRITTEN, "overwrite.latency_p99_99"))
    assert {r.metric for r in comparison.rows} == {WRITTEN}
    assert comparison.unmeasured == ("overwrite.latency_p99_99",)
    assert "not measured in any ok run: overwrite.latency_p99_99" in render(comparison, "table")


def test_single_repetition_is_too_few(tmp_path: Path) -> None:
    comparison = made(tmp_path, repetitions=1)
    assert row(comparison, WRITTEN, "zlfs").verdict is Verdict.TOO_FEW


def test_skipped_level_and_skipped_baseline_are_rows(tmp_path: Path) -> None:
    reason = Reason("kernel-too-old", "the kernel has no zoned xfs")
    comparison = made(tmp_path, skipped={"xfs": reason})
    assert comparison.skipped == {"xfs": reason.message}
    rows = json.loads(render(comparison, "json"))["rows"]
    assert rows[-1]["verdict"] == "skipped"
    other = compare(comparison.campaign, baseline="xfs")
    assert {r.verdict for r in other.rows} == {Verdict.NOT_COMPARABLE, Verdict.NOT_A_RESULT}
    assert "xfs has no ok run" in row(other, WRITTEN, "zlfs").notes


@pytest.mark.parametrize(
    ("flag", "value", "word"),
    [
        ("target_file_size_base", 12 * MIB, "SST size"),
        ("use_direct_reads", False, "direct reads"),
        ("sync", True, "WAL sync"),
    ],
)
def test_unfair_flags_block_the_verdict(
    tmp_path: Path, flag: str, value: object, word: str
) -> None:
    comparison = made(tmp_path, flags={"zlfs": {flag: value}})
    found = row(comparison, WRITTEN, "zlfs")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert any(note.startswith(word) for note in found.notes)
    assert row(comparison, WRITTEN, "zenfs").verdict is Verdict.HIGHER


def test_another_memory_limit_blocks(tmp_path: Path) -> None:
    campaign = made(tmp_path).campaign
    run = campaign.latest[0]
    limited = dataclasses.replace(run.spec, memory_limit=Bytes(512 * MIB))
    prints = [fingerprint(campaign, one) for one in (run, dataclasses.replace(run, spec=limited))]
    (found,) = differences(gathered(prints[:1]), gathered(prints[1:]), {"level"})
    assert found.blocking
    assert found.label == "memory limit none vs 512 MiB"


def test_a_flag_that_nobody_named_blocks_and_the_user_can_let_it_differ(tmp_path: Path) -> None:
    comparison = made(tmp_path, flags={"zlfs": {"max_background_jobs": 8}})
    assert row(comparison, WRITTEN, "zlfs").verdict is Verdict.NOT_COMPARABLE
    assert row(comparison, WRITTEN, "zenfs").verdict is Verdict.HIGHER
    allowed = compare(comparison.campaign, may_differ=["flags.max_background_jobs"])
    assert row(allowed, WRITTEN, "zlfs").verdict is Verdict.HIGHER
    assert [(d.key, d.blocking) for d in allowed.differences["zlfs"]] == [
        ("flags.max_background_jobs", False)
    ]


@pytest.mark.parametrize(
    ("recorded", "word"),
    [({"cpus": 4}, "CPU count"), ({"packages": {"rocksdb-tools": "7.8.3"}}, "RocksDB build")],
)
def test_a_difference_in_the_host_blocks_the_verdict(
    tmp_path: Path, recorded: dict[str, Any], word: str
) -> None:
    def change(result: Result) -> Result:
        if result.level != "zlfs":
            return result
        host = {**result.manifest["host"], **recorded}
        return dataclasses.replace(result, manifest={**result.manifest, "host": host})

    found = row(made(tmp_path, change=change), WRITTEN, "zlfs")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert any(note.startswith(word) for note in found.notes)


def with_build(result: Result, build: str, *, own: bool = False) -> Result:
    """Return the result with this build; ``own``: the level has its own db_bench."""
    key, record = "level" if own else "host", {"rocksdb_build": {"id": build, "kind": "source"}}
    part = {**result.manifest[key], **record}
    return dataclasses.replace(result, manifest={**result.manifest, key: part})


@pytest.mark.parametrize("own", [False, True], ids=["the host's db_bench", "the level's own"])
def test_a_level_of_another_build_is_refused_and_the_others_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: bool
) -> None:
    def change(result: Result) -> Result:
        result = with_build(result, "7.8.3-aaaa")
        return with_build(result, "7.8.3-bbbb", own=own) if result.level == "zlfs" else result

    comparison = made(tmp_path, change=change)
    found = row(comparison, WRITTEN, "zlfs")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "RocksDB build 7.8.3-aaaa vs 7.8.3-bbbb" in found.notes
    assert row(comparison, WRITTEN, "zenfs").verdict is not Verdict.NOT_COMPARABLE
    assert main(["compare", str(comparison.campaign.path)]) == 2
    output = capsys.readouterr()
    assert "zlfs: 7.8.3-aaaa vs 7.8.3-bbbb" in output.err
    assert WRITTEN in output.out


def test_builds_that_are_mixed_alike_on_both_sides_are_refused_too(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        return with_build(result, "7.8.3-aaaa" if result.repetition == 1 else "7.8.3-bbbb")

    comparison = made(tmp_path, change=change)
    assert row(comparison, WRITTEN, "zlfs").verdict is Verdict.NOT_COMPARABLE
    assert main(["compare", str(comparison.campaign.path)]) == 2


def test_one_build_for_all_is_compared(tmp_path: Path) -> None:
    comparison = made(tmp_path, change=lambda result: with_build(result, "7.8.3-aaaa"))
    assert row(comparison, WRITTEN, "zlfs").verdict is Verdict.HIGHER
    assert main(["compare", str(comparison.campaign.path)]) == 0


def test_another_governor_blocks(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        governor = "powersave" if result.level == "zlfs" else "performance"
        host = {**result.manifest["host"], "governor": governor}
        return dataclasses.replace(result, manifest={**result.manifest, "host": host})

    comparison = made(tmp_path, change=change)
    assert row(comparison, WRITTEN, "zlfs").verdict is Verdict.NOT_COMPARABLE
    # Neither the level's own mount options nor the boot id count as differences.
    assert [d.key for d in comparison.differences["zlfs"]] == ["manifest.governor"]


def test_an_emptier_drive_blocks(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        assert result.utilisation is not None
        u_drive = 0.4 if result.level == "zlfs" else 0.8
        return dataclasses.replace(
            result, utilisation=dataclasses.replace(result.utilisation, u_drive=u_drive)
        )

    comparison = made(tmp_path, change=change)
    found = row(comparison, WRITTEN, "zlfs")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "utilisation of the drive 80.0% vs 40.0%" in found.notes
    allowed = compare(comparison.campaign, may_differ=["utilisation.u_drive"])
    assert row(allowed, WRITTEN, "zlfs").verdict is Verdict.HIGHER
    (listed,) = allowed.differences["zlfs"]
    assert (listed.key, listed.consequence) == ("utilisation.u_drive", "declared")


@pytest.mark.parametrize("unknown", ["conventional-ext4", "zlfs"])
def test_an_unknown_utilisation_of_the_drive_does_not_block(tmp_path: Path, unknown: str) -> None:
    def change(result: Result) -> Result:
        return dataclasses.replace(result, utilisation=None) if result.level == unknown else result

    assert row(made(tmp_path, change=change), WRITTEN, "zlfs").verdict is Verdict.HIGHER


def test_levels_that_never_collected_have_nothing_to_compare(tmp_path: Path) -> None:
    issue = Issue("gc-never-ran", Severity.WARNING, "no GC", "overwrite")
    change = if_run("zlfs", 1, lambda r: dataclasses.replace(r, issues=(issue,)))
    comparison = made(tmp_path, change=change)
    assert row(comparison, WRITTEN, "zlfs").verdict is Verdict.NOTHING
    assert row(comparison, WRITTEN, "zenfs").verdict is Verdict.HIGHER
    assert row(comparison, "fillrandom.device_written", "zlfs").verdict is Verdict.HIGHER


@pytest.mark.parametrize(("turnover", "word"), [(0.1, Verdict.HIGHER), (0.5, Verdict.NOTHING)])
def test_less_than_the_declared_turnover_has_nothing_to_compare(
    tmp_path: Path, turnover: float, word: Verdict
) -> None:
    """The synthetic device has a capacity of 2304 MiB; zlfs writes 524 MiB."""
    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        change=lambda r: with_metric(r, "run.device_written", r.metrics[WRITTEN].value),
    )
    plan = json.loads((folder / "plan.json").read_text())
    plan["definition"] = {"study": {"turnover": turnover}, "workload": {}}
    (folder / "plan.json").write_text(json.dumps(plan))
    found = row(compare(load(folder)), WRITTEN, "zlfs")
    assert found.verdict is word
    assert any("the study declares 0.5" in note for note in found.notes) == (turnover == 0.5)


def test_a_small_difference_in_memory_is_allowed(tmp_path: Path) -> None:
    def changed_by(share: float) -> Callable[[Result], Result]:
        def change(result: Result) -> Result:
            size = int(2048 * MIB * (1 + (share if result.level == "zlfs" else 0)))
            host = {**result.manifest["host"], "memory_bytes": size}
            return dataclasses.replace(result, manifest={**result.manifest, "host": host})

        return change

    assert (
        row(made(tmp_path / "a", change=changed_by(0.001)), WRITTEN, "zlfs").verdict
        is Verdict.HIGHER
    )
    far = row(made(tmp_path / "b", change=changed_by(0.5)), WRITTEN, "zlfs")
    assert far.verdict is Verdict.NOT_COMPARABLE


def test_other_factor_makes_strata_and_can_be_the_contrast(tmp_path: Path) -> None:
    factors = ({"scheduler": "none"}, {"scheduler": "mq-deadline"})
    comparison = made(tmp_path, factors=factors, levels=("zlfs", "zenfs"))
    written = [r for r in comparison.rows if r.metric == WRITTEN]
    assert [(r.level, r.stratum) for r in written] == [
        ("zenfs", "scheduler mq-deadline"),
        ("zenfs", "scheduler none"),
    ]
    assert all(r.estimate.n == 3 and r.estimate.method is Method.PAIRED for r in written)
    other = compare(comparison.campaign, contrast="scheduler", baseline="none")
    written = [r for r in other.rows if r.metric == WRITTEN]
    assert [(r.level, r.stratum) for r in written] == [
        ("mq-deadline", "zenfs"),
        ("mq-deadline", "zlfs"),
    ]
    assert not other.differences  # the scheduler is the factor, not unfairness


def test_blocks_spread_over_two_hosts_pair_within_their_host(tmp_path: Path) -> None:
    comparison = made(
        tmp_path, repetitions=2, hosts=("one", "two"), host_changes={"two": {"cpus": 4}}
    )
    found = row(comparison, WRITTEN, "zlfs")
    assert (found.estimate.method, found.estimate.n) == (Method.PAIRED, 4)
    assert not comparison.differences  # both sides ran on both hosts


def test_claims_are_holm_corrected(tmp_path: Path) -> None:
    claims = (
        Claim("C1", WRITTEN, "zlfs", "conventional-ext4", "worse"),
        Claim("C2", WRITTEN, "zenfs", "conventional-ext4", "better"),
        Claim("C3", RATE, "zenfs", "conventional-ext4", "worse"),  # a time: no result here
    )
    comparison = made(tmp_path, claims=claims)
    first, second, third = (row(comparison, claim.metric, claim.level) for claim in claims)
    p = sorted(stats.p_beyond(r.estimate, r.floor) or 0 for r in (first, second))
    assert sorted(r.p_holm or 0 for r in (first, second)) == pytest.approx(
        sorted([2 * p[0], max(2 * p[0], p[1])])
    )
    assert (third.p_holm, third.verdict) == (None, Verdict.NOT_A_RESULT)
    assert "claim C2: expected better" in render(comparison, "table")


def test_warnings_of_ok_runs_travel_with_their_phase(tmp_path: Path) -> None:
    issue = Issue("gc-never-ran", Severity.WARNING, "no GC", "overwrite")
    change = if_run("zlfs", 1, lambda r: dataclasses.replace(r, issues=(issue,)))
    comparison = made(tmp_path, change=change)
    assert "gc-never-ran x1" in row(comparison, WRITTEN, "zlfs").notes
    fill = row(comparison, "fillrandom.device_written", "zlfs")
    assert not any("gc-never-ran" in note for note in fill.notes)


def test_csv_and_json_carry_raw_numbers(tmp_path: Path) -> None:
    comparison = made(tmp_path)
    found = row(comparison, WRITTEN, "zlfs").estimate
    line = next(
        line
        for line in csv.DictReader(io.StringIO(render(comparison, "csv")))
        if (line["metric"], line["level"]) == (WRITTEN, "zlfs")
    )
    assert float(line["center"]) == found.center
    assert float(line["baseline_mean"]) == found.base_mean
    assert line["unit"] == "B"
    document = json.loads(render(comparison, "json"))
    assert document["schema_version"] == 1
    assert len(document["rows"]) == len(comparison.rows)


def test_repetitions_for_an_effect_have_a_line_also_where_they_are_unknown(tmp_path: Path) -> None:
    known = render(made(tmp_path, repetitions=3), "table", 0.05)
    assert re.search(r"- to show 5 %: overwrite.device_written, zlfs: \d+ repetitions", known)
    assert ": unknown" not in known
    assert "- to show 5 %: overwrite.throughput" not in known  # a time on an emulated device
    single = render(made(tmp_path / "one", repetitions=1), "table", 0.05)
    assert "- to show 5 %: unknown, no row with a verdict has an interval" in single
    assert "- to show" not in render(made(tmp_path / "two", repetitions=1), "table")


def test_table_fits_a_terminal(tmp_path: Path) -> None:
    table = render(made(tmp_path, flags={"zlfs": {"sync": True}}), "table")
    assert max(map(len, table.splitlines())) <= 120
    assert "MiB" in table
    assert "Kops/s" not in table
    hardware = made(tmp_path / "real", kind=DeviceKind.HARDWARE)
    assert "Kops/s" in render(hardware, "table")


def _metrics_of(text: str) -> set[str]:
    """Return the metrics that begin a block of rows in a terminal table."""
    return {
        line.partition(",")[0].split(" ")[0] for line in text.splitlines() if ", baseline" in line
    }


def test_one_sentence_stands_for_all_times_of_an_emulated_device(tmp_path: Path) -> None:
    folder = write_on_demand(tmp_path / "c", series=False)
    comparison = compare(load(folder))
    assert RATE in {row.metric for row in comparison.rows}
    table = render(comparison, "table")
    assert WRITTEN in _metrics_of(table)
    assert RATE not in _metrics_of(table)
    assert "Times of an emulated device are not a result" in table
    assert RATE in comparison.untimed
    for form in ("md", "table"):
        assert "not a result |" not in render(comparison, form)
    for form in ("csv", "json"):
        assert "not a result" in render(comparison, form)
    page, _ = write_report(comparison, tmp_path / "out")
    assert f'id="row-{RATE}"' not in page.read_text()
    assert "so these metrics have no row" in page.read_text()


def test_times_have_rows_where_the_user_names_them_or_the_device_gives_them(tmp_path: Path) -> None:
    folder = write_on_demand(tmp_path / "c", series=False)
    named = compare(load(folder), metrics=[RATE])
    assert RATE in _metrics_of(render(named, "table"))
    assert not named.untimed
    for kind in (DeviceKind.HARDWARE, DeviceKind.MODELLED):
        comparison = made(tmp_path / kind.value, kind=kind)
        assert RATE in _metrics_of(render(comparison, "table")), kind
        assert not comparison.untimed


class TestCommand:
    def run(self, *arguments: object) -> int:
        return main(["compare", *map(str, arguments)])

    def test_exit_codes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = write_on_demand(tmp_path / "c", series=False)
        assert self.run(folder) == 0
        assert WRITTEN in capsys.readouterr().out
        assert self.run(folder, "--threshold", 5) == 1
        assert f"regression: {WRITTEN} of zlfs" in capsys.readouterr().err
        assert self.run(folder, "--threshold", 500, "--metric", WRITTEN) == 0
        capsys.readouterr()
        assert self.run(folder, "--threshold", 5, "--metric", RATE) == 4  # not a result
        assert "no row has a verdict" in capsys.readouterr().err
        assert self.run(folder, "--threshold", -1) == 2
        assert self.run(folder, "--metric", "nope") == 2
        assert self.run(tmp_path / "nothing") == 2

    def test_no_ok_run(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = write_on_demand(
            tmp_path / "c", series=False, change=lambda r: with_status(r, Status.INVALID)
        )
        assert self.run(folder) == 4
        captured = capsys.readouterr()
        assert "no ok run (3 invalid)" in captured.out
        assert "no run of this campaign is ok" in captured.err

    def test_campaign_that_has_not_begun(self, tmp_path: Path) -> None:
        folder = write_on_demand(tmp_path / "c", drop=lambda _: True)
        for form in ("table", "json", "csv", "md"):
            assert self.run(folder, "--format", form) == 4


def test_variants_of_a_level_are_rows_of_their_own(tmp_path: Path) -> None:
    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        levels=("zlfs", "zlfs-gc-on", "zlfs-gc-off"),
        claims=(Claim("c", WRITTEN, "zlfs-gc-off", "zlfs", "different"),),
    )
    for path in folder.rglob("*.json"):
        path.write_text(json.dumps(_with_variants(json.loads(path.read_text()))))
    for path in folder.glob("hosts/*/runs/*"):
        checksums.write(path)
    comparison = compare(load(folder))
    assert {run.spec.level for run in comparison.campaign.runs} == {"zlfs"}
    assert set(comparison.values) == {"zlfs", "zlfs-gc-on", "zlfs-gc-off"}
    assert comparison.values[0] == "zlfs"
    assert row(comparison, WRITTEN, "zlfs-gc-off").claim == "c"
    assert row(comparison, WRITTEN, "zlfs-gc-on").estimate.n == 3
    assert {cell.level for cell in comparison.cells} == set(comparison.values)


def test_the_planned_twin_of_a_factor_only_sets_the_floor(tmp_path: Path) -> None:
    """Its runs are no stratum and no row, also of a claim, but they are counted."""
    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        levels=("zlfs", "zlfs-twin"),
        factors=({"scheduler": "none"}, {"scheduler": "mq-deadline"}),
        claims=(Claim("c", WRITTEN, "mq-deadline", "none", "different"),),
        drop=lambda spec: spec.cell == "zlfs-twin-scheduler-mq-deadline",
        change=lambda result: (
            with_metric(result, WRITTEN, 1.2 * (result.metrics[WRITTEN].value or 0))
            if result.level == "zlfs-twin"
            else result
        ),
    )
    for path in folder.rglob("*.json"):
        path.write_text(json.dumps(_with_variants(json.loads(path.read_text()))))
    for path in folder.glob("hosts/*/runs/*"):
        checksums.write(path)
    plan = folder / "plan.json"
    study = json.loads(plan.read_text()) | {"contrast": "scheduler", "baseline": "none"}
    plan.write_text(json.dumps(study))
    campaign = load(folder)
    comparison = compare(campaign, metrics=[WRITTEN])
    assert [(row.level, row.stratum) for row in comparison.rows] == [("mq-deadline", "")]
    assert [(row.level, row.stratum) for row in comparison.claims] == [("mq-deadline", "")]
    assert not comparison.skipped
    floor = comparison.floors[WRITTEN]
    assert len(floor.twins) == 1
    assert floor.floor > 0.05
    assert {cell.level for cell in comparison.cells} == {"zlfs", "zlfs-twin"}
    where = {"scheduler": "none"}
    by_level = compare(campaign, contrast="level", baseline="zlfs", metrics=[WRITTEN], where=where)
    assert [row.level for row in by_level.rows] == ["zlfs-twin"], "levels show the pair itself"


def _with_variants(data: Any) -> Any:
    """Turn level ``zlfs-…`` of runs and results into level ``zlfs`` and a variant."""
    if isinstance(data, list):
        return [_with_variants(item) for item in data]
    if not isinstance(data, dict):
        return data
    data = {key: _with_variants(value) for key, value in data.items()}
    level, dash, variant = str(data.get("level")).partition("-")
    if level == "zlfs" and dash and "claims" not in data and "expect" not in data:
        data["level"] = level
        if "level_options" in data:
            data["variant"] = variant
    return data


def test_a_phase_of_other_levels_has_no_row(tmp_path: Path) -> None:
    """Levels of a block-level study have phases of their own, and are strata."""
    folder = write_on_demand(tmp_path / "c", series=False, hosts=("a", "b"))
    for path in folder.glob("hosts/*/runs/zlfs*/run.json"):
        spec = json.loads(path.read_text())
        spec["phases"] = [one for one in spec["phases"] if one["name"] != "readrandom"]
        path.write_text(json.dumps(spec))
        checksums.write(path.parent)
    rows = compare(load(folder), contrast="host", metrics=["*.throughput"]).rows
    found = {(row.metric, row.stratum) for row in rows}
    assert ("readrandom.throughput", "zenfs") in found
    assert ("overwrite.throughput", "zlfs") in found
    assert ("readrandom.throughput", "zlfs") not in found
