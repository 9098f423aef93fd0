"""Events in the pages of the kernel's ring buffer, as ``trace_pipe_raw`` returns them.

The kernel describes pages and events in tracefs: ``events/header_page``, ``events/header_event``
and the ``format`` of each event. See include/linux/ring_buffer.h for the types of records.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Self

from harness.errors import ToolFailed

_FIELD = re.compile(
    r"field:(?P<type>[^;]*?)(?P<name>\w+)(?:\[\w*\])?;\s*offset:(\d+);\s*size:(\d+)"
)
_ID = re.compile(r"^ID: (\d+)$", re.MULTILINE)
# Expected lines of header_event: the widths of its bit fields, and the types of records.
_HEADER = (r"type_len\s+:\s+5 bits", r"time_delta\s+:\s+27 bits", r"array\s+:\s+32 bits")
_TYPES = (r"padding\s+: type == 29", r"time_extend\s+: type == 30", r"time_stamp\s+: type == 31")
_LONGEST, _PADDING, _EXTEND, _STAMP = 28, 29, 30, 31
_MISSED = 1 << 31  # bit of commit: events before this page are lost
_LENGTH = (1 << 20) - 1  # the other bits of commit
_WORD = struct.Struct("<I")
_START = struct.Struct("<Q")
_SHORT = struct.Struct("<H")


@dataclass(frozen=True, slots=True)
class EventFormat:
    """An event's number, and (offset, size) of its fields in bytes."""

    number: int
    fields: dict[str, tuple[int, int]]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the file ``format`` of an event.

        Raises:
            ToolFailed: it has another form.
        """
        found = _ID.search(text)
        if found is None:
            raise _foreign("an event's format")
        return cls(int(found[1]), _fields(text))

    def field(self, name: str, size: int) -> int:
        """Return the offset of a field of this size; ToolFailed if the event has none."""
        offset, has = self.fields.get(name, (0, 0))
        if has != size:
            raise _foreign(f"the field {name}")
        return offset


@dataclass(frozen=True, slots=True)
class PageFormat:
    """Layout of a page: its size, and where its length and its events begin."""

    size: int
    commit: int
    data: int

    @classmethod
    def parse(cls, page: str, event: str) -> Self:
        """Read ``header_page`` and ``header_event``; ToolFailed if the kernel has another form."""
        if not all(re.search(pattern, event) for pattern in (*_HEADER, *_TYPES)):
            raise _foreign("header_event")
        fields = _fields(page)
        if fields.get("timestamp") != (0, 8) or not {"commit", "data"} <= fields.keys():
            raise _foreign("header_page")
        data, rest = fields["data"]
        return cls(data + rest, fields["commit"][0], data)


@dataclass(slots=True)
class PageReader:
    """Reads a file of whole pages; ``lost`` becomes true if events are missing between them."""

    layout: PageFormat
    lost: bool = False

    def events(self, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the time in ns and the record of each event, in the order of the pages.

        Raises:
            ToolFailed: a page is damaged.
        """
        while page := file.read(self.layout.size):
            if len(page) != self.layout.size:
                raise _damaged("it ends within a page")
            yield from self._page(page)

    def _page(self, page: bytes) -> Iterator[tuple[int, bytes]]:
        (time,) = _START.unpack_from(page)
        (commit,) = _WORD.unpack_from(page, self.layout.commit)
        self.lost = self.lost or bool(commit & _MISSED)
        at = self.layout.data
        end = at + (commit & _LENGTH)
        if end > len(page):
            raise _damaged("a page is longer than pages are")
        while at < end:
            (head,) = _WORD.unpack_from(page, at)
            kind, delta = head & 31, head >> 5
            if kind == _PADDING and not delta:
                return
            more = _WORD.unpack_from(page, at + 4)[0] if at + 8 <= len(page) else 0
            if kind in (_EXTEND, _STAMP):
                ticks = (more << 27) + delta
                time = ticks if kind == _STAMP else time + ticks
                at += 8
                continue
            time += delta
            begin = at + (4 if 0 < kind <= _LONGEST else 8)
            at += 4 + (4 * kind if 0 < kind <= _LONGEST else more)
            if at < begin or at > end:
                raise _damaged("an event is longer than its page")
            if kind != _PADDING:
                yield time, page[begin:at]


def number_of(record: bytes) -> int:
    """Return the number of a record's event, its first field."""
    return int(_SHORT.unpack_from(record)[0])


def _fields(text: str) -> dict[str, tuple[int, int]]:
    return {found["name"]: (int(found[3]), int(found[4])) for found in _FIELD.finditer(text)}


def _foreign(what: str) -> ToolFailed:
    return ToolFailed(
        f"the kernel's trace buffer has another form: {what}",
        hint="report the kernel's release",
        code="output-malformed",
    )


def _damaged(why: str) -> ToolFailed:
    return ToolFailed(f"the kernel's trace is damaged: {why}", code="output-malformed")
