"""The program that counts commands inside the kernel, in bpftrace's language.

A command is noted where it is handed to the driver (``nvme_setup_cmd``: the command as the drive
gets it; ``block_rq_issue`` where there is no NVMe) and counted where its request completes
(``block_rq_complete``: status and bytes, as the kernel's own statistics count them).

Reads are left to the kernel's own statistics: on a fast drive they are too many to look at.

The probes are *raw* tracepoints, because programs on ordinary ones are skipped while another one
runs on that processor: of 41,888 completions 73 were lost that way, in interrupts that came in the
middle of a submission (docs/decisions.md). Raw ones are skipped only inside themselves, which
happens too (2 of 20,000). So each is there twice: whichever comes second finds the work done, and
looks for that first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# NVM and Zoned Namespace Command Sets; other drivers' operations are given the same numbers.
FLUSH, WRITE, READ, WRITE_ZEROES, DSM = 0x00, 0x01, 0x02, 0x08, 0x09
ZONE_SEND, ZONE_RECEIVE, ZONE_APPEND = 0x79, 0x7A, 0x7D
CLOSE, FINISH, OPEN, RESET, OFFLINE = 1, 2, 3, 4, 5  # Zone Send Action, the first byte of dword 13
# Two transitions that no command asks for: the first and the last write of a zone.
FIRST, LAST = 0x11, 0x12

# How a command is packed into one number on its way through the maps.
ACTION_SHIFT, ALL_BIT, FIRST_BIT, LAST_BIT, ZONED_BIT = 8, 16, 17, 18, 19
COMMAND_MASK = (1 << FIRST_BIT) - 1

# (enum req_op, command) where there is no NVMe command to look at.
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
class Watched:
    """A device whose commands are counted.

    ``disks`` are the kernel's disks that they pass: the device itself, or the path nodes of a
    multipath head. ``nsid`` is 0 where the driver is not NVMe. ``unit`` is what the driver counts
    in, bytes (logical blocks; sectors without NVMe); ``zone_size`` and ``zone_capacity`` are in
    bytes, 0 on conventional devices.
    """

    name: str
    disks: tuple[str, ...]
    nsid: int
    unit: int
    zone_size: int
    zone_capacity: int


def program(devices: Sequence[Watched]) -> str:
    """Return the program; devices are numbered from 1, in their order.

    It prints ``ready`` once attached, and on SIGUSR1 all counts between the lines ``snapshot`` and
    ``end``. Those by zone are what is new since the last time, like the zone transitions: (time,
    zone, kind) → (device, command, resets of the zone, of all zones, latency, status, thread); so
    maps hold no more than happens between two snapshots. Nothing is printed in between, so that
    bpftrace sleeps. Times are CLOCK_MONOTONIC, in nanoseconds.
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


def _which(devices: Sequence[tuple[int, Watched]], also: str) -> str:
    """Return the statements that find the device's number and geometry."""
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
    tests = [f"if ($operation == (uint64){name}) {{ $what = (uint64){what}; }}"
             for name, what in _REQUESTS]  # fmt: skip
    return "  " + " else ".join(tests)


# Device 0 does not exist: bpftrace takes a map's types from its first use.
_READY = """\
BEGIN
{
  @life[(uint64)0, (uint64)0] = (uint64)0; @lives = (uint64)0;
  @flight[(uint64)0] = ((uint64)0, (uint64)0, (uint64)0, (uint64)0); delete(@flight, (uint64)0);
  printf("ready\\n");
}
"""

# Behind everything else, for the same reason.
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

# What follows the finding of device and command: the start of the zone, the last block it holds.
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

# arg1: blk_status_t, arg2: bytes. A zone's bytes are counted per life of the zone: its number of
# resets, and the number of resets of all zones, are part of the key. So what a zone held when it
# was finished can be told afterwards, and no counter has to be cleared while others write to it.
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
