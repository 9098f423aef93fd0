"""Two tiny x86-64 files (elf(5)) that keep this host's time out of a replay.

They are made here, because a replay needs no compiler.
"""

from __future__ import annotations

import struct

_PROGRAM, _LIBRARY = 2, 3
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ_EXECUTE, _READ_WRITE, _ALL = 5, 6, 7
_HEADER, _SEGMENT = 64, 56
_BASE = 0x400000
_PAGE = 0x1000
# QEMU translates a NOP to no code, so the guest's time passes quickly.
_NOPS = 63
_SCHED_IDLE = bytes.fromhex(
    "b890000000"  # mov $144, %eax: sched_setscheduler
    "31ff"  # xor %edi, %edi: this process
    "be05000000"  # mov $5, %esi: SCHED_IDLE, behind all other programs
    "6a00"  # push $0: its priority
    "4889e2"  # mov %rsp, %rdx
    "0f05"  # syscall
)
_GETTIMEOFDAY = bytes.fromhex(
    "31c0"  # xor %eax, %eax
    "488907"  # mov %rax, (%rdi): seconds
    "48894708"  # mov %rax, 8(%rdi): microseconds
    "c3"  # ret
)


def busy_program() -> bytes:
    """Return a static program that runs for ever, whenever no other program of the guest runs.

    When a guest is idle, QEMU's main thread moves the clock to the next timer. It may do so before
    the other thread, which has stopped the processor, has counted its last instructions.
    """
    nops = b"\x90" * _NOPS
    code = _SCHED_IDLE + nops + b"\xe9" + struct.pack("<i", -len(nops) - 5)
    size = _HEADER + _SEGMENT + len(code)
    header = _header(_PROGRAM, 1, _BASE + _HEADER + _SEGMENT)
    return header + _segment(_LOAD, _READ_EXECUTE, 0, _BASE, size) + code


def clock_library() -> bytes:
    """Return a shared object for LD_PRELOAD, in which gettimeofday(2) is always zero.

    QEMU uses only this function to see whether its cache of guest addresses (TLB) was too large
    for 100 ms. With this host's time, a slow replay would differ from a fast one.
    """
    names = b"\0gettimeofday\0"
    code = _HEADER + 3 * _SEGMENT
    symbols = _aligned(code + len(_GETTIMEOFDAY))
    strings = symbols + 2 * 24
    hashes = _aligned(strings + len(names))
    dynamic = hashes + 5 * 4 + 4
    # name, type and binding (a global function), visibility, section, value, size
    symbol = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, code, len(_GETTIMEOFDAY))
    # one bucket, two symbols: the first of the bucket, and no further one
    table = struct.pack("<5I4x", 1, 2, 1, 0, 0)
    hash_, strtab, symtab, strsz, syment = 4, 5, 6, 10, 11
    tags = (hash_, hashes, strtab, strings, symtab, symbols, strsz, len(names), syment, 24, 0, 0)
    entries = struct.pack(f"<{len(tags)}Q", *tags)
    size = dynamic + len(entries)
    head = _header(_LIBRARY, 3, 0)
    head += _segment(_LOAD, _ALL, 0, 0, size)
    head += _segment(_DYNAMIC, _READ_WRITE, dynamic, dynamic, len(entries))
    head += _segment(_STACK, _READ_WRITE, 0, 0, 0)
    text = (head + _GETTIMEOFDAY).ljust(symbols, b"\0") + bytes(24) + symbol + names
    return text.ljust(hashes, b"\0") + table + entries


def _header(kind: int, segments: int, entry: int) -> bytes:
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    x86_64, version = 62, 1
    sizes = (_HEADER, _SEGMENT, segments, 0, 0, 0)
    return struct.pack(
        "<16sHHIQQQIHHHHHH", ident, kind, x86_64, version, entry, _HEADER, 0, 0, *sizes
    )


def _segment(kind: int, flags: int, offset: int, address: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, size, size, _PAGE)


def _aligned(place: int) -> int:
    return -(-place // 8) * 8
