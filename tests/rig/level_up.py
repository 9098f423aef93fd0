"""Runs in the guest: bring one level up, put a little into it, take it down; JSON on stdout.

``python3 level_up.py ZIPAPP LEVEL BYTES ZONED [CONVENTIONAL]``. Everything on the devices is lost.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from harness.levels import LEVELS
from harness.levels.level import Level, LevelContext
from harness.machine.host import Host
from harness.store.spec import Device


def main(name: str, size: str, zoned: str, *conventional: str) -> None:
    """Print the stored bytes of cold data, and the kernel's counts of the zoned device."""
    host, level = Host(), LEVELS[name]
    device = host.device(zoned)
    partner = host.device(conventional[0]) if conventional else None
    node = Path(device.path).name
    before = host.disk_counters([node])[node]
    try:
        stored = _up_and_down(level, device, partner, int(size))
        written = (host.disk_counters([node])[node] - before).write_bytes
    finally:  # as the runner leaves them; the next level must not trip over this one
        for used in (device, partner):
            if used is not None:
                (host.reset_zones if used.zoned else host.wipe)(used)
    sys.stdout.write(json.dumps({"stored": stored, "zoned_written": written}) + "\n")


def _up_and_down(level: Level, device: Device, partner: Device | None, size: int) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        folder.mkdir()
        up = level.up(LevelContext(device, partner, {}, folder, "zl-00000000", _nothing))
        try:
            stored = level.fill_cold(up, size, 1, lambda *_: None)
            level.sync(up)
        finally:
            level.down(up)
    return stored


def _nothing() -> None:
    """Identities are not proved again: the rig is the test's own."""


if __name__ == "__main__":
    main(*sys.argv[2:])
