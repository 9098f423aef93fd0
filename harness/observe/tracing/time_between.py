"""Time between two kernel events that alternate, such as the begin and the end of a collection.

The kernel adds up the times of each event (hist triggers, Documentation/trace/histogram.rst), so
nothing is lost however many events there are. The difference of both sums is the time between.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ZonelabError
from harness.observe.tracing import tracefs_buffer

_TRIGGER = "hist:keys={key}:vals=common_timestamp.usecs:clock=mono"
_ROW = re.compile(
    r"\{ *\w+: *(?P<key>\d+) *\} +hitcount: *(?P<count>\d+) +common_timestamp\S*: *(?P<sum>\d+)"
)
_SUM_LIMIT = 1 << 64
_US = 1_000_000
_TRIES = 5  # events can come between the two reads


@dataclass(frozen=True, slots=True)
class TimeBetween:
    """A pair of events in their own instance of the trace buffer, counted by the field ``key``."""

    tracing: Path  # where tracefs is mounted
    instance: str
    begin: str  # such as "f2fs/f2fs_gc_begin"
    end: str
    key: str

    def start(self) -> None:
        """Start counting at zero. On a kernel that cannot count, :meth:`seconds` returns None."""
        self.stop()
        with suppress(OSError, ZonelabError):
            tracefs_buffer.require(self.tracing)
            self._folder.mkdir()
            for event in (self.begin, self.end):
                trigger = self._folder / "events" / event / "trigger"
                trigger.write_text(_TRIGGER.format(key=self.key), encoding="ascii")

    def seconds(self, key: int) -> float | None:
        """Return the time between the events of ``key`` so far; None if the kernel cannot count.

        An interval that has not ended counts up to now.
        """
        try:
            for _ in range(_TRIES):
                begun, began = self._read(self.begin, key)
                ended, end = self._read(self.end, key)
                if begun - ended in {0, 1}:
                    now = int(time.monotonic() * _US) if begun > ended else 0
                    return (end + now - began) % _SUM_LIMIT / _US
        except OSError:
            return None
        return None  # the events do not alternate

    def stop(self) -> None:
        """Remove the instance, if there is one."""
        with suppress(OSError):
            for event in (self.begin, self.end):
                trigger = self._folder / "events" / event / "trigger"
                trigger.write_text("!" + _TRIGGER.format(key=self.key), encoding="ascii")
        with suppress(OSError):
            self._folder.rmdir()

    @property
    def _folder(self) -> Path:
        return self.tracing / "instances" / self.instance

    def _read(self, event: str, key: int) -> tuple[int, int]:
        """Return an event's number of hits and the sum of their times in microseconds."""
        text = (self._folder / "events" / event / "hist").read_text(encoding="ascii")
        rows = (found for found in _ROW.finditer(text) if int(found["key"]) == key)
        return next(((int(row["count"]), int(row["sum"])) for row in rows), (0, 0))
