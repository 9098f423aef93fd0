"""Zone appends by NVMe passthrough, timed by the guest's monotonic clock.

The guest runs this file with the runner's zipapp in PYTHONPATH; it prints JSON. fio sends no zone
appends through passthrough.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import gc
import json
import mmap
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

from harness.observe import nvme_ioctl
from harness.store.files import descriptor

_ZONE_APPEND = 0x7D  # NVMe Zoned Namespace Command Set


@dataclass(frozen=True)
class Load:
    """Appends of ``clients`` processes, each with one under way; all append to one zone at a time.

    ``commands`` are of each client. Sizes are in bytes, ``first`` is a zone, ``block`` the bytes
    of a logical block.
    """

    first: int
    zone: int
    size: int
    commands: int
    clients: int
    block: int

    def starts(self) -> Iterator[int]:
        """Yield the first block of the zone of each command of a client."""
        each = self.zone // self.size // self.clients
        for command in range(self.commands):
            yield (self.first + command // each) * (self.zone // self.block)

    def places(self) -> list[int]:
        """Return the blocks at which the drive must have placed the appends, sorted."""
        appends = Counter(self.starts())
        step = self.size // self.block
        return [
            start + append * step
            for start, count in sorted(appends.items())
            for append in range(count * self.clients)
        ]


@dataclass(frozen=True)
class Sent:
    """When a client's appends began and ended, in ns, and the blocks where they are."""

    times: list[tuple[int, int]]
    places: list[int]


def client(device: Path, load: Load, together: Barrier) -> Sent:
    """Send the appends of one client.

    Raises:
        OSError: the kernel or the drive refuses one.
    """
    nsid = nvme_ioctl.namespace_of(device)
    with mmap.mmap(-1, load.size) as data:
        data.write(os.urandom(load.size))
        address = ctypes.addressof(ctypes.c_char.from_buffer(data))
        commands = [
            nvme_ioctl.packed(
                opcode=_ZONE_APPEND,
                nsid=nsid,
                address=address,
                size=load.size,
                words=(start, 0, load.size // load.block - 1),
            )
            for start in load.starts()
        ]
        with descriptor(device, os.O_RDONLY) as fd:  # no writer closes, so nothing reads zones
            together.wait()
            times = _timed(fd, commands)
    return Sent(times, [int.from_bytes(command[-4:], "little") for command in commands])


def _timed(fd: int, commands: Sequence[bytearray]) -> list[tuple[int, int]]:
    now, send = time.monotonic_ns, fcntl.ioctl
    times = []
    gc.disable()
    for command in commands:
        begin = now()
        status = send(fd, nvme_ioctl.IO_COMMAND, command)
        times.append((begin, now()))
        if status:
            raise OSError(f"append {len(times)}: NVMe status {status:#x}")
    return times


def run(device: Path, load: Load) -> dict[str, float]:
    """Return mean and 99th percentile of the latencies in ns, and bytes per second.

    Raises:
        OSError: an append fails.
        ValueError: an append lies where another one or none should be.
    """
    context = multiprocessing.get_context("fork")
    together = context.Barrier(load.clients)
    parts = [context.Pipe(duplex=False) for _ in range(load.clients)]

    def work(part: int) -> None:
        parts[part][1].send(client(device, load, together))

    processes = [context.Process(target=work, args=(part,)) for part in range(load.clients)]
    for process in processes:
        process.start()
    for _, sender in parts:
        sender.close()  # so that a client that fails is the end of its pipe
    sent = [receiver.recv() for receiver, _ in parts]
    for process in processes:
        process.join()
    return summary(load, sent)


def summary(load: Load, sent: Sequence[Sent]) -> dict[str, float]:
    """Return what ``run`` returns."""
    if sorted(place for one in sent for place in one.places) != load.places():
        raise ValueError("the appends do not lie side by side in their zones")
    times = [pair for one in sent for pair in one.times]
    latencies = sorted(end - begin for begin, end in times)
    count = len(latencies)
    seconds = (max(end for _, end in times) - min(begin for begin, _ in times)) / 1e9
    return {
        "mean_ns": sum(latencies) / count,
        "p99_ns": latencies[-(-count * 99 // 100) - 1],
        "bytes_per_second": count * load.size / seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("device", type=Path)
    for name in ("first", "zone", "size", "commands", "clients"):
        parser.add_argument(f"--{name}", type=int, required=True)
    arguments = vars(parser.parse_args())
    device = arguments.pop("device")
    queue = Path("/sys/class/block", device.name, "queue")
    block = int((queue / "logical_block_size").read_text())
    print(json.dumps(run(device, Load(**arguments, block=block))))  # noqa: T201


if __name__ == "__main__":
    main()
