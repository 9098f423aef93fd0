"""Instances of the kernel's trace buffer (tracefs)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HostError
from harness.tools import mount

_LOST = re.compile(r"^(?:overrun|commit overrun|dropped events): (\d+)$", re.MULTILINE)


def require(tracing: Path) -> None:
    """Mount tracefs at ``tracing`` unless it is there.

    Raises:
        HostError: the kernel has no tracing.
        ToolFailed: tracefs cannot be mounted.
    """
    if not tracing.is_dir():
        raise HostError(f"this kernel has no {tracing}", code="tracing-missing")
    if not (tracing / "events").is_dir():
        mount.mount(Path("tracefs"), tracing, "tracefs")


@contextmanager
def prepared(instance: Path, kilobytes: int) -> Iterator[None]:
    """Make an empty instance with ``kilobytes`` per processor; the body enables events in it.

    Raises:
        HostError: the instance cannot be made, or the kernel refuses a setting.
    """
    try:
        instance.mkdir(exist_ok=True)
        (instance / "trace").write_text("")  # drops events of a killed run
        (instance / "buffer_size_kb").write_text(str(kilobytes))
        (instance / "trace_clock").write_text("mono")
        yield
    except OSError as error:
        raise HostError(
            f"commands cannot be traced: {error.filename}: {error.strerror}",
            hint="run as root",
            code="tracing-missing",
        ) from None


def lost_events(instance: Path) -> int:
    """Return the number of events that the buffers of all processors lost."""
    stats = (path.read_text() for path in instance.glob("per_cpu/cpu*/stats"))
    return sum(int(number) for text in stats for number in _LOST.findall(text))
