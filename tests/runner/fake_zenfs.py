#!/usr/bin/env python3
"""A synthetic ZenFS tool: prints captured output, and keeps its files in ``ROOT/zenfs.json``.

``df`` replays four captured outputs of a running database, one line a call.

Linked as ``ROOT/zenfs/zenfs``. ``refuse`` beside the state makes the sub-command it names fail.
"""

import json
import sys
from pathlib import Path

root = Path(sys.argv[0]).parent.parent
captured = Path(__file__).resolve().parents[1] / "fixtures" / "levels" / "zenfs"
store, command = root / "zenfs.json", sys.argv[1]
flags = dict(arg[2:].partition("=")[::2] for arg in sys.argv[2:])
device = root / "dev" / flags["zbd"]
ZONES, CAPACITY, METADATA = 32, 6 * 2**20, 3

if (root / "refuse").exists() and (root / "refuse").read_text() == command:
    sys.stderr.write(f"Failed to open zoned block device: {flags['zbd']}, error: busy\n")
    sys.exit(1)
state = {} if command == "mkfs" else json.loads(store.read_text())
if command == "mkfs":
    Path(flags["aux_path"]).mkdir()  # fails when it is there, as upstream's does
    with device.open("r+b") as node:
        node.seek(8)
        node.write(b"FNEZ")
        node.seek(8 + 4 + 37 + 6 * 4)
        node.write(flags["aux_path"].encode())
    state = {"aux": flags["aux_path"], "files": {}, "flags": sys.argv[2:]}
    store.write_text(json.dumps(state))
    # As the real one: the first metadata zone is finished, almost empty.
    (root / "zones.json").write_text(json.dumps({"0": CAPACITY, "1": 4096}))
    sys.stdout.write((captured / "mkfs.txt").read_text())
elif command == "fs-info":
    sys.stdout.write((captured / "fs-info.txt").read_text())
elif command == "df":
    lines = (captured / "df-live.txt").read_text().splitlines(keepends=True)
    with (root / "df-calls").open("a") as calls:
        sys.stdout.write(lines[calls.tell() % len(lines)])
        calls.write(".")
elif command == "dump":
    used = sum(state["files"].values())
    zone = {"start": 0, "max_capacity": CAPACITY, "wp": 0, "lifetime": 0, "used_capacity": 0}
    zones = [zone | {"capacity": CAPACITY} for _ in range(METADATA, ZONES)]
    for one in zones:
        taken = min(used, CAPACITY)
        one |= {"capacity": CAPACITY - taken, "used_capacity": taken}
        used -= taken
    files = [
        {"id": i, "size": size, "hint": 0, "filename": [name], "extents": []}
        for i, (name, size) in enumerate(state["files"].items())
    ]
    sys.stdout.write(json.dumps({"zones": {"meta": [], "io": zones}, "files": files}))
