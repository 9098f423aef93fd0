"""A level that does not come up: the kernel's reason is in the message, and nothing is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness import cleanup
from harness.errors import ConfigError, GuardRefused, TimedOut, ToolFailed, ZonelabError
from harness.levels.bring_up import bring_up
from harness.levels.conventional import ConventionalExt4
from harness.levels.level import LevelContext, LevelUp
from harness.observe.kmsg import KernelLog
from harness.tools.kernel import Kernel
from tests.fixtures.level_host import Host, context

UP = LevelUp(db=Path("/none/db"), fs_uri=None, cold_dir=None, devices=())


class Silent(ConventionalExt4):
    """Takes nothing down, or fails to."""

    def __init__(self, problem: ZonelabError | None = None) -> None:
        self.problem = problem

    def down(self, up: LevelUp) -> None:
        if self.problem is not None:
            raise self.problem


def fails(host: Host, folder: Path, error: ZonelabError, level: Silent | None = None) -> str:
    """Return the message of an error that the block raises after a record of the kernel."""

    def block() -> None:
        with bring_up(level or Silent(), context(host, folder), UP):
            with (host.root / "kmsg").open("a") as log:
                log.write("3,8,2000000,-;device-mapper: table: 254:1: refused\n")
            raise error

    with pytest.raises(type(error)) as caught:
        block()
    assert caught.value is error
    return error.message


def test_a_program_that_fails_quotes_what_the_kernel_logged_meanwhile(
    host: Host, tmp_path: Path
) -> None:
    (host.root / "kmsg").write_text("3,1,1000000,-;nvme0n1: of an earlier run\n")
    host.fail["mount"] = "mount: wrong fs type, bad option, bad superblock"
    host.kernel["mount"] = "3,2,2000000,-;EXT4-fs (dm-0): bad geometry\n"
    host.kernel["dmsetup remove"] = "6,3,3000000,-;device-mapper: cleanup\n"
    with pytest.raises(ToolFailed) as caught:
        ConventionalExt4(Kernel(host.root)).up(context(host, tmp_path))
    message = caught.value.message
    assert message.startswith("mount failed (exit 1): mount: wrong fs type")
    assert message.endswith("EXT4-fs (dm-0): bad geometry")
    assert "earlier" not in message
    assert host.slices == {}  # taken down, after the kernel's lines were read


def test_a_timeout_quotes_the_kernel_and_a_refusal_does_not(host: Host, tmp_path: Path) -> None:
    quoted = "; kernel: device-mapper: table: 254:1: refused"
    assert fails(host, tmp_path, TimedOut("mkfs did not end")) == f"mkfs did not end{quoted}"
    assert fails(host, tmp_path, GuardRefused("another device")) == "another device"
    assert fails(host, tmp_path, ConfigError("a bad option")) == "a bad option"


def test_the_last_lines_are_enough_and_losses_are_no_line(host: Host, tmp_path: Path) -> None:
    records = [f"6,{n if n < 8 else n + 5},1000000,-;line {n}\n".encode() for n in range(9)]

    def read(_: int, __: int) -> bytes:
        return records.pop(0) if records else b""

    given: LevelContext = replace(
        context(host, tmp_path), kernel_log=lambda: KernelLog(host.root / "kmsg", read)
    )
    with pytest.raises(ToolFailed) as caught, bring_up(Silent(), given, UP):
        raise ToolFailed("dmsetup failed")
    assert (
        caught.value.message == "dmsetup failed; kernel: line 4 | line 5 | line 6 | line 7 | line 8"
    )


def test_a_silent_kernel_adds_nothing(host: Host, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed) as caught, bring_up(Silent(), context(host, tmp_path), UP):
        raise ToolFailed("dmsetup failed")
    assert caught.value.message == "dmsetup failed"


def test_a_failing_cleanup_does_not_replace_the_error(host: Host, tmp_path: Path) -> None:
    first, second = ToolFailed("mkfs failed"), ToolFailed("umount failed: busy")
    message = fails(host, tmp_path, first, Silent(second))
    assert message == "mkfs failed; kernel: device-mapper: table: 254:1: refused"
    assert cleanup.later(first) == (second,)
