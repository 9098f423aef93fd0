"""Exclusive descriptors of devices, kept from the guard's check until a level's tools open them.

They are read-only. When a writable one is closed, udev reads the partition table again, and mkfs
cannot open the device meanwhile. Zonelab writes through a second descriptor of the same node.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.errors import GuardRefused, HostError
from harness.machine.host import Host
from harness.store.files import descriptor
from harness.store.spec import Device

# udev claims a device for a moment when it reads the partition table.
_TRIES = 5
_PAUSE_SECONDS = 1.0
_LOCK_TRIES, _LOCK_PAUSE_SECONDS = 150, 0.2


@contextmanager
def quiet(paths: Sequence[str]) -> Iterator[None]:
    """Keep udev from reading devices inside the block.

    After each program that could write to a device, udev looks for signatures on it. Its reads
    would count as reads of the next phase. While a device has an exclusive lock, udev does not read
    it, but waits for the end of the lock (systemd.io/BLOCK_DEVICE_LOCKING).

    Raises:
        HostError: another program keeps a lock.
    """
    with ExitStack() as stack:
        for path in paths:
            _lock(stack.enter_context(descriptor(path, os.O_RDONLY)), path)
        yield


def _lock(handle: int, path: str) -> None:
    """Lock an open device. udev itself locks a device briefly while it reads it."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return
    raise HostError(
        f"another program has kept {path} locked for {_LOCK_TRIES * _LOCK_PAUSE_SECONDS:.0f} s",
        hint="end that program; lsof names it",
        code="device-locked",
    )


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
        """Return a path of the held node, also if it was renamed; null if it is not held."""
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
            f"another program now has {device.path} open exclusively",
            hint="end that program; lsof names it",
            code="busy",
        )
