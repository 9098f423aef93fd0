"""The 1 Hz series, driven by the runner's own wait loop: no thread disturbs anyone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.observe import diskstats
from harness.observe.diskstats import COLUMNS


class Sampler:
    """Appends one line per tick to ``series/diskstats.csv``.

    Args:
        path: the CSV file to create.
        names: kernel names of the devices.
        read: returns the text of /proc/diskstats.
        clock: monotonic seconds.
        began: the run's beginning on that clock; ``t`` counts from it.
    """

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        read: Callable[[], str],
        *,
        clock: Callable[[], float],
        began: float,
    ) -> None:
        self._names = tuple(names)
        self._read = read
        self._clock = clock
        self._began = began
        self._last = float("-inf")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        header = [f"{name}.{column}" for name in self._names for column in COLUMNS]
        self._file.write(",".join(["t", *header]) + "\n")

    def tick(self, *, force: bool = False) -> None:
        """Take a sample when about a second has passed since the last one."""
        now = self._clock()
        if not force and now - self._last < 0.95:  # noqa: PLR2004 - a tick may come a little early
            return
        self._last = now
        counters = diskstats.parse(self._read(), self._names)
        values = [
            str(getattr(counters[name], column)) for name in self._names for column in COLUMNS
        ]
        self._file.write(f"{now - self._began:.3f}," + ",".join(values) + "\n")

    def close(self) -> None:
        """Write what is buffered and close the file."""
        self._file.close()
