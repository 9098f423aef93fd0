"""SIGINT, SIGTERM and SIGHUP end a run: stop its program, take the level down, exit 130."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from harness.errors import Interrupted
from harness.tools import proc

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Raises Interrupted at the first signal only, and never inside ``deferred`` (clean-up)."""

    def __init__(self) -> None:
        self.requested = False
        self._deferred = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals inside the block."""
        # nohup(1) ignores SIGHUP, so that a run survives the terminal.
        ignored = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else []
        handled = [number for number in _SIGNALS if number not in ignored]
        before = {number: signal.signal(number, self._handle) for number in handled}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Let the block and its programs finish; a signal that arrives meanwhile is remembered."""
        self._deferred += 1
        try:
            with proc.shielded():
                yield
        finally:
            self._deferred -= 1

    def check(self) -> None:
        """Raise Interrupted if a signal is remembered."""
        if self.requested:
            raise Interrupted("interrupted", hint="repeat the command to resume")

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        first = not self.requested
        self.requested = True
        if first and not self._deferred:
            self.check()
