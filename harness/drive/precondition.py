"""Bring a device to a stated condition: purged, or written over a number of times.

A pass writes every byte that can be written with data that no drive compresses: in order the first
time, later zones (or pieces of a conventional device) in another order each, so that what lies
beside each other in flash was not written together. It depends on no workload. A zoned device ends
with all its zones empty, as every run begins, or full where that is asked for: the remainder of a
drive whose other namespace is under test.
"""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.drive import health
from harness.observe import zones
from harness.run.bench import Paths
from harness.run.guard import Guard
from harness.run.host import Host
from harness.run.journal import Entry, Event, Journal
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import dumps, load_record, write_atomic
from harness.store.spec import Bytes, Device

MIB = 1 << 20
# Large requests: one at a time already keeps a drive busy. A divisor of every zone capacity seen.
_PIECE = MIB
# Pieces of a conventional device that are shuffled; some 1000 of them in a ZN540's slice.
_REGION = 4 * MIB
# In the journal's entries; no signature has it, so that nothing is taken for ours by its label.
_LABEL = "zl-preconditioning"
# Between two looks at the temperature; a ZN540 writes that in half a minute.
_LOOK_BYTES = 32 << 30

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Condition:
    """``preconditioned/<identity>.json``: what was done last. Times UTC, temperatures in kelvin.

    ``smart`` are the drive's logs before and after, null where it has none. ``kept``: what the last
    pass wrote was left there.
    """

    identity: str
    passes: int
    seed: int
    bytes: Bytes
    seconds: float
    began: str
    ended: str
    hottest: int | None
    smart_before: dict[str, int] | None
    smart_after: dict[str, int] | None
    kept: bool = False
    schema_version: int = SCHEMA_VERSION


def record_file(state: Path, device: Device) -> Path:
    """Return where the condition of a device is kept."""
    return state / "preconditioned" / f"{device.identity.key.replace('/', '_')}.json"


def last(state: Path, device: Device) -> Condition | None:
    """Return what was done last to a device, None when nothing ever was."""
    path = record_file(state, device)
    return load_record(Condition, path) if path.exists() else None


def summary(state: Path, device: Device) -> dict[str, str | int] | None:
    """Return what a run's manifest says of it, None when nothing ever was."""
    done = last(state, device)
    if done is None:
        return None
    return {"passes": done.passes, "seed": done.seed, "bytes": done.bytes, "ended": done.ended}


def kept_bytes(host: Host, state: Path, beside: Device, besides: Collection[str] = ()) -> Bytes:
    """Return what was written to other namespaces of a device's drive, and kept there.

    Args:
        host: the machine.
        state: the state folder, with the records.
        beside: the device under test.
        besides: identities of further devices under test, whose bytes count as theirs.
    """
    total = 0
    for name in host.sysfs.siblings(Path(beside.path).name):
        device = host.device(f"/dev/{name}")
        if device.identity.key in besides or not device.zoned:
            continue
        done = last(state, device)
        if done is not None and done.kept:  # its zones tell whether that still holds
            total += zones.count(host.zones(device.path)).allocated
    return Bytes(total)


class Preconditioning:
    """One device, claimed like that of a run.

    Args:
        host: the machine.
        paths: folders of the journal and the record.
        guard: has to allow the device.
        device: the device; everything on it is lost.
        say: gets a line now and then.
    """

    def __init__(self, host: Host, paths: Paths, guard: Guard, device: Device, say: Say) -> None:
        self._host = host
        self._paths = paths
        self._guard = guard
        self._device = device
        self._say = say
        self._name = Path(device.path).name
        self._hottest: int | None = None

    def run(self, passes: int, seed: int, *, keep: bool = False) -> Condition:
        """Purge, write ``passes`` times, purge again unless it is to ``keep``, and record it.

        Raises:
            GuardRefused: the device may not be overwritten, or is another one.
            HostError: the drive is not healthy, or stays hot.
            OSError: it failed to take a write.
        """
        self._guard.require(self._device)
        health.require_healthy(self._host, self._name)
        before, began = self._host.smart(self._name), self._host.monotonic()
        started = self._host.now()
        self._note(Event.CLAIM, self._guard.fingerprint(self._device))
        self._purge()
        written = 0
        for number in range(passes):
            self._guard.check_identity(self._device)
            if number and self._device.zoned:
                self._say(f"pass {number + 1} of {passes}: zone by zone, reset and written again")
            written += self._write_all(random.Random(f"{seed}/{number}"), shuffled=number > 0)  # noqa: S311
            self._say(f"pass {number + 1} of {passes} done, {written} B written")
        if not keep:
            self._purge()
        self._note(Event.RELEASE, self._guard.fingerprint(self._device))
        done = Condition(
            identity=self._device.identity.key,
            passes=passes,
            seed=seed,
            bytes=Bytes(written),
            seconds=self._host.monotonic() - began,
            began=started,
            ended=self._host.now(),
            hottest=self._hottest,
            smart_before=before,
            smart_after=self._host.smart(self._name),
            kept=keep,
        )
        path = record_file(self._paths.state, self._device)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, dumps(done))
        return done

    def _purge(self) -> None:
        self._guard.check_identity(self._device)
        if self._device.zoned:
            self._host.reset_zones(self._device)
        else:
            self._host.wipe(self._device)

    def _write_all(self, source: random.Random, *, shuffled: bool) -> int:
        extents = list(self._extents())
        if shuffled:
            source.shuffle(extents)
        data = source.randbytes(_PIECE)
        written, looked = 0, -_LOOK_BYTES
        with opened(self._device) as fd, mmap.mmap(-1, _PIECE) as buffer:  # page-aligned
            for start, length in extents:
                if written - looked >= _LOOK_BYTES:
                    self._look()
                    looked = written
                if shuffled and self._device.zoned:
                    self._host.reset_zone(fd, start, self._device.zone_size or 0)
                for offset in range(0, length, _PIECE):
                    # Different in each place, or a drive might store it once.
                    buffer[:] = data
                    buffer[:16] = (start + offset).to_bytes(8, "little") + source.randbytes(8)
                    _write(fd, memoryview(buffer)[: min(_PIECE, length - offset)], start + offset)
                written += length
            os.fsync(fd)
        return written

    def _extents(self) -> Iterator[tuple[int, int]]:
        """Yield (offset, length) of every zone's capacity, or of the pieces of the device."""
        if self._device.zoned:
            for zone in self._host.zones(self._device.path):
                yield zone.start, zone.capacity
            return
        for start in range(0, self._device.size, _REGION):
            yield start, min(_REGION, self._device.size - start)

    def _look(self) -> None:
        kelvin = health.wait_cool(self._host, self._name, self._say)
        if kelvin is not None:
            self._hottest = max(kelvin, self._hottest or 0)

    def _note(self, event: Event, fingerprint: str) -> None:
        Journal(self._paths.journal).append(
            Entry(
                event=event,
                identity=self._device.identity.key,
                campaign="",
                run="preconditioning",
                level="",
                label=_LABEL,
                partner="",
                fingerprint=fingerprint,
                time=self._host.now(),
                boot_id=self._host.boot_id(),
            )
        )


@contextmanager
def opened(device: Device) -> Iterator[int]:
    """Open a device for writing, for us alone and past the page cache."""
    fd = os.open(device.path, os.O_WRONLY | os.O_EXCL | os.O_DIRECT | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _write(fd: int, data: memoryview, offset: int) -> None:
    while data:
        done = os.pwrite(fd, data, offset)
        data, offset = data[done:], offset + done
