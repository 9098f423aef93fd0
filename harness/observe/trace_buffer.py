"""An instance of the kernel's trace buffer, ready for events to be switched on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HostError


@contextmanager
def prepared(instance: Path, kilobytes: int) -> Iterator[None]:
    """Make an instance, empty, with so much room per processor and monotonic times.

    Raises:
        HostError: it cannot be made, or what is written to its files inside is refused.
    """
    try:
        instance.mkdir(exist_ok=True)
        (instance / "trace").write_text("")  # what a killed run left
        (instance / "buffer_size_kb").write_text(str(kilobytes))
        (instance / "trace_clock").write_text("mono")
        yield
    except OSError as error:
        raise HostError(
            f"commands cannot be traced: {error.filename}: {error.strerror}",
            hint="run as root",
            code="tracing-missing",
        ) from None
