"""The level raw-conventional under the whole runner, with a fake fio (captured output)."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.read.block import points_of
from analysis.read.block_clients import clients_of
from analysis.read.load import RunRecord
from harness import levels
from harness.machine.guard import Guard
from harness.machine.journal import Journal
from harness.observe import signatures
from harness.store.files import dumps, load_record
from harness.store.ledger import ClosureState
from harness.store.result import Severity, Status
from harness.store.rundir import load_result
from harness.store.spec import Bytes, ColdSpec, PhaseRole, RunSpec
from harness.verify import agreement, recompute
from tests.fixtures.fio_plans import CLIENTS, CONVENTIONAL_DEVICE, content_of, made, planned
from tests.fixtures.waiting import until
from tests.runner import fakes
from tests.runner.conftest import Machine

pytestmark = pytest.mark.slow  # every test starts the runner

RUN = "raw-conventional--r01"
# Of tests/fixtures/fio: commands of 4 KiB.
WRITES, READS = 4000, 3000


class Bare(Machine):
    """The fake machine with fio; its only run is of raw-conventional."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.programs = root / "programs"
        self.programs.mkdir()
        (self.programs / "fio").symlink_to(Path(__file__).parent / "fake_fio.py")
        self.use_conventional()
        phases = tuple(
            fakes.phase(
                rw,
                PhaseRole.MEASURED,
                program="fio",
                flags={"rw": rw, "bs": 4096, "io_size": commands * 4096},
                operations=commands,
                user_bytes_per_operation=4096 if rw == "randwrite" else 0,
                stall_seconds=0,
            )
            for rw, commands in (("randwrite", WRITES), ("randread", READS))
        )
        cold = ColdSpec(0.0, 1.0, Bytes(0))
        names = {"run": RUN, "cell": "raw-conventional", "level": "raw-conventional"}
        self.change_runs(phases=phases, cold=cold, **names)
        self.keep_first_run()

    def behave(self, mode: str) -> None:
        (self.root / "behave").write_text(mode)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bare:
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    return Bare(tmp_path)


def test_a_run(bare: Bare) -> None:
    done = bare.run()
    assert done.returncode == 0, done.stderr
    found = bare.result
    assert found.status is Status.OK, found.issues
    assert "not-discarded" not in bare.codes()
    assert found.metrics["randwrite.operations"].value == WRITES
    assert found.metrics["randwrite.user_bytes"].value == WRITES * 4096
    assert found.metrics["randwrite.conventional_written"].value == WRITES * 4096
    assert found.metrics["randwrite.merged_share"].value == 3 / WRITES
    assert found.metrics["randread.device_read"].value == READS * 4096
    assert found.metrics["randread.latency_p50"].value == pytest.approx(31, rel=0.9)
    assert (bare.folder / "histograms" / "randread.read.json").exists()
    argv = found.phases[0].argv
    assert f"--filename={bare.root}/dev/nvme0n1" in argv
    assert "--randseed=7" in argv
    assert recompute.of_run(bare.folder) == []
    assert list((bare.root / "run").iterdir()) == []  # nothing is left


def test_a_job_has_a_row_for_each_client(bare: Bare) -> None:
    spec = planned(made(jobs=[content_of(CLIENTS)]), CONVENTIONAL_DEVICE)["job-clients"]
    bare.change_runs(phases=(*bare.plan.hosts[0].runs[0].phases, spec))
    assert bare.run().returncode == 0, bare.result.issues
    assert recompute.of_run(bare.folder) == []
    spec_of_run = load_record(RunSpec, bare.folder / "run.json")
    assert list(agreement.of_run(bare.folder, spec_of_run, bare.result)) == []
    slower = replace(spec, flags={**spec.flags, "mixed.rate": "1,1"})
    other = replace(spec_of_run, phases=(*spec_of_run.phases[:-1], slower))
    (line,) = agreement.of_run(bare.folder, other, bare.result)
    assert line.endswith("argv: has --rate=786432,262144, run.json gives --rate=1,1")
    record = RunRecord("host", bare.folder, spec_of_run, bare.result)
    found = {(one.client, one.operation): one for one in clients_of([record])}
    assert set(found) == {
        ("log", "write"),
        ("extents", "write"),
        ("mixed", "read"),
        ("mixed", "write"),
    }
    mixed = found["mixed", "read"]
    assert (mixed.job, round(mixed.iops)) == ("clients", 192)  # in 1.001 s
    assert mixed.bandwidth == mixed.iops * 4096
    assert found["log", "write"].p50 != found["extents", "write"].p50
    assert {point.rw for point in points_of([record])} == {"randwrite", "randread"}
    disk = spec_of_run.conventional
    assert disk is not None
    for level, model in (("raw-conventional", "a disk"), ("raw-device", spec_of_run.device.model)):
        changed = replace(
            spec_of_run, level=level, conventional=replace(disk, model="a disk"), variant=""
        )
        assert {point.model for point in points_of([replace(record, spec=changed)])} == {model}


def test_its_ledger_closes(bare: Bare) -> None:
    assert bare.run().returncode == 0
    for name, written, read in (
        ("randwrite", WRITES, 0),
        ("randread", 0, READS),
        ("run", WRITES, READS),
    ):
        found = {(one.upper, one.lower): one for one in bare.entry(name).closures}
        assert {pair: one.state for pair, one in found.items()} == {
            ("fio", "kernel"): ClosureState.EXACT,
            ("fio reads", "kernel reads"): ClosureState.EXACT,
            ("fio write commands", "kernel write requests"): ClosureState.EXACT,
            ("fio read commands", "kernel read requests"): ClosureState.EXACT,
            ("kernel", "device"): ClosureState.UNKNOWN,  # nobody counts behind the fake kernel
        }
        assert found["fio", "kernel"].above == written * 4096
        assert found["fio reads", "kernel reads"].above == read * 4096
        requests = found["fio write commands", "kernel write requests"]
        assert (requests.above, requests.unit) == (written, "1")
        assert requests.explained == ({"merged": -3} if written else {})


# Each with the status and the code of its own, the code of an issue, and the words of the reason or
# of that issue. The reason has the code where the run failed, else the issue.
FAULTS = {
    "killed": (Status.FAILED, "fio-killed", "exit-status", "fio ended with signal 9 in phase"),
    "option": (Status.FAILED, "fio-refused", "exit-status", "Did you mean zonemode?"),
    "full": (Status.FAILED, "no-space", "no-space", "No space left on device"),
    "error": (Status.FAILED, "fio-error", "fio-error", "Input/output error"),
    "truncate": (Status.INVALID, "fio-incomplete", "", "it ends inside the JSON"),
    "kind": (Status.INVALID, "fio-mixed", "", "mixes jobs of different kinds"),
    "clat": (Status.INVALID, "output-malformed", "", "no histogram of lat"),
    "old": (Status.INVALID, "fio-version", "", "fio-3.29 is too old"),
    "early": (Status.INVALID, "fio-ended-early", "", "moved 8192000 of 16384000 B"),
    "short": (Status.INVALID, "fio-short", "", "2 short or dropped commands"),
}
# Counters of other layers that differ have one code, and messages of their own.
LOST = {
    "lost-write-bytes": "fio (16384000 B) and kernel",
    "lost-write-command": "fio write commands (4000)",
    "lost-read-bytes": "fio reads (0 B)",
    "lost-read-command": "fio read commands (0)",
}


def test_faults_have_a_status_and_code_each() -> None:
    assert len({(status, code) for status, code, _, _ in FAULTS.values()}) == len(FAULTS) == 10


@pytest.mark.parametrize("mode", FAULTS)
def test_a_fault_has_a_name_of_its_own(bare: Bare, mode: str) -> None:
    bare.behave(mode)
    assert bare.run().returncode == 4
    status, code, issue, words = FAULTS[mode]
    result = bare.result
    assert result.status is status
    if status is Status.FAILED:
        assert result.reason is not None
        assert result.reason.code == code
    assert (issue or code) in bare.codes()
    others = {name for _, name, _, _ in FAULTS.values()} - {code}
    # A job that ran out of space ended with an error, too.
    assert bare.codes() & others == ({"fio-error"} if mode == "full" else set())
    assert recompute.of_run(bare.folder) == []  # verify finds the same codes in the files
    texts = [result.reason.message] if result.reason else []
    texts += [one.message for one in result.issues if one.code == (issue or code)]
    assert any(words in text for text in texts)


@pytest.mark.parametrize("mode", LOST)
def test_a_command_that_another_layer_does_not_know_breaks_a_closure(bare: Bare, mode: str) -> None:
    bare.behave(mode)
    assert bare.run().returncode == 4
    assert bare.result.status is Status.INVALID
    texts = [one.message for one in bare.result.issues if one.code == "closure-broken"]
    assert {name for name, words in LOST.items() if any(words in text for text in texts)} == {mode}


def test_a_device_without_discard_is_warned_of(bare: Bare) -> None:
    (bare.root / "no-discard").touch()
    assert bare.run().returncode == 0
    assert bare.result.status is Status.OK
    (found,) = [issue for issue in bare.result.issues if issue.code == "not-discarded"]
    assert (found.severity, found.message) == (
        Severity.WARNING,
        f"{bare.root}/dev/nvme0n1 takes no discard: the run begins with its old data",
    )
    assert recompute.of_run(bare.folder) == []
    result = load_result(bare.folder)
    manifest = {**result.manifest, "level": {**result.manifest["level"], "facts": {}}}
    (bare.folder / "result.json").write_text(dumps(replace(result, manifest=manifest)))
    assert any("not-discarded" in line for line in recompute.of_run(bare.folder))


def test_a_full_disk_of_results_ends_the_campaign_without_a_run(bare: Bare) -> None:
    bare.behave("results-full")
    done = bare.run()
    assert done.returncode == 2
    assert "no space left on the disk that holds" in done.stderr
    assert not bare.folder.exists()
    (bare.root / "behave").unlink()
    assert bare.run().returncode == 0
    assert bare.result.status is Status.OK


def test_a_phase_that_hangs_is_cut_off(bare: Bare) -> None:
    bare.behave("hang")
    bare.change_phases(timeout_seconds=2)
    bare.run()
    reason = bare.result.reason
    assert reason is not None
    assert reason.code == "phase-timeout"


def test_without_fio_or_with_an_old_one_it_is_skipped(bare: Bare) -> None:
    (bare.programs / "release").write_text("fio-3.29")
    bare.run()
    reason = bare.result.reason
    assert bare.result.status is Status.SKIPPED
    assert reason is not None
    assert (reason.code, reason.message[:8]) == ("fio-version", "fio-3.29")


def test_changed_output_is_found(bare: Bare) -> None:
    bare.run()
    raw = bare.folder / "raw" / "randread.stdout.xz"
    if not raw.exists():
        raw = bare.folder / "raw" / "randread.stdout"
    raw.unlink()
    document = json.loads((Path(__file__).parents[1] / "fixtures/fio/randread.json").read_text())
    document["jobs"][0]["read"]["lat_ns"]["max"] += 10**9
    (bare.folder / "raw" / "randread.stdout").write_text(json.dumps(document))
    problems = recompute.of_run(bare.folder)
    assert any("randread.latency_max" in line for line in problems)


def test_a_killed_run_is_known_as_ours(bare: Bare) -> None:
    """The label at the start of the device proves its owner."""
    bare.behave("hang")
    child = bare.start()
    until((bare.root / "started").exists, "fio starts")
    child.kill()
    child.communicate(timeout=30)
    journal = Journal(bare.root / "state" / "journal.jsonl")
    device = bare.host.device("nvme0n1")
    last = journal.last(device.identity.key)
    assert last is not None
    read = lambda offset, length: bare.host.read(device.path, offset, length)  # noqa: E731
    assert signatures.find(read, None, levels.signatures()) == [
        signatures.Signature("zonelab-raw", last.label)
    ]
    assert Guard(bare.host, journal).examine(device) == []
    (bare.root / "behave").unlink()
    assert bare.run().returncode == 0
    assert bare.result.status is Status.OK
