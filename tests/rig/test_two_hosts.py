"""One campaign on two rigs at once: one host fails, the other completes its blocks."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.read.load import load
from harness.rig import control
from harness.rig.model import Rig
from harness.rig.talk import Talk
from harness.store.result import Status
from harness.tools import proc

from .conftest import WHOLE, RigHandle, booted
from .plays import BIN, ROOT, zonelab

pytestmark = [
    pytest.mark.timeout(2400),
    pytest.mark.skipif(not WHOLE, reason="make test-two-hosts runs it"),
]
CAMPAIGN = f"two-{time.strftime('%m%d%H%M%S')}"
A, B = "rig", "rig-twin"
BROKEN = r'#!/bin/sh\ncase "$*" in *=overwrite*) exit 1;; esac\nexec /usr/bin/db_bench.kept "$@"\n'


def twin(rig: Rig) -> Rig:
    """Return a rig of the same shape that is another machine with other drives."""
    drives = tuple(
        drive.model_copy(
            update={
                "serial": f"{drive.serial}b",
                "namespaces": tuple(
                    ns.model_copy(update={"eui64": ns.eui64 + (1 << 32)}) for ns in drive.namespaces
                ),
            }
        )
        for drive in rig.nvme
    )
    return rig.model_copy(update={"name": "twin", "nvme": drives})


@dataclass
class Lab:
    """Two machines and an inventory of both."""

    folder: Path
    rigs: dict[str, RigHandle]

    def play(self, *more: str) -> tuple[int | None, str, dict[str, dict[str, int]]]:
        """Run the pipeline; return exit code, output, and the recap by host."""
        words = ["ansible-playbook", "site.yml", "-e", f"campaign={CAMPAIGN}", *more]
        env = {
            "PATH": f"{BIN}:/usr/bin:/bin",
            "ANSIBLE_INVENTORY": str(self.folder / "inventory.yml"),
        }
        done = proc.run(words, cwd=ROOT, env=env, timeout=1500, check=False)
        lines = re.findall(r"^(rig\S*)\s+: (.*)$", done.stdout, re.MULTILINE)
        recap = {
            host: {word: int(n) for word, n in re.findall(r"(\w+)=(\d+)", text)}
            for host, text in lines
        }
        return done.exit_code, done.stdout + done.stderr, recap

    @property
    def campaign(self) -> Path:
        return self.folder / "results" / CAMPAIGN

    def statuses(self) -> dict[tuple[str, int], set[Status]]:
        """Return how the newest attempts ended, by host and block."""
        found: dict[tuple[str, int], set[Status]] = {}
        for run in load(self.campaign).latest:
            found.setdefault((run.host, run.result.block), set()).add(run.result.status)
        return found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with booted("nvme") as first, control.held(twin(first.model), Talk()) as second:
        rigs = {A: first, B: RigHandle(twin(first.model), second)}
        hosts: dict[str, Any] = {}
        for name, rig in rigs.items():
            known = yaml.safe_load(rig.inventory.read_text())["all"]["hosts"][name]
            hosts[name] = known | {
                "zonelab_results": str(tmp_path / "results"),
                "zonelab_build": str(tmp_path / "build"),
                "study": "smoke",
                "levels": "conventional-ext4,f2fs",  # zlfs asks what db_bench is linked with
                "repetitions": "2",
                "run_poll_seconds": "3",
            }
        (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        yield Lab(tmp_path, rigs)


def test_two_hosts(lab: Lab) -> None:
    # On b, the measured phases fail; all else is as on a, so that the hosts are alike.
    b = lab.rigs[B]
    b.ssh(f"mv /usr/bin/db_bench /usr/bin/db_bench.kept; printf '{BROKEN}' > /usr/bin/db_bench")
    b.ssh("chmod 755 /usr/bin/db_bench")
    code, text, recap = lab.play()
    assert code != 0
    assert recap[A]["failed"] <= 1, text  # the report's verdict on the whole is on the first host
    assert lab.statuses() == {(A, 1): {Status.OK}, (B, 2): {Status.FAILED}}, text

    # Gone altogether: existing runs stay, and the play names the host that did not answer.
    b.ssh("mv /usr/bin/db_bench.kept /usr/bin/db_bench")
    inventory = lab.folder / "inventory.yml"
    kept = inventory.read_text()
    there = f"ansible_port: {b.state.port}\n"
    assert there in kept
    inventory.write_text(kept.replace(there, "ansible_port: 1\n"))
    code, text, recap = lab.play("-e", "retry=failed")
    inventory.write_text(kept)
    assert code != 0
    assert (recap[B]["unreachable"], recap[A]["changed"]) == (1, 0), text
    assert lab.statuses()[A, 1] == {Status.OK}

    code, text, recap = lab.play("-e", "retry=failed")
    assert code == 0, text
    assert lab.statuses() == {(A, 1): {Status.OK}, (B, 2): {Status.OK}}
    verified = zonelab("verify", lab.campaign)
    assert verified.exit_code == 0
    assert verified.stdout.startswith(f"{lab.campaign}: whole\n")
