"""The bpftrace program that counts commands inside the kernel.

It counts a command when its request completes, at ``block_rq_complete``. All it needs is in the
request: the NVMe command, or the operation and the sector of another driver. When the driver gets a
zone command, the program records the time and the thread.

Reads are not traced: the kernel counts them, and a fast drive has too many.

The probes are *raw* tracepoints. A program on an ordinary tracepoint is skipped while another one
runs on the same processor, which lost 73 of 41,888 completions (docs/decisions.md). The kernel
skips a raw one only when it interrupts itself, so each probe is loaded twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# NVM and Zoned Namespace Command Sets. Operations of other drivers are mapped to these numbers.
FLUSH, WRITE, READ, WRITE_ZEROES, DSM = 0x00, 0x01, 0x02, 0x08, 0x09
ZONE_SEND, ZONE_RECEIVE, ZONE_APPEND = 0x79, 0x7A, 0x7D
CLOSE, FINISH, OPEN, RESET, OFFLINE = 1, 2, 3, 4, 5  # Zone Send Action, the first byte of dword 13
# Transitions without a zone management command: the first and the last write of a zone.
FIRST, LAST = 0x11, 0x12

# Layout of the number that stands for a command in the maps.
ACTION_SHIFT, ALL_BIT = 8, 16

# (enum req_op, command) for drivers other than NVMe.
_REQUESTS = (
    ("REQ_OP_WRITE", WRITE),
    ("REQ_OP_FLUSH", FLUSH),
    ("REQ_OP_DISCARD", DSM),
    ("REQ_OP_WRITE_ZEROES", WRITE_ZEROES),
    ("REQ_OP_ZONE_APPEND", ZONE_APPEND),
    ("REQ_OP_ZONE_OPEN", ZONE_SEND | OPEN << ACTION_SHIFT),
    ("REQ_OP_ZONE_CLOSE", ZONE_SEND | CLOSE << ACTION_SHIFT),
    ("REQ_OP_ZONE_FINISH", ZONE_SEND | FINISH << ACTION_SHIFT),
    ("REQ_OP_ZONE_RESET", ZONE_SEND | RESET << ACTION_SHIFT),
    ("REQ_OP_ZONE_RESET_ALL", ZONE_SEND | RESET << ACTION_SHIFT | 1 << ALL_BIT),
)


@dataclass(frozen=True, slots=True)
class WatchedDevice:
    """A device whose commands are counted."""

    name: str  # kernel name
    disks: tuple[str, ...]  # disks of its requests: itself, or its multipath path nodes
    nsid: int  # namespace number; 0 for other drivers
    unit: int  # bytes per block in its commands: logical block with NVMe, else sector
    zone_size: int  # bytes; 0 on conventional devices
    zone_capacity: int  # bytes; 0 on conventional devices


def program(devices: Sequence[WatchedDevice]) -> str:
    """Return the program's text; devices are numbered from 1.

    The program prints ``ready`` once attached. On SIGUSR1 it prints all counts between the lines
    ``snapshot`` and ``end``, and nothing in between, so that bpftrace can sleep. Counts per zone
    and zone transitions are cleared after each snapshot, which keeps the maps small. A transition
    is (time, zone, kind) → (device, command, resets of the zone, resets of all zones, latency,
    status, thread). Times are CLOCK_MONOTONIC, in nanoseconds.
    """
    numbered = list(enumerate(devices, start=1))
    nvme = [(number, device) for number, device in numbered if device.nsid]
    other = [(number, device) for number, device in numbered if not device.nsid]
    parts = [_READY]
    completion = _REQUEST
    if nvme:
        parts += [_NVME_SENT] * 2
        completion += _NVME % _select_device(nvme, "($head >> 32) == {0.nsid} && ")
    if other:
        parts += [_BLOCK_SENT] * 2
        completion += _BLOCK % {"which": _select_device(other, ""), "operations": _operations()}
    parts += [completion + once + _COUNT for once in (_FIRST_COPY, _SECOND_COPY)]
    return "\n".join([*parts, _SNAPSHOT])


def _select_device(devices: Sequence[tuple[int, WatchedDevice]], first: str) -> str:
    """Return the statements that set the number and geometry of the request's device.

    ``first`` is a test that is cheaper than comparing names.
    """
    lines = []
    for number, device in devices:
        shift = (device.zone_size // device.unit).bit_length() - 1 if device.zone_size else 63
        capacity = device.zone_capacity // device.unit
        lines += [
            f'  if ({first.format(device)}$rq->q->disk->disk_name == "{disk}") {{'
            f" $device = (uint64){number}; $shift = (uint64){shift};"
            f" $capacity = (uint64){capacity}; }}"
            for disk in device.disks
        ]
    return "\n".join(lines)


def _operations() -> str:
    tests = [
        f"if ($operation == (uint64){name}) {{ $what = (uint64){what}; }}"
        for name, what in _REQUESTS
    ]
    return "  " + " else ".join(tests)


# bpftrace takes a map's types from its first use, so the maps are used with device 0 at first.
_READY = """\
BEGIN
{
  @life[(uint64)0, (uint64)0] = (uint64)0; @lives = (uint64)0;
  @counted[(uint64)0] = (uint64)0; delete(@counted, (uint64)0);
  @sent[(uint64)0] = ((uint64)0, comm); delete(@sent, (uint64)0);
  printf("ready\\n");
}
"""

# The last probe, for the same reason.
_SNAPSHOT = """\
self:signal:SIGUSR1
{
  printf("snapshot\\n");
  print(@commands); print(@bytes);
  print(@zones); clear(@zones);
  print(@changes); clear(@changes);
  printf("end\\n");
}
"""

# A zone command is sent. arg0: struct request, arg1: struct nvme_command.
_NVME_SENT = f"""\
rawtracepoint:nvme_setup_cmd
{{
  if ((*(uint64*)arg1 & 0xff) == {ZONE_SEND}) {{ @sent[arg0] = (nsecs, comm); }}
}}
"""

_BLOCK_SENT = """\
rawtracepoint:block_rq_issue
{
  $operation = (uint64)((struct request *)arg0)->cmd_flags & 0xff;
  if ($operation >= (uint64)REQ_OP_ZONE_OPEN && $operation <= (uint64)REQ_OP_ZONE_RESET_ALL) {
    @sent[arg0] = (nsecs, comm);
  }
}
"""

# arg0: struct request, arg1: blk_status_t, arg2: bytes. A request for a flush only was never
# started itself. A write that also asks for a flush completes a second time, without bytes.
_REQUEST = """\
rawtracepoint:block_rq_complete
{
  $rq = (struct request *)arg0;
  $operation = (uint64)$rq->cmd_flags & 0xff;
  $bytes = arg2 & 0xffffffff;
  $device = (uint64)0; $shift = (uint64)0; $capacity = (uint64)0;
  $what = (uint64)0; $at = (uint64)0; $length = (uint64)0;
  if ($operation == (uint64)REQ_OP_READ) { return; }
  if ((uint64)$rq->state == (uint64)MQ_RQ_IDLE) { return; }
  if ($operation == (uint64)REQ_OP_WRITE && $bytes == 0) { return; }
"""

# The driver's part of a request begins with a pointer to the command, and the result behind it
# (struct nvme_request). The command is little-endian: opcode and namespace in its first 8 bytes,
# dwords 10 and 11 at 40, 12 and 13 at 48. An append names only the zone's start; the result of a
# successful one is its first block.
_NVME = f"""\
  $nvme = *(uint64*)(arg0 + (uint64)sizeof(struct request));
  $head = *(uint64*)$nvme;
%s
  if ($device != 0) {{
    $what = $head & 0xff;
    $at = *(uint64*)($nvme + 40);
    $more = *(uint64*)($nvme + 48);
    $length = ($more & 0xffff) + 1;
    if ($what == {READ}) {{ return; }}
    if ($what == {ZONE_APPEND}) {{ $at = *(uint64*)(arg0 + (uint64)sizeof(struct request) + 8); }}
    if ($what == {ZONE_SEND}) {{
      $what |= (($more >> 32) & 0xff) << {ACTION_SHIFT};
      $what |= (($more >> 40) & 1) << {ALL_BIT};
    }}
  }}
"""

# When an append completes, its driver has put its place into the request.
_BLOCK = """\
  if ($device == 0) {
%(which)s
    if ($device != 0) {
      $what = (uint64)255;
%(operations)s
      $at = (uint64)$rq->__sector;
      $length = (uint64)$rq->__data_len >> 9;
    }
  }
"""

# The second copy counts the completions for which the first one was skipped.
_FIRST_COPY = """\
  if ($device == 0) { return; }
  @counted[arg0] = (uint64)1;
"""
_SECOND_COPY = """\
  if ($device == 0) { return; }
  if (@counted[arg0] == 1) { delete(@counted, arg0); return; }
"""

# Bytes are counted per life of a zone: the key contains the number of the zone's resets, and of
# resets of all zones. So the bytes that a zone held at its finish are known later, and no counter
# is cleared while other processors write to it.
_COUNT = f"""\
  $error = arg1 & 0xff;
  $zone = $at >> $shift;
  $opcode = $what & 0xff;
  @commands[$device, $what, $error] = count();
  if ($opcode == {WRITE} || $opcode == {ZONE_APPEND} || $opcode == {WRITE_ZEROES}) {{
    @bytes[$device, $what, $error] = sum($bytes);
    if ($error == 0 && $capacity != 0) {{
      $life = @life[$device, $zone];
      @zones[$device, $zone, $life, @lives, $what] = sum($bytes);
      $offset = $at - ($zone << $shift);
      if ($opcode != {WRITE_ZEROES} && $offset == 0) {{
        @changes[nsecs, $zone, {FIRST}] =
          ($device, (uint64){FIRST << ACTION_SHIFT}, $life, @lives, (uint64)0, (uint64)0, "");
      }}
      if ($opcode != {WRITE_ZEROES} && $offset + $length == $capacity) {{
        @changes[nsecs, $zone, {LAST}] =
          ($device, (uint64){LAST << ACTION_SHIFT}, $life, @lives, (uint64)0, (uint64)0, "");
      }}
    }}
  }}
  if ($opcode == {ZONE_SEND}) {{
    $sent = @sent[arg0];
    $latency = (uint64)0;
    if ($sent.0 != 0) {{ $latency = nsecs - $sent.0; delete(@sent, arg0); }}
    @changes[nsecs, $zone, 0] =
      ($device, $what, @life[$device, $zone], @lives, $latency, $error, $sent.1);
    if ($error == 0 && (($what >> {ACTION_SHIFT}) & 0xff) == {RESET}) {{
      if ((($what >> {ALL_BIT}) & 1) == 1) {{ @lives++; }} else {{ @life[$device, $zone]++; }}
    }}
  }}
}}
"""
