"""Ownership of the devices of a run: claimed before the first write, released when clean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness import cleanup
from harness.errors import GuardRefused
from harness.machine import in_use
from harness.machine.consent import Consent
from harness.machine.guard import Guard
from harness.machine.hold import Hold
from harness.machine.host import Host
from harness.machine.journal import Journal, JournalEntry, JournalEvent
from harness.machine.last_looks import LastLooks
from harness.machine.signals import Stop
from harness.store import checksums
from harness.store.spec import Device, RunSpec


def run_label(spec: RunSpec) -> str:
    """Return the file-system label of a run: 11 characters (xfs allows 12)."""
    return "zl-" + checksums.of_text(f"{spec.campaign}/{spec.run}")[:8]


def clear(host: Host, guard: Guard, devices: Sequence[Device], hold: Hold | None = None) -> None:
    """Reset zones and wipe signatures, each after a last check of identity and use.

    A run lists its zoned devices first. The label may be on the conventional device only; it is
    then wiped last, because it proves that the other devices are ours too.
    """
    held = [hold.node(device) if hold else None for device in devices]
    for device, node in zip(devices, held, strict=True):
        guard.require_unused(device, node)  # all are checked before the first write
    for device, node in zip(devices, held, strict=True):
        _empty(host, guard, device, node)


def _empty(host: Host, guard: Guard, device: Device, node: Path | None) -> None:
    guard.check_identity(device, node)
    if device.zoned:
        host.reset_zones(device, node)
    host.wipe(device, node)


class DeviceClaim:
    """The devices of a run and their entries in the journal."""

    def __init__(
        self,
        spec: RunSpec,
        devices: Sequence[Device],
        *,
        host: Host,
        guard: Guard,
        journal: Journal,
        stop: Stop,
    ) -> None:
        self.devices = tuple(devices)
        self._spec = spec
        self._host = host
        self._guard = guard
        self._journal = journal
        self._stop = stop
        self._looks = LastLooks(host, guard, self.devices)
        self._consents: dict[str, Consent] = {}  # by identity; each permits one wipe
        self._cleared = False

    def require_allowed(self) -> None:
        """Ask the guard about every device; GuardRefused if one must not be overwritten."""
        self._looks.listen()
        for device in self.devices:
            self._require(device, held=False)

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Hold the devices inside the block, listen to them, and ask the guard again.

        Minutes can pass after ``require_allowed``, because a warm drive gets time to cool.

        Raises:
            GuardRefused: as ``require_allowed``, or another program wrote to a device.
        """
        with self._looks.held(self._require_held):
            yield

    def clear(self) -> None:
        """Empty the devices, so that every run starts alike: zones reset, signatures wiped.

        A consent is recorded as used before the wipe that it permits. Signals wait meanwhile: no
        entry would prove ownership of a device that is only half empty.

        Raises:
            Interrupted: a signal arrived; the devices are empty and claimed.
        """
        for device in self.devices:
            self._looks.require_as_seen(device)
        with self._stop.deferred():
            for device in self.devices:
                consent = self._consents.get(device.identity.key)
                if consent is not None:
                    self._write(JournalEvent.ERASE, device, consent=consent.digest)
                _empty(self._host, self._guard, device, self._looks.hold.node(device))
            self._cleared = True
            self._looks.note()
            self._claim()
        self._stop.check()

    def check(self, devices: Sequence[Device] | None = None) -> None:
        """Check ``devices`` (null: all) right before they are formatted; then release them.

        The levels' tools open the devices exclusively themselves. A slice is a device of its own.
        """
        chosen = self.devices if devices is None else devices
        for device in self.devices:
            self._guard.check_identity(device, self._looks.hold.node(device))
        for device in chosen:
            if self._looks.hold.node(device) is not None:
                self._looks.require_as_seen(device)
            else:
                self._guard.require_unused(device)
        for device in chosen:  # not before: a check takes long enough to write to another device
            self._looks.hold.release(device)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Claim before the block; clear and release after it, however the run ended.

        If the block did not call ``clear``, nothing is cleared: data of others may still be there.
        The claim stays if a device is still in use (taking the level down failed) or a process
        hangs on it. It also stays if a device's identity differs from the plan. The next start can
        then finish the work. If a device went away during the run, its claim and the conventional
        device's claim stay.
        """
        self._claim()
        try:
            for device in self.devices:
                self._guard.check_identity(device, self._looks.hold.node(device))
            yield
        except GuardRefused:
            raise
        except BaseException as error:
            cleanup.after(error, self._release)
            raise
        self._release()

    def formatted(self) -> None:
        """Record that the devices carry the label from now on."""
        for device in self.devices:
            self._write(JournalEvent.UP, device)

    def _claim(self) -> None:
        """Record fingerprints, which prove ownership until the next write.

        A device with data of others is claimed only after it was cleared by consent. A claim before
        that would, after a kill, make the data count as zonelab's.

        During formatting neither a fingerprint nor a label proves ownership. After a kill at that
        time the devices need ``-e erase=``.
        """
        for device in self.devices:
            if device.identity.key in self._consents and not self._cleared:
                continue
            self._write(JournalEvent.CLAIM, device, self._looks.fingerprint(device))

    def _release(self) -> None:
        """Clear the devices, and record their fingerprints before others can format them."""
        hold = self._looks.hold
        with self._stop.deferred(), ExitStack() as stack:
            for device in self.devices:
                hold.release(device)
            if not self._cleared:
                return
            present = self._present()
            if any(in_use.reasons(self._host, device) for device in present):
                return
            try:
                stack.enter_context(hold.taken(present))
            except GuardRefused:
                return  # it came into use since
            clear(self._host, self._guard, present, hold)
            for device in present:
                self._write(JournalEvent.RELEASE, device, self._guard.fingerprint(device))

    def _present(self) -> tuple[Device, ...]:
        """Return the devices to release: those that did not go away during the run.

        If a zoned device is gone, the conventional device keeps its label, which may be the only
        proof that both are ours.
        """
        block = self._host.sysfs.block
        there = tuple(one for one in self.devices if block(Path(one.path).name).is_dir())
        return there if there == self.devices else tuple(one for one in there if one.zoned)

    def _require(self, device: Device, *, held: bool) -> Consent | None:
        return self._guard.require(device, self._partner(device), held=held)

    def _require_held(self, device: Device) -> None:
        consent = self._require(device, held=True)
        if consent is not None:
            self._consents[consent.identity] = consent

    def _partner(self, device: Device) -> Device | None:
        return next((other for other in self.devices if other is not device), None)

    def _write(
        self,
        event: JournalEvent,
        device: Device,
        fingerprint: str | None = None,
        *,
        consent: str = "",
    ) -> None:
        partner = self._partner(device)
        self._journal.append(
            JournalEntry(
                event=event,
                identity=device.identity.key,
                campaign=self._spec.campaign,
                run=self._spec.run,
                level=self._spec.level,
                label=run_label(self._spec),
                partner=partner.identity.key if partner else "",
                fingerprint=fingerprint,
                time=self._host.now(),
                boot_id=self._host.boot_id(),
                consent=consent,
            )
        )
