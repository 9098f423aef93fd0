"""The runner on a rig, started as the run role starts it, and observed from outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.rig import state
from harness.store.campaign import load_plan
from harness.store.result import Result
from harness.store.rundir import completed, load_result
from harness.tools import proc
from harness.tools.proc import Completed

from . import plays
from .conftest import RigHandle

UNIT = "zonelab-run"
ZIPAPP = "/root/zonelab-under-test.pyz"
# Seconds after which a wait has failed. An emulated CPU beside a build can take some minutes.
LONG = 400


# By boot: an emulated CPU takes 15 seconds to inspect a device, and a reset can rename it.
_inspections: dict[tuple[str, str], str] = {}


def inspected(rig: RigHandle, device: str = "") -> str:
    """Return the inspection of a device as JSON; '': the zoned one, with the conventional drive."""
    boot = rig.ssh("cat /proc/sys/kernel/random/boot_id").stdout
    if (device, boot) not in _inspections:
        own = rig.zoned.uuid and not device
        companion = f" --conventional {rig.conventional.path}" if own else ""
        path = device or rig.zoned.path
        command = f"python3 {ZIPAPP} inspect {path}{companion} --format json --host-name rig"
        _inspections[device, boot] = rig.ssh(command).stdout
    return _inspections[device, boot]


class GuestRunner:
    """One small campaign, planned on this host, run in the guest by the zipapp.

    Args:
        rig: the rig.
        folder: gets what is copied to and from the guest.
        campaign: a name of its own.
        plan: further arguments of ``zonelab plan``.
        study: what to plan.
        device: node of the device under test; the rig's zoned one by default.
    """

    def __init__(
        self,
        rig: RigHandle,
        folder: Path,
        campaign: str,
        plan: Sequence[str],
        study: str = "smoke",
        *,
        device: str = "",
    ) -> None:
        self.study = study
        self.device = device
        self.rig = rig
        self.campaign = campaign
        self.folder = folder
        self.results = folder / campaign
        self.there = f"/var/lib/zonelab/campaigns/{campaign}"
        plays.install(rig, folder, ZIPAPP)
        self._plan(plan)

    def _plan(self, arguments: Sequence[str]) -> None:
        inspection = self.folder / "inspection.json"
        inspection.write_text(inspected(self.rig, self.device))
        own = ["--inspection", f"rig={inspection}", "--campaign", self.campaign]
        planned = plays.zonelab("plan", self.study, *own, "--results", self.folder, *arguments)
        assert planned.ok, planned.stderr
        self.rig.ssh(f"mkdir -p {self.there}")
        plays.copy(self.rig, self.results / "plan.json", f"{self.there}/plan.json")
        self.rig.ssh("sync")  # a reset loses what is only in the guest's memory

    @property
    def planned(self) -> list[str]:
        """The runs that must exist at the end."""
        plan = load_plan(self.results / "plan.json")
        return sorted(run.run for run in plan.hosts[0].runs)

    @property
    def command(self) -> str:
        """The command line that starts the campaign in the guest."""
        return f"python3 {ZIPAPP} run --plan {self.there}/plan.json --host rig"

    def start(self, options: str = "") -> str:
        """Start the unit; return the line that announces it."""
        return self.rig.ssh(f"{self.command} --detach {options}").stdout.strip()

    def wait_phase(self, phase: str, timeout: int = LONG) -> None:
        """Wait until db_bench is at work in a phase."""
        self._wait(
            f'grep -q \'"phase": "{phase}"\' {self.there}/progress.json && pgrep -x db_bench',
            timeout,
        )

    def wait_for(self, condition: str, timeout: int = LONG) -> None:
        """Wait until a shell condition holds in the guest."""
        self._wait(condition, timeout)

    def wait_end(self, timeout: int = LONG) -> None:
        """Wait until the unit and all of its processes have ended."""
        gone = f"! systemctl list-units --all --no-legend {UNIT}.service | grep -q ."
        self._wait(f"{gone} && ! pgrep -x db_bench", timeout)

    def progress(self) -> dict[str, Any]:
        """Return the content of progress.json."""
        record: dict[str, Any] = json.loads(self.rig.ssh(f"cat {self.there}/progress.json").stdout)
        return record

    def main_pid(self) -> int:
        """Return the process id of the runner."""
        return int(self.rig.ssh(f"systemctl show --property=MainPID --value {UNIT}").stdout)

    def kill(self, run: str) -> None:
        """Kill the runner with SIGKILL in the middle of ``run``, its first one.

        It leaves what a kill leaves; otherwise what comes next would prove nothing.
        """
        self.rig.ssh(f"systemctl kill --kill-whom=main --signal=KILL {UNIT}")
        self.wait_end()
        assert self.progress()["state"] == "failed"
        assert "run again to resume" in self.progress()["line"]
        assert self.runs() == [f".{run}.partial"]
        assert f"/run/zonelab/{run}/mnt" in self.rig.ssh("cat /proc/mounts").stdout

    def runs(self) -> list[str]:
        """Return the run directories, half-written ones (with a leading dot) too."""
        return self.rig.ssh(f"ls -A {self.there}/runs").stdout.split()

    def fingerprint(self) -> str:
        """Return digest and time of every file of every run, and the length of the journal."""
        return self.rig.ssh(
            f"cd {self.there}/runs && find . -type f | sort | xargs stat -c '%n %Y'"
            " && find . -type f | sort | xargs sha256sum && wc -l /var/lib/zonelab/journal.jsonl"
        ).stdout

    def collect(self) -> dict[str, Result]:
        """Collect the finished runs and return their results by name."""
        archive = self.folder / "runs.tar"
        self.rig.ssh(f"tar -C {self.there}/runs -cf {self.there}/runs.tar --exclude './.*' .")
        self._copy(f"{self._host}:{self.there}/runs.tar", str(archive))
        into = self.results / "hosts" / "rig"
        done = plays.zonelab("collect", "--from", archive, "--into", into)
        assert done.ok, done.stderr
        return {path.name: load_result(path) for path in completed(into / "runs")}

    def verify(self) -> Completed:
        """Verify what was collected."""
        return plays.zonelab("verify", self.results)

    def assert_put_back(self) -> None:
        """Nothing of a run is left in the guest but its results."""
        assert self.rig.ssh("grep -c ' /run/zonelab/' /proc/mounts", check=False).stdout == "0\n"
        assert "zonelab-" not in self.rig.ssh("dmsetup ls").stdout
        assert self.rig.ssh("ls -A /run/zonelab 2>/dev/null", check=False).stdout == ""
        assert not [run for run in self.runs() if run.startswith(".")]
        assert self.rig.ssh("pgrep -x db_bench", check=False).stdout == ""
        self.rig.ssh("test ! -e /var/lib/zonelab/schedulers.json")
        assert self.rig.ssh("systemctl --failed --no-legend").stdout == ""
        units = self.rig.ssh(f"systemctl list-units --all --no-legend {UNIT}.service").stdout
        assert units == ""

    def assert_complete(self) -> dict[str, Result]:
        """Check that exactly the planned runs exist, each complete; return the results."""
        self.assert_put_back()
        assert self.progress()["state"] == "done"
        assert sorted(self.runs()) == self.planned
        results = self.collect()
        verified = self.verify()
        assert verified.exit_code == 0, verified.stdout
        return results

    def remove(self) -> None:
        """Stop any remaining process, and remove the campaign from the guest."""
        self.rig.ssh(f"systemctl stop {UNIT}; rm -rf {self.there} {ZIPAPP}", check=False)

    @property
    def _host(self) -> str:
        return state.host_name(self.rig.name)

    def _wait(self, condition: str, timeout: int) -> None:
        """Poll in the guest: each question over ssh would cost it more."""
        loop = f"for _ in $(seq {timeout * 2}); do if {condition}; then exit 0; fi; sleep 0.5; done"
        done = self.rig.ssh(f"{{ {loop}; exit 1; }} >/dev/null", timeout=timeout * 3, check=False)
        if not done.ok:
            seen = self.rig.ssh(
                f"cat {self.there}/progress.json; systemctl status {UNIT};"
                f" journalctl -u {UNIT} --no-pager | tail -n 20",
                check=False,
            )
            raise AssertionError(f"never came true: {condition}\n{seen.stdout}{seen.stderr}")

    def _copy(self, source: str, target: str) -> None:
        config = state.folder(self.rig.name) / "ssh_config"
        proc.run(["scp", "-q", "-F", config, source, target], timeout=60)
