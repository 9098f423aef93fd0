#!/usr/bin/env python3
"""``zonemodel media`` of a drive that programs a third more than it is sent, and collects that."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

RECORD = struct.Struct("<QQII")
KINDS = ("written", "discarded", "zeroed")

command, _, _, _, _, *files = sys.argv[1:]
if command != "media":
    sys.exit(2)
model = json.load(sys.stdin)


def play(file: Path, seen: int) -> list[dict[str, Any]]:
    """Return the intervals of a file; ``seen`` is the state of the drive: files before it."""
    head, marks, data = file.read_bytes().split(b"\n", 2)
    assert head == b"zonelab-writes-1"
    names = [*json.loads(marks)["marks"], ""]
    intervals: list[dict[str, Any]] = []
    now = dict.fromkeys(KINDS, 0)
    for _, sector, sectors, kind in [*RECORD.iter_unpack(data), (0, len(names) - 1, 0, len(KINDS))]:
        if kind < len(KINDS):
            now[KINDS[kind]] += sectors * 512
            continue
        collected = now["written"] // 3 + seen
        programmed = now["written"] + collected
        more = {"programmed": programmed, "collected": collected, "erases": 0}
        intervals.append({"mark": names[sector], **now, **more})
        now = dict.fromkeys(KINDS, 0)
    return intervals


found = [play(Path(name), number) for number, name in enumerate(files)]
sys.stdout.write(json.dumps({"schema_version": 1, "model": model["name"], "files": found}))
