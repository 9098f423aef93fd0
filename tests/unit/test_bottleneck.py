"""Each bottleneck is recognised in a run made to have it (tests/fixtures/bottleneck)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.judge import bottleneck
from analysis.judge.bottleneck import UNCLEAR, PhaseMetrics
from analysis.judge.compare import compare
from analysis.read.load import load
from analysis.show.tables import tables_of
from harness.store.result import Result
from harness.store.spec import DeviceKind, PhaseRole, PhaseSpec
from harness.workloads import load_program, rocksdb
from harness.workloads.db_bench import DbBench
from tests.fixtures.campaigns import with_metric, write_campaign
from tests.fixtures.ledgers import recorded_run

FIXTURES = Path(__file__).parents[1] / "fixtures"
PLANTED = {
    "table-open": "table-open-bound",
    "stall": "stall-bound",
    "cache": "cache-bound",
    "device": "device-bound",
    "cpu": "cpu-bound",
}


def planted(name: str) -> PhaseMetrics:
    """The facts that the runner would store of a planted run."""
    folder = FIXTURES / "bottleneck"
    seen = json.loads((folder / f"{name}.json").read_text())
    flags = dict(word[2:].split("=", 1) for word in seen["flags"])
    benchmark, threads = flags["benchmarks"].removesuffix(",stats"), int(flags["threads"])
    reads = benchmark.startswith("read")
    spec = PhaseSpec(
        "p",
        benchmark,
        PhaseRole.MEASURED,
        {"statistics": True, "threads": threads},
        None,
        0 if reads else 416,
        False,
        60,
    )
    parsed = DbBench().parse(spec, (folder / f"{name}.stdout").read_text(), "")
    below = rocksdb.Below(seen["written"], seen["read"])
    values = {key: metric.value for key, metric in load_program.metrics(spec, parsed).items()}
    values |= rocksdb.metrics(spec, parsed, None, below)
    values |= {
        "cpu_seconds": seen["cpu_seconds"],
        "device_busy_share": seen["busy_ms"] / 1000 / seen["seconds"],
        "device_written": seen["written"],
    }
    return PhaseMetrics(values, reads, threads, seen["cpus"])


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bottleneck_is_distinguished_from_the_others(name: str) -> None:
    load = planted(name)
    found = bottleneck.judge(load)
    assert found.label == PLANTED[name]
    assert len(found.signs) >= 4, "of the others there was evidence too"
    first = found.signs[0]
    assert found.evidence.startswith(
        f"{first.sign.what} {first.share:.0%} ({first.sign.limit:.0%})"
    )
    # The label depends on its sign only.
    held = [sign for sign in found.signs if sign.holds]
    assert held[0] == first
    assert first.share < 1.05


def test_collecting_garbage_is_distinguished_from_not_collecting() -> None:
    """A fifth of zlfs's writes were copies; f2fs copied less. Both ran on the rig's busy CPUs."""
    ((phase, found),) = bottleneck.label_phases(
        recorded_run("zlfs-gc-early_disable_wal-0--r01")
    ).items()
    assert (phase, found.label) == ("overwrite", "gc-bound")
    assert found.evidence.startswith("moved by GC, of written bytes 23% (20%)")
    (other,) = bottleneck.label_phases(recorded_run("f2fs_disable_wal-0--r01")).values()
    assert other.label != "gc-bound"
    assert "moved by GC, of written bytes 7% (below 20%)" in other.evidence


def test_a_phase_on_a_modelled_drive_has_the_shares_of_its_machine(tmp_path: Path) -> None:
    """Its processor works half of the time, and the drive collects garbage for a tenth."""

    def change(result: Result) -> Result:
        model = "zoneblk zones-4m-0123abcd x256"
        result = replace(result, device=replace(result.device, model=model))
        for name, seconds in (("seconds", 100.0), ("cpu_seconds", 50.0), ("gc_seconds", 10.0)):
            result = with_metric(result, f"overwrite.{name}", seconds, "s")
        return result

    folder = write_campaign(
        tmp_path / "c", levels=("zlfs",), kind=DeviceKind.MODELLED, change=change, series=False
    )
    found = bottleneck.label_phases(load(folder).runs[0])["overwrite"].evidence
    assert "collecting garbage, of the time 10% (below 50%)" in found
    assert "CPU time, of the threads that had work 25% (below 90%)" in found


@pytest.mark.parametrize("name", PLANTED)
def test_without_its_sign_the_label_is_gone(name: str) -> None:
    load = planted(name)
    sign = bottleneck.judge(load).signs[0]
    metrics = {
        "table-open-bound": "table_open_share",
        "stall-bound": "stall_share",
        "cache-bound": "cache_served_share",
        "device-bound": "device_busy_share",
        "cpu-bound": "cpu_seconds",
    }
    less = replace(load, values={**load.values, metrics[sign.sign.label]: 0.0})
    assert bottleneck.judge(less).label != sign.sign.label


def stalled(**values: float) -> PhaseMetrics:
    """Return a phase whose single writer waited 80 % of 100 s, on a machine of 64 CPUs."""
    every = {"stall_share": 0.8, "seconds": 100.0, "cpu_seconds": 50.0, **values}
    return PhaseMetrics(every, reads_only=False, threads=1, cpus=64, jobs=2)


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ({"stalls_level0": 9.0, "stalls_memtable": 2.0}, "level0-bound"),
        ({"stalls_memtable": 5.0, "stalls_level0": 1.0, "stalls_pending": 1.0}, "flush-bound"),
        ({"stalls_pending": 3.0}, "compaction-bound"),
        ({"stalls_pending": 1.0, "stalls_level0": 1.0, "stalls_memtable": 1.0}, "stall-bound"),
        ({"stalls_level0": 9.0, "device_busy_share": 0.95}, "device-bound"),
        ({"stalls_level0": 9.0, "gc_seconds": 50.0}, "gc-bound"),
        ({"stalls_level0": 9.0, "gc_seconds": 49.0}, "level0-bound"),
        # Two jobs computed all the time: 2.2 threads had work, not 64.
        ({"stalls_level0": 9.0, "cpu_seconds": 205.0}, "cpu-bound"),
        ({"stalls_level0": 9.0, "cpu_seconds": 190.0}, "level0-bound"),
        ({"stalls_level0": 9.0, "compaction_cpu_share": 0.9}, "cpu-bound"),
        ({"stalls_level0": 9.0, "compaction_cpu_share": 0.89}, "level0-bound"),
        ({"stalls_memtable": 9.0, "flush_cpu_share": 0.9}, "cpu-bound"),
        ({"stall_share": 0.4, "compaction_cpu_share": 1.0, "flush_cpu_share": 1.0}, UNCLEAR),
        ({"stalls_level0": 9.0, "stall_share": 0.4}, UNCLEAR),
    ],
)
def test_a_stall_names_the_resource_that_was_short(values: dict[str, float], label: str) -> None:
    assert bottleneck.judge(stalled(**values)).label == label


def test_the_threads_that_had_work_are_no_more_than_the_cpus() -> None:
    assert stalled().workers == pytest.approx(2.2)
    assert replace(stalled(), cpus=1).workers == 1.0
    assert replace(stalled(), cpus=None).workers == 0.0
    assert replace(stalled(), reads_only=True, threads=8).workers == 8.0


def test_without_data_the_bottleneck_is_unclear() -> None:
    found = bottleneck.judge(PhaseMetrics({}, reads_only=True, threads=1, cpus=None))
    assert (found.label, found.signs, found.evidence) == (UNCLEAR, (), "")
    assert (
        bottleneck.judge(PhaseMetrics({"seconds": 0.0, "cpu_seconds": 1.0}, True, 1, 2)).signs == ()
    )


def test_the_report_has_a_row_for_each_measured_phase(tmp_path: Path) -> None:
    comparison = compare(load(write_campaign(tmp_path / "c", series=False)))
    table = tables_of(comparison)["bottlenecks"]
    assert table.header == ("run", "phase", "label", "evidence")
    ok = [run for run in comparison.campaign.latest if run.ok]
    assert len(table.rows) == 2 * len(ok)
    assert set(table.column("phase")) == {"overwrite", "readrandom"}
