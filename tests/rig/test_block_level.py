"""Block commands of fio on a real kernel: every layer counts the same bytes and commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.store.files import load_record
from harness.store.ledger import COLD, Closure, ClosureState, Ledger
from harness.store.result import Result, Status

from .conftest import WHOLE, RigHandle, booted
from .guest_runner import GuestRunner
from .plays import ROOT

pytestmark = pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
NULL_BLK = ROOT / "roles/null_blk/defaults/main.yml"


def closures(runner: GuestRunner, result: Result) -> Iterator[tuple[str, Closure]]:
    """Yield the closures of every phase."""
    folder = runner.results / "hosts" / "rig" / "runs" / result.run
    for entry in load_record(Ledger, folder / "ledger.json").entries:
        if entry.name != COLD:
            yield from ((entry.name, one) for one in entry.closures)


def assert_exact(runner: GuestRunner, results: dict[str, Result]) -> None:
    """Check that fio, kernel, driver and device agree in each phase."""
    for result in results.values():
        assert result.status is Status.OK, (result.reason, result.issues)
        found = list(closures(runner, result))
        assert {"fio", "fio reads", "fio write commands", "fio read commands"} <= {
            one.upper for _, one in found
        }
        assert any(one.lower.startswith("device ") for _, one in found)
        for phase, one in found:
            assert one.state is ClosureState.EXACT, (result.run, phase, one)


@pytest.fixture(scope="module")
def smoke(
    rig: RigHandle, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GuestRunner, dict[str, Result]]]:
    folder = tmp_path_factory.mktemp("block")
    runner = GuestRunner(rig, folder, f"block-{folder.name}", (), "block-smoke")
    runner.start()
    runner.wait_end()
    yield runner, runner.assert_complete()
    runner.remove()


def test_every_layer_counts_the_same(
    smoke: tuple[GuestRunner, dict[str, Result]],
) -> None:
    runner, results = smoke
    assert len(results) == 4
    assert_exact(runner, results)


def test_clients_of_a_job_run_side_by_side(
    smoke: tuple[GuestRunner, dict[str, Result]],
) -> None:
    _, results = smoke
    zoned = [result for result in results.values() if result.level == "raw-device"]
    assert len(zoned) == 2
    for result in zoned:
        for name in ("device_read", "user_bytes", "latency_p50"):
            value = result.metrics[f"job-read-beside-write.{name}"].value
            assert value is not None
            assert value > 0


@pytest.fixture(scope="module")
def null_blk(rig: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestRunner]:
    """A device that the role's options make."""
    options = yaml.safe_load(NULL_BLK.read_text())["null_blk_options"]
    rig.ssh(f"modprobe null_blk {options} && udevadm settle")
    folder = tmp_path_factory.mktemp("nullb")
    levels = ("--levels", "raw-device")
    name = f"nullb-{folder.name}"
    runner = GuestRunner(rig, folder, name, levels, "block-smoke", device="/dev/nullb0")
    yield runner
    runner.remove()
    rig.ssh("modprobe --remove null_blk")


def test_a_second_emulated_device_counts_the_same(null_blk: GuestRunner) -> None:
    """null_blk has no counters of its own, so the layer below the kernel stays unknown."""
    null_blk.start()
    null_blk.wait_end()
    results = null_blk.assert_complete()
    assert len(results) == 2
    for result in results.values():
        assert result.status is Status.OK, (result.reason, result.issues)
        assert result.device.identity.key.startswith("null_blk.nullb0.")
        for phase, one in closures(null_blk, result):
            assert one.lower.startswith("device") is (one.state is ClosureState.UNKNOWN)
            if one.state is not ClosureState.UNKNOWN:
                assert one.state is ClosureState.EXACT, (result.run, phase, one)


def test_servers_of_modelled_drives_count_the_same(tmp_path: Path) -> None:
    with booted("timed") as timed:
        runner = GuestRunner(timed, tmp_path, "block-timed", (), "block-smoke")
        runner.start()
        runner.wait_end(3600)  # seconds of the guest, which pass at once while it is idle
        results = runner.assert_complete()
    assert len(results) == 4
    assert_exact(runner, results)
