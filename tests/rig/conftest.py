"""One booted rig for the whole test session; tests clean up after themselves.

``ZONELAB_RIG_KEEP=1`` uses a rig that is up, or leaves it up, for work on a test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from harness.rig import guest, life, model, state
from harness.rig.qmp import DriveStats
from harness.rig.state import GuestDevice, State
from harness.rig.talk import Talk
from harness.tools.proc import Completed


@dataclass(frozen=True)
class RigHandle:
    """A rig that is up, as tests use it."""

    model: model.Rig
    state: State

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
        return life.counters(self.name)[device.eui64]

    def node(self, device: GuestDevice) -> str:
        """The kernel's name now; a reset may deal the names anew."""
        return self.ssh(f"basename $(readlink -f {device.path})").stdout.strip()

    def reset(self) -> None:
        life.reset(self.name, Talk())

    def wait(self) -> None:
        """Wait for a guest that starts anew by itself."""
        guest.close_connections(self.name)
        guest.wait(self.name, self.state.port, self.state.process, Talk(), life.RESET_TIMEOUT)
        guest.wait_for_devices(self.state)


@contextmanager
def booted(name: str) -> Iterator[RigHandle]:
    rig = model.load(name)
    if os.environ.get("ZONELAB_RIG_KEEP"):
        running, _ = life.up(rig, Talk())
        yield RigHandle(rig, running)
        return
    with life.held(rig, Talk()) as running:
        yield RigHandle(rig, running)


# For a test that boots, plays and waits on an emulated CPU of a busy machine; 340 s were seen.
_TIMEOUT_SECONDS = 1500


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_SECONDS))


class RigApart(LoadScopeScheduling):
    """Shares files out to processes; all that need a rig stay together.

    Two machines would share two cores, and the folder with a rig's state.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "rig" if file.startswith("tests/rig/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> RigApart:
    return RigApart(config, log)


@pytest.fixture(scope="session")
def rig() -> Iterator[RigHandle]:
    """The default rig."""
    with booted("default") as handle:
        yield handle
