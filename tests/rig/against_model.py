"""Requests of fio on the timed rig, against the same requests in the model's virtual time.

By hand: ``zonelab rig exec timed-1 -- .venv/bin/python -m tests.rig.against_model [--depths]
[--zones]`` prints a table, with ``--zones`` also of resets and finishes. ``--appends`` adds zone
appends on ``timed-nvme``. ``--overhead 0us`` serves a drive with another overhead.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from harness.plan.drive_files import load_model
from harness.rig import guest, loop_target, state
from harness.rig.model import load as load_rig

from . import plays, zone_times
from .conftest import RigHandle
from .in_model import MODEL, play

KIB = 1 << 10
ZONE = 4 << 20
# Written before the reads, and read back. The writes use the zones behind them.
READ_ZONES = (0, 32)
WRITE_ZONES = (32, 160)
COMMANDS = 4096
# The 99th percentile of 4,096 writes of 128 KiB, which meet a full buffer, differs by 8 % from seed
# to seed.
SEEDS = range(1, 9)
PASSES = 4
ZIPAPP, APPENDS_SCRIPT = "/root/appends.pyz", "/root/guest_appends.py"
# Largest errors of the mean, of the 99th percentile, and of bytes per second.
WITHIN = (0.03, 0.10, 0.02)
SIZES = (4 * KIB, 16 * KIB, 128 * KIB)
_STATUS = """
import socket
client = socket.socket(socket.AF_UNIX)
client.connect("/run/zoneblk/{}")
print(client.makefile().read())
"""
_FIO = (
    "fio --output-format=json --direct=1 --zonemode=zbd --group_reporting --allow_mounted_write=0"
)


@dataclass(frozen=True)
class Case:
    """Requests of one kind and size, ``depth`` at once.

    Writes go to as many zones, appends to one.
    """

    operation: str
    size: int
    depth: int = 1

    @property
    def commands(self) -> int:
        """Commands of each of the ``depth`` clients."""
        if self.operation == "append":
            most = (WRITE_ZONES[1] - WRITE_ZONES[0]) * ZONE // self.size // self.depth
            return min(COMMANDS, most)
        commands = min(COMMANDS, (64 << 20) // self.size)
        return commands if self.depth <= 8 else commands // 4

    @property
    def name(self) -> str:
        return f"{self.operation}-{self.size // KIB}k-{self.depth}"


@dataclass(frozen=True)
class Latency:
    """Times in microseconds of the model, and bytes per second."""

    mean: float
    p99: float
    bandwidth: float


CASES = tuple(Case(operation, size) for operation in ("read", "write") for size in SIZES)
DEPTHS = tuple(
    Case(operation, size, depth)
    for operation in ("read", "write")
    for size in SIZES
    for depth in (8, 32)
    if operation == "read" or depth == 8  # a drive has 14 open zones
)
APPENDS = tuple(Case("append", size, depth) for depth in (1, 8) for size in SIZES)


@cache
def nominal(case: Case) -> Latency:
    """Return the latency that the model has for requests, by ``zonemodel``: means of seeds."""
    zones = list(READ_ZONES if case.operation == "read" else WRITE_ZONES)
    active = 1 if case.operation == "append" else case.depth
    client = {
        "name": "client",
        "mix": {case.operation: 1},
        "size": f"{case.size}B",
        "depth": case.depth,
        "zones": zones,
        "commands": case.commands * case.depth,
        **({} if case.operation == "read" else {"active": active, "at_full": "next"}),
    }
    prepare = [{"zones": list(READ_ZONES), "fill_pct": 100}]
    found = [
        play(case.name, seed=seed, prepare=prepare, clients=[client])[case.operation]
        for seed in SEEDS
    ]
    ns, p99, rate = (
        mean(one[name] for one in found) for name in ("mean_ns", "p99_ns", "mib_per_second")
    )
    return Latency(ns / 1000, p99 / 1000, rate * 2**20)


def measured(rig: str, device: str, cases: Sequence[Case], dilation: int) -> dict[Case, Latency]:
    """Return the latency that the guest measures, by fio or for appends by ``guest_appends``.

    It is on the clock of the model. Appends need ``install_appends`` and an NVMe namespace.
    """
    prepare = (
        f"blkzone reset {device}; {_FIO} --name=fill --filename={device} --rw=write --bs=128k"
        f" --offset={READ_ZONES[0]}z --size={READ_ZONES[1]}z > /dev/null && sleep 5"
    )
    guest.run(rig, prepare, timeout=600)
    return {case: _one(rig, device, case, dilation) for case in cases}


def install_appends(rig: RigHandle, folder: Path) -> None:
    """Copy the client of appends into the guest, by way of a folder of this host."""
    plays.install(rig, folder, ZIPAPP)
    plays.copy(rig, Path(__file__).with_name("guest_appends.py"), APPENDS_SCRIPT)


def _appended(rig: str, device: str, case: Case, dilation: int) -> Latency:
    reset = f"blkzone reset -o {WRITE_ZONES[0] * ZONE // 512} {device}"
    load = (
        f"--first={WRITE_ZONES[0]} --zone={ZONE} --size={case.size} --commands={case.commands}"
        f" --clients={case.depth}"
    )
    # As before fio, the drive programs what the case before has written.
    command = f"{reset} && sleep 5 && PYTHONPATH={ZIPAPP} python3 {APPENDS_SCRIPT} {device} {load}"
    passes = PASSES if case.size == max(SIZES) else 1
    found = [json.loads(guest.run(rig, command, timeout=600).stdout) for _ in range(passes)]
    ns, p99, rate = (
        mean(one[name] for one in found) for name in ("mean_ns", "p99_ns", "bytes_per_second")
    )
    return Latency(ns / 1000 / dilation, p99 / 1000 / dilation, rate * dilation)


def _one(rig: str, device: str, case: Case, dilation: int) -> Latency:
    if case.operation == "append":
        return _appended(rig, device, case, dilation)
    count = f"--bs={case.size} --number_ios={case.commands}"
    if case.operation == "read":
        engine = "psync" if case.depth == 1 else "io_uring"
        where = f"--rw=randread --norandommap --offset=0 --size={READ_ZONES[1]}z"
        count = f"--bs={case.size} --number_ios={case.commands * case.depth}"
        load = f"--ioengine={engine} --iodepth={case.depth} {where}"
    else:
        # One client for each zone, as fio keeps one write of a zone under way.
        guest.run(rig, f"blkzone reset -o {WRITE_ZONES[0] * ZONE // 512} {device}")
        each = (WRITE_ZONES[1] - WRITE_ZONES[0]) // case.depth
        load = (
            f"--ioengine=psync --rw=write --numjobs={case.depth}"
            f" --offset={WRITE_ZONES[0]}z --offset_increment={each}z --size={each}z"
        )
    command = f"{_FIO} --name={case.name} --filename={device} {load} {count}"
    # The drive programs what the case before has written.
    done = guest.run(rig, f"sleep 5; {command}", timeout=600)
    found = json.loads(done.stdout)["jobs"][0][case.operation]
    clat, scale = found["clat_ns"], 1000 * dilation
    return Latency(
        clat["mean"] / scale, clat["percentile"]["99.000000"] / scale, found["bw_bytes"] * dilation
    )


def served(rig: str, overhead: str, dilation: int) -> str:
    """Serve one more drive of the model, with another overhead; return its path."""
    unit = f"zoneblk-{overhead}-{dilation}"
    options = ["--dilation", str(dilation), "--overhead", overhead]
    command = guest.serving(load_model(MODEL), unit, options)
    return "/dev/" + guest.run(rig, command).stdout.split()[-1]


def through_target(rig: str, device: str) -> str:
    """Export a served device through the kernel's NVMe target; return the namespace's path."""
    up = loop_target.up(status(rig, device)["uuid"], Path(device).name)
    return "/dev/" + guest.run(rig, up).stdout.split()[-1]


def status(rig: str, device: str) -> dict[str, Any]:
    """Return the report of a served device's server."""
    text = guest.run(rig, f"python3 -c '{_STATUS.format(Path(device).name)}'").stdout
    found: dict[str, Any] = json.loads(text)
    return found


def median_lateness(rig: str, device: str) -> float:
    """Return how late half of a served device's completions were at least, in us of the guest."""
    return float(status(rig, device)["lateness"]["p50_ns"]) / 1000


def errors(found: Latency, model: Latency) -> tuple[float, float, float]:
    """Return the errors of mean, p99 and bandwidth as shares."""
    return (
        found.mean / model.mean - 1,
        found.p99 / model.p99 - 1,
        found.bandwidth / model.bandwidth - 1,
    )


def beyond(
    rig: str, device: str, cases: Sequence[Case], dilation: int
) -> dict[str, tuple[float, float, float]]:
    """Return the errors of those cases of which one is larger than ``WITHIN`` allows."""
    found = {
        case.name: errors(one, nominal(case))
        for case, one in measured(rig, device, cases, dilation).items()
    }
    return {
        name: shares
        for name, shares in found.items()
        if any(abs(share) > most for share, most in zip(shares, WITHIN, strict=True))
    }


def left_over(rig: str, device: str, cases: Sequence[Case], dilation: int) -> dict[Case, float]:
    """Return how much longer in % a request takes on average than in the model."""
    found = measured(rig, device, cases, dilation)
    return {case: 100 * errors(one, nominal(case))[0] for case, one in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--overhead")
    parser.add_argument("--dilation", type=int, default=256)
    parser.add_argument("--depths", action="store_true")
    parser.add_argument("--zones", action="store_true")
    parser.add_argument("--appends", action="store_true")
    arguments = parser.parse_args()
    rig = os.environ["ZONELAB_RIG"]
    device = next(one.path for one in state.require(rig).devices if one.zoned)
    if arguments.overhead:
        device = served(rig, arguments.overhead, arguments.dilation)
    cases = CASES + (DEPTHS if arguments.depths else ())
    if arguments.appends:
        device = device if "nvme" in device else through_target(rig, device)
        cases += APPENDS
        with tempfile.TemporaryDirectory(prefix="zonelab-appends-") as folder:
            install_appends(RigHandle(load_rig(rig), state.require(rig)), Path(folder))
    lines = [["case", "model us", "rig us", "model p99", "rig p99", "mean", "p99", "bytes/s"]]
    for case, one in measured(rig, device, cases, arguments.dilation).items():
        known = nominal(case)
        shares = (f"{error:+.1%}" for error in errors(one, known))
        times = (known.mean, one.mean, known.p99, one.p99)
        lines.append([case.name, *(f"{value:.2f}" for value in times), *shares])
    if arguments.zones:
        for zone, us in zone_times.measured(rig, device, arguments.dilation).items():
            nominal_us = zone_times.nominal(zone)
            share = f"{us / nominal_us - 1:+.1%}"
            lines.append([zone.name, f"{nominal_us:.2f}", f"{us:.2f}", "", "", share])
    for line in lines:
        print("".join(f"{text:>14}" for text in line), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
