"""Block commands of fio on a real kernel: every layer counts the same bytes and commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store.files import load_record
from harness.store.ledger import COLD, Closure, ClosureState, Ledger
from harness.store.result import Result, Status
from harness.store.rundir import completed, load_result

from .conftest import WHOLE, RigHandle, booted
from .guest_runner import GuestRunner
from .plays import ROOT, Plays

pytestmark = pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")


def closures(folder: Path) -> Iterator[tuple[str, Closure]]:
    """Yield the closures of every phase of a run."""
    for entry in load_record(Ledger, folder / "ledger.json").entries:
        if entry.name != COLD:
            yield from ((entry.name, one) for one in entry.closures)


def assert_exact(runner: GuestRunner, results: dict[str, Result]) -> None:
    """Check that fio, kernel, driver and device agree in each phase."""
    for result in results.values():
        assert result.status is Status.OK, (result.reason, result.issues)
        found = list(closures(runner.results / "hosts" / "rig" / "runs" / result.run))
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


def test_the_playbook_makes_a_second_emulated_device(rig: RigHandle, tmp_path: Path) -> None:
    """null_blk has no counters of its own, so the layer below the kernel stays unknown."""
    own = Plays(rig, tmp_path, study="block-smoke", campaign="nullb", levels="raw-device")
    try:
        played = own.play(ROOT, ["ansible-playbook", "site.yml", "-e", "device=nullb0"])
        assert played.code == 0, played.text
        folders = completed(own.results / "nullb" / "hosts" / "rig" / "runs")
        assert len(folders) == 2
        for folder in folders:
            result = load_result(folder)
            assert result.status is Status.OK, (result.reason, result.issues)
            assert result.device.identity.key.startswith("null_blk.nullb0.")
            for phase, one in closures(folder):
                assert one.lower.startswith("device") is (one.state is ClosureState.UNKNOWN)
                if one.state is not ClosureState.UNKNOWN:
                    assert one.state is ClosureState.EXACT, (result.run, phase, one)
    finally:
        rig.ssh("modprobe --remove null_blk", check=False)


def test_servers_of_modelled_drives_count_the_same(tmp_path: Path) -> None:
    with booted("timed") as timed:
        runner = GuestRunner(timed, tmp_path, "block-timed", (), "block-smoke")
        runner.start()
        runner.wait_end(3600)  # seconds of the guest, which pass at once while it is idle
        results = runner.assert_complete()
    assert len(results) == 4
    assert_exact(runner, results)
