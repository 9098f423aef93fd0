"""Gives each machine on the instruction clock one processor of this host.

Such a machine never does two things at once: its processor and QEMU's main loop wake each other and
wait. Between two processors each wake-up is an interrupt. On a host that is itself a virtual
machine, these took a third of a run's time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.errors import HostError


@dataclass(frozen=True, slots=True)
class Reserved:
    """A processor for a child process, which starts inside ``bound`` and inherits ``files``."""

    processor: int | None = None  # null: all are taken
    files: tuple[int, ...] = ()


@contextmanager
def reserved() -> Iterator[Reserved]:
    """Reserve a processor that no other machine has; none when all are taken.

    The reservation is a name of a socket, which the kernel frees when the last process closes it. A
    child that inherits ``files`` keeps it until it ends.
    """
    for processor in sorted(os.sched_getaffinity(0)):
        with socket.socket(socket.AF_UNIX) as holder:
            try:
                holder.bind(f"\0zonelab-processor-{processor}")
            except OSError:
                continue
            yield Reserved(processor, (holder.fileno(),))
            return
    yield Reserved()


@contextmanager
def bound(processor: int | None) -> Iterator[None]:
    """Bind this thread inside the block; a child that starts there stays bound.

    Raises:
        HostError: this process may no longer use the processor.
    """
    if processor is None:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {processor})
    except OSError as error:
        raise HostError(
            f"QEMU cannot be bound to processor {processor}: {error.strerror}",
            hint="the processors that this process may use have changed: repeat the command",
            code="processor",
        ) from None
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
