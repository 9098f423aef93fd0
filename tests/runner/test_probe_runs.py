"""The level raw-device under the whole runner, with a fake zoneprobe (captured output)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import levels
from harness.machine.guard import Guard
from harness.machine.journal import Journal, JournalEvent
from harness.observe import signatures
from harness.store.ledger import ClosureState
from harness.store.result import Status
from harness.store.spec import Bytes, ColdSpec, PhaseRole
from harness.verify import recompute
from tests.fixtures.waiting import until
from tests.runner import fakes
from tests.runner.conftest import Machine

pytestmark = pytest.mark.slow  # every test starts the runner

RUN = "raw-device--r01"
WRITTEN, PAD = 1_277_952, 454_656  # of tests/fixtures/zoneprobe


class Bare(Machine):
    """The fake machine with zoneprobe; its only run is of raw-device."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        native = root / "native"
        native.mkdir()
        (native / "zoneprobe").symlink_to(Path(__file__).parent / "fake_zoneprobe.py")
        flags = {"occupancies": "0,50", "repeats": 3, "first_writes": 4}
        phase = fakes.phase(
            "probe",
            PhaseRole.MEASURED,
            program="zoneprobe",
            flags=flags,
            operations=24,
            user_bytes_per_operation=0,
        )
        cold = ColdSpec(0.0, 1.0, Bytes(0))
        self.change_runs(run=RUN, cell="raw-device", level="raw-device", phases=(phase,), cold=cold)
        self.keep_first_run()


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bare:
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path / "native"))
    return Bare(tmp_path)


def test_a_run(bare: Bare) -> None:
    done = bare.run()
    assert done.returncode == 0, done.stderr
    found = bare.result
    assert found.status is Status.OK, found.issues
    assert found.phases[0].operations_done == 24
    assert found.metrics["probe.zoned_written"].value == WRITTEN
    assert found.metrics["probe.user_bytes"].value == WRITTEN
    assert found.metrics["probe.pad_bytes"].value == PAD
    assert found.metrics["probe.finish-50.finish_latency_mean"].unit == "us"
    assert found.metrics["probe.reset-100.reset_latency_p99"].value is None
    assert found.metrics["probe.latency_p50"].value is None
    aux = f"{bare.root}/run/{RUN}/aux/zoneprobe.jsonl"
    assert f"--ledger_file={aux}" in (bare.root / "started").read_text()
    assert recompute.of_run(bare.folder) == []
    assert list((bare.root / "run").iterdir()) == []  # nothing is left


def test_its_ledger_closes(bare: Bare) -> None:
    assert bare.run().returncode == 0
    states = {(one.upper, one.lower): one.state for one in bare.entry("probe").closures}
    assert states == {
        ("raw-device", "kernel"): ClosureState.EXACT,
        ("kernel", "device"): ClosureState.UNKNOWN,  # nobody counts behind the fake kernel
        ("raw-device space", "zone report"): ClosureState.EXACT,
    }
    assert bare.entry("probe").pad == {"explicit": PAD}


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("lost-bytes", "closure-broken"),
        ("left-over", "closure-broken"),
        ("truncate", "output-malformed"),
        ("exit", "exit-status"),
    ],
)
def test_a_failure_gives_no_result(bare: Bare, mode: str, code: str) -> None:
    (bare.root / "behave").write_text(mode)
    assert bare.run().returncode == 4
    assert bare.result.status is not Status.OK
    assert code in bare.codes()


def test_the_reason_is_the_programs(bare: Bare) -> None:
    (bare.root / "behave").write_text("exit")
    bare.run()
    reason = bare.result.reason
    assert reason is not None
    assert "active-limit: nvme0n2, zone 7" in reason.message


def test_the_series_has_a_row_for_each_cycle(bare: Bare) -> None:
    bare.run()
    header, *rows = (bare.folder / "series" / "probe.csv").read_text().splitlines()
    assert header == "t,operations,zone"
    assert len(rows) == 24


def test_changed_output_is_found(bare: Bare) -> None:
    bare.run()
    raw = bare.folder / "raw" / "probe.stdout"
    summary = json.loads(raw.read_text())
    summary["treatments"][3]["reset_ns"][0] += 10**9
    raw.write_text(json.dumps(summary))
    problems = recompute.of_run(bare.folder)
    assert any("probe.reset-50.reset_latency_max" in line for line in problems)


def test_without_the_program_it_is_skipped(bare: Bare) -> None:
    (bare.root / "native" / "zoneprobe").unlink()
    bare.run()
    reason = bare.result.reason
    assert bare.result.status is Status.SKIPPED
    assert reason is not None
    assert reason.code == "program-missing"


def test_a_killed_run_is_known_as_ours(bare: Bare) -> None:
    """Its zones are not empty; the label in the first zone proves their owner."""
    (bare.root / "behave").write_text("hang")
    child = bare.start()
    until((bare.root / "started").exists, "the probe starts")
    child.kill()
    child.communicate(timeout=30)
    fakes.set_zones(bare.root, {0: fakes.ZONE_CAPACITY, 3: 4096})
    journal = Journal(bare.root / "state" / "journal.jsonl")
    device = bare.host.device("nvme0n2")
    last = journal.last(device.identity.key)
    assert last is not None
    assert last.event is JournalEvent.UP
    read = lambda offset, length: bare.host.read(device.path, offset, length)  # noqa: E731
    assert signatures.find(read, None, levels.signatures()) == [
        signatures.Signature("zoneprobe", last.label)
    ]
    assert Guard(bare.host, journal).examine(device) == []
    (bare.root / "behave").unlink()
    assert bare.run().returncode == 0
    assert bare.result.status is Status.OK
