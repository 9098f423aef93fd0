"""A modelled drive that this machine exports to itself as an NVMe namespace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.machine.guard import Guard
from harness.machine.journal import Journal
from harness.observe.sysfs import Sysfs
from harness.store.spec import DeviceKind
from tests.fixtures.unix_server import server
from tests.runner.fakes import FakeHost, make_machine, write_tree

NQN = "nqn.2014-08.org.nvmexpress:uuid:7c9e6679-7425-40de-944b-e07fc1f90ae7"
KEY = "model.7c9e6679-7425-40de-944b-e07fc1f90ae7"
ANSWER = {"server": "zoneblk", "device": "ublkb0", "model": "m-01", "dilation": 8}


class Machine:
    """The fake machine; its nvme0n2 shows ublkb0."""

    def __init__(self, root: Path) -> None:
        make_machine(root)
        self.root = root
        write_tree(root / "sys/devices/nvme0", {"transport": "loop", "subsysnqn": NQN})
        block = root / "sys/class/block"
        (block / "nvme0n1/dev").write_text("259:1")
        write_tree(block / "ublkb0", {"dev": "259:9", "size": "8192", "ro": "0"})
        (root / "dev/ublkb0").write_bytes(bytes(4 << 20))
        self.host = FakeHost(root)
        self.sysfs = Sysfs(root / "sys", root / "dev", root / "run")
        object.__setattr__(self.host, "sysfs", self.sysfs)
        self.export(NQN, "ublkb0")

    def export(self, nqn: str, device: str, enable: str = "1") -> None:
        space = self.root / "sys/kernel/config/nvmet/subsystems" / nqn / "namespaces/2"
        write_tree(space, {"enable": enable, "device_path": str(self.root / "dev" / device)})

    def codes(self, name: str) -> list[str]:
        guard = Guard(self.host, Journal(self.root / "journal.jsonl"))
        return [reason.code for reason in guard.examine(self.host.device(name))]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    (tmp_path / "run").mkdir()
    answer = ANSWER | {"uuid": KEY.removeprefix("model.")}
    with server(tmp_path / "run/ublkb0", json.dumps(answer).encode()):
        yield found


def test_the_namespace_is_the_drive(machine: Machine) -> None:
    sysfs = machine.sysfs
    assert sysfs.kind("nvme0n2") is DeviceKind.MODELLED
    assert sysfs.model("nvme0n2") == sysfs.model("ublkb0") == "zoneblk m-01 x8"
    assert sysfs.identity("nvme0n2").key == sysfs.identity("ublkb0").key == KEY
    assert sysfs.kind("nvme0n1") is DeviceKind.EMULATED
    assert machine.codes("nvme0n2") == []


def other_transport(machine: Machine) -> None:
    (machine.root / "sys/devices/nvme0/transport").write_text("tcp")


def other_subsystem(machine: Machine) -> None:
    (machine.root / "sys/devices/nvme0/subsysnqn").write_text("nqn.other")


def other_device(machine: Machine) -> None:
    machine.export(NQN, "nvme0n1")


def off(machine: Machine) -> None:
    machine.export(NQN, "ublkb0", "0")


@pytest.mark.parametrize("change", [other_transport, other_subsystem, other_device, off])
def test_any_other_namespace_is_not(machine: Machine, change: Callable[[Machine], None]) -> None:
    change(machine)
    assert machine.sysfs.exported("nvme0n2") is None
    assert machine.sysfs.kind("nvme0n2") is DeviceKind.EMULATED
    assert machine.sysfs.identity("nvme0n2").key.startswith("eui.")


def test_the_drive_behind_it_is_in_use(machine: Machine) -> None:
    assert "exported" in machine.codes("ublkb0")


def mounted(machine: Machine) -> None:
    (machine.root / "proc/self/mountinfo").write_text("9 1 259:9 / /mnt rw - xfs /dev/ublkb0 rw\n")


def exported_twice(machine: Machine) -> None:
    machine.export("nqn.other", "ublkb0")


def busy(machine: Machine) -> None:
    (machine.root / "busy-ublkb0").touch()


def test_a_user_of_the_namespace_counts_while_the_drive_is_free(machine: Machine) -> None:
    number = machine.sysfs.text("nvme0n2", "dev")
    mounts = machine.root / "proc/self/mountinfo"
    mounts.write_text(f"9 1 {number} / /mnt rw - xfs /dev/nvme0n2 rw\n")
    assert machine.codes("nvme0n2") == ["mounted"]


@pytest.mark.parametrize(
    ("use", "code"), [(mounted, "mounted"), (exported_twice, "exported"), (busy, "busy")]
)
def test_a_user_of_the_drive_uses_the_namespace(
    machine: Machine, use: Callable[[Machine], None], code: str
) -> None:
    use(machine)
    assert machine.codes("nvme0n2") == [code]
