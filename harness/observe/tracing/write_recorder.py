"""Record every write, discard and write-zeroes command that a conventional device completes.

The kernel traces completions in binary form. A thread copies its pages to files about once a
second, and nothing is formatted or parsed before the run has ended.
"""

from __future__ import annotations

import heapq
import os
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from harness.cleanup import cleaned
from harness.errors import HostError, ToolFailed
from harness.observe.sysfs import Sysfs
from harness.observe.tracing import tracefs_buffer, tracer
from harness.observe.tracing.ring_pages import EventFormat, PageFormat, PageReader, number_of
from harness.store.spec import Device
from harness.store.write_records import Kind, WriteCommand

_EVENT = "block/block_rq_complete"
# Reads have an R in rwbs, and a command without data has no sectors.
_FILTER = 'nr_sector > 0 && !(rwbs ~ "*R*") && (%s)'
_INSTANCE = "zonelab-writes"
# KiB of kernel memory for all processors together, and for one. An event takes about 60 B, so a
# processor's buffer holds more events than it completes between two reads.
_ALL_KB, _ONE_KB, _LEAST_KB = 512 << 10, 16 << 10, 1 << 10
_LOOK_SECONDS = 1.0
_MINOR_BITS = 20  # of dev_t in the kernel
_MOST = 1 << 20  # bytes per read; the kernel returns one page


class WriteRecorder:
    """Records the commands of one device by tracefs, from when it is made until ``stop``.

    Args:
        sysfs: where devices are found.
        device: a conventional device, not a partition.
        tracing: where tracefs is mounted, or is to be.
        folder: gets the pages; it must not be on the device.

    Raises:
        HostError: the device's commands cannot be traced.
        ToolFailed: tracefs cannot be mounted, or the kernel's pages have another form.
    """

    def __init__(self, sysfs: Sysfs, device: Device, tracing: Path, folder: Path) -> None:
        self.seconds = 0.0  # CPU time of copying
        self.refused: list[WriteCommand] = []  # failed ones; complete after ``commands``
        numbers = _numbers(sysfs, device)
        tracefs_buffer.require(tracing)
        self._instance = tracing / "instances" / _INSTANCE
        self._event = self._instance / "events" / _EVENT
        cpus = os.cpu_count() or 1
        with tracefs_buffer.prepared(self._instance, max(_LEAST_KB, min(_ONE_KB, _ALL_KB // cpus))):
            tests = " || ".join(f"dev == {number}" for number in numbers)
            (self._event / "filter").write_text(_FILTER % tests)
            events = tracing / "events"
            self._layout = PageFormat.parse(
                (events / "header_page").read_text(), (events / "header_event").read_text()
            )
            self._format = EventFormat.parse((self._event / "format").read_text())
            folder.mkdir(parents=True, exist_ok=True)
            names = sorted(path.name for path in self._instance.glob("per_cpu/cpu*"))
            self._files = [folder / f"{name}.pages" for name in names]
            self._pipes = [_nonblocking(self._instance / "per_cpu" / name) for name in names]
            self._outputs = [path.open("wb") for path in self._files]
            (self._event / "enable").write_text("1")
        self._lost = 0
        self._stopping = threading.Event()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._work, name="write recorder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the recording. The second call does nothing."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join()
        with ExitStack() as stack:
            stack.enter_context(cleaned(self._instance.rmdir, uses_device=False))
            for pipe in self._pipes:
                stack.callback(os.close, pipe)
            for output in self._outputs:
                stack.callback(output.close)
            (self._event / "enable").write_text("0")
            self._copy()
            self._lost = tracefs_buffer.lost_events(self._instance)

    def commands(self) -> Iterator[WriteCommand]:
        """Yield the commands in the order of their times, after ``stop``; then remove the pages.

        Raises:
            ToolFailed: a command is missing or unreadable; earlier ones were returned.
        """
        if self._error is not None:
            raise ToolFailed(f"recorded commands could not be stored: {self._error}")
        readers = [PageReader(self._layout) for _ in self._files]
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("rb")) for path in self._files]
            streams = [
                _completions(self._format, reader.events(file))
                for reader, file in zip(readers, files, strict=True)
            ]
            for command, error in heapq.merge(*streams, key=lambda found: found[0].time):
                if error:
                    self.refused.append(command)
                else:
                    yield command
        if self._lost or any(reader.lost for reader in readers):
            raise ToolFailed(
                f"the kernel lost {self._lost or 'some'} completions of commands",
                hint="repeat the run with less load on this machine",
                code="commands-lost",
            )
        for path in self._files:
            path.unlink()

    def _work(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            self._copy()

    def _copy(self) -> None:
        """Copy the events so far; ``commands`` raises an error that happens here."""
        before = time.thread_time()
        try:
            for pipe, output in zip(self._pipes, self._outputs, strict=True):
                while page := _page(pipe):
                    output.write(page)
        except OSError as error:
            self._error = self._error or error
        self.seconds += time.thread_time() - before


def _completions(
    event: EventFormat, events: Iterator[tuple[int, bytes]]
) -> Iterator[tuple[WriteCommand, int]]:
    """Yield the completed commands, each with its error: negative if the device refused it.

    Raises:
        ToolFailed: a command has an unknown kind, or the event has other fields.
    """
    sector, sectors, error = struct.Struct("<Q"), struct.Struct("<I"), struct.Struct("<i")
    places = (event.field("sector", 8), event.field("nr_sector", 4), event.field("error", 4))
    begin, size = event.fields["rwbs"]
    kinds: dict[bytes, Kind] = {}
    for moment, record in events:
        if number_of(record) != event.number:
            continue
        rwbs = record[begin : begin + size]
        if rwbs not in kinds:
            kinds[rwbs] = kind_of(rwbs.partition(b"\0")[0].decode("ascii", "replace"))
        (at,) = sector.unpack_from(record, places[0])
        (length,) = sectors.unpack_from(record, places[1])
        (status,) = error.unpack_from(record, places[2])
        yield WriteCommand(moment, at, length, kinds[rwbs]), status


def kind_of(rwbs: str) -> Kind:
    """Return the kind of a command by the letters of the kernel (blk_fill_rwbs).

    F before the operation asks for a flush. Older kernels have N for write zeroes, newer ones WZ. A
    command that a program sends directly to the driver has N too. The kernel does not count it, so
    the closure fails.

    Raises:
        ToolFailed: the kind is unknown.
    """
    operation = rwbs.removeprefix("F")
    if operation.startswith(("WZ", "N")):
        return Kind.ZEROES
    if operation.startswith("W"):
        return Kind.WRITE
    if operation.startswith("D") and not operation.startswith("DE"):
        return Kind.DISCARD
    raise ToolFailed(f"the kernel traced a command {rwbs!r}", code="output-malformed")


def _numbers(sysfs: Sysfs, device: Device) -> Sequence[int]:
    """Return the kernel's numbers of the disks to which a device's requests go."""
    name = device.name
    if sysfs.parent(name) is not None:
        raise _untraceable(name, "it is a partition, and the kernel traces disks")
    found = []
    for disk in tracer.watched(sysfs, device).disks:
        major, _, minor = sysfs.text(disk, "dev").partition(":")
        if not (sysfs.block(disk) / "mq").is_dir() or not minor:
            raise _untraceable(name, "its driver has no requests that the kernel traces")
        found.append(int(major) << _MINOR_BITS | int(minor))
    return found


def _untraceable(name: str, why: str) -> HostError:
    return HostError(
        f"commands to {name} cannot be recorded: {why}",
        hint="name a whole disk as conventional device",
        code="tracing-missing",
    )


def _nonblocking(folder: Path) -> int:
    return os.open(folder / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _page(pipe: int) -> bytes:
    """Return the next page; b'' if there is none."""
    try:
        return os.read(pipe, _MOST)
    except BlockingIOError:
        return b""
