"""M of a conventional device by a modelled drive, under the whole runner: fake_zonemodel.py."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from harness.store import packed
from harness.store.campaign import CampaignPaths
from harness.store.spec import MediaModel
from harness.verify import media_again, recompute
from tests.runner.conftest import Machine

pytestmark = pytest.mark.slow  # every test starts the runner

MODEL = MediaModel("toy-7op-00000001", {"name": "toy-7op"})
WRITTEN = 65536 * 512  # what fake_db_bench.py writes in a phase
RECORD = struct.Struct("<QQII")
RECORDS = "raw/writes.bin"
BOOT = "proc/sys/kernel/random/boot_id"


@pytest.fixture
def modelled(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine.use_conventional()
    machine.change_runs(level="baseline", media_model=MODEL)
    folder = machine.root / "native"
    folder.mkdir()
    (folder / "zonemodel").symlink_to(Path(__file__).parent / "fake_zonemodel.py")
    monkeypatch.setenv("ZONELAB_NATIVE", str(folder))
    return machine


def loaded(machine: Machine, run: str, name: str = "ledger.json") -> Any:
    return json.loads(packed.text(machine.runs / run / name))


def entry(machine: Machine, run: str, name: str = "overwrite") -> dict[str, Any]:
    (found,) = [one for one in loaded(machine, run)["entries"] if one["name"] == name]
    return dict(found)


def closure(machine: Machine, run: str) -> dict[str, Any]:
    (found,) = [one for one in entry(machine, run)["closures"] if one["lower"] == "model nvme0n1"]
    return dict(found)


def collected(machine: Machine) -> CampaignPaths:
    """Return the campaign as it is collected."""
    paths = CampaignPaths(machine.campaign_folder())
    shutil.copytree(machine.runs, paths.runs("h"))
    return paths


def test_the_model_counts_what_the_drive_would_write(modelled: Machine) -> None:
    modelled.run()
    for number, run in enumerate(("fake--r01", "fake--r02")):
        found = entry(modelled, run)
        more = WRITTEN // 3 + number  # the second run goes on where the first one ended
        assert found["media"] == {"nvme0n1": WRITTEN + more}
        assert found["media_source"] == "modelled: toy-7op-00000001"
        one = closure(modelled, run)
        assert (one["state"], one["above"], one["below"]) == ("exact", WRITTEN, WRITTEN)
        metrics = loaded(modelled, run, "result.json")["metrics"]
        assert metrics["overwrite.wa_dev"]["value"] == (WRITTEN + more) / WRITTEN
        assert metrics["run.wa_total"]["value"] is not None
        assert recompute.of_run(modelled.runs / run) == []
    record = loaded(modelled, "fake--r02", "raw/media.json")
    assert (record["earlier"], record["problem"]) == (["fake--r01"], "")
    assert [one["mark"] for one in record["intervals"]] == [
        "up",
        "cold",
        "fillrandom",
        "overwrite",
        "",
    ]
    assert media_again.problems(collected(modelled)) == []


def test_without_a_model_nothing_counts_it(modelled: Machine) -> None:
    modelled.change_runs(media_model=None)
    modelled.run("--only", "fake--r01")
    assert entry(modelled, "fake--r01")["media"] == {"nvme0n1": None}
    assert not (modelled.runs / "fake--r01" / "raw/media.json").exists()


def test_a_changed_record_is_refuted(modelled: Machine) -> None:
    modelled.run()
    paths = collected(modelled)
    folder = paths.runs("h") / "fake--r01"
    file = packed.find(folder / RECORDS)
    assert file is not None
    content = packed.unpack(file.suffix, file.read_bytes())
    head, marks, data = content.split(b"\n", 2)
    records = [list(one) for one in RECORD.iter_unpack(data)]
    first = next(one for one in records if one[3] == 0)
    first[2] += 8
    data = b"".join(RECORD.pack(*one) for one in records)
    file.write_bytes(packed.pack(file.suffix, b"\n".join((head, marks, data))))
    found = "\n".join(media_again.problems(paths))
    assert "fake--r01: raw/media.json differs from raw/writes.bin" in found
    assert "the kernel counted another number" in found
    assert "differs from what the model does" in found


def test_a_changed_number_of_the_model_is_refuted(modelled: Machine) -> None:
    modelled.run()
    paths = collected(modelled)
    file = paths.runs("h") / "fake--r02" / "raw/media.json"
    record = json.loads(file.read_text())
    record["intervals"][3]["programmed"] -= 4096
    file.write_text(json.dumps(record))
    (found,) = media_again.problems(paths)
    assert "fake--r02: raw/media.json differs from what the model does" in found
    assert any("media" in line for line in recompute.of_run(file.parents[1]))


def test_without_the_program_the_check_is_noted(
    modelled: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    modelled.run()
    paths = collected(modelled)
    assert media_again.notes(paths) == []
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path / "empty"))
    monkeypatch.setattr("harness.tools.native.INSTALLED", tmp_path / "empty")
    monkeypatch.setattr("harness.tools.native._BUILT", tmp_path / "empty")
    assert media_again.problems(paths) == []
    (note,) = media_again.notes(paths)
    assert note.startswith("M of 2 runs by a modelled drive: ")


def unknown(machine: Machine, run: str, reason: str) -> None:
    """M of a run is unknown for this reason, and its bytes are still compared where recorded."""
    found = entry(machine, run)
    assert found["media"] == {"nvme0n1": None}
    assert reason in found["media_source"]
    result = loaded(machine, run, "result.json")
    assert result["metrics"]["run.wa_dev"]["value"] is None
    assert result["status"] == "ok"
    (issue,) = [one for one in result["issues"] if one["code"] == "media-unknown"]
    assert reason in issue["message"]


def test_a_run_that_cannot_be_traced_has_no_media_and_spoils_later_ones(modelled: Machine) -> None:
    (modelled.root / "no-tracing").touch()
    modelled.run("--only", "fake--r01")
    unknown(modelled, "fake--r01", "no tracefs")
    assert closure(modelled, "fake--r01")["state"] == "unknown"
    (modelled.root / "no-tracing").unlink()
    modelled.run()
    unknown(modelled, "fake--r02", "no tracefs")
    assert closure(modelled, "fake--r02")["state"] == "exact"
    assert media_again.problems(collected(modelled)) == []


def test_a_killed_run_leaves_a_gap(modelled: Machine) -> None:
    (modelled.root / "label-on-companion").touch()
    modelled.kill_in_overwrite()
    shutil.rmtree(modelled.root / "run" / "fake--r01")  # a mount in truth
    modelled.run()
    unknown(modelled, "fake--r01", "an earlier run was killed")
    unknown(modelled, "fake--r02", "an earlier run was killed")


def test_what_others_write_between_two_runs_is_a_gap(modelled: Machine) -> None:
    modelled.run("--only", "fake--r01")
    file = modelled.root / "proc/diskstats"
    first, *rest = file.read_text().splitlines()
    fields = first.split()
    fields[9] = str(int(fields[9]) + 8)
    file.write_text("\n".join([" ".join(fields), *rest]) + "\n")
    modelled.run()
    unknown(modelled, "fake--r02", "nvme0n1 was written to between two runs")


def test_a_lost_directory_is_a_gap(modelled: Machine) -> None:
    modelled.run("--only", "fake--r01")
    shutil.move(modelled.runs / "fake--r01", modelled.root / "away")
    modelled.run("--only", "fake--r02")
    unknown(modelled, "fake--r02", "is missing, so the state of the modelled drive is unknown")


def test_a_run_that_is_repeated_under_its_name_is_a_gap(modelled: Machine) -> None:
    modelled.run("--only", "fake--r01")
    shutil.move(modelled.runs / "fake--r01", modelled.root / "away")
    modelled.run()
    unknown(modelled, "fake--r01", "fake--r01 ran before")
    unknown(modelled, "fake--r02", "fake--r01 ran before")


def test_a_full_disk_takes_the_media_and_not_the_run(modelled: Machine) -> None:
    modelled.run("--only", "fake--r01")
    (modelled.root / "no-room-to-unpack").touch()
    modelled.run("--only", "fake--r02")
    unknown(modelled, "fake--r02", "No space left on device")


def test_a_restart_continues_the_history(modelled: Machine) -> None:
    modelled.run("--only", "fake--r01")
    (modelled.root / BOOT).write_text("00000000-0000-0000-0000-000000000002")
    file = modelled.root / "proc/diskstats"
    lines = [line.split() for line in file.read_text().splitlines()]
    file.write_text("\n".join(" ".join([*one[:3], *["0"] * 17]) for one in lines) + "\n")
    modelled.run()
    assert loaded(modelled, "fake--r02", "raw/media.json")["problem"] == ""


def test_a_command_without_a_record_makes_the_run_invalid(modelled: Machine) -> None:
    (modelled.root / "untraced").touch()
    modelled.run("--only", "fake--r01")
    result = loaded(modelled, "fake--r01", "result.json")
    assert result["status"] == "invalid"
    assert "closure-broken" in {issue["code"] for issue in result["issues"]}
    assert closure(modelled, "fake--r01")["below"] == 0
    assert entry(modelled, "fake--r01")["media"] == {"nvme0n1": None}
    record = loaded(modelled, "fake--r01", "raw/media.json")
    assert record["problem"].startswith("0 B of commands were recorded, the kernel counted ")
