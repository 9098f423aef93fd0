"""Exclusive descriptors of devices, kept from the guard's look until a level's tools take over.

They are read-only: closing one that may write makes udev read the partition table again, during
which the kernel refuses mkfs. Zonelab writes through a second descriptor of the same node.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.errors import GuardRefused
from harness.machine.host import Host
from harness.store.spec import Device

# udev claims a device for a moment when it reads the partition table.
_TRIES = 5
_PAUSE_SECONDS = 1.0


class Hold:
    """Descriptors by identity. An open descriptor prevents mounts, mappings and formats."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._handles: dict[str, int] = {}

    @contextmanager
    def taken(self, devices: Sequence[Device]) -> Iterator[None]:
        """Hold devices inside the block, unless ``release`` comes first.

        Raises:
            GuardRefused: a program has one open exclusively.
        """
        try:
            for device in devices:
                self._handles[device.identity.key] = self._open(device)
            yield
        finally:
            for device in devices:
                self.release(device)

    def release(self, device: Device) -> None:
        """Close the descriptor of a device, if it is held."""
        handle = self._handles.pop(device.identity.key, None)
        if handle is not None:
            os.close(handle)

    def node(self, device: Device) -> Path | None:
        """Return a path of the held node, whatever its name is now; null if it is not held."""
        handle = self._handles.get(device.identity.key)
        return None if handle is None else Path(f"/proc/self/fd/{handle}")

    def _open(self, device: Device) -> int:
        for number in range(_TRIES):
            if number:
                self._host.pause(_PAUSE_SECONDS)
            handle = self._host.open_exclusively(device.path)
            if handle is not None:
                return handle
        raise GuardRefused(
            f"{device.path} is now opened exclusively by another program",
            hint="lsof shows the program",
            code="busy",
        )
