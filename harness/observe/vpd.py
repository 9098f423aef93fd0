"""SCSI pages of vital product data that name a logical unit (SPC-4, 7.8: pages 80h and 83h)."""

from __future__ import annotations

import re

_HEADER = 4  # of a page, and of a designator
_SERIAL, _IDENTIFICATION = 0x80, 0x83
_LUN = 0  # association: the logical unit, not a port or the target
_T10, _EUI64, _NAA = 1, 2, 3
_PREFERENCE = (_NAA, _EUI64, _T10)


def name(page: bytes) -> str:
    """Return the best designator of page 83h as sysfs spells it (``naa.5000c5…``), '' if none."""
    best: tuple[int, int, str] | None = None
    data = _body(page, _IDENTIFICATION)
    while len(data) > _HEADER:
        kind, association, length = data[1] & 0x0F, data[1] >> 4 & 3, data[3]
        value, data = data[_HEADER : _HEADER + length], data[_HEADER + length :]
        if association != _LUN or kind not in _PREFERENCE or not value or len(value) < length:
            continue
        rank = (_PREFERENCE.index(kind), -length, _spelled(kind, value))
        best = rank if best is None else min(best, rank)
    return best[2] if best else ""


def serial(page: bytes) -> str:
    """Return the unit's serial number of page 80h, '' if none."""
    return _body(page, _SERIAL).decode("ascii", errors="replace").strip()


def usable(text: str) -> str:
    """Return a name in the form of identities; '' for a filler, as cheap bridges report it."""
    kind, value = (text[:3], text[4:]) if text[3:4] == "." else ("", text)
    if not value.strip("0 \0") or (kind == "t10" and not value[8:].strip("0 \0")):
        return ""
    return re.sub(r"[^A-Za-z0-9._:+-]+", "_", text.strip("\0 \n"))


def _spelled(kind: int, value: bytes) -> str:
    if kind == _T10:
        return f"t10.{value.decode('ascii', errors='replace')}"
    return f"{'naa' if kind == _NAA else 'eui'}.{value.hex()}"


def _body(page: bytes, code: int) -> bytes:
    if len(page) < _HEADER or page[1] != code:
        return b""
    return page[_HEADER : _HEADER + int.from_bytes(page[2:4], "big")]
