"""Writes ``progress.json``, and renews its heartbeat from a thread while the main thread waits."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from harness.machine.host import Host
from harness.run import progress
from harness.run.heartbeat import Heart
from harness.run.progress import ProgressRecord

# Seconds between writes: a reader can wait, and each write costs CPU time on this machine.
_SECONDS = 5.0


class Pulse:
    """The progress file of a campaign. All writes go through ``publish``."""

    def __init__(self, path: Path, host: Host) -> None:
        self.path = path
        self._host = host
        self._heart = Heart(host)
        self._lock = threading.Lock()
        self._record: ProgressRecord | None = None
        self._written = time.monotonic()
        self._over = threading.Event()

    def publish(self, record: ProgressRecord) -> None:
        """Write a record; ``renew`` repeats it with newer heartbeats until the next record."""
        with self._lock:
            self._record = record
            self._write()

    def renew(self) -> None:
        """Write the last record again, with a new heartbeat."""
        with self._lock:
            if self._record is not None and time.monotonic() - self._written > _SECONDS / 2:
                self._write()

    def run(self) -> None:
        """Renew until ``stop``; the thread's body. Only the main thread handles signals."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._over.wait(_SECONDS):
            with suppress(OSError):  # a full disk: the next beat tries again
                self.renew()

    def stop(self) -> None:
        """End the thread at its next wake-up."""
        self._over.set()

    def _write(self) -> None:
        if self._record is not None:
            beat = self._heart.beat()
            self._written = time.monotonic()
            now = replace(self._record, updated=self._host.now(), heartbeat=beat)
            progress.write(self.path, now)


@contextmanager
def pulse(path: Path, host: Host) -> Iterator[Pulse]:
    """Return the pulse of a campaign; its thread ends with the block."""
    own = Pulse(path, host)
    thread = threading.Thread(target=own.run, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield own
    finally:
        own.stop()
        thread.join(timeout=_SECONDS)
