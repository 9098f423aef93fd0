#!/usr/bin/env python3
"""Prints captured output of fio (tests/fixtures/fio), and moves the counters of its device.

``behave`` beside the fake machine names a way of going wrong in the phase ``randwrite``.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

fixtures = Path(__file__).resolve().parents[1] / "fixtures" / "fio"
if sys.argv[1:] == ["--version"]:
    release = Path(sys.argv[0]).parent / "release"
    sys.stdout.write(release.read_text() if release.exists() else "fio-3.33")
    sys.exit(0)

options = dict(arg[2:].partition("=")[::2] for arg in sys.argv[1:])
device = Path(options["filename"])
root = device.parents[1]
behave = root / "behave"
mode = behave.read_text() if behave.exists() and options["rw"] == "randwrite" else ""
with (root / "started").open("a") as log:
    log.write(f"{' '.join(sys.argv[1:])}\n")
if mode == "hang":
    time.sleep(600)
if mode == "results-full":  # the next file that the runner writes is on a full disk
    (partial,) = (root / "state" / "campaigns" / "c" / "runs").glob(".*.partial")
    (partial / "raw" / f"{options['rw']}.process.json").symlink_to("/dev/full")
if mode == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if mode == "option":
    sys.stderr.write((fixtures / "option.err").read_text())
    sys.exit(1)
if mode in ("full", "error"):
    text = (fixtures / "full.json").read_text()
    words = (fixtures / "full.err").read_text()
    if mode == "error":
        text = text.replace('"error" : 28', '"error" : 5').replace("err=28", "err= 5")
        text, words = (
            one.replace("No space left on device", "Input/output error") for one in (text, words)
        )
    sys.stdout.write(text)
    sys.stderr.write(words)
    sys.exit(1)

captured = "clients" if "--name=mixed" in sys.argv else options["rw"]
output = json.loads((fixtures / f"{captured}.json").read_text())
job = output["jobs"][0]
counts = {
    way: tuple(sum(one[way][name] for one in output["jobs"]) for name in ("total_ios", "io_bytes"))
    for way in ("read", "write")
}
if mode == "kind":
    job["read"]["total_ios"] = 1
if mode == "short":
    job["write"]["short_ios"] = 2
if mode == "clat":
    del job["write"]["lat_ns"]["bins"]
if mode == "early":
    job["write"]["total_ios"] //= 2
    job["write"]["io_bytes"] //= 2
    for kind in ("lat_ns", "clat_ns"):
        half = job["write"]["total_ios"]
        job["write"][kind]["N"], job["write"][kind]["bins"] = half, {"44800": half}
    counts["write"] = (counts["write"][0] // 2, counts["write"][1] // 2)
if mode == "old":
    output["fio version"] = "fio-3.29"
stats = root / "proc" / "diskstats"
lines = stats.read_text().splitlines()
number = int(device.name[-1]) - 1
fields = lines[number].split()
merged = 3 if options["rw"] == "randwrite" else 0  # the kernel may merge
extra = mode.removeprefix("lost-") if mode.startswith("lost-") else ""  # by the kernel's count
for at, way, joined in ((3, "read", 0), (7, "write", merged)):
    commands, size = counts[way]
    fields[at] = str(int(fields[at]) + commands - joined + (extra == f"{way}-command"))
    fields[at + 1] = str(int(fields[at + 1]) + joined)
    fields[at + 2] = str(int(fields[at + 2]) + size // 512 + (extra == f"{way}-bytes"))
lines[number] = " ".join(fields)
stats.write_text("\n".join(lines) + "\n")
text = json.dumps(output)
sys.stdout.write(text[: len(text) // 2] if mode == "truncate" else text)
