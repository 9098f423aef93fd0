"""Holds devices from the guard's check on, and examines them again before each step.

A *step* destroys data. Before it, devices must be as zonelab's own last write left them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from harness.errors import GuardRefused
from harness.machine.guard import Guard
from harness.machine.hold import Hold
from harness.machine.host import Host
from harness.store.spec import Device

# A program that writes once a second is noticed; a run takes at least a minute.
LISTEN_SECONDS = 1.0


class LastLooks:
    """Holds devices exclusively, and notices when another program writes to them."""

    def __init__(self, host: Host, guard: Guard, devices: Sequence[Device]) -> None:
        self.hold = Hold(host)
        self._host = host
        self._guard = guard
        self._devices = tuple(devices)
        self._written: dict[str, int] = {}  # kernel's count of bytes at zonelab's last write
        self._contents: dict[str, str] = {}  # fingerprints at zonelab's last write

    @contextmanager
    def held(self, require: Callable[[Device], None]) -> Iterator[None]:
        """Hold the devices inside the block, listen to them, and ask the guard again.

        The caller calls ``listen`` before this. ``require`` asks the guard about one device.

        Raises:
            GuardRefused: a device must not be overwritten, or another program wrote to it.
        """
        for device in self._devices:
            self._guard.check_identity(device)
        with self.hold.taken(self._devices):
            self._host.pause(LISTEN_SECONDS)
            # Before the guard looks: ``require_as_seen`` notices every write after this line.
            self._note_contents()
            for device in self._devices:
                self._guard.check_identity(device, self.hold.node(device))
                require(device)
                self.require_quiet(device)
            yield

    def listen(self) -> None:
        """From now on, count the bytes that others write."""
        self._written = self._counters()

    def note(self) -> None:
        """Record the contents after zonelab wrote; they must be the same at the next step."""
        self.listen()
        self._note_contents()

    def fingerprint(self, device: Device) -> str:
        """Return the fingerprint that ``note`` or ``held`` recorded."""
        return self._contents[device.identity.key]

    def require_as_seen(self, device: Device) -> None:
        """Refuse a device that is in use, or was changed or exchanged since the last record."""
        self._guard.require_unused(device, self.hold.node(device))
        self.require_quiet(device)
        if self._guard.fingerprint(device) != self._contents[device.identity.key]:
            raise GuardRefused(
                f"the contents of {device.path} changed after the guard's check",
                hint="another program writes to it: end it and repeat the command",
                code="contents-changed",
            )

    def require_quiet(self, device: Device, own: int = 0) -> None:
        """Refuse a device that took more bytes since ``listen`` than zonelab's ``own``."""
        name = device.name
        written = self._counters()[name] - self._written[name] - own
        if written > 0:
            raise GuardRefused(
                f"another program wrote {written} B to {device.path} during the guard's check",
                hint="end that program: lsof and blktrace show it",
                code="written-by-others",
            )

    def _counters(self) -> dict[str, int]:
        counters = self._host.disk_counters(device.name for device in self._devices)
        return {name: counter.write_bytes for name, counter in counters.items()}

    def _note_contents(self) -> None:
        self._contents = {
            device.identity.key: self._guard.fingerprint(device) for device in self._devices
        }
