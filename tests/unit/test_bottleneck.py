"""Each bottleneck is told from the others, on a run planted for it (tests/fixtures/bottleneck)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import bottleneck
from analysis.bottleneck import Label, Load
from analysis.compare import compare
from analysis.load import RunRecord, load
from analysis.tables import tables_of
from harness.store import rundir
from harness.store.spec import PhaseRole, PhaseSpec
from harness.workloads import db_bench, rocksdb
from tests.fixtures.campaigns import write_campaign

FIXTURES = Path(__file__).parents[1] / "fixtures"
PLANTED = {
    "table-open": Label.TABLE_OPEN,
    "stall": Label.STALL,
    "cache": Label.CACHE,
    "device": Label.DEVICE,
    "cpu": Label.CPU,
}


def planted(name: str) -> Load:
    """What the runner would make of a planted run."""
    folder = FIXTURES / "bottleneck"
    seen = json.loads((folder / f"{name}.json").read_text())
    flags = dict(word[2:].split("=", 1) for word in seen["flags"])
    benchmark, threads = flags["benchmarks"].removesuffix(",stats"), int(flags["threads"])
    reads = benchmark.startswith("read")
    spec = PhaseSpec(
        "p", benchmark, PhaseRole.MEASURED, {"statistics": True, "threads": threads},
        None, 0 if reads else 416, False, 60,
    )  # fmt: skip
    parsed = db_bench.parse(spec, (folder / f"{name}.stdout").read_text(), "")
    below = rocksdb.Below(seen["written"], seen["read"])
    values = {key: metric.value for key, metric in db_bench.metrics(spec, parsed).items()}
    values |= rocksdb.metrics(spec, parsed, None, below)
    values |= {
        "cpu_seconds": seen["cpu_seconds"],
        "device_busy_share": seen["busy_ms"] / 1000 / seen["seconds"],
        "device_written": seen["written"],
    }
    return Load(values, reads, threads, seen["cpus"])


def recorded(name: str) -> RunRecord:
    folder = FIXTURES / "ledger" / name
    return RunRecord("rig", folder, rundir.load_spec(folder), rundir.load_result(folder))


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_run_is_told_from_the_others(name: str) -> None:
    load = planted(name)
    found = bottleneck.judge(load)
    assert found.label is PLANTED[name]
    assert len(found.signs) >= 4, "of the others there was evidence too"
    first = found.signs[0]
    assert found.evidence.startswith(f"{first.what} {first.share:.0%} ({first.limit:.0%})")
    # What made the label is what it hangs on.
    held = [sign for sign in found.signs if sign.holds]
    assert held[0] == first
    assert first.share < 1.05


def test_collecting_garbage_is_told_from_not_collecting() -> None:
    """A fifth of what zlfs wrote were copies; f2fs copied less. Both on the rig's busy CPUs."""
    ((spec, found),) = bottleneck.of_run(recorded("zlfs-gc-early_disable_wal-0--r01"))
    assert (spec.name, found.label) == ("overwrite", Label.GC)
    assert found.evidence.startswith("moved by GC, of written bytes 23% (20%)")
    ((_, other),) = bottleneck.of_run(recorded("f2fs_disable_wal-0--r01"))
    assert other.label is not Label.GC
    assert "moved by GC, of written bytes 7% (below 20%)" in other.evidence


@pytest.mark.parametrize("name", PLANTED)
def test_without_its_sign_the_label_is_gone(name: str) -> None:
    load = planted(name)
    sign = bottleneck.judge(load).signs[0]
    metrics = {
        Label.TABLE_OPEN: "table_open_share",
        Label.STALL: "stall_share",
        Label.CACHE: "cache_served_share",
        Label.DEVICE: "device_busy_share",
        Label.CPU: "cpu_seconds",
    }
    less = replace(load, values={**load.values, metrics[sign.label]: 0.0})
    assert bottleneck.judge(less).label is not sign.label


def test_nothing_known_is_unclear() -> None:
    found = bottleneck.judge(Load({}, reads_only=True, threads=1, cpus=None))
    assert (found.label, found.signs, found.evidence) == (Label.UNCLEAR, (), "")
    assert bottleneck.judge(Load({"seconds": 0.0, "cpu_seconds": 1.0}, True, 1, 2)).signs == ()


def test_the_report_has_a_row_for_each_measured_phase(tmp_path: Path) -> None:
    comparison = compare(load(write_campaign(tmp_path / "c", series=False)))
    header, rows = tables_of(comparison)["bottlenecks"]
    assert header == ("run", "phase", "label", "evidence")
    ok = [run for run in comparison.campaign.latest if run.ok]
    assert len(rows) == 2 * len(ok)
    assert {row[1] for row in rows} == {"overwrite", "readrandom"}
