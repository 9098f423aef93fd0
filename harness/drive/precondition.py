"""Bring a device to a defined condition: purged, or overwritten a number of times.

A pass writes the whole capacity with incompressible data, independent of any workload. The first
pass writes in order. Later passes shuffle the zones, or pieces of a conventional device, so that
neighbours in flash were not written together. At the end the zones are reset, as every run expects.
On request they stay full, for the part of a drive that is not under test.
"""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.drive import health
from harness.drive.purge import purge
from harness.machine.consent import Consent
from harness.machine.device_contents import Say
from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Journal, JournalEntry, JournalEvent
from harness.machine.last_looks import LastLooks
from harness.machine.paths import Paths
from harness.observe import zone_reports
from harness.observe.zone_reports import ZoneType
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import descriptor, dumps, load_record, sync, write_atomic
from harness.store.spec import Bytes, Device

MIB = 1 << 20
# With this size, one request at a time keeps a drive busy. It divides every known zone capacity.
_PIECE = MIB
# Size of the pieces of a conventional device, which are shuffled. A ZN540's conventional
# namespace has about 1000 of them.
_REGION = 4 * MIB
# Names in journal entries. zonelab writes the label to no device, so it proves no ownership.
_RUN, _LABEL = "preconditioning", "zl-preconditioning"
# Bytes between two checks of the temperature; a ZN540 writes them in half a minute.
_LOOK_BYTES = 32 << 30


@dataclass(frozen=True, slots=True)
class Condition:
    """``preconditioned/<identity>.json``: the last preconditioning of a device."""

    identity: str  # of the device
    passes: int  # how often it was written; 0: only purged
    seed: int  # of data and order
    bytes: Bytes  # written in all passes
    seconds: float  # duration
    began: str  # UTC, ISO 8601
    ended: str  # UTC, ISO 8601
    hottest: int | None  # highest temperature in kelvin; null: not reported
    smart_before: dict[str, int] | None  # SMART log; null: the drive has none
    smart_after: dict[str, int] | None  # SMART log; null: the drive has none
    kept: bool = False  # the data of the last pass was left on the device
    schema_version: int = SCHEMA_VERSION  # of this file


def record_file(state: Path, device: Device) -> Path:
    """Return the file that stores the condition of a device."""
    return state / "preconditioned" / f"{device.identity.key.replace('/', '_')}.json"


def last(state: Path, device: Device) -> Condition | None:
    """Return the last preconditioning of a device, or None."""
    path = record_file(state, device)
    done = load_record(Condition, path) if path.exists() else None
    # Two identities can have one file name.
    return done if done is not None and done.identity == device.identity.key else None


def forget(state: Path, device: Device) -> None:
    """Remove the record, because the data that it describes is destroyed next."""
    path = record_file(state, device)
    if path.exists():
        path.unlink()
        sync(path.parent)


def summary(state: Path, device: Device) -> dict[str, str | int] | None:
    """Return the fields of the last preconditioning for a run's manifest, or None."""
    done = last(state, device)
    if done is None:
        return None
    return {"passes": done.passes, "seed": done.seed, "bytes": done.bytes, "ended": done.ended}


def kept_bytes(host: Host, paths: Paths, beside: Device, besides: Collection[str]) -> Bytes:
    """Return the bytes that preconditioning left on the rest of a device's drive.

    The rest is other namespaces, and partitions of conventional ones. Devices with an identity in
    ``besides`` are skipped.
    """
    devices = (host.device(f"/dev/{name}") for name in _rest(host, beside.name))
    rest = (device for device in devices if device.identity.key not in besides)
    return Bytes(sum(_kept(host, paths, device) for device in rest))


def _rest(host: Host, name: str) -> Iterator[str]:
    for sibling in host.sysfs.siblings(name):
        yield from host.sysfs.partitions(sibling) or [sibling]


def _kept(host: Host, paths: Paths, device: Device) -> int:
    done = last(paths.state, device)
    if done is None or not done.kept:
        return 0
    if device.zoned:  # its zones may have been reset since
        return zone_reports.count(host.zones(device.path)).allocated
    return device.size if is_kept(paths, device) else 0


def is_kept(paths: Paths, device: Device) -> bool:
    """Whether zonelab did not use a device after its last preconditioning."""
    entry = Journal(paths.journal).last(device.identity.key)
    return entry is not None and (entry.run, entry.event) == (_RUN, JournalEvent.RELEASE)


class Preconditioning:
    """Preconditions one device, which it claims in the journal like a run; all data on it is lost.

    ``guard`` must allow the device, ``say`` receives progress messages.
    """

    def __init__(self, host: Host, paths: Paths, guard: Guard, device: Device, say: Say) -> None:
        self._host = host
        self._paths = paths
        self._guard = guard
        self._device = device
        self._say = say
        self._name = device.name
        self._looks = LastLooks(host, guard, [device])
        self._consent: Consent | None = None
        self._hottest: int | None = None

    def run(self, passes: int, seed: int, *, keep: bool = False) -> Condition:
        """Purge, write ``passes`` times, purge again unless ``keep`` is set, and record it.

        The device is held from the guard's look to the end.

        Raises:
            GuardRefused: the device must not be overwritten, its identity has changed, or another
                program wrote to it.
            HostError: the drive is not healthy, or stays hot.
            OSError: a write failed.
        """
        self._looks.listen()
        self._guard.require(self._device)
        health.require_healthy(self._host, self._name)
        with self._looks.held(self._require_held):
            return self._run(passes, seed, keep=keep)

    def _require_held(self, device: Device) -> None:
        self._consent = self._guard.require(device, held=True)

    def _run(self, passes: int, seed: int, *, keep: bool) -> Condition:
        before, began = self._host.smart(self._name), self._host.monotonic()
        started = self._host.now()
        if self._consent is None:
            self._note(JournalEvent.CLAIM, self._looks.fingerprint(self._device))
        else:  # after a kill, a claim here would make data of others count as zonelab's
            self._note(JournalEvent.ERASE, None, self._consent.digest)
        forget(self._paths.state, self._device)  # after a kill, no record describes the device
        self._purge()
        written = 0
        for number in range(passes):
            self._looks.require_as_seen(self._device)
            if number and self._device.zoned:
                self._say(f"pass {number + 1} of {passes}: zone by zone, reset and written again")
            own = self._write_all(random.Random(f"{seed}/{number}"), shuffled=number > 0)  # noqa: S311
            self._looks.require_quiet(self._device, own)
            self._looks.note()
            written += own
            self._say(f"pass {number + 1} of {passes} done, {written} B written")
        if not keep:
            self._purge()
        self._note(JournalEvent.RELEASE, self._guard.fingerprint(self._device))
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
        self._looks.require_as_seen(self._device)
        if self._device.zoned:
            self._host.reset_zones(self._device, self._node())
        purge(self._host, self._device, self._node(), self._say)
        self._looks.note()

    def _node(self) -> Path:
        node = self._looks.hold.node(self._device)
        assert node is not None  # noqa: S101 - held until the end
        return node

    def _write_all(self, source: random.Random, *, shuffled: bool) -> int:
        extents = list(self._extents())
        if shuffled:
            source.shuffle(extents)
        data = source.randbytes(_PIECE)
        written, looked = 0, -_LOOK_BYTES
        flags = os.O_WRONLY | os.O_DIRECT
        # Anonymous maps are page-aligned, as O_DIRECT wants.
        with descriptor(self._node(), flags) as fd, mmap.mmap(-1, _PIECE) as buffer:
            for start, length, resets in extents:
                if written - looked >= _LOOK_BYTES:
                    self._look()
                    looked = written
                if shuffled and resets:
                    self._host.reset_zone(fd, start, self._device.zone_size or 0)
                for offset in range(0, length, _PIECE):
                    # The data differ at each offset, because a drive might deduplicate.
                    buffer[:] = data
                    buffer[:16] = (start + offset).to_bytes(8, "little") + source.randbytes(8)
                    _write(fd, buffer, min(_PIECE, length - offset), start + offset)
                written += length
            os.fsync(fd)
        return written

    def _extents(self) -> Iterator[tuple[int, int, bool]]:
        """Yield offset and length of each zone's capacity, or of each piece of the device.

        The third value: whether it must be reset before it is written again.
        """
        if self._device.zoned:
            for zone in self._host.zones(self._device.path):
                yield zone.start, zone.capacity, zone.type is not ZoneType.CONVENTIONAL
            return
        for start in range(0, self._device.size, _REGION):
            yield start, min(_REGION, self._device.size - start), False

    def _look(self) -> None:
        kelvin = health.wait_cool(self._host, self._name, self._say)
        if kelvin is not None:
            self._hottest = max(kelvin, self._hottest or 0)

    def _note(self, event: JournalEvent, fingerprint: str | None, consent: str = "") -> None:
        Journal(self._paths.journal).append(
            JournalEntry(
                event=event,
                identity=self._device.identity.key,
                campaign="",
                run=_RUN,
                level="",
                label=_LABEL,
                partner="",
                fingerprint=fingerprint,
                time=self._host.now(),
                boot_id=self._host.boot_id(),
                consent=consent,
            )
        )


def _write(fd: int, data: mmap.mmap, length: int, offset: int) -> None:
    done = 0
    with memoryview(data) as view:
        while done < length:
            with view[done:length] as rest:  # released, or closing the map would hide an error
                done += os.pwrite(fd, rest, offset + done)
