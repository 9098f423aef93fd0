"""The rig's witness: what QEMU counted on each drive, told to the guest on request.

QEMU starts ``command`` for each connection of the guest to ADDRESS (``guestfwd`` of its user
network) with the connection as stdin, stdout and stderr. It reads nothing and answers with one line
of JSON, so all that a guest gets through it is these numbers.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import ToolFailed
from harness.rig.qmp import Qmp

# An address of QEMU's user network (10.0.2.0/24) that it does not use itself.
ADDRESS = "10.0.2.9:9"
_ROOT = Path(__file__).resolve().parents[2]


def command(socket: str, drives: Sequence[tuple[str, str, int]]) -> str:
    """Return the command line that QEMU runs; drives are (its id, serial, namespace)."""
    # -I: neither the environment nor the folder it is started in decides what is imported.
    code = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); import {__name__} as w; w.main()"
    words = [f"{drive}={serial}:{nsid}" for drive, serial, nsid in drives]
    return shlex.join([sys.executable, "-I", "-c", code, socket, *words])


def answer(socket: Path, drives: Sequence[str]) -> str:
    """Return the line of JSON; ``drives`` are ``id=serial:namespace``.

    Raises:
        HostError: QEMU does not answer.
        ToolFailed: it counts nothing for one of the drives.
    """
    with Qmp(socket) as qmp:
        stats = qmp.blockstats()
    rows = []
    for word in drives:
        drive, _, name = word.partition("=")
        serial, _, nsid = name.rpartition(":")
        if drive not in stats:
            raise ToolFailed(f"QEMU counts nothing for {drive}")
        rows.append({"serial": serial, "nsid": int(nsid), "wr_bytes": stats[drive].wr_bytes})
    return json.dumps({"drives": rows})


def main() -> None:
    """Answer on stdout, the connection."""
    print(answer(Path(sys.argv[1]), sys.argv[2:]), flush=True)  # noqa: T201
