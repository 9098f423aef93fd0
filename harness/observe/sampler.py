"""Write series at about 1 Hz, driven by the runner's own wait loop instead of a thread."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from harness import nulls
from harness.observe import zoneblk
from harness.observe.diskstats import COLUMNS
from harness.observe.gauges import Gauge, Reader, Values
from harness.observe.sysfs import Sysfs
from harness.quantities import SECTOR
from harness.store.ledger import SeriesMark

# The share of one processor that a series may use. If samples cost more, as under software
# emulation, they are taken less often; column ``t`` has their times.
_SHARE = 0.0005
# Seconds after which a sample is due, however expensive it is, so that ``verify`` can find gaps.
LONGEST = 30.0
# Samples in a second of a modelled drive's clock, and the most seconds of this machine between two
# samples: ``verify`` reports gaps of 10 s.
_MODEL_HZ, _LONGEST_INTERVAL = 32, 8.0


def interval(dilation: int) -> float:
    """Return the seconds between samples: more than one if the drive's clock is slowed down."""
    return min(max(dilation / _MODEL_HZ, 1.0), _LONGEST_INTERVAL)


@dataclass(frozen=True, slots=True)
class SampledSeries:
    """A table ``series/<name>.csv`` with one value per column and sample; null is empty."""

    name: str
    columns: Sequence[str]
    read: Callable[[], Values]
    close: Callable[[], None] = lambda: None


class Sampler:
    """Appends one line per tick to each series that is due, all with the same ``t``.

    The first series is due every ``interval``; others are due less often when a sample is
    expensive.

    Args:
        folder: where the CSV files are written.
        series: what to sample; series without columns are skipped.
        clock: returns monotonic seconds.
        began: start of the run on that clock; ``t`` counts from it.
        interval: seconds.
    """

    def __init__(
        self,
        folder: Path,
        series: Sequence[SampledSeries],
        *,
        clock: Callable[[], float],
        began: float,
        interval: float = 1.0,
    ) -> None:
        self._clock = clock
        self._interval = interval
        self._began = began
        self._last = float("-inf")
        self._due: dict[str, float] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._open = [
            (table, (folder / f"{table.name}.csv").open("w", encoding="utf-8"))
            for table in series
            if table.columns
        ]
        self._digests = {table.name: hashlib.sha256() for table, _ in self._open}
        self._lines = dict.fromkeys(self._digests, 0)
        for table, file in self._open:
            self._write(table.name, file, ",".join(["t", *table.columns]))

    def tick(self) -> None:
        """Take a sample if about an interval has passed since the last one."""
        now = self._clock()
        if now - self._last < 0.95 * self._interval:  # a tick may come a little early
            return
        self._last = now
        for index, (table, file) in enumerate(self._open):
            if index and now < self._due.get(table.name, now):
                continue
            begin = time.thread_time()
            values = ",".join(map(nulls.text, table.read()))
            self._write(table.name, file, f"{now - self._began:.3f},{values}")
            pause = min((time.thread_time() - begin) / _SHARE, LONGEST)
            self._due[table.name] = now + pause - 0.05

    def _write(self, name: str, file: TextIO, line: str) -> None:
        file.write(f"{line}\n")
        self._digests[name].update(f"{line}\n".encode())
        self._lines[name] += 1

    def marks(self) -> Mapping[str, SeriesMark]:
        """Return the present values of each series."""
        return {
            name: SeriesMark(self._lines[name] - 1, digest.hexdigest())
            for name, digest in self._digests.items()
        }

    def close(self) -> None:
        """Flush and close the files."""
        for table, file in self._open:
            table.close()
            file.close()
        self._open = []


def disks(names: Sequence[str], block: Callable[[str], Path]) -> SampledSeries:
    """Return the series of the devices' ``stat`` files, the same numbers as /proc/diskstats.

    ``block`` returns the sysfs folder of a kernel name.
    """
    return of_gauges("diskstats", [_disk(name, block(name) / "stat") for name in names])


def of_gauges(name: str, gauges: Sequence[Gauge]) -> SampledSeries:
    """Return the series of these gauges."""
    reader = Reader(gauges)
    return SampledSeries(name, reader.columns, reader.read, reader.close)


def media(names: Sequence[str], sysfs: Sysfs) -> SampledSeries:
    """Return the series of the bytes that each modelled drive wrote to its media.

    On other drives the series has no columns, so no file is written.
    """
    disks = dict.fromkeys(sysfs.disk(name) for name in names)
    # The drives are looked up once, not for each sample.
    servers = {disk: sysfs.exported(disk) or disk for disk in disks if sysfs.served(disk)}

    def read() -> list[int | None]:
        reports = [zoneblk.report(server, sysfs.servers) for server in servers.values()]
        return [None if report is None else zoneblk.media(report) for report in reports]

    return SampledSeries("media", [*servers], read)


def _disk(name: str, path: Path) -> Gauge:
    def parse(data: bytes) -> Values:
        # Documentation/block/stat.rst: reads merged sectors ms, writes merged sectors ms, in_flight
        fields = data.split()
        reads, read, writes, written, in_flight = (int(fields[i]) for i in (0, 2, 4, 6, 8))
        return [read * SECTOR, written * SECTOR, reads, writes, in_flight]

    return Gauge(path, tuple(f"{name}.{column}" for column in COLUMNS), parse)
