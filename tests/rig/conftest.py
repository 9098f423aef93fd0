"""One booted rig for each process of the session; every test cleans up after itself.

With ``ZONELAB_RIG_KEEP=1`` a rig that is up is used and stays up: for work on a test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.rig import control, guest, model, state
from harness.rig.qmp import DriveStats
from harness.rig.state import GuestDevice, RigState
from harness.rig.talk import Talk
from harness.tools.proc import Completed

# Slow targets of the Makefile set it: they take what ``make test`` leaves out.
WHOLE = bool(os.environ.get("ZONELAB_SLOW"))


@dataclass(frozen=True)
class RigHandle:
    """A running rig: commands in its guest, its devices and their counters."""

    model: model.Rig
    state: RigState

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def inventory(self) -> Path:
        return state.folder(self.name) / "inventory.yml"

    @property
    def conventional(self) -> GuestDevice:
        return next(device for device in self.state.devices if not device.zoned)

    @property
    def zoned(self) -> GuestDevice:
        """The system under test."""
        return next(device for device in self.state.devices if device.zoned)

    @property
    def tenants(self) -> GuestDevice:
        """The second zoned namespace: scratch space for tests of the rig itself."""
        return [device for device in self.state.devices if device.zoned][1]

    def ssh(self, command: str, *, timeout: float = 300.0, check: bool = True) -> Completed:
        return guest.run(self.name, command, timeout=timeout, check=check)

    def counters(self, device: GuestDevice) -> DriveStats:
        return control.counters(self.name)[device.eui64]

    def node(self, device: GuestDevice) -> str:
        """Return the kernel's name of the device now; a reset may change names."""
        return self.ssh(f"basename $(readlink -f {device.path})").stdout.strip()

    def reset(self) -> None:
        control.reset(self.name, Talk())

    def wait(self) -> None:
        """Wait for a guest that reboots by itself."""
        guest.close_connections(self.name)
        guest.wait(self.name, self.state.port, self.state.process, Talk(), control.RESET_TIMEOUT)
        guest.wait_for_devices(self.state)


@contextmanager
def booted(name: str) -> Iterator[RigHandle]:
    rig = model.load(name)
    if os.environ.get("ZONELAB_RIG_KEEP"):
        running, _ = control.up(rig, Talk())
        yield RigHandle(rig, running)
        return
    with control.held(rig, Talk()) as running:
        yield RigHandle(rig, running)


@pytest.fixture(scope="session")
def rig() -> Iterator[RigHandle]:
    """The NVMe rig."""
    with booted("nvme") as handle:
        yield handle
