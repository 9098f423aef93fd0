#!/usr/bin/env python3
"""Prints captured output of kvmix (tests/fixtures/kvmix), and moves the counters.

``$FAKE_ROOT/behave.json`` maps a phase (fill or mix, or victim.mix of a tenant) to a way of going
wrong: exit, truncate, wrong (a read that was), crash, hang (until a signal stops it).
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

WRITTEN = 32 << 20  # by each phase, as the kernel counts

command, *rest = sys.argv[1:]
flags = dict(arg[2:].split("=", 1) for arg in rest)
root = Path(os.environ["FAKE_ROOT"])
phase = "fill" if flags["use_existing_db"] == "false" else "mix"
fixtures = Path(__file__).resolve().parents[1] / "fixtures" / "kvmix"
behave = root / "behave.json"
name = Path(flags["report_file"]).name.removesuffix(".report.csv")
modes = json.loads(behave.read_text()) if behave.exists() else {}
mode = modes.get(name, modes.get(phase, ""))
with (root / "started").open("a") as log:
    log.write(f"{command} {phase} {flags['seed']} {flags['key_seed']}\n")

if "wait_for" in flags:
    sys.stderr.write("kvmix: ready\n")
    sys.stderr.flush()
    while not Path(flags["wait_for"]).exists():
        time.sleep(0.01)
    with (root / "released").open("a") as log:
        log.write(f"{name} {time.monotonic()}\n")
if mode == "hang":
    time.sleep(60)

Path(flags["report_file"]).write_text((fixtures / f"{phase}.report.csv").read_text())
database = Path(flags["db"])
database.mkdir(exist_ok=True)
(database / "LOG").write_text("2026/11/21-10:02:31.000000 42 RocksDB version: 9.10.0\n")
if phase == "fill":
    with (database / "000001.sst").open("wb") as file:
        file.truncate(
            int((root / "database-bytes").read_text()) - (database / "LOG").stat().st_size
        )

lines = (root / "proc" / "diskstats").read_text().splitlines()
fields = lines[1].split()
fields[9] = str(int(fields[9]) + WRITTEN // 512)
lines[1] = " ".join(fields)
new = root / "proc" / f"diskstats.{os.getpid()}"  # tenants do this at the same time
new.write_text("\n".join(lines) + "\n")
new.replace(root / "proc" / "diskstats")
(root / "zones.json").write_text(json.dumps({"0": 4096, "1": 6 << 20, "2": 1 << 20}))

if mode == "exit":
    sys.exit("kvmix: insert: IO error: No space left on device")
if mode == "crash":
    os.kill(os.getpid(), signal.SIGSEGV)
output = (fixtures / f"{phase}.out").read_text()
if mode == "truncate":
    output = output[: len(output) // 2]
if mode == "wrong":
    summary = json.loads(output)
    summary["verified"]["wrong"] = 2
    output = json.dumps(summary)
sys.stdout.write(output)
sys.stdout.flush()
if mode == "wrong":
    sys.exit("kvmix: verification: key 7 is missing")
