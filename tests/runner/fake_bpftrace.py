#!/usr/bin/env python3
"""A synthetic bpftrace: on SIGUSR1 it reports commands that match the fake counters.

Linked as ``ROOT/bin/bpftrace``. ``ROOT/trace-mode`` is a way of going wrong: ``refuse`` (does not
attach), ``die`` (ends behind the second answer), ``lose`` (loses lines), ``short`` (misses bytes);
with ``conventional`` all is written to the second device, which has no zones.
"""

import json
import signal
import sys
from pathlib import Path

root = Path(sys.argv[0]).parents[1]
mode = (root / "trace-mode").read_text() if (root / "trace-mode").exists() else ""
MIB = 1 << 20
FINISH, RESET = 0x79 | 2 << 8, 0x79 | 4 << 8
answers = reported = 0


def say(kind: str, data: object) -> None:
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")
    sys.stdout.flush()


def answer(*_: object) -> None:
    global answers, reported  # noqa: PLW0603 - a script
    answers += 1
    if mode == "die" and answers > 2:
        sys.exit(0)
    say("printf", "snapshot\n")
    if mode == "conventional":
        fields = (root / "proc/diskstats").read_text().splitlines()[0].split()
        say("map", {"@commands": {"2,1,0": int(fields[7])}})
        say("map", {"@bytes": {"2,1,0": int(fields[9]) * 512}})
    elif answers > 1:  # before the run there was nothing
        fields = (root / "proc/diskstats").read_text().splitlines()[1].split()
        writes, written = int(fields[7]), int(fields[9]) * 512
        if mode == "short" and answers > 2:
            written -= 4096 * answers
        if mode == "lose" and answers > 2:
            say("lost_events", {"events": 3})
        commands = {"1,1,0": writes - 2, f"1,{FINISH},0": 1, f"1,{RESET},0": 1}
        say("map", {"@commands": commands})
        say("map", {"@bytes": {"1,1,0": written}})
        zones = {"1,0,0,0,1": MIB, "1,1,0,0,1": written - MIB}
        say("map", {"@zones": zones if answers == 2 else {"1,1,0,0,1": written - reported}})
        reported = written
    if answers == 2 and mode != "conventional":
        finish = [1, FINISH, 0, 0, 250000, 0, "rocksdb:low"]
        reset = [1, RESET, 0, 0, 50000, 0, "db_bench"]
        say("map", {"@changes": {"2000000000,0,0": reset, "1000000000,0,0": finish}})
    say("printf", "end\n")


if mode == "refuse":
    sys.exit("ERROR: no such probe")
signal.signal(signal.SIGUSR1, answer)
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
say("attached_probes", {"probes": 5})
say("printf", "ready\n")
while True:
    signal.pause()
