"""Commands from pages that a real kernel traced (tests/fixtures/trace/writes), in a fake tracefs.

tests/rig/record_pages.py captured the pages and describes the writes.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HostError, ToolFailed
from harness.observe.sysfs import Sysfs
from harness.observe.tracing.ring_pages import EventFormat, PageFormat, PageReader
from harness.observe.tracing.write_recorder import WriteRecorder, kind_of
from harness.quantities import SECTOR
from harness.store.spec import Device
from harness.store.write_records import Kind, WriteCommand
from tests.fixtures.planner import rig

PAGES = Path(__file__).parents[1] / "fixtures" / "trace" / "writes"
BLOCK = 4096
NUMBER = (259 << 20) | 1


@pytest.fixture(autouse=True)
def _removable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel removes an instance with all of its files."""
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)


class Machine:
    """A fake sysfs and tracefs; the trace holds the recorded pages."""

    def __init__(self, root: Path) -> None:
        self.sysfs = Sysfs(root / "sys", root / "dev")
        self.tracing = root / "tracing"
        self.folder = root / "pages"
        self.instance = self.tracing / "instances" / "zonelab-writes"
        self.event = self.instance / "events/block/block_rq_complete"
        self.disk = self.sysfs.root / "class/block/nvme0n1"
        (self.disk / "mq").mkdir(parents=True)
        (self.disk / "dev").write_text("259:1\n")
        events = self.tracing / "events"
        events.mkdir(parents=True)
        self.event.mkdir(parents=True)
        for name in ("header_page", "header_event"):
            shutil.copy(PAGES / name, events / name)
        shutil.copy(PAGES / "format", self.event / "format")
        for file in sorted(PAGES.glob("*.pages")):
            cpu = self.instance / "per_cpu" / file.stem
            cpu.mkdir(parents=True)
            shutil.copy(file, cpu / "trace_pipe_raw")
            shutil.copy(file.with_suffix(".stats"), cpu / "stats")

    def record(self) -> WriteRecorder:
        device = rig().conventional
        assert device is not None
        return self.start(replace(device, path="/dev/nvme0n1"))

    def start(self, device: Device) -> WriteRecorder:
        return WriteRecorder(self.sysfs, device, self.tracing, self.folder)

    def commands(self) -> list[WriteCommand]:
        recorder = self.record()
        recorder.stop()
        recorder.stop()  # as after an error
        return [*recorder.commands()]

    def edit(self, cpu: str, change: Iterator[tuple[int, bytes]]) -> None:
        file = self.instance / "per_cpu" / cpu / "trace_pipe_raw"
        content = bytearray(file.read_bytes())
        for at, data in change:
            content[at : at + len(data)] = data
        file.write_bytes(content)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_each_byte_that_the_kernel_counted_is_there(machine: Machine) -> None:
    found = machine.commands()
    sums: Counter[Kind] = Counter()
    for one in found:
        sums[one.kind] += one.sectors * SECTOR
    assert sums[Kind.WRITE] + sums[Kind.ZEROES] == int((PAGES / "counted").read_text())
    assert sums == {
        Kind.WRITE: (1 + 16 + 64 + 1 + 5) * BLOCK,
        Kind.DISCARD: 65536,
        Kind.ZEROES: 262144,
    }


def test_places_and_times_are_right(machine: Machine) -> None:
    found = machine.commands()
    assert [one.time for one in found] == sorted(one.time for one in found)
    assert [(one.sector, one.sectors) for one in found if one.kind is Kind.DISCARD] == [(1600, 128)]
    zeroed = [one for one in found if one.kind is Kind.ZEROES]
    assert zeroed[0].sector == 4096000 // SECTOR
    written = {one.sector * SECTOR // BLOCK for one in found if one.kind is Kind.WRITE}
    assert {100, 300, 400, 402, 404, 406, 408, 1000} <= written
    assert min(written) == 100


def test_commands_of_all_processors_are_in_one_order(machine: Machine) -> None:
    other = machine.instance / "per_cpu" / "cpu1"
    shutil.copytree(machine.instance / "per_cpu" / "cpu0", other)
    one = Machine(machine.folder.parent / "other").commands()
    assert machine.commands() == [command for command in one for _ in range(2)]


def test_the_filter_names_the_device_and_leaves_out_reads(machine: Machine) -> None:
    recorder = machine.record()
    try:
        filter_ = (machine.event / "filter").read_text()
        assert filter_ == f'nr_sector > 0 && !(rwbs ~ "*R*") && (dev == {NUMBER})'
        assert (machine.instance / "trace_clock").read_text() == "mono"
        assert (machine.event / "enable").read_text() == "1"
    finally:
        recorder.stop()
    assert not machine.instance.exists()


def test_pages_are_removed_once_they_were_read(machine: Machine) -> None:
    machine.commands()
    assert [*machine.folder.iterdir()] == []


@pytest.mark.parametrize("cpu", sorted(file.stem for file in PAGES.glob("*.pages")))
def test_lost_events_are_no_low_number(machine: Machine, cpu: str) -> None:
    stats = machine.instance / "per_cpu" / cpu / "stats"
    stats.write_text(stats.read_text().replace("overrun: 0", "overrun: 3", 1))
    with pytest.raises(ToolFailed, match="the kernel lost 3 completions") as failed:
        machine.commands()
    assert failed.value.code == "commands-lost"


def test_a_page_after_lost_events_is_no_low_number(machine: Machine) -> None:
    machine.edit("cpu0", iter([(11, b"\x80")]))  # the flag in the page's length
    with pytest.raises(ToolFailed, match="the kernel lost some completions"):
        machine.commands()


def test_a_damaged_page_is_refused(machine: Machine) -> None:
    machine.edit("cpu0", iter([(8, b"\xff\xff")]))
    with pytest.raises(ToolFailed, match="damaged"):
        machine.commands()


def test_a_full_disk_is_no_low_number(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = machine.record()
    monkeypatch.setattr("os.read", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    recorder.stop()
    monkeypatch.undo()
    with pytest.raises(ToolFailed, match=r"could not be stored: .*No space left"):
        list(recorder.commands())


def test_a_command_that_the_device_refused_is_not_written(machine: Machine) -> None:
    whole = machine.commands()
    layout = PageFormat.parse(
        (PAGES / "header_page").read_text(), (PAGES / "header_event").read_text()
    )
    event = EventFormat.parse((PAGES / "format").read_text())
    with (PAGES / "cpu0.pages").open("rb") as file:
        content = file.read()
        file.seek(0)
        _, first = next(PageReader(layout).events(file))
    other = Machine(machine.folder.parent / "other")
    at = content.index(first) + event.field("error", 4)
    other.edit("cpu0", iter([(at, b"\xfb\xff\xff\xff")]))  # -EIO
    recorder = other.record()
    recorder.stop()
    found = [*recorder.commands()]
    assert len(found) == len(whole) - 1
    (refused,) = recorder.refused
    assert sorted([*found, refused], key=lambda one: one.time) == whole


@pytest.mark.parametrize(
    ("rwbs", "kind"),
    [
        ("W", Kind.WRITE),
        ("WS", Kind.WRITE),
        ("WFS", Kind.WRITE),
        ("FWFSM", Kind.WRITE),
        ("N", Kind.ZEROES),
        ("NS", Kind.ZEROES),
        ("WZ", Kind.ZEROES),
        ("WZS", Kind.ZEROES),
        ("D", Kind.DISCARD),
        ("DS", Kind.DISCARD),
    ],
)
def test_the_letters_of_a_command(rwbs: str, kind: Kind) -> None:
    assert kind_of(rwbs) is kind


@pytest.mark.parametrize("rwbs", ["DE", "F", "ZO", ""])
def test_other_commands_are_refused(rwbs: str) -> None:
    with pytest.raises(ToolFailed, match="the kernel traced a command"):
        kind_of(rwbs)


def test_devices_without_requests_are_refused(machine: Machine) -> None:
    shutil.rmtree(machine.disk / "mq")
    with pytest.raises(HostError, match="has no requests that the kernel traces"):
        machine.record()


def test_a_partition_is_refused(machine: Machine) -> None:
    part = machine.disk / "nvme0n1p1"
    part.mkdir()
    (part / "partition").write_text("1\n")
    (machine.disk.parent / "nvme0n1p1").symlink_to(part)
    device = rig().conventional
    assert device is not None
    with pytest.raises(HostError, match="it is a partition"):
        machine.start(replace(device, path="/dev/nvme0n1p1"))
