#!/usr/bin/env python3
"""Prints captured output of db_bench (tests/fixtures/db_bench/9.10), and moves the counters.

With ``--fs_uri`` it does what libzlfs.so would do in it: files on the zones of fake_zlfs.py, LOG
and ledger in the auxiliary directory.

``$FAKE_ROOT/behave.json`` maps a benchmark to a way of going wrong:

- crash, hang, stuck, exit, truncate, enospc, full;
- kernel-error, kernel-error-elsewhere (of another device);
- kernel-overwrites: an error, which the kernel then overwrites;
- elsewhere: bytes go to the conventional device;
- slow: long enough for samples;
- lost-bytes: zlfs' ledger lacks one.
"""

import ctypes
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

STARTED = time.monotonic()
SLOW_SECONDS = 6
# A flush of 1000 B, in the words of RocksDB 9.10; and the options it leaves beside its files.
WHEN = "2026/11/21-10:02:31.000000 42"
LOG = f"""{WHEN} RocksDB version: 9.10.0
{WHEN} EVENT_LOG_v1 {{"time_micros": {time.time_ns() // 1000}, "job": 1, \
"event": "table_file_creation", "file_number": 8, "file_size": 1000}}
{WHEN} [db/x.cc:1] [default] Level summary: base level 6 level multiplier 10.00 max bytes base 9 \
files[1 0 2] max score 0.25, estimated pending compaction bytes 7
"""
OPTIONS = "[Version]\n  rocksdb_version=9.10.0\n"
WRITTEN = 65536 * 512  # by each benchmark, as the kernel counts
READ = 80 * 512  # the same

flags = dict(arg[2:].split("=", 1) for arg in sys.argv[1:])
uri = flags.get("fs_uri", "")
device, _, aux = uri.removeprefix("zlfs://dev:").partition("?aux=") if "zlfs" in uri else ("",) * 3
aux = aux.partition("&trace=")[0]
database = Path(aux, flags["db"])
# A level that is a file system does not name the fake machine: ROOT/run/<run>/mnt/db.
elsewhere = os.environ.get("FAKE_ROOT") or str(database.parents[3])
root = Path(device).parents[1] if device else Path(elsewhere)
database = Path(flags.get("zenfs_aux", database))
benchmark = flags["benchmarks"].removesuffix(",stats")
fixtures = Path(__file__).parents[1] / "fixtures" / "db_bench" / "9.10"
behave = root / "behave.json"
mode = json.loads(behave.read_text()).get(benchmark, "") if behave.exists() else ""

with (root / "started").open("a") as log:
    log.write(f"{benchmark} {os.getpid()}\n")

if "report_file" in flags:
    Path(flags["report_file"]).write_text("secs_elapsed,interval_qps\n1,10000\n2,10000\n")
else:
    for second in (1, 2):
        counts = f"(10000,{second}0000) ops and (10000.0,10000.0) ops/second"
        sys.stderr.write(f"2026/11/21-10:02:3{second}  ... thread 0: {counts}")
        sys.stderr.write(f" in (1.000000,{second}.000000) seconds\n")
database.mkdir(exist_ok=True)
(database / "LOG").write_text(LOG)
size = int((root / "database-bytes").read_text())
if device:
    state = json.loads((root / "zlfs.json").read_text())
    state["files"]["/db/000001.sst"] = size
    state["collected"] += benchmark == "overwrite"
    (root / "zlfs.json").write_text(json.dumps(state))
    # The flush of LOG; the rest of what the counters show below fills up blocks.
    written = {"flush": {"payload": 1000, "pad": WRITTEN - 1000}, "gc": {"payload": 0, "pad": 0}}
    line = {"event": "close", "mounted": time.time_ns() % 10**9, "written": written}
    line |= {"finishes": {"threshold": {"count": 1, "given_up": 4096}}, "resets": {"data": 2}}
    line |= {"retired": [], "benchmark": benchmark}
    if mode == "lost-bytes":
        written["flush"]["payload"] -= 1
    with Path(aux, "ledger.jsonl").open("a") as log:
        log.write(json.dumps(line, separators=(",", ":")) + "\n")
elif benchmark == "fillrandom" and not uri:
    with (database / "000001.sst").open("wb") as file:
        file.truncate(size - len(LOG) - len(OPTIONS))
if not uri:
    (database / "OPTIONS-000007").write_text(OPTIONS)


def quick(match: re.Match[str]) -> str:
    """Return the summary line of a machine that is 100 times as fast, as this program is."""
    seconds = float(match[2]) / 100
    count = int(match[3])
    return (
        f"{match[1]} {1e6 * seconds / count:.3f} micros/op {count / seconds:.0f} ops/sec"
        f" {seconds:.5f} seconds {count} operations;"
    )


SUMMARY = r"(?m)^(\w+ +:) +[\d.]+ micros/op \d+ ops/sec ([\d.]+) seconds (\d+) operations;.*$"
output = re.sub(SUMMARY, quick, (fixtures / f"{benchmark}.out").read_text())
if mode == "stuck":  # as in an uninterruptible wait: it outlives its parent, and SIGTERM
    ctypes.CDLL(None).prctl(1, 0)  # PR_SET_PDEATHSIG
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode in ("hang", "stuck"):
    sys.stdout.write(output[:200])
    sys.stdout.flush()
    with (database / "LOG").open("a") as log:
        log.write("2026/11/21-10:02:40.1 42 [ERROR] [db/db.cc:1] Waiting: Compaction too large\n")
    time.sleep(3600)
if mode == "slow":
    time.sleep(SLOW_SECONDS)
if mode == "crash":
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGSEGV)
if mode == "exit":
    sys.stderr.write("open error: Corruption\n")
    sys.exit(1)
if mode == "full":
    sys.stderr.write("... thread 0: a line of the report\n" * 200_000)  # 7 MB on a slowed drive
    sys.stderr.write("put error: IO error: No space left on device\n")
    sys.exit(1)
if mode == "truncate":
    output = output.split(f"\n{benchmark} ")[0]
if mode == "enospc":
    sys.stderr.write("put error: IO error: No space left on device\n")
if mode == "kernel-error":
    with (root / "kmsg").open("a") as log:
        log.write("3,1,1000000,-;nvme0n2: I/O Error (sct 0x1 / sc 0xbd) MORE\n")
if mode == "kernel-error-elsewhere":
    with (root / "kmsg").open("a") as log:
        log.write("3,1,1000000,-;I/O error, dev sdz, sector 0 op 0x1:(WRITE) flags 0x0\n")
if mode == "kernel-overwrites":
    with (root / "kmsg").open("a") as log:
        log.write("3,1,1000000,-;Oops: 0002 [#1] SMP NOPTI\n")
    size, patience = (root / "kmsg").stat().st_size, time.monotonic() + 20
    while int((root / "kmsg-read").read_text() or 0) < size and time.monotonic() < patience:
        time.sleep(0.01)
    (root / "kmsg").write_text("")
if benchmark == "overwrite" and mode != "no-gc":
    events = root / "gc-events"
    events.write_text(str((int(events.read_text()) if events.exists() else 0) + 5))

lines = (root / "proc" / "diskstats").read_text().splitlines()
baseline = "FAKE_BASELINE" in os.environ
target = 0 if baseline or mode == "elsewhere" else 1
fields = lines[target].split()
fields[5] = str(int(fields[5]) + READ // 512)
fields[9] = str(int(fields[9]) + WRITTEN // 512)
lines[target] = " ".join(fields)
(root / "proc" / "diskstats").write_text("\n".join(lines) + "\n")
if target == 0 and not (root / "untraced").exists():
    with (root / "commands").open("a") as commands:  # as the kernel would trace the write
        commands.write(f"{time.monotonic_ns()} 0 {WRITTEN // 512} 0\n")
if not baseline:
    (root / "zones.json").write_text(json.dumps({"0": 4096, "1": 6 << 20, "2": 1 << 20}))
# On a fast machine this program ends before the time that its output claims.
claimed = [float(seconds) for _, seconds, _ in re.findall(SUMMARY, output)]
time.sleep(max(0.0, STARTED + max(claimed, default=0.0) - time.monotonic()))
sys.stdout.write(output)
sys.stderr.write((fixtures / f"{benchmark}.err").read_text())
