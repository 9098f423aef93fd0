"""Bytes that the kernel counted against bytes in zones, in a run that ends in a phase."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.verify import zone_bytes

CAPACITY = 100
DEVICE = SimpleNamespace(name="ublkb0", zone_capacity=CAPACITY)
TENANT = SimpleNamespace(name="", device=DEVICE, zone_range=range(4))
STATES = ["empty", "implicit_open", "explicit_open", "closed", "full", "read_only", "offline"]
TENTHS = [f"occupied_{tenth}" for tenth in range(0, 100, 10)]


def snapshot(written: int, allocated: int) -> Any:
    counters = SimpleNamespace(zoned="ublkb0", written={"ublkb0": written})
    return SimpleNamespace(counters=counters, allocated=(allocated,))


def contradictions(
    folder: Path, written: list[int], full: list[int], last: int, resets: Sequence[str] = ()
) -> list[str]:
    """Compare samples of one second each; ``last`` has been written at the last barrier.

    ``resets`` are the time, the zone and the duration in us of resets of full zones.
    """
    series = folder / "series"
    series.mkdir()
    rows = [f"{t},{count}" for t, count in enumerate(written)]
    (series / "diskstats.csv").write_text("\n".join(["t,ublkb0.write_bytes", *rows, ""]))
    lines = [",".join(["t", *STATES, *TENTHS])]
    for t, count in enumerate(full):
        states = {"empty": 4 - count, "full": count}
        counts = [states.get(name, 0) for name in (*STATES, *TENTHS)]
        lines.append(",".join(map(str, [t, *counts])))
    (series / "zones.csv").write_text("\n".join([*lines, ""]))
    lines = ["t,zone,latency_us,device,action,written,unwritten"]
    lines += [f"{reset},ublkb0,reset,{CAPACITY}," for reset in resets]
    (series / "zone_commands.csv").write_text("\n".join([*lines, ""]))
    left = last - len(resets) * CAPACITY
    stored: Any = SimpleNamespace(spec=TENANT, snapshots=[snapshot(0, 0), snapshot(last, left)])
    return list(zone_bytes.differences(folder, stored))


def test_samples_go_on_after_the_last_barrier(tmp_path: Path) -> None:
    """The server of a drive was killed in a phase: no barrier followed."""
    assert contradictions(tmp_path, [0, 100, 200], [0, 1, 3], last=100) == []


@pytest.mark.parametrize(
    ("written", "full", "last"),
    [
        ([0, 100, 200], [0, 3, 2], 100),  # not in the last sample
        ([0, 100, 200], [0, 1, 3], 200),  # all phases ended
        ([0, 100, 200], [0, 1, 1], 200),
    ],
)
def test_other_samples_must_agree(
    tmp_path: Path, written: list[int], full: list[int], last: int
) -> None:
    (line,) = contradictions(tmp_path, written, full, last)
    assert line.startswith("series/diskstats.csv: ublkb0.write_bytes: has ")


@pytest.mark.parametrize(
    ("seconds", "agrees"),
    [
        (3.0, True),
        (1.0, True),  # issued between the sample and the next one
        (0.4, False),  # the zones were empty before the command
    ],
)
def test_a_reset_takes_effect_before_it_ends(tmp_path: Path, seconds: float, agrees: bool) -> None:
    """A drive of f2fs ends eight resets one after the other; a report shows all zones empty."""
    resets = [f"3.7,{zone},{1e6 * seconds}" for zone in (0, 1)]
    found = contradictions(tmp_path, [0, 200, 200, 200], [0, 2, 0, 0], last=200, resets=resets)
    assert (found == []) == agrees


def test_a_reset_that_has_ended_has_taken_effect(tmp_path: Path) -> None:
    resets = ["1.2,0,500000"]
    (line,) = contradictions(tmp_path, [0, 100, 100, 100], [0, 1, 0, 1], last=100, resets=resets)
    assert "has 100 at 3.000 s" in line
