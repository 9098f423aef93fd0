"""Ownership of the devices of a run: claimed before the first write, released when clean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness import cleanup
from harness.errors import GuardRefused
from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Entry, Event, Journal
from harness.machine.signals import Stop
from harness.store.spec import Device, RunSpec


def run_label(spec: RunSpec) -> str:
    """Return the file-system label of a run: 11 characters (xfs allows 12)."""
    return "zl-" + hashlib.sha256(f"{spec.campaign}/{spec.run}".encode()).hexdigest()[:8]


def clear(host: Host, guard: Guard, devices: Sequence[Device]) -> None:
    """Reset zones and wipe signatures, each after a last check of the identity.

    A run lists its zoned devices first. If only the conventional device has the label, the label
    stays until no other device needs it as proof.
    """
    for device in devices:
        guard.check_identity(device)  # check all before the first write
    for device in devices:
        guard.check_identity(device)
        if device.zoned:
            host.reset_zones(device)
        else:
            host.wipe(device)


class Claim:
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
        conventional_named: bool,
    ) -> None:
        self.devices = tuple(devices)
        self._spec = spec
        self._host = host
        self._guard = guard
        self._journal = journal
        self._stop = stop
        self._conventional_named = conventional_named

    def require_allowed(self) -> None:
        """Ask the guard about every device; GuardRefused if one must not be overwritten."""
        for device in self.devices:
            named = device.zoned or self._conventional_named
            self._guard.require(device, self._partner(device), named=named)

    def check(self) -> None:
        """Check every identity again; called before each destructive step."""
        for device in self.devices:
            self._guard.check_identity(device)

    def clear(self) -> None:
        """Empty the devices, so that every run starts alike: zones reset, signatures wiped."""
        clear(self._host, self._guard, self.devices)
        self._claim()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Claim before the block; clear and release after it, however the run ended.

        The claim stays if a device is still in use (taking the level down failed), if a process
        hangs on it, or if its identity differs from the plan. The next start can then finish the
        work.
        """
        self._claim()
        try:
            self.check()
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
            self._write(Event.UP, device)

    def _claim(self) -> None:
        """Record fingerprints, which prove ownership until the next write.

        During formatting neither a fingerprint nor a label proves it. After a kill at that time
        the devices need ``-e erase=``.
        """
        for device in self.devices:
            self._write(Event.CLAIM, device, self._guard.fingerprint(device))

    def _release(self) -> None:
        with self._stop.deferred():
            if any(self._host.is_busy(device.path) for device in self.devices):
                return
            clear(self._host, self._guard, self.devices)
            for device in self.devices:
                self._write(Event.RELEASE, device, self._guard.fingerprint(device))

    def _partner(self, device: Device) -> Device | None:
        return next((other for other in self.devices if other is not device), None)

    def _write(self, event: Event, device: Device, fingerprint: str | None = None) -> None:
        partner = self._partner(device)
        self._journal.append(
            Entry(
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
            )
        )
