"""Compares the stored kernel log with the run: times, mounts, and names of devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from harness.levels.level import Level
from harness.observe import kmsg
from harness.store.result import MEASURED, Result

FILE = "raw/kernel.log"
_MISSING = "kernel-log-missing"
_TIME = re.compile(r"^\s*(\d+\.\d+) ", re.MULTILINE)
# The log is opened right before the run begins and read right after its end.
_SLACK = 10.0
# Processors stamp their own messages, which can be stored in another order.
_DISORDER = 1.0


def differences(log: str, level: Level | None, result: Result) -> Iterator[str]:
    """Yield one line per contradiction; none if the log could not be read."""
    if any(issue.code == _MISSING for issue in result.issues):
        return
    times = [float(t) for t in _TIME.findall(log)]
    if any(late < early - _DISORDER for early, late in pairwise(times)):
        yield f"{FILE}: its times fall"
    if times and max(times) - min(times) > result.seconds + _SLACK:
        yield (
            f"{FILE}: spans {max(times) - min(times):.0f} s, the run took {result.seconds:.0f} s"
        )
    mounted = level.kernel_mounted if level else ""
    if result.status in MEASURED and mounted and not re.search(mounted, log):
        yield f"{FILE}: has no line {mounted!r}, the kernel logs each mount of {result.level}"
    yield from _devices(log, result)


def _devices(log: str, result: Result) -> Iterator[str]:
    """Check that the last line names every device of the manifest.

    The line decides for which devices I/O errors count. Without it, every error counts.
    """
    named = kmsg.parse(log).devices
    if named is None:
        return
    host = result.manifest.get("host") or {}
    for device in host.get("devices") or ():
        own = {Path(device["path"]).name, *device.get("queue", ())}
        for name in sorted(own - named):
            yield f"{FILE}: its last line does not name {name}, a device of the run"
