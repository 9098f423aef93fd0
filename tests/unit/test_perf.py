"""Counters of a cgroup. Software events stand in where the machine has no PMU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.observe import perf

SOFTWARE, TASK_CLOCK = 1, 1
BUSY = "import os, time\nwhile time.process_time() < 0.3: pass"


@pytest.fixture
def group() -> Iterator[Path]:
    """A new cgroup; the test is skipped where the kernel refuses it."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, root, kind, *_ = line.split()
        if kind == "cgroup2":
            folder = Path(root) / f"zonelab-test-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            yield folder
            folder.rmdir()
            return
    pytest.skip("no cgroup v2 that we may write to")


def burn(group: Path | None) -> None:
    """Use 0.3 s of CPU time in the group."""
    enter = f"open('{group}/cgroup.procs', 'w').write('0')\n" if group else ""
    subprocess.run([sys.executable, "-c", enter + BUSY], check=True)


@pytest.mark.slow
def test_only_processes_in_the_group_are_counted(group: Path) -> None:
    counter = perf.count(group, SOFTWARE, TASK_CLOCK)
    if counter is None:
        pytest.skip("perf_event_open is not allowed here")
    assert counter.read() == 0
    burn(None)
    assert counter.read() == 0
    burn(group)
    first = counter.read()
    assert first is not None
    assert 0.25e9 < first < 2e9  # nanoseconds
    burn(group)
    second = counter.read()
    assert second is not None
    assert second > 1.5 * first
    counter.close()


def test_without_a_cgroup_there_is_no_counter(tmp_path: Path) -> None:
    assert perf.instructions(None) is None
    assert perf.instructions(tmp_path) is None  # not a cgroup
    assert perf.count(tmp_path / "none", SOFTWARE, TASK_CLOCK) is None


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ([(100, 7, 7), (50, 5, 5)], 150),
        ([(100, 8, 4)], 200),  # had half of the PMU's time
        ([(100, 7, 7), (0, 0, 0)], 100),  # nothing of the group ran on that CPU
        ([(0, 7, 0)], None),
    ],
)
def test_counts_are_scaled_by_the_time_they_had(
    tmp_path: Path, read: list[tuple[int, int, int]], expected: int | None
) -> None:
    files = []
    for index, values in enumerate(read):
        path = tmp_path / str(index)
        path.write_bytes(b"".join(value.to_bytes(8, "little") for value in values))
        files.append(os.open(path, os.O_RDONLY))
    counter = perf.Counter(files)
    assert counter.read() == expected
    counter.close()
