"""Preconditioning writes the planned bytes to allowed devices; unhealthy drives are refused."""

from __future__ import annotations

import errno
import json
import mmap
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import harness.cli.age as command
import harness.drive.purge as purge_module
from harness.cli import main as cli
from harness.drive import health, precondition
from harness.drive.precondition import Preconditioning
from harness.drive.purge import purge
from harness.errors import GuardRefused, HostError
from harness.machine.guard import Guard
from harness.machine.journal import Journal, JournalEvent
from harness.machine.paths import Paths
from harness.observe.zone_reports import Zone, ZoneType
from harness.store.files import descriptor
from tests.fixtures.claims import spy
from tests.runner.fakes import (
    MIB,
    ZONE_CAPACITY,
    ZONE_SIZE,
    ZONES,
    FakeHost,
    make_machine,
    put_btrfs,
    set_diskstats,
    set_zones,
    write_tree,
)

HEALTHY = {"critical_warning": 0, "percentage_used": 3, "temperature_kelvin": 300}


class Host(FakeHost):
    """A host that records resets of zones and has a given temperature."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.resets: list[int] = []
        self.log: dict[str, int] | None = dict(HEALTHY)
        self.kelvins: list[int] = []
        self.clock = 0.0

    def reset_zone(self, handle: int, start: int, length: int) -> None:
        assert length == ZONE_SIZE
        os.pwrite(handle, bytes(ZONE_CAPACITY), start)
        self.resets.append(start // ZONE_SIZE)

    def smart(self, name: str) -> dict[str, int] | None:
        if self.log is not None and self.kelvins:
            self.log["temperature_kelvin"] = self.kelvins.pop(0)
        return self.log

    def warning_temperature(self, name: str) -> int | None:
        return 343

    def monotonic(self) -> float:
        self.clock += 1.0
        return self.clock


@contextmanager
def plainly(node: Path, flags: int) -> Iterator[int]:
    """Not every file system supports O_DIRECT for files."""
    with descriptor(node, flags & ~os.O_DIRECT) as fd:
        yield fd


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    make_machine(tmp_path)
    machine = Host(tmp_path)
    monkeypatch.setattr(command, "Host", lambda: machine)
    monkeypatch.setattr(precondition, "descriptor", plainly)
    return machine


def zonelab(host: Host, *words: str) -> int:
    return cli.main(["age", *words, "--state-dir", str(host.root / "state")])


def paths(host: Host) -> Paths:
    return Paths(host.root / "state", host.root / "run")


class Watched(Preconditioning):
    """A host that keeps the device's content from before the last purge."""

    seen: bytes = b""

    def _purge(self) -> None:
        self.seen = Path(self._device.path).read_bytes()
        super()._purge()


def work(host: Host, name: str, messages: list[str]) -> Watched:
    guard = Guard(host, Journal(paths(host).journal))
    return Watched(host, paths(host), guard, host.device(name), messages.append)


@pytest.mark.slow
def test_every_byte_of_capacity_is_written_and_zones_are_empty_again(host: Host) -> None:
    own = work(host, "nvme0n2", [])
    done = own.run(2, seed=7)
    assert done.bytes == 2 * ZONES * ZONE_CAPACITY
    for zone in range(ZONES):
        start = zone * ZONE_SIZE
        for offset in range(0, ZONE_CAPACITY, MIB):
            piece = own.seen[start + offset : start + offset + MIB]
            assert int.from_bytes(piece[:8], "little") == start + offset
            assert len(set(piece[4096:8192])) > 200  # nothing that a drive compresses
        assert not own.seen[start + ZONE_CAPACITY : start + ZONE_SIZE].strip(b"\0")
    # The first pass in order on empty zones, the second in another order, each reset.
    assert sorted(host.resets) == list(range(ZONES))
    assert host.resets != list(range(ZONES))
    assert json.loads((host.root / "zones.json").read_text()) == {}
    journal = Journal(paths(host).journal)
    assert [entry.event for entry in journal.entries()] == [
        JournalEvent.CLAIM,
        JournalEvent.RELEASE,
    ]
    assert Guard(host, journal).examine(host.device("nvme0n2")) == []


def test_a_write_that_fails_names_the_drives_error(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, own = os.pwrite, work(host, "nvme0n2", [])

    def failing(fd: int, data: bytes, offset: int) -> int:
        if os.path.realpath(f"/proc/self/fd/{fd}") == host.device("nvme0n2").path:
            raise OSError(errno.EIO, "Input/output error")
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", failing)
    with pytest.raises(OSError, match="Input/output error"):
        own.run(1, seed=7)


def test_a_write_of_a_part_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    with descriptor(tmp_path / "node", os.O_RDWR | os.O_CREAT) as fd, mmap.mmap(-1, 16) as data:
        data[:] = bytes(range(16))
        precondition._write(fd, data, 10, 5)
    assert (tmp_path / "node").read_bytes() == bytes(5) + bytes(range(10))


def test_nothing_is_written_behind_the_capacity_of_a_zone(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capacity need not be a multiple of the bytes of one write."""
    own, start, end = work(host, "nvme0n1", []), MIB, 2 * MIB + 4096
    monkeypatch.setattr(own, "_extents", lambda: iter([(start, end - start, False)]))
    with own._looks.hold.taken([own._device]):
        assert own._write_all(random.Random(7), shuffled=False) == end - start  # noqa: S311
    content = Path(own._device.path).read_bytes()
    written = [bool(part.strip(b"\0")) for part in (content[:start], content[end:])]
    assert (written, content[2 * MIB : end].count(0) < 4096) == ([False, False], True)


def test_conventional_zones_are_written_again_without_a_reset(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses to reset one alone."""
    zones = host.zones

    def with_two(path: str, limit: int | None = None) -> list[Zone]:
        found = zones(path, limit)
        return [replace(one, type=ZoneType.CONVENTIONAL) for one in found[:2]] + found[2:]

    monkeypatch.setattr(host, "zones", with_two)
    own = work(host, "nvme0n2", [])
    with own._looks.hold.taken([own._device]):
        order = random.Random(7)  # noqa: S311
        assert own._write_all(order, shuffled=True) == ZONES * ZONE_CAPACITY
    assert sorted(host.resets) == list(range(2, ZONES))


@pytest.mark.slow
def test_the_order_follows_the_seed(host: Host) -> None:
    orders = []
    for seed in (1, 1, 2):
        host.resets = []
        work(host, "nvme0n2", []).run(2, seed)
        orders.append(tuple(host.resets))
    assert orders[0] == orders[1] != orders[2]


def test_a_conventional_device(host: Host) -> None:
    own = work(host, "nvme0n1", [])
    done = own.run(1, seed=1)
    assert done.bytes == host.device("nvme0n1").size
    assert own.seen.count(bytes(MIB)) == 0
    assert host.resets == []


class Stubborn(Host):
    """A host whose drive can ignore discards and zeroing."""

    def __init__(self, root: Path, *, discards: bool | None, zeros: bool) -> None:
        super().__init__(root)
        self._discards = discards  # null: the drive has no discard
        self._zeros = zeros

    def discard(self, handle: int, start: int, length: int) -> bool:
        if self._discards:
            super().discard(handle, start, length)
        return self._discards is not None

    def zero(self, handle: int, start: int, length: int) -> None:
        if self._zeros:
            super().zero(handle, start, length)


@pytest.mark.parametrize(
    ("discards", "zeros", "how"),
    [(True, False, "discarded"), (False, True, "zeroed"), (None, True, "zeroed")],
)
def test_a_purged_conventional_device_is_zero(
    host: Host, *, discards: bool | None, zeros: bool, how: str
) -> None:
    device, messages = host.device("nvme0n1"), list[str]()
    with Path(device.path).open("r+b") as file:
        file.seek(device.size // 2)  # far from every signature
        file.write(b"precious")
    purge(
        Stubborn(host.root, discards=discards, zeros=zeros),
        device,
        Path(device.path),
        messages.append,
    )
    assert Path(device.path).read_bytes() == bytes(device.size)
    assert messages == [f"{device.path} was {how}, and every byte was read back as zero"]


def test_zeros_are_flushed_before_they_are_read_back(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, steps = host.device("nvme0n1"), list[str]()
    machine = Stubborn(host.root, discards=False, zeros=True)
    spy(monkeypatch, machine, "first_data", lambda: steps.append("read"))
    spy(monkeypatch, machine, "zero", lambda: steps.append("zero"))
    spy(monkeypatch, os, "fsync", lambda: steps.append("flush"))
    Path(device.path).write_bytes(b"x" * device.size)
    purge(machine, device, Path(device.path), steps.append)
    assert steps[:-1] == ["read", "zero", "flush", "read"]


def test_a_pass_ends_with_a_flush(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    own, synced = work(host, "nvme0n1", []), list[str]()
    fsync = os.fsync

    def noted(handle: int) -> None:
        synced.append(os.path.realpath(f"/proc/self/fd/{handle}"))
        fsync(handle)

    with own._looks.hold.taken([own._device]):
        monkeypatch.setattr(os, "fsync", noted)
        own._write_all(random.Random(7), shuffled=False)  # noqa: S311
    assert synced == [own._device.path]


def test_data_that_remains_after_a_purge_is_reported(host: Host) -> None:
    device, messages = host.device("nvme0n1"), list[str]()
    with Path(device.path).open("r+b") as file:
        file.seek(device.size - 1)
        file.write(b"x")
    with pytest.raises(HostError, match="still has data") as caught:
        purge(
            Stubborn(host.root, discards=False, zeros=False),
            device,
            Path(device.path),
            messages.append,
        )
    assert (caught.value.code, messages) == ("purge-incomplete", [])


def test_a_purge_empties_the_conventional_zones_of_a_zoned_device(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset of zones leaves them as they are."""
    device, zones, messages = host.device("nvme0n2"), host.zones, list[str]()
    last = (ZONES - 1) * ZONE_SIZE

    def with_some(path: str, limit: int | None = None) -> list[Zone]:
        found = zones(path, limit)
        plain = (0, 1, ZONES - 1)
        return [
            replace(one, type=ZoneType.CONVENTIONAL) if number in plain else one
            for number, one in enumerate(found)
        ]

    monkeypatch.setattr(host, "zones", with_some)
    monkeypatch.setattr(host, "reset_zones", lambda *_: host.resets.append(-1))
    with Path(device.path).open("r+b") as file:
        for at in (ZONE_SIZE - 4096, ZONE_SIZE, 2 * ZONE_SIZE, last, last + ZONE_SIZE - 1):
            file.seek(at)
            file.write(b"x")
    own = work(host, "nvme0n2", messages)
    with own._looks.hold.taken([device]):
        own._looks.listen()
        own._looks.note()
        own._purge()
    content = Path(device.path).read_bytes()
    assert content.strip(b"\0") == b"x"
    assert content.index(b"x") == 2 * ZONE_SIZE  # reset, by a kernel
    assert host.resets == [-1]
    assert messages == [
        f"the conventional zones of {device.path} were discarded,"
        " and every byte was read back as zero"
    ]


def test_zones_with_a_write_pointer_are_only_reset(host: Host) -> None:
    messages: list[str] = []
    assert work(host, "nvme0n2", messages).run(0, seed=1).bytes == 0
    assert messages == []


def test_large_parts_are_purged_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge_module, "_STEP", 10)
    assert purge_module._parts([(5, 25), (100, 10)]) == [(5, 10), (15, 10), (25, 5), (100, 10)]


@pytest.mark.parametrize(
    ("keep", "expected"), [(False, ["reset", "pass", "reset"]), (True, ["reset", "pass"])]
)
def test_a_device_is_emptied_before_the_first_pass(
    host: Host, monkeypatch: pytest.MonkeyPatch, *, keep: bool, expected: list[str]
) -> None:
    """A drive takes no write to a zone that is full."""
    own, steps = work(host, "nvme0n2", []), list[str]()

    def write_all(*_: Any, **__: Any) -> int:
        steps.append("pass")
        return 0

    monkeypatch.setattr(own, "_write_all", write_all)
    spy(monkeypatch, host, "reset_zones", lambda: steps.append("reset"))
    own.run(1, seed=7, keep=keep)
    assert steps == expected


def test_the_command_purges_a_conventional_device_whole(host: Host) -> None:
    assert zonelab(host, "nvme0n1", "--passes", "1") == 0
    node = Path(host.device("nvme0n1").path)
    assert not node.read_bytes().strip(b"\0")


def test_several_devices_are_preconditioned_one_after_the_other(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    assert zonelab(host, "nvme0n2", "nvme0n1", "--passes", "1", "--format", "json") == 0
    output = capsys.readouterr()
    keys = [host.device(name).identity.key for name in ("nvme0n2", "nvme0n1")]
    assert [record["identity"] for record in json.loads(output.out)] == keys
    assert zonelab(host, "nvme0n1", "nvme0n2", "--passes", "1", "--unless-done") == 0
    assert "changed" not in capsys.readouterr().err
    assert zonelab(host, "nvme0n1", "/dev/nvme0n1", "--passes", "1") == 2


def test_the_record_of_another_drive_with_an_equal_file_name_does_not_count(host: Host) -> None:
    assert zonelab(host, "nvme0n1", "--passes", "1") == 0
    device, state = host.device("nvme0n1"), host.root / "state"
    assert precondition.last(state, device) is not None
    file = precondition.record_file(state, device)
    file.write_text(file.read_text().replace(device.identity.key, "SERIAL/1"))
    other = replace(device, identity=replace(device.identity, eui64="", serial="SERIAL_1"))
    file.rename(precondition.record_file(state, other))
    assert precondition.last(state, other) is None


def test_a_refused_device_stops_the_others_before_the_first_write(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Path(host.device("nvme0n1").path)
    node.write_bytes(b"precious" + bytes(32 * MIB - 8))
    assert zonelab(host, "nvme0n2", "nvme0n1", "--passes", "1") == 3
    assert "nvme0n1 holds data" in capsys.readouterr().err
    assert (host.resets, node.read_bytes()[:8]) == ([], b"precious")
    assert not list(Journal(paths(host).journal).entries())


def test_it_is_recorded_and_not_done_twice(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert zonelab(host, "nvme0n2", "--show") == 0
    assert "never" in capsys.readouterr().err
    assert zonelab(host, "nvme0n2", "--passes", "1", "--format", "json") == 0
    output = capsys.readouterr()
    (record,) = json.loads(output.out)
    assert (record["passes"], record["bytes"]) == (1, ZONES * ZONE_CAPACITY)
    assert (record["hottest"], record["smart_before"]) == (300, HEALTHY)
    assert "changed" in output.err
    assert zonelab(host, "nvme0n2", "--passes", "1", "--unless-done") == 0
    assert "changed" not in capsys.readouterr().err
    assert zonelab(host, "nvme0n2", "--passes", "2", "--unless-done") == 0
    assert "changed" in capsys.readouterr().err
    device = host.device("nvme0n2")
    summary = precondition.summary(paths(host).state, device)
    assert summary is not None
    assert summary["passes"] == 2
    assert precondition.summary(paths(host).state, host.device("nvme0n1")) is None


FULL = dict.fromkeys(range(ZONES), ZONE_CAPACITY)


@pytest.mark.parametrize(
    ("name", "user"), [("nvme0n1", "others"), ("nvme0n1", "run"), ("nvme0n2", "others")]
)
def test_a_purge_is_repeated_if_the_device_was_used_since(
    host: Host, capsys: pytest.CaptureFixture[str], name: str, user: str
) -> None:
    journal, device = Journal(paths(host).journal), host.device(name)

    def purge_unless_done() -> bool:
        consent = Guard(host, journal).seen(device).consent
        words = ("--erase", consent) if consent else ()
        assert zonelab(host, name, "--unless-done", *words) == 0
        return "changed" in capsys.readouterr().err

    assert purge_unless_done()
    assert not purge_unless_done()
    if user == "run":
        entry = journal.last(device.identity.key)
        assert entry is not None
        journal.append(replace(entry, run="ext4--r01"))
    elif device.zoned:
        set_zones(host.root, FULL)
    else:
        with Path(device.path).open("r+b") as file:
            file.write(b"precious")
        set_diskstats(host.root, 4096, 0)
    assert purge_unless_done()
    assert not purge_unless_done()


def test_a_purge_is_repeated_if_a_zone_was_written_in_place(
    host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zones = host.zones

    def with_a_conventional_zone(path: str, limit: int | None = None) -> list[Zone]:
        first, *rest = zones(path)
        return [replace(first, type=ZoneType.CONVENTIONAL), *rest][:limit]

    monkeypatch.setattr(host, "zones", with_a_conventional_zone)
    assert zonelab(host, "nvme0n2") == 0
    capsys.readouterr()
    assert zonelab(host, "nvme0n2", "--unless-done") == 0
    assert "changed" not in capsys.readouterr().err
    with (host.root / "dev/nvme0n2").open("r+b") as file:
        file.seek(ZONE_SIZE // 2)
        file.write(b"precious")
    set_diskstats(host.root, 0, 4096)
    consent = Guard(host, Journal(paths(host).journal)).seen(host.device("nvme0n2")).consent
    assert zonelab(host, "nvme0n2", "--unless-done", "--erase", str(consent)) == 0
    assert "changed" in capsys.readouterr().err


def test_a_killed_preconditioning_leaves_no_older_record(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device is in no recorded condition: --unless-done must not trust the older record."""
    device, words = host.device("nvme0n2"), ("nvme0n2", "--passes", "1")
    assert zonelab(host, *words) == 0
    assert precondition.last(paths(host).state, device) is not None

    def killed(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Preconditioning, "_write_all", killed)
        assert zonelab(host, "nvme0n2", "--passes", "2") == 130
    assert precondition.last(paths(host).state, device) is None
    assert precondition.summary(paths(host).state, device) is None


def test_a_refused_preconditioning_keeps_the_older_record(host: Host) -> None:
    device = host.device("nvme0n2")
    assert zonelab(host, "nvme0n2") == 0
    (host.root / "busy-nvme0n2").touch()
    assert zonelab(host, "nvme0n2", "--passes", "1") == 3
    done = precondition.last(paths(host).state, device)
    assert done is not None
    assert done.passes == 0


def test_kept_bytes_count_as_the_rest_of_the_drive(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    beside, rest = host.device("nvme0n1"), host.device("nvme0n2")

    def kept(*besides: str) -> int:
        return precondition.kept_bytes(host, paths(host), beside, besides)

    def erase() -> tuple[str, ...]:
        consent = Guard(host, Journal(paths(host).journal)).seen(rest).consent
        return ("--erase", consent) if consent else ()

    def keep() -> str:
        words = ("--passes", "1", "--keep", "--unless-done", *erase())
        assert zonelab(host, "nvme0n2", *words) == 0
        return capsys.readouterr().err

    set_zones(host.root, FULL)
    assert kept() == 0  # data of others, not a remainder
    assert "changed" in keep()
    assert (host.root / "dev/nvme0n2").read_bytes()[ZONE_SIZE : ZONE_SIZE + MIB].strip(b"\0")
    set_zones(host.root, FULL)  # as a kernel's zones are by then
    assert kept() == ZONES * ZONE_CAPACITY
    assert kept(rest.identity.key) == 0  # a tenant's own
    assert "changed" not in keep()
    set_zones(host.root, {})  # a run has used it since
    assert kept() == 0
    assert "changed" in keep()
    set_zones(host.root, FULL)
    assert zonelab(host, "nvme0n2", "--unless-done", *erase()) == 0  # emptied
    assert kept() == 0
    set_zones(host.root, FULL)  # by others
    assert kept() == 0


def partition(host: Host) -> str:
    """Add a partition of 8 MiB to the conventional namespace, and return its name."""
    name = "nvme0n1p1"
    folder = (host.root / "sys/class/block/nvme0n1").resolve() / name
    files = {"partition": "1", "dev": "259:9", "size": str(8 * MIB // 512), "start": "2048"}
    write_tree(folder, files)
    (host.root / "sys/class/block" / name).symlink_to(folder)
    (host.root / "dev" / name).write_bytes(bytes(8 * MIB))
    with (host.root / "proc/diskstats").open("a") as file:
        file.write(f" 259 9 {name} 1 0 8 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0\n")
    return name


@pytest.mark.parametrize("parted", [False, True])
def test_a_full_conventional_rest_counts_until_a_run_uses_it(
    host: Host, capsys: pytest.CaptureFixture[str], *, parted: bool
) -> None:
    name = partition(host) if parted else "nvme0n1"
    beside, rest = host.device("nvme0n2"), host.device(name)

    def kept(*besides: str) -> int:
        return precondition.kept_bytes(host, paths(host), beside, besides)

    assert kept() == 0
    words = ("--passes", "1", "--keep", "--unless-done")
    assert zonelab(host, name, *words) == 0
    assert (host.root / "dev" / name).read_bytes()[4096:8192].strip(b"\0")
    assert kept() == rest.size == (8 if parted else 32) * MIB
    assert kept(rest.identity.key) == 0
    capsys.readouterr()
    assert zonelab(host, name, *words) == 0
    assert "changed" not in capsys.readouterr().err
    journal = Journal(paths(host).journal)
    entry = journal.last(rest.identity.key)
    assert entry is not None
    assert Guard(host, journal).examine(rest) == []
    journal.append(replace(entry, event=JournalEvent.CLAIM))  # a later one was killed
    assert kept() == 0
    journal.append(entry)
    assert kept() == rest.size
    journal.append(replace(entry, run="f2fs--r01"))  # a run has used it since
    assert kept() == 0


def test_an_impossible_amount_to_keep_is_refused(host: Host) -> None:
    assert zonelab(host, "nvme0n2", "--keep") == 2
    assert not paths(host).journal.exists()


@pytest.mark.parametrize("what", ["signature", "zones", "busy"])
def test_foreign_data_is_not_overwritten(host: Host, what: str) -> None:
    if what == "signature":
        put_btrfs(host.root / "dev/nvme0n2", "home")
    elif what == "zones":
        set_zones(host.root, {3: 4096})
    else:
        (host.root / "busy-nvme0n2").touch()
    node = host.root / "dev/nvme0n2"
    os.utime(node, ns=(0, 0))
    assert zonelab(host, "nvme0n2", "--passes", "1") == 3
    assert node.stat().st_mtime_ns == 0
    assert not paths(host).journal.exists()


def test_a_consent_is_used_by_the_first_purge(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    device, journal = host.device("nvme0n2"), Journal(paths(host).journal)

    def foreign() -> None:
        put_btrfs(host.root / "dev/nvme0n2", "home")
        set_zones(host.root, {3: 4096})

    foreign()
    consent = Guard(host, journal).seen(device).consent
    assert zonelab(host, "nvme0n2", "--erase", "eui.0000000000000000@00000000") == 3
    assert zonelab(host, "nvme0n2", "--erase", consent) == 0
    assert [entry.event for entry in journal.entries()] == [
        JournalEvent.ERASE,
        JournalEvent.RELEASE,
    ]
    capsys.readouterr()
    assert zonelab(host, "nvme0n2", "--erase", consent) == 0
    assert f"note: erase={consent} was not needed" in capsys.readouterr().err
    foreign()
    assert zonelab(host, "nvme0n2", "--erase", consent) == 3
    assert "an earlier wipe has used the consent" in capsys.readouterr().err
    assert json.loads((host.root / "zones.json").read_text()) == {"3": 4096}


def test_a_kill_before_the_purge_proves_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, journal = host.device("nvme0n2"), Journal(paths(host).journal)
    set_zones(host.root, {3: 4096})
    consent = Guard(host, journal).seen(device).consent

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(host, "reset_zones", killed)
    assert zonelab(host, "nvme0n2", "--erase", consent) == 130
    reasons = Guard(host, journal).examine(device)
    assert [reason.code for reason in reasons] == ["not-empty"]


def test_a_user_that_comes_between_two_passes_stops_the_next(host: Host) -> None:
    guard = Guard(host, Journal(paths(host).journal))
    device = host.device("nvme0n1")

    def mount(_: str) -> None:
        line = f"9 1 {host.sysfs.text('nvme0n1', 'dev')} / /srv rw - ext4 /dev/x rw\n"
        (host.root / "proc/self/mountinfo").write_text(line)

    with pytest.raises(GuardRefused) as caught:
        Preconditioning(host, paths(host), guard, device, mount).run(2, seed=7)
    assert caught.value.code == "mounted"


def test_the_temperature_is_looked_at_again_while_it_writes(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precondition, "_LOOK_BYTES", 8 * MIB)
    monkeypatch.setattr(precondition, "_REGION", 4 * MIB)
    host.kelvins = [300, 300, 301, 320, 310, 305, 300]  # the first two before the first write
    seen: list[int | None] = []
    wait = health.wait_cool

    def noted(*arguments: Any) -> int | None:
        seen.append(wait(*arguments))
        return seen[-1]

    monkeypatch.setattr(health, "wait_cool", noted)
    done = work(host, "nvme0n1", []).run(1, seed=1)
    assert seen == [301, 320, 310, 305]  # of 32 MiB
    assert done.hottest == 320


class Between:
    """Acts during the first pass, or when the guard has looked and listens."""

    def __init__(self, host: Host, act: Callable[[], None]) -> None:
        self._act = act
        host.pause = self.pause  # type: ignore[method-assign]

    def pause(self, seconds: float) -> None:
        del seconds
        self._act()


def write(host: Host) -> None:
    with (host.root / "dev/nvme0n1").open("r+b") as file:
        file.write(b"precious")


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda host: set_diskstats(host.root, 4096, 0), "written-by-others"),
        (write, "not-blank"),
        (lambda host: (host.root / "dev/nvme0n1").with_name("x").touch(), ""),
    ],
)
def test_a_writer_while_the_guard_listens_stops_the_purge(
    host: Host, act: Callable[[Host], None], code: str
) -> None:
    device, node = host.device("nvme0n1"), host.root / "dev/nvme0n1"
    Between(host, lambda: act(host))
    before = node.read_bytes()
    if not code:
        work(host, "nvme0n1", []).run(0, seed=1)
        return
    with pytest.raises(GuardRefused) as caught:
        work(host, "nvme0n1", []).run(1, seed=1)
    assert caught.value.code == code
    assert len(before) == device.size
    assert node.read_bytes() == (before if code != "not-blank" else b"precious" + before[8:])
    assert not paths(host).journal.exists()


@pytest.mark.parametrize("planned", [3, 1])
@pytest.mark.parametrize(
    ("sign", "code"), [("bytes", "written-by-others"), ("data", "contents-changed")]
)
def test_a_writer_behind_a_pass_stops_the_next_and_the_last_purge(
    host: Host, sign: str, code: str, planned: int
) -> None:
    """The message behind a pass is the time before the next step."""
    passes: list[str] = []

    def say(message: str) -> None:
        if not message.startswith("pass"):
            return
        passes.append(message)
        if sign == "bytes":
            set_diskstats(host.root, 4096, 0)
        else:
            write(host)

    own = Preconditioning(
        host, paths(host), Guard(host, Journal(paths(host).journal)), host.device("nvme0n1"), say
    )
    with pytest.raises(GuardRefused) as caught:
        own.run(planned, seed=7)
    assert (caught.value.code, len(passes)) == (code, 1)


def test_more_bytes_than_a_pass_wrote_are_anothers(host: Host) -> None:
    own = work(host, "nvme0n1", [])
    write_all, size = own._write_all, host.device("nvme0n1").size

    def count(extra: int) -> None:
        def passing(*arguments: Any, **options: Any) -> int:
            written = write_all(*arguments, **options)
            set_diskstats(host.root, written + extra, 0)
            return written

        own._write_all = passing  # type: ignore[method-assign]

    count(0)
    assert own.run(1, seed=7).bytes == size
    set_diskstats(host.root, 0, 0)
    count(4096)
    with pytest.raises(GuardRefused, match="wrote 4096 B"):
        own.run(1, seed=7)


def test_the_device_is_held_between_the_passes(host: Host) -> None:
    """Nobody mounts it meanwhile, and its node may even get another name."""
    held: list[bool] = []

    def say(message: str) -> None:
        if message.startswith("pass"):
            held.append(host.is_busy(host.device("nvme0n1").path))

    guard = Guard(host, Journal(paths(host).journal))
    Preconditioning(host, paths(host), guard, host.device("nvme0n1"), say).run(2, seed=7)
    assert held == [True, True]
    assert not host.is_busy(host.device("nvme0n1").path)


def test_another_node_in_its_place_is_not_written_to(host: Host) -> None:
    """The same name and identity, and the number of another device."""
    marker = host.root / "dev/nvme0n1.node"
    Between(host, lambda: marker.write_text("b 7:7"))
    with pytest.raises(GuardRefused) as caught:
        work(host, "nvme0n1", []).run(1, seed=1)
    assert caught.value.code == "node-changed"


def test_after_a_kill_no_zone_passes_as_zonelabs(host: Host) -> None:
    own = work(host, "nvme0n2", [])
    journal = Journal(paths(host).journal)
    own._note(JournalEvent.CLAIM, "as it was before")
    set_zones(host.root, {0: 4096})
    reasons = Guard(host, journal).examine(host.device("nvme0n2"))
    assert [reason.code for reason in reasons] == ["not-empty"]
    with (host.root / "dev/nvme0n2").open("r+b") as file:  # a format without a label
        file.write(b"LUKS\xba\xbe")
    reasons = Guard(host, journal).examine(host.device("nvme0n2"))
    assert [reason.code for reason in reasons] == ["foreign-signature"]


def test_another_device_in_its_place_between_two_passes(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = work(host, "nvme0n2", [])
    passes: list[int] = []

    def write_all(*_: Any, **__: Any) -> int:
        passes.append(1)
        (host.root / "sys/class/block/nvme0n2/eui").write_text("52 54 00 00 00 00 00 77")
        return 0

    monkeypatch.setattr(own, "_write_all", write_all)
    with pytest.raises(GuardRefused):
        own.run(3, 1)
    assert passes == [1]


# --- health -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"critical_warning": 1}, ["spare"]),
        ({"critical_warning": 2}, []),  # too warm: it may cool
        ({"critical_warning": 4}, ["reliability"]),
        ({"critical_warning": 8 | 16}, ["read-only", "backup"]),
        ({"percentage_used": 100}, ["100 % of its rated life"]),
    ],
)
def test_health_warnings_of_a_drive_are_listed(
    changes: dict[str, int], words: Sequence[str]
) -> None:
    found = health.faults(HEALTHY | changes)
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_an_unhealthy_drive_is_not_written_to(host: Host) -> None:
    host.log = HEALTHY | {"critical_warning": 8}
    assert zonelab(host, "nvme0n2", "--passes", "1") == 2
    assert not paths(host).journal.exists()
    host.log = None  # does not tell
    assert zonelab(host, "nvme0n2") == 0


def test_a_warm_drive_is_waited_for(host: Host) -> None:
    messages: list[str] = []
    pauses: list[float] = []
    host.kelvins = [342, 341, 338]
    host.pause = pauses.append  # type: ignore[method-assign, assignment]
    assert health.wait_cool(host, "nvme0n2", messages.append) == 338
    assert len(pauses) == 2
    assert messages == ["nvme0n2 is at 69 degrees C: waiting until it is cooler"]


def test_a_drive_that_stays_hot_is_given_up(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.log = HEALTHY | {"temperature_kelvin": 342}
    monkeypatch.setattr(health, "_COOL_SECONDS", 5.0)
    with pytest.raises(HostError) as caught:
        health.wait_cool(host, "nvme0n2", lambda _: None)
    assert caught.value.code == "drive-hot"
