"""How many CPUs of a machine run tasks, from the kernel's exact counters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.machine.host import Host
from harness.run.phase_metrics import metrics
from tests.fixtures.run_facts import plain

# Linux 7.3, a machine with two CPUs; of "cpu0" the seventh number counts, in nanoseconds.
SCHEDSTAT = """\
version 17
timestamp 4301406275
cpu0 1 2 3 4 5 6 25083668777 22266492112 161953
domain0 MC 3 0 0 0 0 0 0 0 0 0 0 0
cpu1 0 0 0 0 0 0 1000000000 5 6
domain0 MC 3 0 0 0 0 0 0 0 0 0 0 0
"""


def test_the_time_of_tasks_is_summed_over_cpus(tmp_path: Path) -> None:
    assert Host(proc=tmp_path).busy_seconds() is None
    (tmp_path / "schedstat").write_text(SCHEDSTAT)
    assert Host(proc=tmp_path).busy_seconds() == pytest.approx(26.083668777)


@pytest.mark.parametrize(
    ("busy", "seconds", "cpus"), [(5.0, 100.0, 0.05), (150.0, 100.0, 1.5), (None, 100.0, None)]
)
def test_busy_cpus_are_busy_seconds_per_second_of_the_program(
    busy: float | None, seconds: float, cpus: float | None
) -> None:
    facts = replace(plain(), busy_seconds=busy, seconds=seconds)
    assert metrics(facts)["overwrite.busy_cpus"].value == cpus
