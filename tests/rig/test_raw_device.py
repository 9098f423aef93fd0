"""Commands to bare zones on a real kernel: all layers' counts agree, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.store import packed
from harness.store.campaign import load_plan
from harness.store.files import load_record
from harness.store.ledger import COLD, ClosureState, Ledger
from harness.store.result import Result, Status
from harness.tools import zoneprobe

from . import plays
from .conftest import RigHandle
from .guest_runner import GuestRunner

SMALL = "factors={repeats: [2], first_writes: [8]}"
FEW = ("--repetitions", "1", "--set", SMALL, "--set", "twin=false")
LABEL = 4096


@pytest.fixture(scope="module")
def runner(rig: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestRunner]:
    folder = tmp_path_factory.mktemp("probe")
    found = GuestRunner(rig, folder, f"probe-{folder.name}", FEW, "reset-history")
    yield found
    found.remove()


@pytest.fixture(scope="module")
def ran(rig: RigHandle, runner: GuestRunner) -> tuple[int, Result]:
    """Run the campaign; bytes that QEMU saw on the zoned namespace, and the result."""
    before = plays.written(rig)
    runner.start()
    runner.wait_end()
    after = plays.written(rig)
    index = [device.nsid for device in rig.state.devices].index(rig.zoned.nsid)
    (result,) = runner.assert_complete().values()
    return after[index] - before[index], result


def test_all_layers_agree(runner: GuestRunner, ran: tuple[int, Result]) -> None:
    written, result = ran
    assert result.status is Status.OK, result.issues
    folder = runner.results / "hosts" / "rig" / "runs" / result.run
    ledger = load_record(Ledger, folder / "ledger.json")
    for entry in ledger.entries:
        states = {(one.upper, one.lower): one.state for one in entry.closures}
        if entry.name == COLD:  # no program has counted yet, and nothing was written
            assert sum(entry.submitted.values()) == 0
            continue
        assert set(states.values()) == {ClosureState.EXACT}, (entry.name, states)
        uppers = {upper for upper, _ in states}
        assert {f"raw-device {what}" for what in ("finishes", "resets", "pad", "space")} <= uppers
    found = ledger.entry("probe")
    assert found is not None
    (planned,) = load_plan(runner.results / "plan.json").hosts[0].runs
    assert sum(found.submitted.values()) == planned.predicted.bytes_written
    assert sum(found.accepted.values()) == planned.predicted.bytes_written
    assert written == planned.predicted.bytes_written + LABEL


def test_the_tracer_saw_the_same_commands(runner: GuestRunner, ran: tuple[int, Result]) -> None:
    """Counts all commands, also resets of empty zones, which change nothing."""
    _, result = ran
    folder = runner.results / "hosts" / "rig" / "runs" / result.run
    summary = zoneprobe.parse(packed.text(folder / "raw" / "probe.stdout"))
    assert summary is not None
    resets = sum(len(one.resets) for one in summary.treatments) + summary.operations
    assert result.metrics["probe.zone_resets"].value == resets
    # A finish of an empty zone fills it, too.
    finishes = sum(len(one.finishes) for one in summary.treatments)
    assert result.metrics["probe.zone_finishes"].value == finishes


def test_every_treatment_was_timed(ran: tuple[int, Result]) -> None:
    _, result = ran
    for key in ("fresh.first_write", "reset-6.25.reset", "finish-all-but-block.finish"):
        value = result.metrics[f"probe.{key}_latency_mean"].value
        assert value is not None
        assert value > 0
