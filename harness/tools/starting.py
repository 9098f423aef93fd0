"""Start a program, and never lose it to a signal that arrives meanwhile."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start(argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Return ``subprocess.Popen(argv, **options)``; handlers of signals run after it.

    A handler that raises an exception inside Popen leaves a child that nobody can end. Here the
    child is killed, then the exception goes on.

    Raises:
        OSError: the program cannot be started.
    """
    child = None
    try:
        with _signals_wait():
            child = subprocess.Popen(argv, **options)  # noqa: S603 - argument list, no shell
    except BaseException:
        if child is not None:
            child.kill()
        raise
    return child


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Let the handlers of signals run after the block.

    A mask would do the same, but the new program would inherit it.
    """
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread
        yield
        return
    arrived: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        # Masked, because a handler that raises an exception here would stop the loops.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in arrived:
            signal.raise_signal(late)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
