"""The level zlfs under the whole runner, with synthetic programs: fake_zlfs.py and a fake ldd."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.levels import zlfs
from harness.machine import code
from harness.store import checksums
from harness.store.ledger import ClosureState
from harness.store.result import Severity, Status
from harness.verify import recompute
from tests.runner.conftest import COLD, DATABASE, consent_in
from tests.runner.zlfs_machine import Zoned

pytestmark = pytest.mark.slow  # every test starts the runner

RUN = ("--only", "zlfs--r01")
READ = 80 * 512  # fake_db_bench.py, by each benchmark
METADATA_READ = 3 * 4096  # fake_zlfs.py, by each df and list


@pytest.fixture
def zoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Zoned:
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path / "native"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return Zoned(tmp_path)


def test_a_run(zoned: Zoned) -> None:
    zoned.change_runs(level_options={"finish_remaining_pct": 20, "gc": False})
    done = zoned.run()
    assert done.returncode == 0, done.stderr
    found = zoned.result
    assert found.status is Status.OK
    assert found.utilisation is not None
    assert found.utilisation.cold_bytes == COLD // 4096 * 4096  # whole blocks
    assert found.utilisation.database_bytes == DATABASE
    assert found.metrics["run.max_utilisation"].value == pytest.approx(0.95)
    assert found.metrics["overwrite.gc_events"].value == 1
    assert found.metrics["overwrite.gc_bytes"].value == 4096
    assert found.metrics["overwrite.zoned_share"].value == 1
    assert found.manifest["level"]["mount_options"] == "finish_remaining_pct=20,gc=False"
    aux = f"{zoned.root}/run/zlfs--r01/aux"
    for phase in found.phases:
        uri = f"zlfs://dev:{zoned.root}/dev/nvme0n2?aux={aux}&trace={aux}/allocations.trace"
        assert f"--fs_uri={uri}" in phase.argv
    flags = json.loads((zoned.root / "zlfs.json").read_text())["flags"]
    assert {"--finish-remaining-pct=20", "--gc=off", f"--aux={aux}"} < set(flags)


def test_the_code_that_made_the_run_is_recorded(zoned: Zoned) -> None:
    assert zoned.run().returncode == 0
    found = zoned.result.manifest["host"]["code"]
    assert set(found["programs"]) == {
        "fake_db_bench.py",
        "fake_zlfs.py",
        "libzlfs.so",
        "librocksdb.so.9.10",
    }
    library = zoned.lib / "librocksdb.so.9.10"
    recorded = found["programs"][library.name]
    assert recorded == {"path": str(library), "sha256": checksums.digest(library), "source": None}
    assert found["runner"] == dict(code.runner())


def test_the_levels_files_are_kept_and_nothing_else_is_left(zoned: Zoned) -> None:
    assert zoned.run().returncode == 0
    assert zoned.packed("overwrite.LOG.xz").startswith("2026/11/21-10:02:31")
    ledger = [json.loads(line) for line in zoned.packed("ledger.jsonl.xz").splitlines()]
    assert [line.get("benchmark") for line in ledger] == [None, "fillrandom", "overwrite"]
    series = (zoned.folder / "series" / "overwrite.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in series] == ["operations", "10000", "10000"]
    assert list((zoned.root / "run").iterdir()) == []


def test_the_ledger_closes(zoned: Zoned) -> None:
    zoned.change_phases(flags={"num": 20000, "threads": 1})
    assert zoned.run().returncode == 0
    cold, overwrite, run = (zoned.entry(name) for name in ("cold", "overwrite", "run"))
    assert cold.submitted == {"nvme0n2": COLD // 4096 * 4096}
    assert (overwrite.flush, overwrite.compaction, overwrite.wal) == (1000, 0, None)
    assert overwrite.pad == {"threshold": 4096}
    written = 65536 * 512
    assert overwrite.media == {"nvme0n2": written + 4096}
    assert overwrite.media_source == "modelled: H + P"
    assert run.media == {"nvme0n2": 2 * (written + 4096)}
    found = {(one.upper, one.lower): one.state for one in overwrite.closures}
    assert found == {
        ("user", "RocksDB WAL"): ClosureState.UNKNOWN,  # no statistics were asked for
        ("RocksDB WAL", "zlfs wal"): ClosureState.UNKNOWN,
        ("RocksDB flush", "zlfs flush"): ClosureState.EXACT,
        ("RocksDB compaction", "zlfs compaction"): ClosureState.UNKNOWN,
        ("zlfs", "kernel"): ClosureState.EXACT,
        ("kernel", "device"): ClosureState.UNKNOWN,  # nobody counts behind the fake kernel
        ("zlfs space", "zone report"): ClosureState.EXACT,
    }
    metrics = zoned.result.metrics
    assert metrics["overwrite.wa_pad"].value == (written + 4096) / written
    assert metrics["overwrite.wa_total"].value == (written + 4096) / (20000 * 416)
    assert metrics["run.pad_bytes"].value == 8192
    live = COLD // 4096 * 4096 + DATABASE
    assert metrics["overwrite.live_bytes"].value == live
    assert metrics["overwrite.space_amplification"].value == (live + 4096) / live


def test_reads_of_zlfs_df_belong_to_no_phase(zoned: Zoned) -> None:
    assert zoned.run().returncode == 0
    zone_device = "nvme0n2"
    for phase in zoned.result.phases:
        assert zoned.entry(phase.name).read[zone_device] == READ
        assert zoned.result.metrics[f"{phase.name}.device_read"].value == READ
    assert zoned.entry("run").read[zone_device] == READ * len(zoned.result.phases)
    assert zoned.entry("cold").read[zone_device] == 0
    last = json.loads((zoned.folder / "raw" / "overwrite.counters.json").read_text())
    # df and list at each earlier barrier: level up, cold data, fill.
    assert last["tools_read"] == {zone_device: 3 * 2 * METADATA_READ}
    assert recompute.of_run(zoned.folder) == []


def test_a_byte_between_two_layers_makes_the_run_invalid(zoned: Zoned) -> None:
    (zoned.root / "behave.json").write_text('{"overwrite": "lost-bytes"}')
    assert zoned.run().returncode == 4
    assert zoned.result.status is Status.INVALID
    broken = [issue for issue in zoned.result.issues if issue.code == "closure-broken"]
    written = 65536 * 512
    assert [(one.phase, one.severity, one.message) for one in broken] == [
        (
            "overwrite",
            Severity.ERROR,
            "RocksDB flush (1000 B) and zlfs flush (999 B) do not agree in overwrite",
        ),
        (
            "overwrite",
            Severity.ERROR,
            f"zlfs ({written - 1} B) and kernel ({written} B) do not agree in overwrite",
        ),
        (
            None,
            Severity.ERROR,
            f"zlfs ({2 * written - 1} B) and kernel ({2 * written} B) do not agree in the run",
        ),
    ]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ("fake_db_bench", "librocksdb.so.9.10, "),
        ("libzlfs", "librocksdb.so.7.8, "),
    ],
)
def test_another_rocksdb_is_a_reason(zoned: Zoned, odd: str, message: str) -> None:
    zoned.ldd(odd=odd)
    assert zoned.run().returncode == 0
    reason = zoned.result.reason
    assert zoned.result.status is Status.SKIPPED
    assert reason is not None
    assert reason.code == "rocksdb-differs"
    assert f"libzlfs.so needs {zoned.lib}/{message}" in reason.message
    assert not (zoned.root / "started").exists()


@pytest.mark.parametrize("name", ["zlfs", "libzlfs.so"])
def test_a_missing_part_is_a_reason(zoned: Zoned, name: str) -> None:
    (zoned.root / "native" / name).unlink()
    assert zoned.run().returncode == 0
    reason = zoned.result.reason
    assert reason is not None
    assert reason.code == "program-missing"
    assert f"{name} is not installed" in reason.message


def test_a_broken_invariant_makes_the_run_invalid(zoned: Zoned) -> None:
    (zoned.root / "violation").write_text("two extents share block 7")
    assert zoned.run().returncode == 4
    assert zoned.result.status is Status.INVALID
    (found,) = (issue for issue in zoned.result.issues if issue.code == "fsck")
    assert (found.severity, found.message) == (
        Severity.ERROR,
        "invariant 5: two extents share block 7",
    )


@pytest.mark.parametrize("command", ["mkfs", "import", "df", "list", "fsck"])
def test_a_refusal_keeps_the_programs_message(zoned: Zoned, command: str) -> None:
    (zoned.root / "refuse").write_text(command)
    assert zoned.run().returncode == 4
    reason = zoned.result.reason
    assert reason is not None
    device = zoned.root / "dev/nvme0n2"
    assert reason.code == "zlfs-refused"
    assert reason.message == f"zlfs {command}: {device} is opened by another program"
    assert reason.hint == f"lsof {device}"
    assert list((zoned.root / "run").iterdir()) == []


def test_kill_nine_then_resume(zoned: Zoned) -> None:
    zoned.kill_in_overwrite()
    assert (zoned.root / "run/zlfs--r01/aux/ledger.jsonl").exists()
    done = zoned.run()
    assert done.returncode == 0, done.stderr
    assert "zlfs--r01 of campaign c was killed there" in done.stderr
    assert zoned.result.status is Status.OK
    # Of this run alone: what the killed one left in the same place is gone.
    assert zoned.packed("ledger.jsonl.xz").count("\n") == 3
    assert list((zoned.root / "run").iterdir()) == []


def test_a_foreign_zlfs_after_a_kill_is_refused(zoned: Zoned) -> None:
    zoned.kill_in_overwrite()
    node = zoned.root / "dev/nvme0n2"
    with node.open("r+b") as file:
        file.seek(zlfs.SIGNATURE.label_offset)
        file.write(b"precious\0\0\0\0")
    content = node.read_bytes()
    done = zoned.run()
    assert done.returncode == 3
    assert "carries zlfs labelled 'precious' that zonelab did not write" in done.stderr
    assert consent_in(done.stderr).startswith("eui.5254000000000002@")
    assert node.read_bytes() == content
