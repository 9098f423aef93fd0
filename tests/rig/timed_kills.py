"""Does a campaign on modelled drives go on when its runner or a drive's server is killed?

``python -m tests.rig.timed_kills --kills 50`` boots the rig and prints JSON at its end.

Each kill comes at a random moment of a run. The runner must end, whatever was killed. A killed
server takes its drive away. It is served again, empty, and the same command continues the campaign.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from harness.rig import guest
from harness.store.result import Result, Status

from .conftest import RigHandle, booted
from .guest_runner import UNIT, GuestRunner

RUNNER = "runner"
LEVELS = "zlfs,f2fs,conventional-ext4"
PLAN = ("--levels", LEVELS, "--repetitions", "3", "--set", "workload.database_share=2%")
# Seconds of this host after db_bench has begun: about as long as a run takes.
LATEST = 30.0


class Kills:
    """Kills on one machine, in as many campaigns as they take."""

    def __init__(self, rig: RigHandle, folder: Path, seed: int) -> None:
        self._rig = rig
        self._folder = folder
        self._random = random.Random(seed)  # noqa: S311 - moments of kills
        self._drives = {drive.model: drive for drive in rig.model.zoneblk}
        self._units = {name: f"zoneblk-{at}" for at, name in enumerate(self._drives)}
        self.killed: Counter[str] = Counter()
        self.found: Counter[Status] = Counter()

    def run(self, kills: int) -> None:
        """Kill, and continue, until all campaigns have ended."""
        campaigns = 0
        while self.killed.total() < kills:
            campaigns += 1
            own = GuestRunner(self._rig, self._folder, f"kills-{campaigns}", PLAN)
            while not self._done(own):
                self._once(own, kill=self.killed.total() < kills)
            self._judge(own)
            own.remove()

    def _once(self, own: GuestRunner, *, kill: bool) -> None:
        """Start or continue a campaign, and kill something once its program runs."""
        own.start()
        own.wait_for(f"pgrep -x db_bench || ! systemctl -q is-active {UNIT}")
        begun = own.progress()
        assert begun["state"] != "failed", begun["line"]  # it could not begin after the last kill
        if not kill:
            own.wait_end(1200)
            ended = own.progress()
            assert ended["state"] == "done", ended["line"]
            return
        time.sleep(self._random.uniform(0, LATEST))
        victim = self._random.choice([RUNNER, *self._units])
        if victim == RUNNER:
            self._rig.ssh(f"systemctl kill --kill-whom=main --signal=KILL {UNIT}", check=False)
            own.wait_end()
        else:
            self._kill_server(own, victim)
        self.killed[victim] += 1
        print(f"{self.killed.total()}: {victim}: {own.progress()['line']}", flush=True)  # noqa: T201

    def _kill_server(self, own: GuestRunner, drive: str) -> None:
        unit = self._units[drive]
        self._rig.ssh(f"systemctl kill --kill-whom=main --signal=KILL {unit}")
        # Runs that do not use the drive go on; they end with the campaign or at the next kill.
        own.wait_end(1200)
        self._rig.ssh(f"systemctl reset-failed {unit}")
        self._units[drive] = f"zoneblk-again-{self.killed.total()}"
        guest.serve(self._rig.model, self._drives[drive], self._units[drive])
        left = self._rig.ssh("ls -d /dev/ublkb*").stdout.split()
        assert len(left) == len(self._units), left

    def _done(self, own: GuestRunner) -> bool:
        runs = self._rig.ssh(f"ls {own.there}/runs", check=False).stdout.split()
        return {run.partition(".")[0] for run in runs} >= set(own.planned)

    def _judge(self, own: GuestRunner) -> None:
        """Every run is there, and none is bad but by a killed server."""
        results = own.assert_complete()
        bad = {name: _why(one) for name, one in results.items() if one.status is not Status.OK}
        servers = self.killed.total() - self.killed[RUNNER]
        assert len(bad) <= servers, bad
        assert all(results[name].status is Status.FAILED for name in bad), bad
        self.found.update(one.status for one in results.values())


def _why(result: Result) -> str:
    return f"{result.status}: {result.reason.message if result.reason else result.issues}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with booted("timed") as rig, tempfile.TemporaryDirectory(prefix="zonelab-kills-") as folder:
        kills = Kills(rig, Path(folder), arguments.seed)
        begin = time.monotonic()
        kills.run(arguments.kills)
    print(  # noqa: T201
        json.dumps(
            {
                "seed": arguments.seed,
                "killed": dict(kills.killed),
                "runs": {status.value: count for status, count in kills.found.items()},
                "seconds": round(time.monotonic() - begin),
            }
        )
    )


if __name__ == "__main__":
    main()
