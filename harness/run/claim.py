"""Ownership of the devices of one run: claimed before the first write, released when clean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness.errors import GuardRefused
from harness.run.bench import Bench
from harness.run.guard import Guard
from harness.run.host import Host
from harness.run.journal import Entry, Event
from harness.store.spec import Device, RunSpec


def label(spec: RunSpec) -> str:
    """Return the file-system label of a run: 11 characters, as xfs allows 12."""
    return "zl-" + hashlib.sha256(f"{spec.campaign}/{spec.run}".encode()).hexdigest()[:8]


def clear(host: Host, guard: Guard, devices: Sequence[Device]) -> None:
    """Reset zones and zero signatures, each behind a last look at the identity.

    Zoned devices come first in a run: where the label is only on the other one, it stays until
    there is nothing left to prove with it.
    """
    for device in devices:
        guard.check_identity(device)  # all of them, before anything is written to one
    for device in devices:
        guard.check_identity(device)
        if device.zoned:
            host.reset_zones(device)
        else:
            host.wipe(device)


class Claim:
    """The devices a run uses, and what the journal says of them.

    Args:
        bench: what all runs share.
        spec: the run.
        devices: the devices that its level really uses.
    """

    def __init__(self, bench: Bench, spec: RunSpec, devices: Sequence[Device]) -> None:
        self.devices = tuple(devices)
        self._bench = bench
        self._spec = spec

    def require_allowed(self) -> None:
        """Ask the guard about every device; GuardRefused when one may not be overwritten."""
        for device in self.devices:
            named = device.zoned or self._bench.conventional_named
            self._bench.guard.require(device, self._partner(device), named=named)

    def check(self) -> None:
        """Re-prove every identity; called before each destructive step."""
        for device in self.devices:
            self._bench.guard.check_identity(device)

    def clear(self) -> None:
        """Give every run the same empty devices: zones reset, signatures gone."""
        clear(self._bench.host, self._bench.guard, self.devices)
        self._claim()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Claim before the first byte; clear and release afterwards, however the run ended.

        When a device is still in use (taking the level down failed), or is no longer the planned
        one, the claim stays: the next start may then finish the work.
        """
        self._claim()
        try:
            self.check()
            yield
        except GuardRefused:
            raise
        except BaseException:
            self._release()
            raise
        self._release()

    def formatted(self) -> None:
        """Note that the label is on the devices from here on."""
        for device in self.devices:
            self._write(Event.UP, device)

    def _claim(self) -> None:
        """Note what the devices look like, which proves them ours as long as nobody writes.

        While they are formatted neither that nor a label does: a kill there needs ``-e erase=``.
        """
        for device in self.devices:
            self._write(Event.CLAIM, device, self._bench.guard.fingerprint(device))

    def _release(self) -> None:
        with self._bench.stop.deferred():
            if any(self._bench.host.is_busy(device.path) for device in self.devices):
                return
            clear(self._bench.host, self._bench.guard, self.devices)
            for device in self.devices:
                self._write(Event.RELEASE, device, self._bench.guard.fingerprint(device))

    def _partner(self, device: Device) -> Device | None:
        return next((other for other in self.devices if other is not device), None)

    def _write(self, event: Event, device: Device, fingerprint: str | None = None) -> None:
        partner = self._partner(device)
        self._bench.journal.append(
            Entry(
                event=event,
                identity=device.identity.key,
                campaign=self._spec.campaign,
                run=self._spec.run,
                level=self._spec.level,
                label=label(self._spec),
                partner=partner.identity.key if partner else "",
                fingerprint=fingerprint,
                time=self._bench.host.now(),
                boot_id=self._bench.host.boot_id(),
            )
        )
