"""Damaged results, other schemas, a full disk: one clear line, a hint, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import main as cli
from harness.store import checksums
from tests.unit.conftest import READERS, RIG, ROOT, Refused, tree

RUN = Path("hosts/rig/runs/f2fs--r01")


def sabotage(path: Path, content: str) -> None:
    """Replace a file: ``-`` removes it, ``/`` makes it a folder, ``|`` a named pipe."""
    path.unlink(missing_ok=True)
    if content == "/":
        path.mkdir()
    elif content == "|":
        os.mkfifo(path)
    elif content != "-":
        path.write_text(content)


@pytest.mark.parametrize("command", [*READERS, "plan", "run"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ('{"schema_version": 1, "campaign": "tr', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"schema_version": 99}', "has schema_version 99"),
        ('{"schema_version": 1, "campaign": "c"}', "missing field 'study'"),
    ],
)
def test_bad_plan_file(
    refused: Refused, campaign: Path, command: str, content: str, message: str
) -> None:
    sabotage(campaign / "plan.json", content)
    words: list[str | Path] = [campaign]
    if command == "plan":
        words = ["smoke", f"--inspection=rig={RIG}", "--campaign=c", "--results", campaign.parent]
    elif command == "run":
        words = ["--plan", campaign / "plan.json", "--host", "rig"]
    assert message in refused(2, command, *words)


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("which", ["campaign", "host"])
def test_a_plan_cannot_lead_out_of_its_folder(
    refused: Refused, campaign: Path, command: str, which: str
) -> None:
    plan = json.loads((campaign / "plan.json").read_text())
    (plan if which == "campaign" else plan["hosts"][0])[which] = "../../up"
    (campaign / "plan.json").write_text(json.dumps(plan))
    assert "'../../up' cannot be the name of a folder" in refused(2, command, campaign)


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize(
    "content", ["-", "/", "|", "", '{"schema_version": 1, "stat', '{"schema_version": 1}']
)
def test_corrupt_run_directory(
    refused: Refused,
    capsys: pytest.CaptureFixture[str],
    campaign: Path,
    command: str,
    content: str,
) -> None:
    sabotage(campaign / RUN / "result.json", content)
    if command == "verify":
        before = tree(campaign)
        assert cli.main(["verify", str(campaign)]) == 4
        out, err = capsys.readouterr()
        assert "rig: f2fs--r01: result.json" in out
        assert all(line.startswith("zonelab: not checked: ") for line in err.splitlines())
        assert tree(campaign) == before
    else:
        assert "f2fs--r01" in refused(4, command, campaign)


@pytest.mark.parametrize("command", ["compare", "report", "status"])
def test_run_of_another_schema(refused: Refused, campaign: Path, command: str) -> None:
    path = campaign / RUN / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    checksums.write(path.parent)
    assert "result.json has schema_version 99" in refused(2, command, campaign)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("campaign.json", "-", "campaign.json does not exist"),
        ("campaign.json", "{", "campaign.json is not JSON"),
        ("hosts/rig/host.json", "", "rig: hosts/rig/host.json is not JSON"),
        (f"{RUN}/SHA256SUMS", "junk", "rig: f2fs--r01: SHA256SUMS: malformed line 'junk'"),
        (f"{RUN}/run.json", "-", "rig: f2fs--r01: run.json: missing"),
    ],
)
def test_verify_lists_the_faults(
    capsys: pytest.CaptureFixture[str], campaign: Path, name: str, content: str, problem: str
) -> None:
    sabotage(campaign / name, content)
    assert cli.main(["verify", str(campaign), "--format", "json"]) == 4
    problems = [row["problem"] for row in json.loads(capsys.readouterr().out)]
    assert any(problem in line for line in problems), problems


def test_a_campaign_without_runs_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["smoke", f"--inspection=rig={RIG}", "--campaign=c", f"--results={tmp_path}"]
    assert cli.main(["plan", *words]) == 0
    folder = str(tmp_path / "c")
    assert cli.main(["compare", folder]) == 4
    assert cli.main(["verify", folder]) == 4
    capsys.readouterr()
    assert cli.main(["status", folder, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["runs_total"], record["pending"]) == (3, 3)


@pytest.mark.parametrize("content", [b"", b"junk", b"\x1f\x8b\x08\x00 cut gzip"])
def test_collect_of_no_archive(refused: Refused, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runs.tar").write_bytes(content)
    (tmp_path / "host" / "runs").mkdir(parents=True)
    line = refused(2, "collect", "--from", tmp_path / "runs.tar", "--into", tmp_path / "host")
    assert "is not a complete tar archive" in line


# --- a full disk on the controller (on the machine under test: tests/runner) ---------------------


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 64 KiB with one page left."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    folder = tmp_path / "tiny"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    (folder / "ballast").write_bytes(bytes(60 * 1024))
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk_while_planning(refused: Refused, tiny: Path) -> None:
    words = ["smoke", f"--inspection=rig={RIG}", "--campaign=c", "--results", tiny]
    assert "no space left on the disk" in refused(2, "plan", *words)
    (tiny / "ballast").unlink()
    assert cli.main(["plan", *map(str, words)]) == 0


@pytest.mark.parametrize("archive", [False, True])
def test_full_disk_while_collecting(
    refused: Refused, campaign: Path, tmp_path: Path, tiny: Path, archive: bool
) -> None:
    (tiny / "runs").mkdir()
    source = campaign / "hosts/rig/runs"
    if archive:
        subprocess.run(["tar", "-cf", tmp_path / "runs.tar", "."], cwd=source, check=True)
        source = tmp_path / "runs.tar"
    line = refused(2, "collect", "--from", source, "--into", tiny)
    assert "no space left on the disk" in line


@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True])
def test_full_disk_while_reporting(
    refused: Refused, campaign: Path, tiny: Path, there: bool
) -> None:
    if there:  # an older report, and a file that is none of ours
        for name in ("index.html", "notes.txt", "tables/runs.csv", "figures/gone.svg"):
            (tiny / "report" / name).parent.mkdir(parents=True, exist_ok=True)
            (tiny / "report" / name).touch()
    line = refused(2, "report", campaign, "--output", tiny / "report")
    assert line == f"zonelab: no space left on the disk that holds {tiny}/report"


@pytest.mark.slow
def test_file_size_limit_while_reporting(campaign: Path) -> None:
    """The tables fit, the page does not."""
    command = [sys.executable, "-m", "harness", "report", str(campaign)]
    limited = ["prlimit", f"--fsize={8 << 10}", *command]
    done = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert "hint: raise the limit on the size of files" in done.stderr
    assert not (campaign / "report").exists()
    assert cli.main(["report", str(campaign)]) == 0
    names = sorted(path.name for path in (campaign / "report").iterdir())
    assert names == ["figures", "index.html", "tables"]
