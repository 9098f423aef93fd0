"""The bpftrace program that counts commands inside the kernel.

It notes a command when the driver receives it: at ``nvme_setup_cmd``, or at ``block_rq_issue`` for
other drivers. It counts the command when its request completes, at ``block_rq_complete``.

Reads are not traced: the kernel counts them, and a fast drive has too many.

The probes are *raw* tracepoints. A program on an ordinary tracepoint is skipped while another one
runs on the same processor, which lost 73 of 41,888 completions (docs/decisions.md). A raw one is
skipped only inside itself (2 of 20,000), so each probe exists twice and the second finds the work
done.
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
ACTION_SHIFT, ALL_BIT, FIRST_BIT, LAST_BIT, ZONED_BIT = 8, 16, 17, 18, 19
COMMAND_MASK = (1 << FIRST_BIT) - 1

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
    disks: tuple[str, ...]  # disks that its commands pass: itself, or its multipath path nodes
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
    if nvme:
        parts += [
            _NVME % {"which": _which(nvme, " && ($head >> 32) == {0.nsid}"), "read": READ}
        ] * 2
    if other:
        parts += [_BLOCK % {"which": _which(other, ""), "operations": _operations()}] * 2
    parts += [_COMPLETE, _COMPLETE, _SNAPSHOT]
    return "\n".join(parts)


def _which(devices: Sequence[tuple[int, WatchedDevice]], also: str) -> str:
    """Return the statements that set the number and geometry of the request's device."""
    lines = []
    for number, device in devices:
        shift = (device.zone_size // device.unit).bit_length() - 1 if device.zone_size else 63
        capacity = device.zone_capacity // device.unit
        for disk in device.disks:
            condition = f'$rq->q->disk->disk_name == "{disk}"'
            if also:  # the cheaper test first
                condition = also.format(device).removeprefix(" && ") + f" && {condition}"
            lines.append(
                f"  if ({condition}) {{"
                f" $device = (uint64){number}; $shift = (uint64){shift};"
                f" $capacity = (uint64){capacity}; }}"
            )
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
  @flight[(uint64)0] = ((uint64)0, (uint64)0, (uint64)0, (uint64)0); delete(@flight, (uint64)0);
  printf("ready\\n");
}
"""

# The last probe, for the same reason.
_SNAPSHOT = """\
self:signal:SIGUSR1
{
  printf("snapshot\\n");
  print(@commands); print(@bytes); print(@flight);
  print(@zones); clear(@zones);
  print(@changes); clear(@changes);
  printf("end\\n");
}
"""

# Notes a command whose device is known, and whether it writes the first or last block of a zone.
_NOTE = f"""\
    $zone = $at >> $shift;
    if ($capacity != 0) {{
      $what |= (uint64)1 << {ZONED_BIT};
      if (($what & 0xff) == {WRITE}) {{
        $offset = $at - ($zone << $shift);
        if ($offset == 0) {{ $what |= (uint64)1 << {FIRST_BIT}; }}
        if ($offset + $length == $capacity) {{ $what |= (uint64)1 << {LAST_BIT}; }}
      }}
      if (($what & 0xff) == {ZONE_SEND}) {{ @who[arg0] = comm; }}
    }}
    @flight[arg0] = ($device, $what, $zone, nsecs);
"""

# arg0: struct request, arg1: struct nvme_command, little-endian: opcode and namespace in its first
# 8 bytes, dwords 10 and 11 at 40, 12 and 13 at 48.
_NVME = (
    """\
rawtracepoint:nvme_setup_cmd
{
  $rq = (struct request *)arg0;
  $head = *(uint64*)arg1;
  $device = (uint64)0; $shift = (uint64)0; $capacity = (uint64)0;
  if (($head & 0xff) != %(read)d && @flight[arg0].0 == 0) {
%(which)s
  }
  if ($device != 0) {
    $what = $head & 0xff;
    $at = *(uint64*)(arg1 + 40);
    $more = *(uint64*)(arg1 + 48);
    $length = ($more & 0xffff) + 1;
"""
    f"    if ($what == {ZONE_SEND}) {{\n"
    f"      $what |= (($more >> 32) & 0xff) << {ACTION_SHIFT};\n"
    f"      $what |= (($more >> 40) & 1) << {ALL_BIT};\n"
    "    }\n" + _NOTE + "  }\n}\n"
)

_BLOCK = (
    """\
rawtracepoint:block_rq_issue
{
  $rq = (struct request *)arg0;
  $operation = (uint64)$rq->cmd_flags & 0xff;
  $device = (uint64)0; $shift = (uint64)0; $capacity = (uint64)0;
  if ($operation != (uint64)REQ_OP_READ && @flight[arg0].0 == 0) {
%(which)s
  }
  if ($device != 0) {
    $what = (uint64)255;
%(operations)s
    $at = (uint64)$rq->__sector;
    $length = (uint64)$rq->__data_len >> 9;
"""
    + _NOTE
    + "  }\n}\n"
)

# arg1: blk_status_t, arg2: bytes. Bytes of a zone are counted per life of the zone: the number of
# its resets and of resets of all zones are part of the key. This shows later what a zone held when
# it was finished, and no counter is cleared while other processors write to it.
_COMPLETE = f"""\
rawtracepoint:block_rq_complete
{{
  $c = @flight[arg0];
  if ($c.0 != 0) {{
    delete(@flight, arg0);
    $error = arg1 & 0xff;
    $command = $c.1 & {COMMAND_MASK};
    @commands[$c.0, $command, $error] = count();
    $opcode = $command & 0xff;
    $zoned = ($c.1 >> {ZONED_BIT}) & 1;
    if ($opcode == {WRITE} || $opcode == {ZONE_APPEND} || $opcode == {WRITE_ZEROES}) {{
      $bytes = arg2 & 0xffffffff;
      @bytes[$c.0, $command, $error] = sum($bytes);
      if ($error == 0) {{
        if ($zoned == 1) {{
          @zones[$c.0, $c.2, @life[$c.0, $c.2], @lives, $command] = sum($bytes);
          if ((($c.1 >> {FIRST_BIT}) & 1) == 1) {{
            @changes[nsecs, $c.2, {FIRST}] =
              ($c.0, (uint64){FIRST << ACTION_SHIFT}, @life[$c.0, $c.2], @lives,
               (uint64)0, (uint64)0, "");
          }}
          if ((($c.1 >> {LAST_BIT}) & 1) == 1) {{
            @changes[nsecs, $c.2, {LAST}] =
              ($c.0, (uint64){LAST << ACTION_SHIFT}, @life[$c.0, $c.2], @lives,
               (uint64)0, (uint64)0, "");
          }}
        }}
      }}
    }}
    if ($opcode == {ZONE_SEND}) {{
      @changes[nsecs, $c.2, 0] =
        ($c.0, $command, @life[$c.0, $c.2], @lives, nsecs - $c.3, $error, @who[arg0]);
      delete(@who, arg0);
      if ($error == 0 && (($command >> {ACTION_SHIFT}) & 0xff) == {RESET}) {{
        if ((($command >> {ALL_BIT}) & 1) == 1) {{ @lives++; }} else {{ @life[$c.0, $c.2]++; }}
      }}
    }}
  }}
}}
"""
