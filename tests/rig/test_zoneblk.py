"""zoneblk on a real kernel: zones, data, errors and counts of the device that it serves."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.plan import drive_files
from harness.store.spec import DeviceKind

from . import plays
from .conftest import RigHandle

ZIPAPP, MODEL, DATA = (f"/root/zoneblk-test.{what}" for what in ("pyz", "json", "data"))
ZONE, CAPACITY, ZONES, LIMIT = 8 << 20, 6 << 20, 32, 14
GEOMETRY = {"zones.count": ZONES, "zones.size": f"{ZONE}B", "zones.capacity": f"{CAPACITY}B"}
BLOCK = 128 << 10
EMPTY, CLOSED, FULL = "1(em)", "4(cl)", "14(fu)"


@dataclass(frozen=True)
class Served:
    """A device of zoneblk in the guest."""

    rig: RigHandle
    name: str

    def __call__(self, command: str) -> str:
        """Run a shell command, in which ``$d`` is the device; return its output."""
        return self.rig.ssh(f"set -eo pipefail; d=/dev/{self.name}; {command}").stdout

    def status(self) -> dict[str, Any]:
        """Return the server's report, and the runner's facts about the device."""
        code = f"""
import json
from harness.observe import sysfs, zoneblk
device, system = {self.name!r}, sysfs.Sysfs()
seen = {{"kind": system.kind(device), "identity": system.identity(device).key}}
print(json.dumps(zoneblk.report(device) | seen))
"""
        found: dict[str, Any] = json.loads(python(self.rig, code))
        return found

    def conditions(self, count: int) -> list[str]:
        """Return the conditions of the first zones."""
        lines = self(f"blkzone report -c {count} $d").splitlines()
        return [line.partition("zcond:")[2].split(" [")[0].strip() for line in lines]

    def written(self) -> int:
        """Return the bytes written by the kernel's count."""
        return int(self(f"cat /sys/block/{self.name}/stat").split()[6]) * 512


def python(rig: RigHandle, code: str) -> str:
    """Run Python code of the runner in the guest; return its output."""
    return rig.ssh(f"PYTHONPATH={ZIPAPP} python3 -c {shlex.quote(code)}").stdout.strip()


def serve(rig: RigHandle) -> Served:
    options = [f"--set={name}={value}" for name, value in GEOMETRY.items()]
    code = f"import json; from harness.tools import zoneblk; model = json.load(open('{MODEL}'))"
    rig.ssh("modprobe ublk_drv")
    return Served(rig, python(rig, f"{code}; print(zoneblk.start(model, {options}))"))


def stop(served: Served) -> None:
    """Stop the server; refused while the device is in use."""
    code = f"""
import os
from harness.errors import GuardRefused
from harness.tools import zoneblk
device, process = {served.name!r}, {served.status()["process"]}
user = os.open(f"/dev/{{device}}", os.O_RDONLY | os.O_EXCL)
try:
    zoneblk.stop(device, process)
except GuardRefused as refused:
    print(refused.code)
os.close(user)
zoneblk.stop(device, process)
"""
    assert python(served.rig, code) == "in-use"


def nodes(rig: RigHandle) -> list[str]:
    return rig.ssh("ls -d /dev/ublkc* /dev/ublkb*", check=False).stdout.split()


@pytest.fixture(scope="module")
def files(rig: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = tmp_path_factory.mktemp("zoneblk")
    plays.install(rig, folder, ZIPAPP)
    model = folder / "model.json"
    model.write_text(json.dumps(drive_files.program_input(drive_files.load_model("zn540-1tb"))))
    plays.copy(rig, model, MODEL)


@pytest.fixture
def served(rig: RigHandle, files: None) -> Iterator[Served]:
    found = serve(rig)
    yield found
    stop(found)
    assert nodes(rig) == []


def test_the_kernel_has_the_models_zones_and_data(served: Served) -> None:
    fields = "zoned nr_zones chunk_sectors max_open_zones max_active_zones"
    geometry = ["host-managed", *map(str, (ZONES, ZONE // 512, LIMIT, LIMIT))]
    assert served(f"cd /sys/block/{served.name}/queue; cat {fields}").split() == geometry

    step, sectors = ZONE // BLOCK, ZONE // 512
    write = f"dd if={DATA} of=$d oflag=direct status=none bs={BLOCK}"
    read = f"dd if=$d iflag=direct status=none bs={BLOCK}"
    served(
        f"dd if=/dev/urandom of={DATA} bs={CAPACITY} count=1 status=none;"
        f" {write}; {write} seek={step} count=1; {write} seek={2 * step} count=1;"
        f" blkzone finish -o {sectors} -l {sectors} $d;"
        f" blkzone close -o {2 * sectors} -l {sectors} $d"
    )
    assert served.conditions(4) == [FULL, FULL, CLOSED, EMPTY]
    served(
        f"{read} count={CAPACITY // BLOCK} | cmp - {DATA}; {read} skip={2 * step} count=2 |"
        f" cmp - <(head -c {BLOCK} {DATA}; head -c {BLOCK} /dev/zero); rm {DATA}"
    )
    status = served.status()
    assert status["kind"] == DeviceKind.MODELLED
    assert status["identity"] == f"model.{status['uuid']}"
    assert status["commands"]["write"]["bytes"] == served.written() == CAPACITY + 2 * BLOCK
    assert status["media"]["pad_bytes"] == CAPACITY - BLOCK
    assert [status["commands"][op]["count"] for op in ("finish", "close", "reset")] == [1, 1, 0]
    served("blkzone reset $d")
    assert set(served.conditions(ZONES)) == {EMPTY}


def test_a_zone_above_the_limit_is_refused(served: Served) -> None:
    write = "dd if=/dev/zero of=$d oflag=direct status=none bs=4k count=1"
    step = ZONE // 4096
    served(f"for i in $(seq 0 {LIMIT - 1}); do {write} seek=$((i * {step})); done")
    assert "failed" in served(f"{write} seek={LIMIT * step} 2>/dev/null || echo failed")
    counted = served.status()["commands"]["write"]
    assert counted == {"count": LIMIT, "bytes": LIMIT * 4096, "errors": 1}


def test_a_killed_server_leaves_nothing_behind(rig: RigHandle, files: None) -> None:
    """Programs get errors, and the next server deletes what the kernel keeps."""
    killed = serve(rig)
    read = "while dd if=$d of=/dev/null bs=4k iflag=direct 2>/dev/null; do :; done; echo failed"
    kill = f"sleep 0.3; kill -KILL {killed.status()['process']}"
    assert "failed" in killed(f"({kill}) & export d; timeout 30 sh -c '{read}'; wait")
    left = nodes(rig)
    assert left
    for _ in range(5):  # the kernel can still be at work when reads fail
        again = serve(rig)
        assert again.conditions(1) == [EMPTY]
        stop(again)
        left = nodes(rig)
        if not left:
            break
    assert left == []
