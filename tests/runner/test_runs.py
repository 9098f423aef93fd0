"""The whole runner with a fake machine and a fake db_bench, mainly its failures."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.machine import schedulers
from harness.machine.journal import Journal
from harness.machine.lock import exclusive
from harness.machine.paths import Paths
from harness.store import checksums
from harness.store.result import Result, Status
from harness.store.rundir import load_result, problems
from harness.verify import recompute
from tests.fixtures.waiting import until
from tests.runner import fakes
from tests.runner.conftest import CAPACITY, COLD, DATABASE, ROOT, Machine, consent_in

pytestmark = pytest.mark.slow  # every test starts the runner


def codes(found: Result) -> dict[str, str]:
    return {issue.code: issue.severity.value for issue in found.issues}


def wait_for(path: Path, text: str) -> None:
    until(lambda: path.exists() and text in path.read_text(), f"{text!r} in {path}")


def assert_put_back(machine: Machine) -> None:
    """Level down, zones empty, scheduler restored, nothing half written, claim released."""
    assert json.loads((machine.root / "zones.json").read_text()) == {}
    assert machine.host.sysfs.schedulers("nvme0n2")[0] == "none"
    assert not list(machine.runs.glob(".*"))
    assert not any((machine.root / "run").iterdir())
    last = Journal(machine.root / "state" / "journal.jsonl").last("eui.5254000000000002")
    assert last is not None
    assert last.event == "release"


def is_alive(pid: int) -> bool:
    """Whether a process still runs (an orphan that is not reaped stays as a zombie)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def names(machine: Machine) -> list[str]:
    return sorted(path.name for path in machine.runs.iterdir())


def test_normal(machine: Machine) -> None:
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert [row["status"] for row in json.loads(done.stdout)] == ["ok", "ok"]
    assert names(machine) == ["fake--r01", "fake--r02"]
    assert_put_back(machine)
    found = machine.result
    assert problems(machine.runs / "fake--r01") == []
    assert set(codes(found).values()) == {"info"}
    assert "assertions-enabled" in codes(found)
    assert found.utilisation is not None
    assert found.utilisation.live_bytes == COLD + DATABASE
    assert found.metrics["run.utilisation"].value == pytest.approx((COLD + DATABASE) / CAPACITY)
    assert found.metrics["run.max_utilisation"].value == pytest.approx(0.95)
    assert found.metrics["overwrite.operations"].value == 20000
    assert found.metrics["overwrite.zoned_written"].value == 65536 * 512
    assert found.metrics["overwrite.user_bytes"].value == 20000 * 416
    assert found.metrics["overwrite.write_amplification"].value == pytest.approx(
        65536 * 512 / (20000 * 416)
    )
    assert found.metrics["overwrite.gc_events"].value == 5
    assert found.metrics["overwrite.zones_full"].value == 1
    assert found.metrics["overwrite.zones_active"].value == 2
    assert found.metrics["overwrite.conventional_written"].value is None
    assert found.metrics["run.harness_cpu_share"].value is None  # no cgroups on this machine
    assert found.metrics["overwrite.busy_cpus"].value is None  # and no /proc/schedstat
    assert found.manifest["host"]["devices"][0]["scheduler"] == "mq-deadline"
    assert found.manifest["host"]["rocksdb_build"]["kind"] == "program"
    assert "rocksdb_build" not in found.manifest["level"]
    series = (machine.runs / "fake--r01" / "series" / "overwrite.csv").read_text().splitlines()
    assert series[0] == "t,operations"
    assert len(series) == 3


def test_the_cpu_time_of_the_machine_is_counted(machine: Machine) -> None:
    (machine.root / "proc/schedstat").write_text("cpu0 0 0 0 0 0 0 25083668777 5 6\n")
    assert machine.run().returncode == 0
    assert machine.result.metrics["overwrite.busy_cpus"].value == 0  # the fake file stays
    process = json.loads((machine.folder / "raw/overwrite.process.json").read_text())
    assert process["busy_seconds"] == 0


def test_rocksdbs_output_is_kept_and_counted(machine: Machine) -> None:
    assert machine.run().returncode == 0
    found, folder = machine.result, machine.runs / "fake--r01"
    assert found.metrics["overwrite.flush_bytes"].value == 1000
    assert found.metrics["overwrite.compaction_bytes"].value == 0
    assert found.metrics["overwrite.pending_compaction_bytes"].value == 7
    assert "--benchmarks=overwrite,stats" in found.phases[1].argv
    header, row = (folder / "series" / "overwrite.lsm.csv").read_text().splitlines()
    assert header == "t,l0_files,files,pending_compaction_bytes"
    seconds, *rest = row.split(",")
    assert rest == ["1", "3", "7"]
    # On the run's own axis: db_bench was started before and ended after.
    assert 0 <= float(seconds) <= found.seconds
    with lzma.open(folder / "raw" / "overwrite.OPTIONS.xz", "rt") as options:
        assert options.readline() == "[Version]\n"
    assert recompute.of_run(folder) == []


def test_second_call_runs_nothing(machine: Machine) -> None:
    assert machine.run().returncode == 0
    before = {path: path.stat().st_mtime_ns for path in machine.runs.rglob("*")}
    started = (machine.root / "started").read_text()
    again = machine.run()
    assert again.returncode == 0
    assert [row["new"] for row in json.loads(again.stdout)] == [False, False]
    assert (machine.root / "started").read_text() == started
    assert {path: path.stat().st_mtime_ns for path in machine.runs.rglob("*")} == before


def test_crash_then_retry(machine: Machine) -> None:
    machine.behave(overwrite="crash")
    done = machine.run("--only", "fake--r01")
    assert done.returncode == 4
    found = machine.result
    assert found.status is Status.FAILED
    assert found.reason is not None
    assert found.reason.code == "db-bench-failed"
    assert found.phases[1].signal == signal.SIGSEGV
    assert found.phases[1].exit_code is None
    assert found.metrics["overwrite.throughput"].value is None
    assert (machine.runs / "fake--r01" / "raw" / "overwrite.stdout").is_file()
    assert_put_back(machine)
    machine.behave()
    assert machine.run("--only", "fake--r01").returncode == 4  # kept as it is
    assert machine.run("--only", "fake--r01", "--retry", "failed").returncode == 0
    assert names(machine) == ["fake--r01", "fake--r01.a2"]
    assert load_result(machine.runs / "fake--r01.a2").attempt == 2


@pytest.mark.parametrize(
    ("mode", "status", "code"),
    [
        ("exit", Status.FAILED, "exit-status"),
        ("truncate", Status.INVALID, "summary-count"),
        ("enospc", Status.INVALID, "no-space"),
        ("kernel-error", Status.INVALID, "io-errors"),
        ("kernel-overwrites", Status.INVALID, "kernel-oops"),
        ("elsewhere", Status.INVALID, "zoned-share-low"),
        ("no-gc", Status.OK, "gc-never-ran"),
    ],
)
def test_bad_phases(machine: Machine, mode: str, status: Status, code: str) -> None:
    machine.behave(overwrite=mode)
    if mode == "elsewhere":  # the level has to use the companion for its bytes to count
        machine.use_conventional()
    done = machine.run("--only", "fake--r01")
    assert done.returncode == (0 if status is Status.OK else 4), done.stderr
    found = machine.result
    assert found.status is status
    assert code in codes(found)
    assert_put_back(machine)


def test_an_error_of_another_device_is_no_issue(machine: Machine) -> None:
    machine.behave(overwrite="kernel-error-elsewhere")
    assert machine.run("--only", "fake--r01").returncode == 0
    assert "io-errors" not in codes(machine.result)
    log = (machine.runs / "fake--r01" / "raw" / "kernel.log").read_text()
    assert "dev sdz" in log
    assert "# devices of the run: 259:2 nvme0 nvme0n2\n" in log


def test_hang_is_killed(machine: Machine) -> None:
    machine.behave(overwrite="hang")
    machine.change_phases(timeout_seconds=2)
    assert machine.run("--only", "fake--r01").returncode == 4
    found = machine.result
    assert found.reason is not None
    assert found.reason.code == "phase-timeout"
    assert codes(found)["phase-timeout"] == "error"
    assert_put_back(machine)
    pid = int((machine.root / "started").read_text().split()[-1])
    assert not is_alive(pid)


def test_a_phase_that_gets_nowhere_is_given_up(machine: Machine) -> None:
    machine.behave(overwrite="hang")
    machine.change_phases(stall_seconds=2, operations=1_000_000)
    assert machine.run("--only", "fake--r01").returncode == 4
    found = machine.result
    assert found.reason is not None
    assert found.reason.code == "phase-stalled"
    assert "RocksDB: Waiting: Compaction too large" in found.reason.message
    assert codes(found)["phase-stalled"] == "error"
    assert_put_back(machine)


def test_run_time_limit(machine: Machine) -> None:
    machine.behave(overwrite="hang")
    machine.change_runs(timeout_seconds=4)
    assert machine.run("--only", "fake--r01").returncode == 4
    found = machine.result
    assert found.reason is not None
    assert found.reason.code == "run-timeout"
    assert_put_back(machine)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_puts_everything_back(machine: Machine, number: signal.Signals) -> None:
    machine.behave(overwrite="hang")
    child = machine.start()
    wait_for(machine.root / "started", "overwrite")
    assert machine.host.sysfs.schedulers("nvme0n2")[0] == "mq-deadline"
    child.send_signal(number)
    _, stderr = child.communicate(timeout=30)
    assert child.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert machine.result.status is Status.ABORTED
    assert names(machine) == ["fake--r01"]
    assert_put_back(machine)
    progress = machine.root / "state" / "campaigns" / "c" / "progress.json"
    assert json.loads(progress.read_text())["state"] == "aborted"
    machine.behave()
    assert machine.run().returncode == 0
    assert names(machine) == ["fake--r01", "fake--r01.a2", "fake--r02"]


def test_kill_nine_then_resume(machine: Machine) -> None:
    assert machine.run("--only", "fake--r01").returncode == 0
    machine.behave(overwrite="hang")
    child = machine.start()
    started = machine.root / "started"
    until(lambda: started.read_text().count("overwrite") >= 2, "the second run's overwrite")
    pid = int((machine.root / "started").read_text().split()[-1])
    child.kill()
    child.communicate(timeout=30)
    until(lambda: not is_alive(pid), "db_bench dies with the runner", seconds=5)
    assert list(machine.runs.glob(".*.partial"))
    assert machine.host.sysfs.schedulers("nvme0n2")[0] == "mq-deadline"
    machine.behave()
    shutil_free_mount(machine)
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert names(machine) == ["fake--r01", "fake--r02"]
    assert "restored schedulers" in done.stderr
    assert_put_back(machine)


def test_a_power_cut_leaves_the_scheduler_to_the_new_owner_of_the_name(machine: Machine) -> None:
    """A restart restored the defaults, and the name can be another drive's."""
    saved = {"boot_id": "of the boot before", "schedulers": {"nvme0n2": "mq-deadline"}}
    file = machine.root / "state" / "schedulers.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(saved))
    schedulers.restore(machine.host, Paths(file.parent, machine.root / "run"))
    assert machine.host.sysfs.schedulers("nvme0n2")[0] == "none"
    assert not file.exists()
    saved["boot_id"] = machine.host.boot_id()
    file.write_text(json.dumps(saved))
    schedulers.restore(machine.host, Paths(file.parent, machine.root / "run"))
    assert machine.host.sysfs.schedulers("nvme0n2")[0] == "mq-deadline"


def test_kill_nine_then_another_level_on_the_companion(machine: Machine) -> None:
    """The label that proves ownership of the zoned device is on the companion, formatted first."""
    machine.use_conventional()
    (machine.root / "label-on-companion").touch()
    machine.behave(overwrite="hang")
    child = machine.start("--only", "fake--r01")
    wait_for(machine.root / "started", "overwrite")
    child.kill()
    child.communicate(timeout=30)
    assert json.loads((machine.root / "zones.json").read_text()) != {}
    machine.behave()
    shutil_free_mount(machine)

    host = machine.plan.hosts[0]
    first = replace(host.runs[0], run="baseline--r01", cell="baseline", level="baseline")
    machine.change_plan(hosts=(replace(host, runs=(first, *host.runs)),))
    done = machine.run()
    assert done.returncode == 0, done.stderr
    nodes = machine.root / "dev"
    wiped = f"wiped {nodes}/nvme0n2 and {nodes}/nvme0n1: fake--r01 of campaign c was killed there"
    assert wiped in done.stderr
    assert names(machine) == ["baseline--r01", "fake--r01", "fake--r02"]
    assert_put_back(machine)
    assert "was killed there" not in machine.run("--retry", "ok").stderr


def shutil_free_mount(machine: Machine) -> None:
    """A real mount would be unmounted; the fake level's is a directory that a reset clears."""
    for path in sorted((machine.root / "run").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def test_foreign_data_after_a_kill_is_refused(machine: Machine) -> None:
    machine.behave(overwrite="hang")
    child = machine.start()
    wait_for(machine.root / "started", "overwrite")
    child.kill()
    child.communicate(timeout=30)
    shutil_free_mount(machine)
    fakes.put_btrfs(machine.root / "dev" / "nvme0n2", "precious")
    content = (machine.root / "dev" / "nvme0n2").read_bytes()
    machine.behave()
    done = machine.run()
    assert done.returncode == 3
    assert "labelled 'precious'" in done.stderr
    assert (machine.root / "dev" / "nvme0n2").read_bytes() == content
    assert machine.run("--erase", consent_in(done.stderr)).returncode == 0


def test_a_consent_is_used_by_the_first_run(machine: Machine) -> None:
    node, zones = machine.root / "dev" / "nvme0n2", machine.root / "zones.json"

    def foreign() -> None:
        fakes.put_btrfs(node, "precious")
        fakes.set_zones(machine.root, {3: 4096})

    foreign()
    bare = machine.run("--erase", "eui.5254000000000002")
    assert (bare.returncode, zones.read_text()) == (2, '{"3": 4096}')
    assert "is not IDENTITY@DIGEST" in bare.stderr
    consent = consent_in(machine.run().stderr)
    other = "eui.5254000000000009@00000000"
    done = machine.run("--only", "fake--r01", "--erase", f"{consent},{other}")
    assert done.returncode == 0, done.stderr
    assert f"note: erase={other} names no device of this command" in done.stderr

    foreign()
    done = machine.run("--erase", consent)
    assert done.returncode == 3
    assert "an earlier wipe has used the consent" in done.stderr
    assert zones.read_text() == '{"3": 4096}'
    assert machine.run("--erase", consent, "--erase", consent_in(done.stderr)).returncode == 0
    assert names(machine) == ["fake--r01", "fake--r02"]


def test_guard_refuses_before_anything_is_written(machine: Machine) -> None:
    fakes.set_zones(machine.root, {3: 4096})
    done = machine.run()
    assert done.returncode == 3
    assert "zones that are not empty" in done.stderr
    assert names(machine) == []
    assert not (machine.root / "started").exists()
    assert json.loads((machine.root / "zones.json").read_text()) == {"3": 4096}
    progress = json.loads((machine.root / "state/campaigns/c/progress.json").read_text())
    assert progress["state"] == "failed"


def test_replaced_device_is_refused(machine: Machine) -> None:
    eui = machine.root / "sys/class/block/nvme0n2/eui"
    eui.write_text("52 54 00 00 00 00 00 99")
    done = machine.run()
    assert done.returncode == 3
    assert "no device has the identity eui.5254000000000002" in done.stderr


def test_unavailable_level_is_skipped(machine: Machine) -> None:
    (machine.root / "unavailable").touch()
    done = machine.run()
    assert done.returncode == 0
    found = machine.result
    assert found.status is Status.SKIPPED
    assert found.reason is not None
    assert found.reason.code == "program-missing"
    assert not (machine.root / "state" / "journal.jsonl").exists()


def test_infeasible_utilisation_is_skipped(machine: Machine) -> None:
    machine.change_cold(target_utilisation=0.97)
    assert machine.run("--only", "fake--r01").returncode == 0
    found = machine.result
    assert found.status is Status.SKIPPED
    assert found.reason is not None
    assert found.reason.code == "utilisation-infeasible"
    assert_put_back(machine)


def test_missed_utilisation_is_invalid(machine: Machine) -> None:
    (machine.root / "database-bytes").write_text("4096")
    assert machine.run("--only", "fake--r01").returncode == 4
    found = machine.result
    assert found.status is Status.INVALID
    assert codes(found)["utilisation-missed"] == "error"


def test_fault_in_a_level_does_not_end_the_campaign(machine: Machine) -> None:
    (machine.root / "explode").touch()  # the first up() raises ValueError, the next is well
    done = machine.run()
    assert done.returncode == 4
    first = machine.result
    assert first.reason is not None
    assert first.reason.code == "internal"
    assert "ValueError" in (machine.runs / "fake--r01" / "raw" / "traceback.txt").read_text()
    assert load_result(machine.runs / "fake--r02").status is Status.OK
    assert "Traceback" not in done.stderr


def test_lock_held(machine: Machine) -> None:
    with exclusive(machine.root / "lock" / "machine", "campaign other"):
        done = machine.run()
    assert done.returncode == 2
    assert f"another run is under way: campaign other (pid {os.getpid()} on " in done.stderr


def test_other_schema_version(machine: Machine) -> None:
    plan = json.loads((machine.root / "plan.json").read_text()) | {"schema_version": 99}
    (machine.root / "plan.json").write_text(json.dumps(plan))
    done = machine.run()
    assert done.returncode == 2
    assert "schema_version 99" in done.stderr


def test_other_study_is_refused(machine: Machine) -> None:
    assert machine.run("--only", "fake--r01").returncode == 0
    machine.change_plan(study_digest="other")
    done = machine.run()
    assert done.returncode == 2
    assert "started with another study or device on h" in done.stderr
    assert "-e campaign=NAME or CAMPAIGN=NAME; or delete" in done.stderr


def test_a_plan_without_runs_is_replaced(machine: Machine) -> None:
    """The guard can refuse the device after the plan is stored."""
    assert machine.run("--only", "fake--r01").returncode == 0
    shutil.rmtree(machine.runs)
    machine.change_plan(study_digest="other")
    assert machine.run("--only", "fake--r01").returncode == 0


def change_host(machine: Machine, **changes: Any) -> None:
    """Plan as on a host with other facts."""
    host = machine.plan.hosts[0]
    facts = replace(host.inspection.host, **changes)
    host = replace(host, inspection=replace(host.inspection, host=facts))
    machine.change_plan(hosts=(host,))


def test_another_kernel_is_refused_and_some_pages_of_memory_are_not(machine: Machine) -> None:
    assert machine.run("--only", "fake--r01").returncode == 0
    known = machine.plan.hosts[0].inspection.host
    change_host(machine, memory_bytes=known.memory_bytes - 8192)
    assert machine.run("--only", "fake--r01").returncode == 0
    change_host(machine, kernel="7.3")
    done = machine.run()
    assert done.returncode == 2
    assert f"started on h with kernel {known.kernel}, now 7.3" in done.stderr
    assert names(machine) == ["fake--r01"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_full_disk(machine: Machine) -> None:
    state = machine.root / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", state], check=True)
    try:
        ballast = state / "ballast"
        with ballast.open("wb") as file:
            file.write(bytes(30 << 20))
        done = machine.run()
        assert done.returncode == 2
        assert "MiB are free on the disk" in done.stderr
        assert names(machine) == []
        assert not (machine.root / "started").exists()
        ballast.unlink()
        assert machine.run("--only", "fake--r01").returncode == 0
    finally:
        subprocess.run(["umount", state], check=True)


def test_disk_fills_up_during_a_run(machine: Machine) -> None:
    (machine.root / "enospc").touch()  # the level's sync raises OSError(ENOSPC) on our own file
    done = machine.run()
    assert done.returncode == 2
    assert "no space left on the disk" in done.stderr
    assert names(machine) == []
    assert_put_back(machine)


def test_runner_stays_small(machine: Machine) -> None:
    assert machine.run("--only", "fake--r01").returncode == 0
    peak = machine.result.metrics["run.harness_memory_peak"].value
    assert peak is not None
    assert peak < 64 * 2**20


def test_verify_and_collect(machine: Machine, tmp_path: Path) -> None:
    assert machine.run().returncode == 0
    campaign = machine.campaign_folder()
    host = campaign / "hosts" / "h"
    archive = machine.root / "runs.tar"
    subprocess.run(["tar", "-cf", archive, "--exclude=./.*", "."], cwd=machine.runs, check=True)
    took = zonelab("collect", "--from", str(archive), "--into", str(host))
    assert took.returncode == 0, took.stderr
    assert json.loads(took.stdout) == {"collected": ["fake--r01", "fake--r02"], "already": []}
    took = zonelab("collect", "--from", str(machine.runs), "--into", str(host))
    assert json.loads(took.stdout) == {"collected": [], "already": ["fake--r01", "fake--r02"]}
    assert zonelab("verify", str(campaign)).returncode == 0
    state = json.loads(zonelab("status", str(campaign), "--format", "json").stdout)
    assert (state["pending"], state["counts"]["ok"]) == (0, 2)

    raw = host / "runs" / "fake--r01" / "raw" / "overwrite.stdout"
    raw.write_text(raw.read_text() + "x")
    (host / "runs" / "fake--r02" / "result.json").unlink()
    done = zonelab("verify", str(campaign))
    assert done.returncode == 4
    lines = done.stdout.splitlines()
    assert "h: fake--r01: raw/overwrite.stdout: checksum differs" in lines
    assert "h: fake--r02: result.json: missing" in lines


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_collect_refuses_runs_of_another_study(machine: Machine, *, packed: bool) -> None:
    assert machine.run("--only", "fake--r01").returncode == 0
    source, into = machine.runs, machine.root / "results" / "c" / "hosts" / "h"
    if packed:
        source = machine.root / "runs.tar"
        subprocess.run(
            ["tar", "-cf", source, ".", "-C..", "plan.json"], cwd=machine.runs, check=True
        )
    words = ["collect", "--from", str(source), "--into", str(into)]
    machine.plan = replace(machine.plan, study_digest="other")
    plan = machine.campaign_folder() / "plan.json"
    refused = zonelab(*words)
    assert refused.returncode == 2
    assert "started with another study or device on h" in refused.stderr
    assert list((into / "runs").iterdir()) == []
    plan.write_text((machine.runs.parent / "plan.json").read_text())
    assert json.loads(zonelab(*words).stdout)["collected"] == ["fake--r01"]


def test_collect_without_runs_mixes_nothing(machine: Machine) -> None:
    """The guard can refuse the device after the plan is stored."""
    assert machine.run("--only", "fake--r01").returncode == 0
    shutil.rmtree(machine.runs / "fake--r01")
    machine.plan = replace(machine.plan, study_digest="other")
    into = machine.campaign_folder() / "hosts" / "h"
    done = zonelab("collect", "--from", str(machine.runs), "--into", str(into))
    assert json.loads(done.stdout)["collected"] == []


def test_collect_refuses_damaged(machine: Machine) -> None:
    assert machine.run("--only", "fake--r01").returncode == 0
    (machine.runs / "fake--r01" / "result.json").write_text("{}")
    into = machine.root / "host"
    done = zonelab("collect", "--from", str(machine.runs), "--into", str(into))
    assert done.returncode == 4
    assert "arrived damaged" in done.stderr
    assert list((into / "runs").iterdir()) == []
    assert not list(into.glob(".collect-*"))


def test_status_of_a_runner_that_is_gone(machine: Machine) -> None:
    machine.behave(overwrite="hang")
    child = machine.start()
    wait_for(machine.root / "started", "overwrite")
    folder = machine.root / "state" / "campaigns" / "c"
    assert json.loads(status(machine, str(folder), "--format", "json"))["state"] == "running"
    child.kill()
    child.communicate(timeout=30)
    assert "the runner is gone" in status(machine, str(folder), "--settle")
    assert json.loads((folder / "progress.json").read_text())["state"] == "failed"


def test_checksums_equal_sha256sums(machine: Machine) -> None:
    assert machine.run("--only", "fake--r01").returncode == 0
    folder = machine.runs / "fake--r01"
    subprocess.run(["sha256sum", "--quiet", "-c", checksums.NAME], cwd=folder, check=True)


def status(machine: Machine, *arguments: str) -> str:
    """Return what ``zonelab status`` prints on this machine, which has a lock of its own."""
    code = (
        "import sys; from pathlib import Path; from harness.cli import main; "
        "from harness.machine import paths; paths.LOCK = Path(sys.argv.pop(1)); "
        "sys.exit(main.main(['status', *sys.argv[1:]]))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(machine.root / "lock" / "machine"), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def zonelab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
