"""Progress on stderr: one line per step, with the time since the start."""

from __future__ import annotations

import sys
import time


class Talk:
    """Prints lines such as ``[  12 s] text``, unless it is quiet."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._begin = time.monotonic()
        self._quiet = quiet

    def say(self, text: str) -> None:
        """Print one line."""
        if not self._quiet:
            seconds = time.monotonic() - self._begin
            print(f"[{seconds:4.0f} s] {text}", file=sys.stderr, flush=True)  # noqa: T201
