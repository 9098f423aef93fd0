"""CPU time of a program's threads, by name. RocksDB names the threads that flush and compact."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FLUSH = "rocksdb:high"
COMPACTION = "rocksdb:low"

# proc_pid_stat(5): the name is field 2; user and system time are fields 14 and 15, in clock ticks.
_STAT = re.compile(r"\((?P<name>.*)\) \S (?:-?\d+ ){10}(?P<user>\d+) (?P<system>\d+) ", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """CPU time of threads with one name."""

    threads: int
    seconds: float  # user and system time, summed over them

    def share(self, seconds: float | None) -> float | None:
        """Return the share of an interval that each of them computed, on average."""
        return self.seconds / (seconds * self.threads) if seconds else None


class ThreadWatch:
    """Reads the CPU time of a program's threads. Use after the last reading is not counted."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._tasks = proc / "none"
        self._spent: dict[str, tuple[str, int]] = {}  # by thread id

    def begin(self, process: int) -> None:
        """Watch this program from now on."""
        self._tasks = self._proc / str(process) / "task"

    def look(self) -> None:
        """Read the CPU time of each thread; for ended threads the last reading stays."""
        for file in self._tasks.glob("*/stat"):
            with suppress(OSError):  # it has just ended
                found = _STAT.search(file.read_text(errors="replace"))
                if found is not None:
                    spent = int(found["user"]) + int(found["system"])
                    self._spent[file.parent.name] = found["name"], spent

    @property
    def use(self) -> Mapping[str, ThreadUse]:
        """CPU time of the threads, by name."""
        tick = os.sysconf("SC_CLK_TCK")
        threads, ticks = Counter[str](), Counter[str]()
        for name, spent in self._spent.values():
            threads[name] += 1
            ticks[name] += spent
        return {name: ThreadUse(threads[name], ticks[name] / tick) for name in sorted(threads)}
