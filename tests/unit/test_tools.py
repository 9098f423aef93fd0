"""Wrappers of external programs: argument lists, parsers on captures, patience, coldfill."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import HostError, Interrupted, TimedOut, ToolFailed
from harness.store.spec import Bytes
from harness.tools import (
    coldfill,
    dmsetup,
    mkfs_btrfs,
    mkfs_ext4,
    mkfs_f2fs,
    mkfs_xfs,
    mount,
    proc,
    virtual_clock,
    zone_reset,
)
from harness.tools import native as native_programs
from harness.tools.kernel import Kernel, parse_mounts

FIXTURES = Path(__file__).parents[1] / "fixtures" / "levels"
DEVICE = Path("/dev/nvme0n3")
LABEL = "zonelab-a-long-label"


def test_mkfs_argument_lists() -> None:
    assert " ".join(mkfs_ext4.argv(DEVICE, label=LABEL)) == (
        "mkfs.ext4 -q -F -m 0 -E lazy_itable_init=0,lazy_journal_init=0 -L zonelab-a-long-l"
        " /dev/nvme0n3"
    )
    assert " ".join(mkfs_xfs.argv(DEVICE, label=LABEL)) == (
        "mkfs.xfs -q -f -L zonelab-a-lo /dev/nvme0n3"
    )
    small = mkfs_xfs.argv(DEVICE, label=LABEL, log="size=16m", unsupported=True)
    assert " ".join(small) == (
        "mkfs.xfs -q -f --unsupported -l size=16m -L zonelab-a-lo /dev/nvme0n3"
    )
    assert " ".join(mkfs_btrfs.argv(DEVICE, label=LABEL)) == (
        "mkfs.btrfs -q -f -O zoned -m single -d single -L zonelab-a-long-label /dev/nvme0n3"
    )
    assert " ".join(mkfs_f2fs.argv(Path("/dev/dm-0"), DEVICE, label=LABEL, o="5")) == (
        "mkfs.f2fs -f -m -c /dev/nvme0n3 -o 5 -l zonelab-a-long-label /dev/dm-0"
    )


def test_mount_argument_list() -> None:
    assert mount.argv(DEVICE, Path("/m"), "btrfs", "") == [
        "mount",
        "-t",
        "btrfs",
        "/dev/nvme0n3",
        "/m",
    ]
    assert "-o noatime" in " ".join(mount.argv(DEVICE, Path("/m"), "btrfs", "noatime"))


def test_dmsetup_slice_is_in_sectors() -> None:
    argv = dmsetup.map_argv("zonelab-x", Bytes(48 << 20), "linear", f"{DEVICE} 0")
    assert argv[-4:] == ["--uuid", "zonelab-x", "--table", "0 98304 linear /dev/nvme0n3 0"]
    with pytest.raises(ValueError, match="is also the UUID"):
        dmsetup.map_argv("x", Bytes(48 << 20), "linear", f"{DEVICE} 0")


def test_dmsetup_ls_of_captures() -> None:
    assert dmsetup.parse_ls((FIXTURES / "dmsetup-ls.txt").read_text()) == ["zonelab-lvtest"]
    assert dmsetup.parse_ls((FIXTURES / "dmsetup-ls-none.txt").read_text()) == []


def test_dmsetup_ls_of_another_form_is_refused() -> None:
    with pytest.raises(ToolFailed, match="dmsetup ls printed"):
        dmsetup.parse_ls("zonelab-a 254 1\n")


def script(folder: Path, name: str, body: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.slow
def test_busy_is_tried_again(tmp_path: Path) -> None:
    counter = tmp_path / "n"
    program = script(
        tmp_path,
        "umount",
        f"echo x >> {counter}\n"
        f'[ $(wc -l < {counter}) -ge 3 ] || {{ echo "target is busy" >&2; exit 32; }}',
    )
    mount.retry([str(program)], timeout=10)
    assert counter.read_text().count("x") == 3


def test_another_failure_is_not_tried_again(tmp_path: Path) -> None:
    counter = tmp_path / "n"
    program = script(tmp_path, "umount", f'echo x >> {counter}; echo "not mounted" >&2; exit 32')
    with pytest.raises(ToolFailed, match="not mounted"):
        mount.retry([str(program)], timeout=10)
    assert counter.read_text().count("x") == 1


def test_stream_hands_over_lines_as_they_come(tmp_path: Path) -> None:
    program = script(tmp_path, "p", "echo one >&2; echo two >&2; echo result; exit 3")
    lines: list[str] = []
    done = proc.stream([program], lines.append, timeout=10)
    assert lines == ["one", "two"]
    assert (done.stdout, done.exit_code) == ("result\n", 3)


def test_stream_kills_what_takes_too_long(tmp_path: Path) -> None:
    program = script(tmp_path, "p", "exec sleep 60")
    with pytest.raises(TimedOut):
        proc.stream([program], print, timeout=0.2)


def test_a_clock_that_counts_instructions_gives_programs_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It jumps while the machine waits for the host's disk."""
    cmdline = tmp_path / "cmdline"
    cmdline.write_text("root=/dev/vda quiet\n")
    assert virtual_clock.patience(cmdline) == 1
    rig = tmp_path / "of-a-rig"
    rig.write_text("root=/dev/vda zonelab.dilation=128\n")
    monkeypatch.setattr(proc, "patience", lambda: virtual_clock.patience(rig))
    program = script(tmp_path, "p", "sleep 0.5; echo done >&2")
    assert proc.run([program], timeout=0.1).ok
    assert proc.stream([program], print, timeout=0.1).ok


def test_stream_kills_the_program_when_interrupted(tmp_path: Path) -> None:
    program = script(tmp_path, "p", f"echo $$ > {tmp_path}/pid; echo go >&2; exec sleep 60")

    def interrupt(_: str) -> None:
        raise Interrupted("stop")

    with pytest.raises(Interrupted):
        proc.stream([program], interrupt, timeout=30)
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_the_reader_of_a_silent_program_can_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proc, "_SILENT_SECONDS", 0.05)
    program, lines = script(tmp_path, "p", "echo go >&2; exec sleep 30"), list[str]()

    def on_line(line: str) -> None:
        lines.append(line)
        if "go" in lines and not line:
            raise TimedOut("of the run")

    with pytest.raises(TimedOut, match="of the run"):
        proc.stream([program], on_line, timeout=20)
    done = proc.stream([script(tmp_path, "q", "echo go >&2; sleep 0.3")], print, timeout=20)
    assert done.stderr == "go\n"


def test_stream_of_a_missing_program() -> None:
    with pytest.raises(HostError, match="not installed"):
        proc.stream(["/nonexistent/program"], print, timeout=1)


@pytest.fixture
def native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path / "native"))
    return tmp_path / "native"


def test_coldfill_reports_progress_and_result(native: Path) -> None:
    script(
        native,
        "coldfill",
        """
echo '{"bytes": 4096, "seconds": 1.000}' >&2
echo "{\\"bytes\\": $5, \\"seconds\\": 2.5, \\"direct\\": true, \\"errno\\": 0}" """,
    )
    progress: list[int] = []
    stored = coldfill.write(Path("/m/cold/cold"), 8192, -1, progress.append)
    assert stored == 8192
    assert progress == [4096]


def test_a_run_can_end_a_fill_that_stands_still(
    native: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proc, "_SILENT_SECONDS", 0.05)
    script(native, "coldfill", 'echo \'{"bytes": 4096, "seconds": 1.000}\' >&2; exec sleep 30')
    seen: list[int] = []

    def progress(done: int) -> None:
        seen.append(done)
        if seen[-2:] == [4096, 4096]:
            raise TimedOut("of the run")

    monkeypatch.setattr(coldfill, "_GRACE_SECONDS", 20.0)
    with pytest.raises(TimedOut, match="of the run"):
        coldfill.write(Path("/m/cold"), 8192, 1, progress)


def test_coldfill_on_a_full_file_system_reports_the_stored_bytes(native: Path) -> None:
    script(
        native,
        "coldfill",
        """
echo 'coldfill: write /m/cold: No space left on device' >&2
echo '{"bytes": 4096, "seconds": 0.5, "direct": false, "errno": 28}'; exit 28""",
    )
    assert coldfill.write(Path("/m/cold"), 8192, 1, print) == 4096


def test_coldfill_failing_otherwise(native: Path) -> None:
    script(native, "coldfill", "echo 'coldfill: write /m/cold: Input/output error' >&2; exit 1")
    with pytest.raises(ToolFailed, match="Input/output error"):
        coldfill.write(Path("/m/cold"), 8192, 1, print)


@pytest.mark.parametrize("text", ["", "{}", '{"bytes": "x", "seconds": 1, "direct": true}', "[1]"])
def test_coldfill_result_is_read_strictly(text: str) -> None:
    with pytest.raises(ToolFailed, match="coldfill printed"):
        coldfill.parse(text)


def test_coldfill_missing(native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_programs, "INSTALLED", native)
    monkeypatch.setattr(proc, "which", lambda _: None)
    with pytest.raises(HostError, match="coldfill is not installed"):
        coldfill.write(Path("/m/cold"), 8192, 1, print)


def test_coldfill_seed_is_unsigned() -> None:
    argv = coldfill.write_argv(Path("coldfill"), Path("/f"), 4096, -1)
    assert argv[argv.index("--seed") + 1] == str(2**64 - 1)


def test_zone_reset_of_something_that_is_not_zoned(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 512)
    with pytest.raises(ToolFailed, match="cannot reset the zones"):
        zone_reset.reset_all(tmp_path / "file", Bytes(512))
    with pytest.raises(ToolFailed, match="No such file"):
        zone_reset.reset_all(tmp_path / "missing", Bytes(512))


def test_mounts_of_a_captured_mountinfo() -> None:
    found = Kernel(FIXTURES / "f2fs").mount_at(Path("/mnt/lv"))
    assert found is not None
    assert (found.source, found.device) == ("/dev/mapper/zonelab-lvtest", "253:0")
    assert found.options.startswith("rw,relatime,lazytime,background_gc=on")
    assert Kernel(FIXTURES / "f2fs").mount_at(Path("/mnt")) is None


def test_mountinfo_escapes_are_undone() -> None:
    (found,) = parse_mounts("9 1 0:5 / /mnt/a\\040b rw - tmpfs none rw,size=1k\n")
    assert found.target == Path("/mnt/a b")
