"""Zone commands that the guest's kernel sent to a namespace, from its own trace.

QEMU counts neither zone management nor the flushes of an NVMe drive; the driver's tracepoint
``nvme:nvme_setup_cmd`` shows each command that is handed to the drive (Linux 5.12 and newer).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from harness.rig.state import GuestDevice

from .conftest import RigHandle

_TRACING = "/sys/kernel/tracing"
_INSTANCE = f"{_TRACING}/instances/zonelab"
_EVENT = f"{_INSTANCE}/events/nvme/nvme_setup_cmd"
_BUFFER_KB = 8192  # per processor; a line takes about 100 B

# NVM Command Set: flush is opcode 0 (as an admin command, queue 0, it is another one). Zoned
# Namespace Command Set: zone management send is 0x79, its action is the first byte of dword 13.
_FILTER = "nsid == {nsid} && qid != 0 && (opcode == 0 || opcode == 0x79)"
_ACTIONS = {1: "close", 2: "finish", 3: "open", 4: "reset"}

# "# entries-in-buffer/entries-written: 12/12   #P:2"
_HEADER = re.compile(r"^# entries-in-buffer/entries-written: (\d+)/(\d+)\s", re.MULTILINE)
# "…: nvme_setup_cmd: nvme0: disk=nvme0n3, qid=2, cmdid=4096, nsid=3, flags=0x0, meta=0x0,
#  cmd=(nvme_cmd_zone_mgmt_send slba=2048, zsa=4, all=0)"
_LINE = re.compile(r"nvme_setup_cmd: .* nsid=(\d+), .*cmd=\((nvme_cmd_\w+) (.*)\)$", re.MULTILINE)
_SEND = re.compile(r"\bzsa=(\d+)\b.*\ball=([01])\b")


@contextmanager
def counted(rig: RigHandle, device: GuestDevice) -> Iterator[dict[str, int]]:
    """Count commands while the block runs; the mapping is filled when it ends.

    Keys are ``flush``, ``close``, ``finish``, ``open`` and ``reset``, each 0 when none was sent.
    """
    rig.ssh(
        f"mountpoint -q {_TRACING} || mount -t tracefs tracefs {_TRACING};"
        f" rmdir {_INSTANCE} 2>/dev/null; set -e; mkdir {_INSTANCE};"
        f" echo {_BUFFER_KB} > {_INSTANCE}/buffer_size_kb;"
        f" echo '{_FILTER.format(nsid=device.nsid)}' > {_EVENT}/filter;"
        f" echo 1 > {_EVENT}/enable"
    )
    found: dict[str, int] = {}
    try:
        yield found
        found |= parse(rig.ssh(f"echo 0 > {_EVENT}/enable; cat {_INSTANCE}/trace").stdout)
    finally:
        rig.ssh(f"echo 0 > {_EVENT}/enable; rmdir {_INSTANCE}", check=False)


def parse(trace: str) -> Mapping[str, int]:
    """Count the commands of a trace; AssertionError when it is not whole or has other commands."""
    header = _HEADER.search(trace)
    assert header, trace[:500]
    lines = _LINE.findall(trace)
    assert int(header[1]) == int(header[2]) == len(lines), header[0]
    counts = Counter(dict.fromkeys(("flush", *_ACTIONS.values()), 0))
    for _, command, arguments in lines:
        if command == "nvme_cmd_flush":
            counts["flush"] += 1
            continue
        send = _SEND.search(arguments)
        assert command == "nvme_cmd_zone_mgmt_send", command
        assert send, arguments
        assert send[2] == "0", f"all zones at once: {arguments}"
        counts[_ACTIONS[int(send[1])]] += 1
    return counts
