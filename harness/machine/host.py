"""The machine under test as one object, so that tests can replace it."""

from __future__ import annotations

import datetime
import errno
import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import GuardRefused, HostError, ToolFailed
from harness.machine.device_facts import require_geometry, suspended
from harness.observe import (
    direct_reads,
    diskstats,
    loops,
    nvme_ioctl,
    openers,
    reservations,
    sampler,
    signatures,
    witness,
    zone_reports,
)
from harness.observe.kmsg import KernelLog
from harness.observe.sampler import SampledSeries
from harness.observe.sysfs import Sysfs
from harness.observe.tracing.tracer import TraceSource
from harness.observe.tracing.write_recorder import WriteRecorder
from harness.observe.zone_states import COLUMNS, ZoneStates
from harness.quantities import SECTOR
from harness.store.files import descriptor, text_or_empty
from harness.store.ledger import Completions, Witness
from harness.store.spec import Bytes, Device, DeviceIdentity
from harness.tools import discard, wipefs, zone_reset


class Host:
    """The real machine. The methods that write to a device have their own section."""

    def __init__(self, sysfs: Sysfs | None = None, proc: Path = Path("/proc")) -> None:
        self.sysfs = sysfs or Sysfs()
        self.proc = proc
        self.cgroups = Path("/sys/fs/cgroup")
        self.tracing = Path("/sys/kernel/tracing")
        self._witness_failed: ToolFailed | None = None

    # --- time -------------------------------------------------------------------------------

    monotonic = staticmethod(time.monotonic)
    realtime = staticmethod(time.time)
    pause = staticmethod(time.sleep)

    def uptime(self) -> float:
        """Return seconds since boot, as /proc/uptime counts them."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> str:
        """Return the time in UTC, ISO 8601."""
        return datetime.datetime.fromtimestamp(self.realtime(), datetime.UTC).isoformat(
            timespec="seconds"
        )

    # --- text files -------------------------------------------------------------------------

    def proc_text(self, name: str) -> str:
        """Return a file below /proc, '' if it is absent."""
        return text_or_empty(self.proc / name)

    def busy_seconds(self) -> float | None:
        """Return the seconds in which tasks ran since boot, summed over CPUs; null if unknown.

        Unlike /proc/stat, /proc/schedstat is exact (Documentation/scheduler/sched-stats.rst).
        """
        lines = [line.split() for line in self.proc_text("schedstat").splitlines()]
        ran = [int(line[7]) for line in lines if re.fullmatch(r"cpu\d+", line[0])]
        return sum(ran) / 1e9 if ran else None

    def boot_id(self) -> str:
        """Return the kernel's ID of this boot."""
        return self.proc_text("sys/kernel/random/boot_id").strip()

    kernel_log = staticmethod(KernelLog)

    def disk_counters(self, names: Iterable[str]) -> dict[str, diskstats.DiskCounters]:
        """Return the kernel's counters of the named devices."""
        return diskstats.parse(self.proc_text("diskstats"), names)

    def zone_series(self, name: str, device: Device) -> SampledSeries:
        """Return a series of a device's zones by state."""
        states = ZoneStates(Path(device.path), device.zones or 0)
        return SampledSeries(name, COLUMNS, states.read, states.close)

    def witness(self, names: Sequence[str]) -> Witness | None:
        """Return the bytes that the devices accepted, as they count them; null if they do not.

        Raises:
            ToolFailed: the rig's witness does not answer. zonelab does not ask it again.
        """
        if any(self.sysfs.text(name, "dm/name") for name in names):
            return None  # a device mapped to a part of a drive has no count of its own
        if self._witness_failed is not None:
            raise self._witness_failed
        try:
            return witness.find(self.proc_text("cmdline"), self.sysfs, names)
        except ToolFailed as failure:
            self._witness_failed = failure
            raise

    def disk_series(self, names: Sequence[str]) -> SampledSeries:
        """Return the series of the kernel's counters of these devices."""
        return sampler.disks(names, self.sysfs.block)

    def media_series(self, names: Sequence[str]) -> SampledSeries:
        """Return the series of the bytes that each modelled drive wrote to its media.

        On other drives the series has no columns, so no file is written.
        """
        return sampler.media(names, self.sysfs)

    def trace_source(self, devices: Sequence[Device]) -> TraceSource | None:  # noqa: ARG002
        """Return the drives' own count of commands; null: tracing must count them."""
        return None

    def record_writes(self, device: Device, folder: Path) -> WriteRecorder:
        """Start to record the commands of a conventional device; ``folder`` gets the trace.

        Raises:
            ZonelabError: they cannot be traced.
        """
        return WriteRecorder(self.sysfs, device, self.tracing, folder)

    def media(self, names: Sequence[str]) -> Witness | None:
        """Return the bytes that the drives wrote to their media; null if they do not report it."""
        return witness.media(self.sysfs, names)

    def completions(self, names: Sequence[str]) -> dict[str, Completions]:
        """Return what each modelled drive completed, and how much of it on time; {} for others."""
        return witness.completions(self.sysfs, names)

    def zeroes(self, name: str) -> bool:
        """Whether a conventional device accepts Write Zeroes, so that the kernel can send them."""
        whole = self.sysfs.disk(name)
        if self.sysfs.text(whole, "queue/zoned") == "host-managed":
            return False
        return bool(self.sysfs.number(whole, "queue/write_zeroes_max_bytes"))

    # --- devices, reading -------------------------------------------------------------------

    zones = staticmethod(zone_reports.report)
    read = staticmethod(direct_reads.read)
    read_each = staticmethod(direct_reads.each)
    first_data = staticmethod(direct_reads.first_data)
    whole_digest = staticmethod(direct_reads.digest)
    magics = staticmethod(wipefs.read)
    node = staticmethod(openers.node_of)

    def device(self, path: str) -> Device:
        """Inspect a block device.

        Raises:
            GuardRefused: there is none (code ``missing``), or a read would hang (``suspended``).
            HostError: it may not be opened (not root).
        """
        name = self.sysfs.resolve(path)
        if (reason := suspended(self.sysfs, name)) is not None:
            raise GuardRefused(reason.message, hint=reason.hint, code=reason.code)
        node = str(self.sysfs.dev / name)
        zoned = self.sysfs.text(name, "queue/zoned") == "host-managed"
        number = self.sysfs.number(name, "queue/nr_zones")
        scheduler, schedulers = self.sysfs.schedulers(self.sysfs.disk(name))
        block = self.sysfs.number(self.sysfs.disk(name), "queue/logical_block_size")
        return Device(
            path=node,
            identity=self.sysfs.identity(name),
            kind=self.sysfs.kind(name),
            model=self.sysfs.model(name),
            size=Bytes((self.sysfs.number(name, "size") or 0) * SECTOR),
            logical_block_size=block or SECTOR,
            zoned=zoned,
            zone_size=Bytes((self.sysfs.number(name, "queue/chunk_sectors") or 0) * SECTOR)
            if zoned
            else None,
            zone_capacity=Bytes(self.zones(node, 1)[0].capacity) if zoned else None,
            zones=number if zoned else None,
            max_open_zones=self.sysfs.limit(name, "max_open_zones") if zoned else None,
            max_active_zones=self.sysfs.limit(name, "max_active_zones") if zoned else None,
            scheduler=scheduler,
            schedulers=schedulers,
        )

    def find(self, planned: Device) -> Device:
        """Return the device with the planned identity; its name may have changed.

        Raises:
            GuardRefused: no device has it (code ``missing``), or its namespace was created again
                with another geometry (``not-zoned``, ``geometry-changed``).
        """
        here = planned.name
        for name in [here, *self.sysfs.nodes()]:
            if self.sysfs.block(name).is_dir() and self.identity(name).key == planned.identity.key:
                found = self.device(str(self.sysfs.dev / name))
                require_geometry(planned, found)
                return found
        raise GuardRefused(
            f"no device has the identity {planned.identity.key} ({planned.path} when planned)",
            hint="plan again for the present device",
            code="missing",
        )

    def identity(self, name: str) -> DeviceIdentity:
        """Return a device's current identity from sysfs."""
        return self.sysfs.identity(name)

    def write_count(self, name: str) -> int | None:
        """Return a count that grows with each write of this host since boot; null without one."""
        return diskstats.changes(self.proc_text("diskstats"), self.sysfs.queue_nodes(name))

    def is_busy(self, path: str) -> bool:
        """Whether the device is open exclusively: mounted, held, or used by a program."""
        handle = self.open_exclusively(path)
        if handle is None:
            return True
        os.close(handle)
        return False

    def open_exclusively(self, path: str) -> int | None:
        """Open a device exclusively for reading; null if another program has done so."""
        try:
            return os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return None
            raise HostError(f"{path}: {error.strerror}", hint="run as root") from None

    def loop_source(self, name: str) -> openers.Node | None:
        """Return the block device below a loop device; null if there is a file or nothing."""
        number = loops.source(self.sysfs.dev / name)
        return openers.Node(block=True, number=number) if number else None

    def reservation(self, name: str) -> reservations.Reservation | None:
        """Return the persistent reservation of the drives below a device; None without one.

        Raises:
            OSError: a drive does not answer.
        """
        found = (reservations.read(drive, self.sysfs.dev) for drive in self.sysfs.drives(name))
        return next(filter(None, found), None)

    def smart(self, name: str) -> dict[str, int] | None:
        """Return the drive's SMART log; null if it has none."""
        return nvme_ioctl.smart(name, None, self.sysfs.dev)

    def drive_capacity(self, name: str) -> int | None:
        """Return the whole drive's capacity in bytes; null if unknown."""
        return nvme_ioctl.total_capacity(name, self.sysfs.dev)

    def endurance(self, name: str) -> int | None:
        """Return the drive's rated endurance in bytes; null if unknown."""
        return nvme_ioctl.endurance(name, self.sysfs.number(name, "nsid") or 0, self.sysfs.dev)

    def warning_temperature(self, name: str) -> int | None:
        """Return the drive's warning temperature in kelvin; null if unknown."""
        return nvme_ioctl.warning_temperature(name, self.sysfs.dev)

    # --- devices, writing -------------------------------------------------------------------

    zero = staticmethod(discard.zero)
    discard = staticmethod(discard.discard)
    reset_zone = staticmethod(zone_reset.reset)

    def reset_zones(self, device: Device, held: Path | None = None) -> None:
        """Reset all zones. Destroys everything on the device.

        ``held`` is its node if this process has it open exclusively.
        """
        zone_reset.reset_all(Path(device.path), device.size, held)

    def writable_in_place(self, device: Device) -> list[direct_reads.Range]:
        """Return the parts that can be written in place: a device, or its conventional zones."""
        if not device.zoned:
            return [(0, device.size)]
        return [(zone.start, zone.size) for zone in self.zones(device.path) if zone.in_place]

    def wipe(self, device: Device, held: Path | None = None) -> None:
        """Zero every place that can hold a signature; ``held`` is as for ``reset_zones``.

        Of a zoned device, these places are in its conventional zones, which no reset empties.
        """
        exclusive = os.O_EXCL if held is None else 0
        if device.zoned:
            spots = signatures.wipe_spots_of_zones(self.writable_in_place(device))
        else:
            spots = signatures.wipe_spots(device.size)
        if not spots:
            return
        with descriptor(held or device.path, os.O_WRONLY | exclusive) as fd:
            for offset, length in spots:
                done = 0
                while done < length:  # a write can be short
                    done += os.pwrite(fd, bytes(length - done), offset + done)
            os.fsync(fd)
