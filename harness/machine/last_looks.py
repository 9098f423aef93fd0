"""Holds devices from the guard's check on, and examines them again before each step.

A *step* destroys data. Before it, devices must be as zonelab's own last write left them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.errors import GuardRefused
from harness.machine.guard import Guard
from harness.machine.hold import Hold
from harness.machine.host import Host
from harness.store.spec import Device

# Long enough for a writer at 1 Hz to show, short against a run of a minute.
LISTEN_SECONDS = 1.0


class LastLooks:
    """Holds devices exclusively, and notices when another program writes to them."""

    def __init__(self, host: Host, guard: Guard, devices: Sequence[Device]) -> None:
        self.hold = Hold(host)
        self._host = host
        self._guard = guard
        self._devices = tuple(devices)
        self._written: dict[str, int] = {}  # by the kernel's count, when zonelab last wrote
        self._contents: dict[str, str] = {}  # fingerprints of the same moment

    @contextmanager
    def held(self, require: Callable[[Device], None]) -> Iterator[None]:
        """Hold the devices inside the block, listen to them, and ask the guard again.

        ``listen`` was called before; ``require`` is the question to the guard.

        Raises:
            GuardRefused: a device must not be overwritten, or somebody wrote to it.
        """
        for device in self._devices:
            self._guard.check_identity(device)
        with self.hold.taken(self._devices):
            self._host.pause(LISTEN_SECONDS)
            # Before the guard looks: a write behind this line is noticed by ``require_as_seen``.
            self._note_contents()
            for device in self._devices:
                self._guard.check_identity(device, self.hold.node(device))
                require(device)
                self.require_quiet(device)
            yield

    def listen(self) -> None:
        """Count the writes of others from now on."""
        self._written = self._counters()

    def note(self) -> None:
        """Zonelab has written: what is there now must be there at the next step."""
        self.listen()
        self._note_contents()

    def fingerprint(self, device: Device) -> str:
        """Return the digest of the contents that were noted."""
        return self._contents[device.identity.key]

    def require_as_seen(self, device: Device) -> None:
        """Refuse a device in use, and one written to or exchanged since the last note."""
        self._guard.require_unused(device, self.hold.node(device))
        self.require_quiet(device)
        if self._guard.fingerprint(device) != self._contents[device.identity.key]:
            raise GuardRefused(
                f"the contents of {device.path} changed after the guard's check",
                hint="another program writes to it: end it and repeat the command",
                code="contents-changed",
            )

    def require_quiet(self, device: Device, own: int = 0) -> None:
        """Refuse a device to which more than zonelab's ``own`` bytes were written since then."""
        name = Path(device.path).name
        written = self._counters()[name] - self._written[name] - own
        if written > 0:
            raise GuardRefused(
                f"another program wrote {written} B to {device.path} during the guard's check",
                hint="end that program: lsof and blktrace show it",
                code="written-by-others",
            )

    def _counters(self) -> dict[str, int]:
        counters = self._host.disk_counters(Path(device.path).name for device in self._devices)
        return {name: counter.write_bytes for name, counter in counters.items()}

    def _note_contents(self) -> None:
        self._contents = {
            device.identity.key: self._guard.fingerprint(device) for device in self._devices
        }
