"""Progress on stderr: one line per step, with the time since the start."""

from __future__ import annotations

import sys
import time


class Talk:
    """Prints lines such as ``[  12 s] text``, unless it is quiet."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._begin = time.monotonic()
        self._quiet = quiet

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin

    def say(self, text: str) -> None:
        """Print one line."""
        if not self._quiet:
            print(f"[{self.seconds:4.0f} s] {text}", file=sys.stderr, flush=True)  # noqa: T201
