"""Tracing on a real kernel: the same numbers from the tracer, sysfs, zlfs and QEMU."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.store import packed
from harness.store.files import load_record
from harness.store.ledger import Ledger, State
from harness.store.result import Result, Status
from harness.verify import recompute

from . import plays
from .conftest import RigHandle
from .guest_runner import GuestRunner

LEVELS = "zlfs,f2fs"


@pytest.fixture(scope="module")
def runner(rig: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestRunner]:
    folder = tmp_path_factory.mktemp("trace")
    arguments = ["--levels", LEVELS, "--repetitions", "1"]
    found = GuestRunner(rig, folder, f"trace-{folder.name}", arguments)
    yield found
    found.remove()


@pytest.fixture(scope="module")
def qemu(rig: RigHandle, runner: GuestRunner) -> tuple[int, dict[str, Result]]:
    """Run the campaign; bytes that QEMU saw on the zoned namespace, and the results."""
    before = plays.written(rig)
    runner.start()
    runner.wait_end(timeout=300)
    after = plays.written(rig)
    index = [device.nsid for device in rig.state.devices].index(rig.zoned.nsid)
    return after[index] - before[index], runner.collect()


def folder(runner: GuestRunner, result: Result) -> Path:
    return runner.results / "hosts" / "rig" / "runs" / result.run


def commands(runner: GuestRunner, result: Result) -> list[dict[str, str]]:
    text = packed.text(folder(runner, result) / "series/zone_commands.csv")
    return list(csv.DictReader(text.splitlines()))


def test_no_command_is_lost_and_all_layers_agree(
    runner: GuestRunner, qemu: tuple[int, dict[str, Result]]
) -> None:
    """The ledger compares bytes with sysfs, and zone commands and pad with zlfs's own counts."""
    for result in qemu[1].values():
        found = load_record(Ledger, folder(runner, result) / "ledger.json")
        for entry in found.entries:
            states = {one.upper: one.state for one in entry.closures if "driver" in one.lower}
            used = [f"kernel {name}" for name in entry.submitted]
            own = [f"zlfs {what}" for what in ("finishes", "resets", "pad")]
            assert set(states) == {*used, *(own if result.level == "zlfs" else ())}, entry.name
            assert set(states.values()) == {State.EXACT}, entry.name
            assert entry.pad is not None
        assert recompute.of_run(folder(runner, result)) == []
        assert result.status is Status.OK, result.issues
        assert result.manifest["level"]["tracing"]["source"] == "bpftrace", result.manifest
        codes = {issue.code for issue in result.issues}
        assert not [code for code in codes if code.startswith(("closure", "trace", "not-traced"))]


def test_the_bytes_equal_qemus_count(
    runner: GuestRunner, qemu: tuple[int, dict[str, Result]]
) -> None:
    """Over both runs, from before the level was made until it was taken down."""
    traced = 0
    for result in qemu[1].values():
        table = packed.text(folder(runner, result) / "raw/zones_traced.csv")
        for row in csv.DictReader(table.splitlines()):
            traced += int(row["written"]) + int(row["zeroed"]) + int(row["appended"])
    assert traced == qemu[0] > 0


def test_zone_commands_equal_zlfs_ledger(
    runner: GuestRunner, qemu: tuple[int, dict[str, Result]]
) -> None:
    """Import and each phase mount it once. No ledger counts mkfs, which does one reset."""
    (result,) = (found for found in qemu[1].values() if found.level == "zlfs")
    opened = packed.opened(folder(runner, result) / "raw/ledger.jsonl")
    assert opened is not None
    with opened as file:
        closed: list[dict[str, Any]] = [
            line for line in map(json.loads, file) if line["event"] == "close"
        ]
    rows = commands(runner, result)
    done = [row["action"] for row in rows if row["status"] == "0" and row["zone"]]
    finishes = [cause for line in closed for cause in line["finishes"].values()]
    assert done.count("finish") == sum(cause["count"] for cause in finishes) > 0
    assert done.count("reset") == sum(sum(line["resets"].values()) for line in closed) + 1
    given_up = sum(int(row["unwritten"]) for row in rows if row["action"] == "finish")
    assert given_up == sum(cause["given_up"] for cause in finishes)


def test_series_are_there_and_cheap(
    runner: GuestRunner, qemu: tuple[int, dict[str, Result]]
) -> None:
    for result in qemu[1].values():
        for name in ("diskstats", "zones", "system", "level"):
            lines = (folder(runner, result) / f"series/{name}.csv").read_text().splitlines()
            assert len(lines) > 1, name
            assert lines[0].count(",") == lines[-1].count(",")
        with (folder(runner, result) / "series/zones.csv").open() as file:
            states = ("empty", "implicit_open", "explicit_open", "closed", "full")
            for row in csv.DictReader(file):
                assert sum(int(row[name]) for name in states) == result.device.zones
        share = result.metrics["run.harness_cpu_share"].value
        assert share is not None
        assert share < 0.25  # of runs of seconds; make bench-overhead has the real figure
