"""The playbook's wait for a rig: the controller knows whether its QEMU runs."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from harness.rig import state
from harness.rig.process import identify
from harness.rig.state import RigState
from tests.fixtures.wait_lab import Lab, heartbeat, running

pytestmark = pytest.mark.slow  # every test starts Ansible


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_rig_whose_machine_ends_is_given_up_at_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``ended``: before the play looks; ``ends``: while it waits, as nothing listens on port 1."""
    monkeypatch.setattr(state, "BUILD", lab.folder / "rigs")
    machines = {}
    for name in ("ended", "ends"):
        (lab.folder / "rigs" / name).mkdir(parents=True)
        machines[name] = subprocess.Popen(["sleep", "300"])
        process = identify(machines[name].pid)
        assert process is not None
        state.write(RigState(name, process.pid, process.began, 1, "tcg", "/i", "t", 12.0, None, ()))
        lab.add(
            name,
            ansible_connection="ssh",
            ansible_host="127.0.0.1",
            ansible_port=1,
            run_unreachable_seconds=180,
            run_rig=str(state.folder(name)),
        )
    machines["ended"].kill()
    ender = subprocess.Popen(["sh", "-c", f"sleep 15; kill -9 {machines['ends'].pid}"])
    begin = time.monotonic()
    played = lab.wait()
    seconds = time.monotonic() - begin
    for child in (ender, *machines.values()):
        child.wait()
    assert played.code == 2
    for name, cause in (("ended", "rig ended is down"), ("ends", "QEMU of rig ends ended")):
        assert f"{name}: {cause}. Its virtual machine has ended" in played.text, played.text
    assert "unreachable for" not in played.text
    assert 15 < seconds < 60, "the wait of 180 seconds was not cut short"


# ssh to a host that answers once the file is there: the last word is the command.
SSH = """#!/bin/sh
test -e {up} || exit 255
for word; do :; done
exec sh -c "$word"
"""
# `zonelab rig wait`: it notes what it was called with.
WAIT = """#!/bin/sh
echo "$ZONELAB_RIGS" "$@" > {asked}
{then}
"""


@pytest.mark.parametrize(
    ("then", "failure"), [("touch {up}", ""), ("exit 124", "unreachable for 1 s")]
)
def test_a_rig_that_is_away_for_a_moment_is_looked_at_again(
    lab: Lab, then: str, failure: str
) -> None:
    names = {"up": lab.folder / "is-up", "asked": lab.folder / "asked"}
    for name, text in (("ssh", SSH), ("zonelab", WAIT.replace("{then}", then))):
        (lab.folder / name).write_text(text.format(**names))
        (lab.folder / name).chmod(0o755)
    lab.add(
        "h",
        ansible_connection="ssh",
        ansible_ssh_executable=str(lab.folder / "ssh"),
        zonelab_command=str(lab.folder / "zonelab"),
        run_unreachable_seconds=1,
        run_rig="/rigs/timed-1",
    )
    file = running(lab.folder, "h", heartbeat())
    file.write_text(file.read_text().replace("running", "done"))
    played = lab.wait()
    asked = names["asked"].read_text()
    assert asked == "/rigs rig --quiet wait timed-1 --timeout 1\n"
    assert (played.code == 0) == (not failure), played.text
    assert (failure or "c: half way") in played.text
    assert "virtual machine has ended" not in played.text.replace("that has ended", "")
