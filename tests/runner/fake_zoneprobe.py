#!/usr/bin/env python3
"""Prints captured output of zoneprobe (tests/fixtures/zoneprobe), and moves the counters.

``behave`` beside the fake machine names a way of going wrong: exit, truncate, hang, lost-bytes (the
kernel counts more than it reports) or left-over (a zone stays written).
"""

import json
import sys
import time
from pathlib import Path

command = sys.argv[1]
flags = dict(arg[2:].partition("=")[::2] for arg in sys.argv[2:])
device = Path(flags["device"])
root = device.parents[1]
fixtures = Path(__file__).resolve().parents[1] / "fixtures" / "zoneprobe"
behave = root / "behave"
mode = behave.read_text() if behave.exists() else ""
full = 6 << 20

if command == "label":
    with device.open("r+b") as node:
        node.write(b"ZLPROBE1" + flags["label"].encode())
    (root / "zones.json").write_text(json.dumps({"0": full}))
    sys.exit(0)

with (root / "started").open("a") as log:
    log.write(f"{' '.join(sys.argv[1:])}\n")
Path(flags["report_file"]).write_text((fixtures / "probe.report.csv").read_text())
if mode == "hang":
    time.sleep(600)
if mode == "exit":
    sys.exit("zoneprobe: active-limit: nvme0n2, zone 7 (see the kernel's log)")
output = (fixtures / "probe.stdout").read_text()
summary = json.loads(output)
counts = {name: summary[name] for name in ("bytes_written", "finishes", "pad_bytes", "resets")}
with Path(flags["ledger_file"]).open("a") as ledger:
    ledger.write(json.dumps(counts) + "\n")
written = counts["bytes_written"] + (512 if mode == "lost-bytes" else 0)
stats = root / "proc" / "diskstats"
lines = stats.read_text().splitlines()
fields = lines[1].split()
fields[9] = str(int(fields[9]) + written // 512)
stats.write_text("\n".join([lines[0], " ".join(fields)]) + "\n")
if mode == "left-over":
    (root / "zones.json").write_text(json.dumps({"0": full, "5": 4096}))
sys.stdout.write(output[: len(output) // 2] if mode == "truncate" else output)
