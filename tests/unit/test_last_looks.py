"""The last looks of a claim and of the guard, right before each destructive step."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import GuardRefused, HostError, Interrupted
from harness.levels.level import LevelContext
from harness.levels.raw_conventional import RawConventional
from harness.machine import hold
from harness.machine.claim import clear
from harness.machine.guard import companion
from harness.machine.journal import JournalEvent
from harness.machine.lock import exclusive
from harness.machine.signals import Stop
from harness.tools import zone_reset
from tests.fixtures.claims import Lab, spy
from tests.runner import fakes
from tests.runner.fakes import namespace, put_btrfs, set_diskstats


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_namespace_that_was_created_again_is_not_wiped(lab: Lab) -> None:
    """Its identity is the old one, its size is not."""
    size = lab.root / "sys/class/block/nvme0n1/size"
    size.write_text(str(int(size.read_text()) // 2))
    put_btrfs(lab.root / "dev/nvme0n1", "precious")
    before = lab.contents()
    with pytest.raises(GuardRefused) as caught:
        clear(lab.host, lab.guard, [lab.zoned, lab.conventional])
    assert caught.value.code == "geometry-changed"
    assert lab.contents() == before


def test_the_second_device_is_looked_at_again_behind_the_first_wipe(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset of many zones takes long enough for another drive to get the name."""
    put_btrfs(lab.root / "dev/nvme0n1", "precious")
    precious = (lab.root / "dev/nvme0n1").read_bytes()
    spy(monkeypatch, lab.host, "reset_zones", lambda: lab.replace_by_another_drive("nvme0n1"))
    with pytest.raises(GuardRefused) as caught:
        clear(lab.host, lab.guard, [lab.zoned, lab.conventional])
    assert caught.value.code == "identity-changed"
    assert (lab.root / "dev/nvme0n1").read_bytes() == precious


@pytest.mark.parametrize("used", ["nvme0n1", "nvme0n2"])
@pytest.mark.parametrize("step", ["clear", "check"])
def test_a_held_device_that_came_into_use_is_refused_at_the_next_step(
    lab: Lab, step: str, used: str
) -> None:
    """A holder such as device-mapper is in the kernel's files only."""
    holder = lab.root / "sys/class/block" / used / "holders/dm-7"
    with lab.taken() as claim:
        if step == "check":
            claim.clear()
        holder.mkdir()
        with pytest.raises(GuardRefused) as caught:
            getattr(claim, step)()
        holder.rmdir()
    assert caught.value.code == "held"


def test_no_device_is_opened_exclusively_when_one_was_swapped(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other drive may be in use: the open would keep its user away."""
    claim, opened = lab.claim(), list[str]()
    claim.require_allowed()
    lab.replace_by_another_drive("nvme0n1")
    spy(monkeypatch, lab.host, "open_exclusively", lambda: opened.append("opened"))
    with pytest.raises(GuardRefused) as caught, claim.exclusively():
        raise AssertionError("the devices are held")
    assert (caught.value.code, opened) == ("identity-changed", [])


def test_a_drive_that_is_swapped_while_the_runner_listens_is_noticed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard judges contents, and those of the other drive can be harmless."""
    claim = lab.claim()
    claim.require_allowed()
    monkeypatch.setattr(lab.host, "pause", lambda _: lab.replace_by_another_drive("nvme0n1"))
    with pytest.raises(GuardRefused) as caught, claim.exclusively():
        raise AssertionError("the guard allowed another drive")
    assert caught.value.code == "identity-changed"


def test_bytes_of_the_own_wipe_are_no_writes_by_others(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy(monkeypatch, lab.host, "wipe", lambda: set_diskstats(lab.root, 4096, 0))
    with lab.taken() as claim:
        claim.clear()
        claim.check()


@pytest.mark.parametrize("swapped", ["nvme0n1", "nvme0n2"])
def test_no_device_is_formatted_when_one_was_swapped(lab: Lab, swapped: str) -> None:
    """Also not the device that is the planned one: a level uses both."""
    other = lab.zoned if swapped == "nvme0n1" else lab.conventional
    with suppress(GuardRefused), lab.taken() as claim:  # its end clears nothing, either
        claim.clear()
        lab.replace_by_another_drive(swapped)
        with pytest.raises(GuardRefused) as caught:
            claim.check([other])
    assert caught.value.code == "identity-changed"


def test_formatted_devices_are_recorded_as_such(lab: Lab) -> None:
    """After a kill, the label proves ownership of these devices only."""
    with lab.taken() as claim:
        claim.clear()
        claim.check()
        claim.formatted()
        entries = lab.journal.unfinished()
        assert [entry.event for entry in entries] == [JournalEvent.UP] * 2
        put_btrfs(Path(lab.conventional.path), entries[0].label)
        assert lab.guard.require(lab.conventional, held=True) is None


def test_a_slice_in_use_is_not_formatted(lab: Lab) -> None:
    """A slice is a device of its own, which the claim does not hold."""
    namespace(lab.root, 3, {"queue/zoned": "none", "size": str(32 * fakes.MIB // 512)})
    part = lab.host.device("nvme0n3")
    with lab.taken() as claim:
        claim.clear()
        claim.check([part])
        (lab.root / "busy-nvme0n3").touch()
        with pytest.raises(GuardRefused) as caught:
            claim.check([part])
    assert caught.value.code == "busy"


def test_a_slice_that_was_exchanged_is_not_formatted(lab: Lab) -> None:
    namespace(lab.root, 3, {"queue/zoned": "none", "size": str(32 * fakes.MIB // 512)})
    part = lab.host.device("nvme0n3")
    with lab.taken() as claim:
        claim.clear()
        lab.replace_by_another_drive("nvme0n3")
        with pytest.raises(GuardRefused) as caught:
            claim.check([part])
    assert caught.value.code == "identity-changed"


def test_a_refusal_behind_the_clearing_clears_nothing_more(lab: Lab) -> None:
    """What was refused are the data of others, which came after the clearing."""
    with pytest.raises(GuardRefused) as caught:
        refused(lab)
    assert caught.value.code == "written-by-others"
    assert b"precious" in lab.contents()[1]
    assert {entry.event for entry in lab.journal.entries()} == {JournalEvent.CLAIM}


def refused(lab: Lab) -> None:
    """Clear the devices; then another program makes a file system."""
    with lab.taken() as claim:
        claim.clear()
        put_btrfs(lab.root / "dev/nvme0n1", "precious")
        set_diskstats(lab.root, 4096, 0)
        claim.check()


def test_a_signal_during_the_release_does_not_stop_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, stop = lab.claim(), Stop()
    monkeypatch.setattr(claim, "_stop", stop)
    claim.require_allowed()
    with stop.installed(), claim.exclusively():
        with claim.held():
            claim.clear()
            spy(
                monkeypatch,
                lab.host,
                "reset_zones",
                lambda: os.kill(os.getpid(), signal.SIGTERM),
            )
        events = [entry.event for entry in lab.journal.entries()]
        with pytest.raises(Interrupted):
            stop.check()
    assert events[-2:] == [JournalEvent.RELEASE] * 2


def test_one_release_ends_the_run_of_both_devices(lab: Lab) -> None:
    """A kill between the two entries: both devices were clean before the first one."""
    with lab.taken() as claim:
        claim.clear()
    path = lab.root / "journal.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert lab.journal.entries()[-1].event is JournalEvent.RELEASE
    assert lab.journal.unfinished() == []


def test_only_used_consents_count_as_wipes(lab: Lab) -> None:
    """Their number is a part of the next consent, which a claim must not change."""
    with lab.taken() as claim:
        claim.clear()
    last = lab.journal.entries()[-1]
    lab.journal.append(replace(last, event=JournalEvent.ERASE, consent="3f9a1c2b"))
    lab.journal.append(last)
    assert lab.journal.erasures(last.identity) == ["3f9a1c2b"]


@pytest.mark.parametrize(("refusals", "code"), [(0, ""), (4, ""), (5, "busy")])
def test_a_short_lived_opener_is_waited_for(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, refusals: int, code: str
) -> None:
    opened, answers, pauses = lab.host.open_exclusively, [None] * refusals, list[float]()
    monkeypatch.setattr(
        lab.host,
        "open_exclusively",
        lambda path: answers.pop() if answers else opened(path),
    )
    monkeypatch.setattr(lab.host, "pause", pauses.append)
    held, found = hold.Hold(lab.host), ""
    try:
        with held.taken([lab.zoned]):
            assert held.node(lab.zoned) is not None
    except GuardRefused as error:
        found = error.code
    assert (found, pauses) == (code, [1.0] * min(refusals, 4))
    assert held.node(lab.zoned) is None


def test_a_device_is_held_with_an_exclusive_open_for_reading(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a writable one would make udev read the device again."""
    answers, modes = [errno.EBUSY, errno.EACCES], list[int]()

    def refuse(_path: str, flags: int) -> int:
        modes.append(flags & (os.O_EXCL | os.O_WRONLY | os.O_RDWR))
        raise OSError(answers.pop(0), "no")

    monkeypatch.setattr(os, "open", refuse)
    assert lab.host.open_exclusively(lab.zoned.path) is None
    with pytest.raises(HostError):
        lab.host.open_exclusively(lab.zoned.path)
    assert modes == [os.O_EXCL] * 2


def test_no_device_stays_held_when_another_cannot_be(lab: Lab) -> None:
    (lab.root / "busy-nvme0n1").touch()
    held = hold.Hold(lab.host)
    with pytest.raises(GuardRefused) as caught, held.taken([lab.zoned, lab.conventional]):
        raise AssertionError("both are held")
    assert caught.value.code == "busy"
    assert held.node(lab.zoned) is None
    assert not lab.host.is_busy(lab.zoned.path)


def test_a_released_device_is_free_while_the_other_is_held(lab: Lab) -> None:
    held, devices = hold.Hold(lab.host), [lab.zoned, lab.conventional]
    with held.taken(devices):
        assert [lab.host.is_busy(one.path) for one in devices] == [True, True]
        held.release(lab.zoned)
        held.release(lab.zoned)  # has no effect
        assert [lab.host.is_busy(one.path) for one in devices] == [False, True]
        node = held.node(lab.conventional)
        assert node is not None
        assert os.path.realpath(node) == lab.conventional.path
    assert not lab.host.is_busy(lab.conventional.path)


def test_udev_is_kept_off_and_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, sleeps = tmp_path / "device", list[float]()
    path.touch()
    other = os.open(path, os.O_RDONLY)

    def locked() -> bool:
        try:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as udev does
        except BlockingIOError:
            return True
        fcntl.flock(other, fcntl.LOCK_UN)
        return False

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 2:
            fcntl.flock(other, fcntl.LOCK_UN)

    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        monkeypatch.setattr(hold.time, "sleep", sleep)
        with hold.quiet([str(path)]):
            assert locked()
        assert (locked(), len(sleeps)) == (False, 2)
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(HostError, match="locked for 30 s") as caught, hold.quiet([str(path)]):
            raise AssertionError("the lock was taken")
        assert (caught.value.code, len(sleeps)) == ("device-locked", 152)
    finally:
        os.close(other)


@pytest.mark.parametrize("held", [False, True])
def test_the_kernel_refuses_to_empty_a_device_that_came_into_use(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, *, held: bool
) -> None:
    """O_EXCL fails on a mounted device, and on one that this process holds itself."""
    opened, resets, real = list[tuple[str, bool]](), list[bytes](), os.open

    def noted(path: str | Path, flags: int, mode: int = 0o777) -> int:
        opened.append((str(path), bool(flags & os.O_EXCL)))
        return real(path, flags, mode)

    monkeypatch.setattr(fcntl, "ioctl", lambda _fd, _request, zones: resets.append(zones))
    monkeypatch.setattr(os, "open", noted)
    node = Path(lab.conventional.path).with_name("held")  # as a descriptor names it
    node.hardlink_to(lab.conventional.path)
    given, path = (node, str(node)) if held else (None, lab.conventional.path)
    lab.host.wipe(lab.conventional, given)
    zone_reset.reset_all(Path(lab.conventional.path), lab.conventional.size, given)
    assert opened == [(path, not held)] * 2
    sectors = lab.conventional.size // 512
    assert resets == [bytes(8) + sectors.to_bytes(8, "little")]  # from the first sector on


@pytest.mark.parametrize("busy", [False, True])
def test_the_kernel_refuses_to_discard_a_bare_device_that_came_into_use(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, *, busy: bool
) -> None:
    """Without O_EXCL, it discards and writes also what is mounted."""
    device, before, real = lab.conventional, lab.contents(), os.open
    requests = list[int]()

    def as_the_kernel(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if busy and str(path) == device.path and flags & os.O_EXCL:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return real(path, flags, mode)

    monkeypatch.setattr(fcntl, "ioctl", lambda _fd, request, _range: requests.append(request))
    monkeypatch.setattr(os, "open", as_the_kernel)
    context = LevelContext(
        device=lab.zoned,
        conventional=device,
        options={},
        scratch=lab.root,
        label="zl-1",
        check_devices=lambda: None,
        kernel_log=lab.host.kernel_log,
    )
    with pytest.raises(OSError, match="busy") if busy else nullcontext():
        RawConventional().up(context)
    assert (lab.contents() == before, len(requests)) == ((True, 0) if busy else (False, 1))


def test_a_zoned_companion_is_refused(lab: Lab) -> None:
    found, reason = companion(lab.host, lab.guard, lab.zoned, "nvme0n2")
    assert found is None
    assert reason is not None
    assert reason.code == "conventional-zoned"


def test_the_lock_does_not_follow_a_link(tmp_path: Path) -> None:
    """Who plants a link there would have a file of root truncated."""
    target = tmp_path / "target"
    target.write_text("precious")
    target.chmod(0o600)
    path = tmp_path / "lock" / "machine"
    path.parent.mkdir(mode=0o700)
    path.symlink_to(target)
    with pytest.raises(HostError), exclusive(path, "test"):
        raise AssertionError("the lock was taken")
    assert target.read_text() == "precious"
