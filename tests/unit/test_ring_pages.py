"""Pages of the kernel's ring buffer: SYNTHETIC pages with every type of record, and damaged ones.

test_write_recorder.py reads pages of a real kernel.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import pytest

from harness.errors import ToolFailed
from harness.observe.tracing.ring_pages import EventFormat, PageFormat, PageReader

PAGE, HEADER = 128, 16
LAYOUT = PageFormat(PAGE, 8, HEADER)
START = 1_000_000


def head(kind: int, delta: int, *words: int) -> bytes:
    """Return a record's 32 bits of type and time, and the words behind them."""
    return struct.pack(f"<{1 + len(words)}I", delta << 5 | kind, *words)


def page(*records: bytes, start: int = START, flags: int = 0, length: int | None = None) -> bytes:
    data = b"".join(records)
    size = len(data) if length is None else length
    content = struct.pack("<QQ", start, size | flags) + data
    return content + bytes(PAGE - len(content))


def read(*pages: bytes) -> list[tuple[int, bytes]]:
    return [*PageReader(LAYOUT).events(io.BytesIO(b"".join(pages)))]


def test_times_add_up_over_records_of_each_type() -> None:
    found = read(
        page(
            head(2, 5) + b"abcdefgh",  # two words
            head(30, 7, 3),  # time extend: 3 << 27 and 7
            head(1, 1) + b"ijkl",
            head(29, 4, 8) + bytes(4),  # a discarded event still takes its time
            head(1, 2) + b"mnop",
            head(31, 9, 1),  # absolute time
            head(0, 1, 12) + b"qrstuvwx",  # longer than 28 words, or of unknown length
        ),
        page(head(1, 0) + b"yzab", start=2 * START),
    )
    after = START + 5 + (3 << 27) + 7
    assert found == [
        (START + 5, b"abcdefgh"),
        (after + 1, b"ijkl"),
        (after + 7, b"mnop"),
        ((1 << 27) + 9 + 1, b"qrstuvwx"),
        (2 * START, b"yzab"),
    ]


def test_the_rest_of_a_page_may_be_padding() -> None:
    assert read(page(head(1, 0) + b"abcd", head(29, 0) + b"rest of the page")) == [(START, b"abcd")]


@pytest.mark.parametrize(("flags", "lost"), [(0, False), (1 << 31, True), (3 << 30, True)])
def test_events_that_the_buffer_lost_are_seen(flags: int, lost: bool) -> None:
    reader = PageReader(LAYOUT)
    file = io.BytesIO(page(head(1, 0) + b"abcd", flags=flags) + page(head(1, 0) + b"efgh"))
    assert [data for _, data in reader.events(file)] == [b"abcd", b"efgh"]
    assert reader.lost is lost


def damaged() -> Iterator[tuple[str, bytes]]:
    yield "it ends within a page", page()[:-1]
    yield "a page is longer than pages are", page(length=PAGE)
    yield "an event is longer than its page", page(head(3, 0) + b"abcd")
    yield "an event is longer than its page", page(head(0, 0, 2))
    yield "an event is longer than its page", page(head(0, 0, 1 << 31))


@pytest.mark.parametrize(("message", "content"), list(damaged()))
def test_a_damaged_page_is_refused(message: str, content: bytes) -> None:
    with pytest.raises(ToolFailed, match=message):
        read(content)


@pytest.mark.parametrize("text", ["", "ID: x", "name: block_rq_complete\nID: 7"])
def test_an_event_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ToolFailed, match="trace buffer has another form"):
        EventFormat.parse(text).field("sector", 8)


def test_pages_of_another_form_are_refused() -> None:
    with pytest.raises(ToolFailed, match="header_event"):
        PageFormat.parse("", "type_len : 4 bits")
