"""Preconditioning on a real kernel's zones: QEMU counts the bytes, and the run records it.

The campaign is tuned as well, because one campaign can show both.
"""

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
from .conftest import WHOLE, RigHandle
from .plays import ROOT, Plays

ANSIBLE = ROOT / "ansible"
ZIPAPP = "/root/zonelab-age.pyz"
KEPT = "/root/age-state"
STAMP = time.strftime("%m%d%H%M%S")
REFUSED = 3


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


def test_a_conventional_namespace_is_purged_and_read_back(rig: RigHandle, age: Age) -> None:
    """Data at its start, in its middle and at its end is gone, also behind the page cache."""
    node = f"/dev/{rig.node(rig.conventional)}"
    last = rig.conventional.capacity // 4096 - 1
    places = (0, last // 2, last)
    for place in places:
        rig.ssh(
            f"dd if=/dev/urandom of={node} bs=4096 seek={place} count=1 oflag=direct status=none"
        )
    state = f"{KEPT}-conventional"
    command = f"python3 {ZIPAPP} age {node} --state-dir {state} --passes 0"
    try:
        refused = rig.ssh(command, check=False)
        assert refused.exit_code == REFUSED, refused.stderr
        assert f"{node} holds data that zonelab did not write" in refused.stderr
        consent = consent_in(refused.stderr, rig.conventional.eui64)
        done = rig.ssh(f"{command} --erase {consent}")
        assert f"{node} was discarded, and every byte was read back as zero" in done.stderr
        size = rig.conventional.capacity
        rig.ssh(f"dd if={node} bs=1M iflag=direct status=none | cmp -n {size} - /dev/zero")
        journal = rig.ssh(f"cat {state}/journal.jsonl").stdout
        events = [json.loads(line)["event"] for line in journal.splitlines()]
        assert events == ["erase", "release"]
    finally:
        rig.ssh(f"blkdiscard -f --zeroout {node}; rm -rf {state}", check=False)


@pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
def test_a_tuned_campaign_starts_with_preconditioning_and_its_run_records_it(
    rig: RigHandle, age: Age, tmp_path: Path
) -> None:
    """Played from the ansible folder, where ansible.cfg differs in paths."""
    name = f"aged-{STAMP}"
    beside = {"remainder": "full", "remainder_device": rig.node(rig.tenants)}
    once = {"campaign": name, "levels": "zlfs", "precondition_passes": "1"}
    own = Plays(rig, tmp_path, tuning_name="bench", **once, **beside)
    site = ["ansible-playbook", "site.yml", "-e", f"device={rig.node(rig.zoned)}"]
    swappiness = rig.ssh("cat /proc/sys/vm/swappiness").stdout.strip()
    assert swappiness != "0"
    with plays.watched(rig) as seen:
        played = own.play(ANSIBLE, site)
    assert played.code == 0, played.text
    plays.assert_tuned_for_runs_only(rig, seen, swappiness)

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

    before = plays.files(own.results), plays.guest_files(rig), plays.written(rig)
    again = own.play(ANSIBLE, site)
    assert again.code == 0, again.text
    assert again.recap["changed"] == 0, again.text
    assert (plays.files(own.results), plays.guest_files(rig), plays.written(rig)) == before
    rig.ssh(f"rm -rf /var/lib/zonelab/preconditioned /var/lib/zonelab/campaigns/{name}")
