"""Preconditioning on a real kernel's zones: QEMU counts the bytes, and the run records it."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store.result import Status
from harness.store.rundir import completed, load_result
from harness.tools import proc

from . import plays
from .checks import consent_in
from .conftest import RigHandle
from .plays import ROOT, Plays

ZIPAPP = "/root/zonelab-age.pyz"
KEPT = "/root/age-state"
STAMP = time.strftime("%m%d%H%M%S")
REFUSED = 3
REFUSED_BY_ASSERT = 2


class Age:
    """``zonelab age`` in the guest, on the tenants' namespace, which no other test uses."""

    def __init__(self, rig: RigHandle) -> None:
        self.rig = rig
        self.command = f"python3 {ZIPAPP} age {rig.node(rig.tenants)} --state-dir {KEPT}"

    def __call__(self, options: str, *, check: bool = True) -> proc.Completed:
        return self.rig.ssh(f"{self.command} {options}", check=check)

    @property
    def conditions(self) -> dict[str, int]:
        """The number of zones in each condition, by the kernel's report."""
        report = self.rig.ssh(f"blkzone report {self.rig.tenants.path}").stdout
        return Counter(re.findall(r"zcond: *\d+\((\w+)\)", report))

    @property
    def written(self) -> tuple[list[int], list[int]]:
        """Bytes to each namespace, as QEMU and as the guest's kernel count them."""
        return plays.written(self.rig), plays.sectors_written(self.rig)


@pytest.fixture
def age(rig: RigHandle, tmp_path: Path) -> Iterator[Age]:
    plays.install(rig, tmp_path, ZIPAPP)
    rig.ssh(f"zbd reset {rig.tenants.path}")
    yield Age(rig)
    rig.ssh(f"pkill -f {ZIPAPP}; zbd reset {rig.tenants.path}; rm -rf {KEPT} {ZIPAPP}", check=False)


def test_every_zone_is_written_and_written_again(rig: RigHandle, age: Age) -> None:
    qemu, kernel = age.written
    (done,) = json.loads(age("--passes 2 --format json").stdout)
    after = age.written
    assert done["bytes"] == 2 * rig.tenants.capacity
    of_tenants = [device.nsid == rig.tenants.nsid for device in rig.state.devices]
    wanted = [done["bytes"] if theirs else 0 for theirs in of_tenants]
    assert [b - a for a, b in zip(qemu, after[0], strict=True)] == wanted
    assert [b - a for a, b in zip(kernel, after[1], strict=True)] == wanted
    assert set(age.conditions) == {"em"}
    # The drive's own log agrees: thousands of 512 bytes, rounded up.
    units = [done[f"smart_{when}"]["data_units_written"] for when in ("before", "after")]
    assert (units[1] - units[0]) * 512_000 == pytest.approx(done["bytes"], abs=2 * 512_000)

    assert json.loads(age("--passes 2 --unless-done --format json").stdout) == [done]
    assert age.written == after


def test_zones_written_before_a_kill_do_not_count_as_empty(rig: RigHandle, age: Age) -> None:
    rig.ssh(f"nohup {age.command} --passes 1 </dev/null >/dev/null 2>&1 &")
    rig.ssh(
        "for _ in $(seq 300); do"
        f" blkzone report -c 40 {rig.tenants.path} | tail -n 1 | grep -q '(fu)' && exit 0;"
        " sleep 0.1; done; exit 1"
    )
    rig.ssh(f"pkill -KILL -f {ZIPAPP}")
    left, before = age.conditions, age.written
    assert left["fu"] >= 40
    assert left["em"] > 0

    refused = age("--passes 1", check=False)
    assert refused.exit_code == REFUSED, refused.stderr
    consent = consent_in(refused.stderr, rig.tenants.eui64)
    assert (age.conditions, age.written) == (left, before)

    age(f"--passes 0 --erase {consent}")
    assert set(age.conditions) == {"em"}
    assert age.written == before  # a purge writes nothing


def test_a_campaign_starts_with_preconditioning_and_its_run_records_it(
    rig: RigHandle, age: Age, tmp_path: Path
) -> None:
    name = f"aged-{STAMP}"
    beside = {"remainder": "full", "remainder_device": rig.node(rig.tenants)}
    own = Plays(rig, tmp_path, campaign=name, levels="zlfs", precondition_passes="1", **beside)
    device = f"device={rig.node(rig.zoned)}"
    played = own.play(ROOT, ["ansible-playbook", "site.yml", "-e", device])
    assert played.code == 0, played.text
    (run,) = completed(own.results / name / "hosts" / "rig" / "runs")
    assert load_result(run).status is Status.OK
    host = json.loads((run / "result.json").read_text())["manifest"]["host"]
    record = rig.ssh(f"cat /var/lib/zonelab/preconditioned/eui.{rig.zoned.eui64}.json").stdout
    done = json.loads(record)
    assert (done["passes"], done["bytes"]) == (1, rig.zoned.capacity)
    kept = ("passes", "seed", "bytes", "ended")
    assert host["devices"][0]["preconditioned"] == {key: done[key] for key in kept}
    # The rest of the drive is full, and stays so behind the run.
    assert host["remainder_bytes"] == rig.tenants.capacity
    assert set(age.conditions) == {"fu"}
    emptied = own.play(ROOT, ["ansible-playbook", "site.yml", "-e", device, "-e", "remainder=both"])
    assert emptied.code == REFUSED_BY_ASSERT
    assert "full or empty" in emptied.text
    rig.ssh(f"rm -rf /var/lib/zonelab/preconditioned /var/lib/zonelab/campaigns/{name}")
