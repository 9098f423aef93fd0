"""The 1 Hz series, driven by the runner's own wait loop: no thread disturbs anyone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.observe.diskstats import COLUMNS
from harness.observe.gauges import Gauge, Reader, Values
from harness.observe.sysfs import SECTOR

# What a series may take of one processor. Where a sample costs more than a second's share of it,
# as under software emulation, samples are farther apart, and ``t`` says how far.
_SHARE = 0.0005


@dataclass(frozen=True, slots=True)
class Series:
    """A table ``series/<name>.csv``: one value per column and sample, empty where there is none."""

    name: str
    columns: Sequence[str]
    read: Callable[[], Values]
    close: Callable[[], None] = lambda: None


class Sampler:
    """Appends one line per tick to each series that is due, all with the same ``t``.

    A series is due once a second, or less often when a sample takes long; the first always.

    Args:
        folder: gets the CSV files.
        series: what to sample; those without columns are left out.
        clock: monotonic seconds.
        began: the run's beginning on that clock; ``t`` counts from it.
    """

    def __init__(
        self,
        folder: Path,
        series: Sequence[Series],
        *,
        clock: Callable[[], float],
        began: float,
    ) -> None:
        self._clock = clock
        self._began = began
        self._last = float("-inf")
        self._due: dict[str, float] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._open = [
            (one, (folder / f"{one.name}.csv").open("w", encoding="utf-8"))
            for one in series
            if one.columns
        ]
        for one, file in self._open:
            file.write(",".join(["t", *one.columns]) + "\n")

    def tick(self, *, force: bool = False) -> None:
        """Take a sample when about a second has passed since the last one."""
        now = self._clock()
        if not force and now - self._last < 0.95:  # noqa: PLR2004 - a tick may come a little early
            return
        self._last = now
        for index, (one, file) in enumerate(self._open):
            if index and now < self._due.get(one.name, now) and not force:
                continue
            begin = time.thread_time()
            values = ",".join("" if value is None else str(value) for value in one.read())
            file.write(f"{now - self._began:.3f},{values}\n")
            self._due[one.name] = now + (time.thread_time() - begin) / _SHARE - 0.05

    def close(self) -> None:
        """Write what is buffered and close the files."""
        for one, file in self._open:
            one.close()
            file.close()
        self._open = []


def disks(names: Sequence[str], block: Callable[[str], Path]) -> Series:
    """Return the series of the devices' ``stat`` files, the numbers of /proc/diskstats.

    Args:
        names: of the devices.
        block: returns a device's folder in sysfs.
    """
    reader = Reader([_disk(name, block(name) / "stat") for name in names])
    return Series("diskstats", reader.columns, reader.read, reader.close)


def _disk(name: str, path: Path) -> Gauge:
    def parse(data: bytes) -> Values:
        # Documentation/block/stat.rst: reads merged sectors ms, writes merged sectors ms, in_flight
        fields = data.split()
        reads, read, writes, written, in_flight = (int(fields[i]) for i in (0, 2, 4, 6, 8))
        return [read * SECTOR, written * SECTOR, reads, writes, in_flight]

    return Gauge(path, tuple(f"{name}.{column}" for column in COLUMNS), parse)
