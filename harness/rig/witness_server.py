"""The rig's witness: sends QEMU's counters of each drive to the guest on request.

QEMU starts ``command`` for each connection of the guest to ADDRESS (``guestfwd`` of its user
network), with the connection as stdin, stdout and stderr. It reads nothing and answers with one
line of JSON: a guest gets nothing but these numbers.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import ToolFailed
from harness.rig.qmp import Qmp

# An address of QEMU's user network (10.0.2.0/24) that QEMU does not use itself.
ADDRESS = "10.0.2.9:9"
_ROOT = Path(__file__).resolve().parents[2]


def command(socket: str, drives: Sequence[tuple[str, str, int]]) -> str:
    """Return the command line for QEMU; drives are (drive id, serial, namespace)."""
    # -I: environment and working folder do not affect imports.
    code = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); import {__name__} as w; w.main()"
    words = [f"{drive}={serial}:{nsid}" for drive, serial, nsid in drives]
    return shlex.join([sys.executable, "-I", "-c", code, socket, *words])


def answer(socket: Path, drives: Sequence[str]) -> str:
    """Return the line of JSON; ``drives`` are ``id=serial:namespace``.

    Raises:
        HostError: QEMU does not answer.
        ToolFailed: QEMU has no counters of one of the drives.
    """
    with Qmp(socket) as qmp:
        stats = qmp.blockstats()
    rows = []
    for word in drives:
        drive, _, name = word.partition("=")
        serial, _, nsid = name.rpartition(":")
        if drive not in stats:
            raise ToolFailed(f"QEMU has no counters for {drive}")
        counts = {"wr_bytes": stats[drive].wr_bytes, "rd_bytes": stats[drive].rd_bytes}
        rows.append({"serial": serial, "nsid": int(nsid), **counts})
    return json.dumps({"drives": rows})


def main() -> None:
    """Answer on stdout, the connection."""
    print(answer(Path(sys.argv[1]), sys.argv[2:]), flush=True)  # noqa: T201
