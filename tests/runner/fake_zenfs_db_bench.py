#!/usr/bin/env python3
"""A synthetic db_bench with ZenFS inside (it knows zenfs://): linked as ``ROOT/zenfs/db_bench``."""

import json
import os
import sys
from pathlib import Path

program = Path(sys.argv[0])
root = program.parent.parent
flags = dict(arg[2:].split("=", 1) for arg in sys.argv[1:])
if flags["fs_uri"] == "zenfs://probe:x":
    sys.exit("Failed creating env: Invalid argument: Malformed URI: zenfs://probe:x")
with (root / "started").open("a") as log:
    log.write(f"{flags['benchmarks']} of {flags['db']} {os.getpid()}\n")
state = json.loads((root / "zenfs.json").read_text())
if flags["db"] == "cold":
    count = int(flags["num"])
    sys.stderr.write(
        f"... thread 0: ({count},{count}) ops and (1.0,1.0) ops/second in (1.0,1.0) seconds\n"
    )
    state["files"]["/cold/000004.sst"] = count * 8086
    (root / "zenfs.json").write_text(json.dumps(state))
else:
    state["files"]["/db/000001.sst"] = int((root / "database-bytes").read_text())
    (root / "zenfs.json").write_text(json.dumps(state))
    os.environ["FAKE_ROOT"] = str(root)
    # LOG and LOCK go to the auxiliary path, below the database's own.
    fake = Path(__file__).resolve().with_name("fake_db_bench.py")
    log = Path(state["aux"], flags["db"])
    os.execv(sys.executable, [sys.executable, str(fake), *sys.argv[1:], f"--zenfs_aux={log}"])  # noqa: S606
