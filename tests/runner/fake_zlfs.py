#!/usr/bin/env python3
"""A synthetic zlfs: prints what docs/zlfs.md promises, and keeps its state beside the fake device.

``zlfs.json`` has the files by name. ``refuse`` beside it makes the sub-command it names fail.
"""

import json
import sys
from pathlib import Path

command = sys.argv[1]
flags = dict(arg[2:].partition("=")[::2] for arg in sys.argv[2:])
device = Path(flags["device"])
root = device.parents[1]
store = root / "zlfs.json"
refuse = root / "refuse"

ZONE = 6 * 2**20
CAPACITY = 16 * ZONE
BLOCK = 4096


READ, WRITTEN = 5, 9  # fields of /proc/diskstats
METADATA_READ = 3 * BLOCK  # by each sub-command that only looks


def count(size: int, field: int = WRITTEN) -> None:
    """Let the kernel count bytes written to the device, or read from it."""
    stats = root / "proc" / "diskstats"
    lines = stats.read_text().splitlines()
    fields = lines[1].split()
    fields[field] = str(int(fields[field]) + size // 512)
    stats.write_text("\n".join([lines[0], " ".join(fields)]) + "\n")


def lay_out(size: int) -> None:
    """Put the files' content into the zones after the metadata, in order."""
    written = {"0": BLOCK}
    for zone in range(3, 16):
        part = min(size, ZONE)
        written |= {str(zone): part} if part else {}
        size -= part
    (root / "zones.json").write_text(json.dumps(written))


if refuse.exists() and refuse.read_text() == command:
    sys.stderr.write(f"zlfs: {device} is opened by another program\nhint: lsof {device}\n")
    sys.exit(3)
if command in ("df", "list", "fsck"):
    count(METADATA_READ, READ)
# A kill may have torn what was there before mkfs.
fresh = {"files": {}, "collected": 0, "flags": sys.argv[2:]}
state = fresh if command == "mkfs" else json.loads(store.read_text())
if command == "mkfs":
    with device.open("r+b") as node:
        node.write(b"ZLFSSB01")
        node.seek(int((root / "label-offset").read_text()))
        node.write(flags["label"].encode())
elif command == "import":
    state["files"][flags["name"]] = size = int(flags["size"])
    line = {"event": "close", "mounted": 1, "written": {"import": {"payload": size, "pad": 0}}}
    line |= {"finishes": {}, "resets": {}, "retired": []}
    with Path(flags["aux"], "ledger.jsonl").open("a") as log:
        log.write(json.dumps(line, separators=(",", ":")) + "\n")
    count(size)
    sys.stderr.write(f"{size // 2}\n{size}\n")
    sys.stdout.write(json.dumps({"name": flags["name"], "bytes": size}) + "\n")
elif command == "list":
    files = [{"name": name, "size": size} for name, size in state["files"].items()]
    sys.stdout.write(json.dumps({"schema_version": 1, "files": files}))
elif command == "df":
    live = sum(state["files"].values())
    counts = dict.fromkeys(
        ("garbage_bytes", "pad_bytes", "finishes", "resets", "zones_full", "zones_active"), 0
    )
    counts |= {"block_size": BLOCK, "zone_size": 8 * 2**20, "zone_capacity": 6 * 2**20}
    counts |= {"zones": 16, "capacity_bytes": CAPACITY, "free_bytes": CAPACITY * 95 // 100 - live}
    counts |= {"live_bytes": live, "metadata_bytes": BLOCK, "reserve_bytes": 0, "max_active": 14}
    counts |= {"files": len(state["files"]), "zones_empty": 15}
    counts |= {"finish_remaining_pct": 0, "finish_occupancy_pct": 100}
    gc = {"copied_bytes": state["collected"] * BLOCK, "zones_reclaimed": state["collected"]}
    words = {"schema_version": 1, "identity": "eui.5254000000000002", "label": "zl-1"}
    sys.stdout.write(json.dumps({**words, **counts, "gc": gc}))
elif command == "fsck":
    violation = root / "violation"
    broken = [{"invariant": 5, "what": violation.read_text()}] if violation.exists() else []
    sys.stdout.write(json.dumps({"schema_version": 1, "violations": broken}))
store.write_text(json.dumps(state))
lay_out(sum(state["files"].values()))
