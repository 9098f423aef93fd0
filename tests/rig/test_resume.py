"""Interruptions of a campaign in the middle of a phase, on a real kernel: it resumes completely."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.store.result import Status

from . import plays
from .conftest import RigHandle
from .guest_runner import GuestRunner

# f2fs first, as it leaves the most behind: a mount, a device-mapper slice, a second device.
TWO_LEVELS = ("--levels", "f2fs,conventional-ext4")
F2FS_FIRST = (*TWO_LEVELS, "--set", "workload.database_share=0.5%", "--set", "seed=2")
F2FS_ONLY = ("--levels", "f2fs")
PHASE = "overwrite"


@pytest.fixture
def runner(rig: RigHandle, tmp_path: Path) -> Iterator[Callable[..., GuestRunner]]:
    made: list[GuestRunner] = []

    def make(name: str, *plan: str) -> GuestRunner:
        made.append(GuestRunner(rig, tmp_path, f"{name}-{time.strftime('%m%d%H%M%S')}", plan))
        return made[-1]

    yield make
    for guest in made:
        guest.remove()


def test_a_reset_machine_and_a_killed_runner(
    rig: RigHandle, runner: Callable[..., GuestRunner]
) -> None:
    """One campaign survives both; the run in flight is the same each time."""
    own = runner("killed", *F2FS_FIRST)
    assert own.planned == ["conventional-ext4--r01", "f2fs--r01"]
    assert own.start().startswith("started zonelab-run.service")
    own.wait_phase(PHASE)
    rig.reset()
    status = rig.ssh(f"python3 /root/zonelab-under-test.pyz status {own.there}").stdout
    assert "the runner is gone after 0 of 2 runs" in status

    # It gets as far again, on devices that the machine's reset left as they were. The label proves
    # not that nobody wrote to the conventional one in between: it needs a consent.
    refused = rig.ssh(own.command, check=False)
    assert (refused.exit_code, "others may have written to it" in refused.stderr) == (3, True)
    consent = re.search(r"--erase (\S+@[0-9a-f]{8})\)", refused.stderr)
    assert consent is not None, refused.stderr
    own.start(f"--erase {consent[1]}")
    own.wait_phase(PHASE)
    own.kill("f2fs--r01")
    assert "zonelab-" in rig.ssh("dmsetup ls").stdout

    # Another level first: it formats the device that has the label, which proves both to be ours.
    own.start("--only conventional-ext4--r01")
    own.wait_end()
    own.assert_put_back()
    assert own.runs() == ["conventional-ext4--r01"]
    own.start()
    own.wait_end()
    assert {result.status for result in own.assert_complete().values()} == {Status.OK}

    before = own.fingerprint(), plays.written(rig)
    own.start()
    own.wait_end()
    assert own.progress()["state"] == "done"
    assert (own.fingerprint(), plays.written(rig)) == before


def test_a_stopped_unit_and_a_second_start(
    rig: RigHandle, runner: Callable[..., GuestRunner]
) -> None:
    own, other = runner("stopped", *F2FS_ONLY), runner("other", *F2FS_ONLY)
    queue = f"/sys/block/{rig.node(rig.zoned)}/queue/scheduler"
    rig.ssh(f"echo mq-deadline > {queue}")
    try:
        # Both at the same moment: one unit starts, and neither call reports a failure.
        lines = rig.ssh(f"{own.command} --detach & {own.command} --detach; wait").stdout
        assert lines.count("started zonelab-run.service") == 1, lines
        own.wait_phase("fillrandom")
        # Held still: a fast machine would be done before everything here has been asked.
        rig.ssh("pkill -STOP -x db_bench")
        assert own.progress()["state"] == "running"
        assert "[none]" in rig.ssh(f"cat {queue}").stdout

        holder = f"campaign {own.campaign} (pid {own.main_pid()} on "
        assert f"already running: {holder}" in own.start()
        attached = rig.ssh(own.command, check=False)
        assert (attached.exit_code, holder in attached.stderr) == (2, True), attached.stderr
        refused = rig.ssh(f"{other.command} --detach", check=False)
        assert (refused.exit_code, holder in refused.stderr) == (2, True), refused.stderr

        rig.ssh("pkill -CONT -x db_bench; systemctl stop zonelab-run")
        own.wait_end()
        assert own.progress()["state"] == "aborted"
        own.assert_put_back()
        assert "[mq-deadline]" in rig.ssh(f"cat {queue}").stdout
        assert own.runs() == ["f2fs--r01"]
        assert own.collect()["f2fs--r01"].status is Status.ABORTED

        own.start()
        own.wait_end()
        own.assert_put_back()
        assert "[mq-deadline]" in rig.ssh(f"cat {queue}").stdout
        assert {name: result.status for name, result in own.collect().items()} == {
            "f2fs--r01": Status.ABORTED,
            "f2fs--r01.a2": Status.OK,
        }
        assert own.verify().exit_code == 0, own.verify().stdout
    finally:
        rig.ssh(f"echo none > {queue}", check=False)
