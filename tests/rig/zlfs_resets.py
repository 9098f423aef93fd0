"""Does a database on zlfs keep what it acknowledged when the machine is reset under it?

``make test-crash-long``, or
``zonelab rig exec nvme -- .venv/bin/python -m tests.rig.zlfs_resets``.

At each point a load writes in the guest and reports durable keys over ssh. At a random moment QEMU
resets the machine. A reset keeps zones and data, and nothing else. The last report is a lower bound
of the synced keys. After the boot the same program judges: every invariant of fsck holds, no synced
key is lost, every value is right, and the volume goes on working.
At every n-th point the machine is reset once more during that recovery. Writes a JSON report.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import ZonelabError
from harness.rig import control, guest, state
from harness.rig.talk import Talk
from harness.tools.proc import Completed

ROOT = Path(__file__).parents[2]
NATIVE = "/usr/local/lib/zonelab/native"
ZLFS = f"{NATIVE}/bin/zlfs"
TORTURE = f"{NATIVE}/test/zlfs-torture"
AUX = "/var/tmp/zlfs-resets"
# Always short of space (42 of 384 zones are in use) and with a high threshold: garbage is
# collected, zones are finished and reset although the load is small.
COLD = 160 << 20
POLICY = "--finish-remaining-pct=30 --gc-start-pct=90"

_LOAD_SECONDS = 5.0  # the longest a load runs before the reset
_LOAD_TIMEOUT = 180.0  # for it to get to work, recovery included
_JUDGE_TIMEOUT = 900.0
_DRAIN_SECONDS = 10.0
_RECOVERIES = 3  # of one point, until one is interrupted; a quick one ends before its reset
_STARTED = "started"
_TELLING = re.compile(r"(\d+(?:,\d+)*)\n")


class Failed(Exception):
    """Data was lost, or a step failed; the message has the details."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The number of resets, and the seed of the random moments."""

    points: int = 50
    seed: int = 1
    points_per_volume: int = 10
    recovery_every: int = 10


@dataclass(slots=True)
class Point:
    """A reset: when, and what was known to be durable."""

    volume: int
    load_seconds: float = 0.0
    synced: list[int] = field(default_factory=list)
    recovery_seconds: float | None = None  # of a judge that was interrupted by another reset
    judge_seconds: float = 0.0


class Guest:
    """A rig that is up, as the campaign uses it."""

    def __init__(self, name: str, talk: Talk) -> None:
        self.name = name
        self._talk = talk
        zoned = [device for device in state.require(name).devices if device.zoned]
        self._path = zoned[1].path  # the tenants' namespace: scratch space

    def ssh(self, command: str, *, timeout: float = 300.0, check: bool = True) -> Completed:
        """Run a shell command line."""
        return guest.run(self.name, command, timeout=timeout, check=check)

    def start(self, command: str) -> Program:
        """Start a command on a connection of its own, which lives until the machine is reset."""
        ssh, option, config, host = guest.ssh_argv(self.name)
        alone = ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
        return Program([ssh, option, config, *alone, host, f"echo {_STARTED}; exec {command}"])

    def reset(self) -> None:
        """Press the button and wait until the guest answers."""
        control.reset(self.name, self._talk)

    def device(self) -> str:
        """Return the namespace as it is called now, ready to be written."""
        node = self.ssh(f"basename $(readlink -f {self._path})").stdout.strip()
        # Kernels before 6.10 order writes to zones with this scheduler only.
        self.ssh(f"echo mq-deadline > /sys/block/{node}/queue/scheduler")
        return f"/dev/{node}"


class Program:
    """A program in the guest; a thread of this process takes what it prints."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.synced: list[int] = []
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether it is gone, or the connection is."""
        return self._process.poll() is not None

    def wait(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait for a condition; raise Failed if the program ends or the time is up first."""
        deadline = time.monotonic() + timeout
        while not condition():
            ended = self.ended
            if ended or time.monotonic() > deadline:
                words = self.last_words
                if ended and condition():  # its last lines were read just now
                    return
                raise Failed(f"{words} (after {timeout:.0f} s at most)")
            time.sleep(0.02)

    @property
    def last_words(self) -> str:
        """The last output besides numbers; the whole output after the program ended."""
        if self.ended:
            self._thread.join(_DRAIN_SECONDS)  # its last lines may not have been read yet
        return " ".join(self.lines[-3:]) or "no output"

    def stop(self) -> int:
        """End the connection; 255 or negative unless the program had ended by itself before."""
        if not self.ended:
            self._process.kill()
        code = self._process.wait()
        self._thread.join()
        return code

    def _read(self) -> None:
        for line in self._process.stdout or ():
            telling = _TELLING.fullmatch(line)  # a line that was cut short is no evidence
            if telling:
                self.synced = [int(number) for number in telling[1].split(",")]
            else:
                self.lines.append(line.strip())


class Campaign:
    """Resets, one after the other, on volumes that go on after each.

    Args:
        setup: what to do.
        guest: where.
    """

    def __init__(self, setup: Setup, guest: Guest) -> None:
        self._setup = setup
        self._guest = guest
        self._random = random.Random(setup.seed)  # noqa: S311 - must be repeatable
        self._points: list[Point] = []
        self._volume = -1
        self._synced: list[int] = []
        self._device = ""
        self._totals = {
            "synced_operations": 0,
            "collected_bytes": 0,
            "finishes": 0,
            "zone_resets": 0,
        }
        self._began = time.monotonic()

    def run(self, output: Path) -> dict[str, Any]:
        """Go through all points; the report is written to ``output`` after each, and returned."""
        self._began = time.monotonic()
        kernel = self._guest.ssh("uname -r").stdout.strip()
        failure: str | None = None
        try:
            for number in range(self._setup.points):
                self._point(number)
                self._say(number + 1)
                self._write(output, kernel, f"unfinished, {number + 1} points are done")
            self._end_volume()
        except (Failed, ZonelabError) as error:
            failure = f"point {len(self._points) + 1}: {error}"
            with suppress(ZonelabError):  # the guest may be gone
                self._keep_evidence(output)
        else:
            self._guest.ssh(f"rm -rf {AUX}")
        return self._write(output, kernel, failure)

    def _point(self, number: int) -> None:
        if number % self._setup.points_per_volume == 0:
            self._new_volume()
        point = Point(self._volume)
        self._load(point)
        if (number + 1) % self._setup.recovery_every == 0:
            for _ in range(_RECOVERIES):
                if self._interrupt_recovery(point):
                    break
                self._load(point)
        self._judge(point)
        self._points.append(point)

    def _new_volume(self) -> None:
        if self._volume >= 0:
            self._end_volume()
        self._volume += 1
        self._device = self._guest.device()
        self._guest.ssh(f"zbd reset {self._device}; rm -rf {AUX}")
        self._guest.ssh(f"{ZLFS} mkfs --device={self._device} --aux={AUX} {POLICY}")
        self._guest.ssh(
            f"{ZLFS} import --device={self._device} --name=/cold --size={COLD} --seed=1; sync"
        )
        self._synced = [0]

    def _end_volume(self) -> None:
        df = json.loads(self._guest.ssh(f"{ZLFS} df --device={self._device} --format=json").stdout)
        self._totals["synced_operations"] += sum(self._synced)
        self._totals["collected_bytes"] += df["gc"]["copied_bytes"]
        self._totals["finishes"] += df["finishes"]
        self._totals["zone_resets"] += df["resets"]

    def _load(self, point: Point) -> None:
        """Write until a random moment, then reset; the last number printed is synced."""
        writer = self._guest.start(self._torture("write"))
        try:
            # It opened the volume and writes when more is synced than before.
            writer.wait(lambda: sum(writer.synced) > sum(self._synced), _LOAD_TIMEOUT)
            point.load_seconds = self._random.uniform(0, _LOAD_SECONDS)
            time.sleep(point.load_seconds)
            if writer.ended:
                raise Failed(f"the load ended by itself: {writer.last_words}")
            self._guest.reset()
        finally:
            code = writer.stop()
        if 0 <= code < 255:  # 255 is ssh's own: the connection is gone
            raise Failed(f"the load ended by itself: {writer.last_words}")
        self._synced = point.synced = writer.synced
        self._device = self._guest.device()

    def _interrupt_recovery(self, point: Point) -> bool:
        """Reset while the judge recovers the volume; False if the judge ended first."""
        judge = self._guest.start(self._torture("judge"))
        # The judge recovers in its first half. Later it checks what it recovered.
        shortest = min((one.judge_seconds for one in self._points), default=3.0)
        seconds = self._random.uniform(0, shortest / 2)
        try:
            judge.wait(lambda: _STARTED in judge.lines, _LOAD_TIMEOUT)
            time.sleep(seconds)
            if not judge.ended:
                point.recovery_seconds = seconds
            self._guest.reset()
        finally:
            judge.stop()
        self._device = self._guest.device()
        return point.recovery_seconds is not None

    def _judge(self, point: Point) -> None:
        begin = time.monotonic()
        done = self._guest.ssh(self._torture("judge"), timeout=_JUDGE_TIMEOUT, check=False)
        point.judge_seconds = time.monotonic() - begin
        if not done.ok:
            raise Failed(
                f"judge ended with {done.exit_code}: {done.stderr.strip()}; "
                f"again: {self._torture('judge')}"
            )

    def _torture(self, command: str) -> str:
        synced = ",".join(map(str, self._synced))
        seed = self._setup.seed * 1000 + self._volume
        return (
            f"{TORTURE} {command} --device=dev:{self._device} --aux={AUX} --seed={seed}"
            f" --synced={synced}"
        )

    def _keep_evidence(self, output: Path) -> None:
        """Keep the output of fsck and dump, because the rig and its zones can end soon."""
        for command in ("fsck", "dump"):
            done = self._guest.ssh(f"{ZLFS} {command} --device={self._device}", check=False)
            output.parent.mkdir(parents=True, exist_ok=True)
            output.with_suffix(f".{command}").write_text(done.stdout + done.stderr)

    def _say(self, done: int) -> None:
        each = (time.monotonic() - self._began) / done
        left = each * (self._setup.points - done) / 60
        print(  # noqa: T201
            f"resets: {done} of {self._setup.points} points, {each:.0f} s each,"
            f" {left:.0f} min left",
            file=sys.stderr,
            flush=True,
        )

    def _write(self, output: Path, kernel: str, failure: str | None) -> dict[str, Any]:
        report = {
            "schema_version": 1,
            "ok": failure is None,
            "failure": failure,
            "points": len(self._points),
            "in_recovery": sum(point.recovery_seconds is not None for point in self._points),
            "volumes": self._volume + 1,
            **self._totals,
            "seed": self._setup.seed,
            "rig": self._guest.name,
            "kernel": kernel,
            "seconds": round(time.monotonic() - self._began, 1),
            "how": "QMP system_reset under a write load; after each boot zlfs-torture judge: fsck,"
            " every synced key, every value, a clean end, fsck, all again",
            "resets": [asdict(point) for point in self._points],
        }
        output.parent.mkdir(parents=True, exist_ok=True)
        partial = output.with_suffix(".partial")
        partial.write_text(json.dumps(report, indent=2) + "\n")
        partial.rename(output)
        return report


def summary(report: dict[str, Any]) -> str:
    """Return the campaign in one line."""
    if not report["ok"]:
        return f"resets: FAILED at {report['failure']}; seed {report['seed']}"
    return (
        f"resets: {report['points']} points on {report['volumes']} volumes, "
        f"{report['in_recovery']} more during recovery, 0 synced keys lost, 0 violations; "
        f"{report['synced_operations']} operations known to be durable, {report['finishes']} "
        f"finishes, {report['zone_resets']} zone resets, {report['collected_bytes']} bytes "
        f"collected; Linux {report['kernel']}, seed {report['seed']}, {report['seconds']:.0f} s"
    )


def main() -> int:
    """Run the campaign on the rig that is up; 0 when nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, value in asdict(Setup()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build" / "crash" / "zlfs-resets.json"
    )
    arguments = vars(parser.parse_args())
    output = arguments.pop("output")
    rig = Guest(os.environ.get("ZONELAB_RIG", "nvme"), Talk(quiet=True))
    report = Campaign(Setup(**arguments), rig).run(output)
    print(summary(report))  # noqa: T201
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
