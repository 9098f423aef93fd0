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
    folder: Path,
    written: list[int],
    zones: Sequence[int | dict[str, int]],
    last: int,
    resets: Sequence[str] = (),
    *,
    commands: Sequence[str] = (),
    left: int | None = None,
) -> list[str]:
    """Compare samples of one second each; ``last`` has been written at the last barrier.

    ``zones`` has the number of full zones, or several counts. ``resets`` are the time, the zone and
    the duration in us of resets of full zones, ``commands`` whole lines of other commands. At the
    last barrier the zones hold ``left``.
    """
    series = folder / "series"
    series.mkdir()
    rows = [f"{t},{count}" for t, count in enumerate(written)]
    (series / "diskstats.csv").write_text("\n".join(["t,ublkb0.write_bytes", *rows, ""]))
    lines = [",".join(["t", *STATES, *TENTHS])]
    for t, one in enumerate(zones):
        known = {"full": one} if isinstance(one, int) else one
        states = {"empty": 4 - sum(known.get(name, 0) for name in STATES), **known}
        counts = [states.get(name, 0) for name in (*STATES, *TENTHS)]
        lines.append(",".join(map(str, [t, *counts])))
    (series / "zones.csv").write_text("\n".join([*lines, ""]))
    lines = ["t,zone,latency_us,device,action,written,unwritten", *commands]
    lines += [f"{reset},ublkb0,reset,{CAPACITY}," for reset in resets]
    (series / "zone_commands.csv").write_text("\n".join([*lines, ""]))
    left = last - len(resets) * CAPACITY if left is None else left
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


@pytest.mark.parametrize(("written", "agrees"), [(29, False), (30, True), (40, True), (41, False)])
def test_a_zone_that_is_partly_written_holds_its_tenth(
    tmp_path: Path, written: int, *, agrees: bool
) -> None:
    partly = {"implicit_open": 1, "occupied_30": 1}
    assert (contradictions(tmp_path, [0, written], [0, partly], last=written) == []) == agrees


FILLED = "1.5,0,0,ublkb0,finish,30,70"


@pytest.mark.parametrize(
    ("finish", "agrees"),
    [
        (FILLED, True),
        (FILLED.replace("70", "60"), False),
        (FILLED.replace("ublkb0", "ublkb1"), False),  # of another drive
        (FILLED.replace(",0,", ",4,", 1), False),  # of another tenant
    ],
)
def test_a_finish_fills_a_zone_without_a_write(
    tmp_path: Path, finish: str, *, agrees: bool
) -> None:
    """The reset empties all of the zone, of which only a part was written."""
    partly = {"implicit_open": 1, "occupied_30": 1}
    commands = [finish, "2.5,0,0,ublkb0,reset,30,"]
    found = contradictions(
        tmp_path, [0, 30, 30, 30], [0, partly, 1, 0], last=30, commands=commands, left=0
    )
    assert (found == []) == agrees


def test_a_reset_of_all_zones_names_no_zone(tmp_path: Path) -> None:
    commands = ["1.5,,0,ublkb0,reset,200,"]
    assert contradictions(tmp_path, [0, 200, 200], [0, 2, 0], 200, commands=commands, left=0) == []


@pytest.mark.parametrize("left", [0, 200])
def test_a_trace_that_does_not_explain_the_last_zones_proves_nothing(
    tmp_path: Path, left: int
) -> None:
    """A level can send writes and resets directly to the driver."""
    assert contradictions(tmp_path, [0, 100], [0, 3], last=100, left=left) == []


@pytest.mark.parametrize("command", ["1.5,0,0,ublkb0,reset,,", "1.5,0,0,ublkb0,finish,30,"])
def test_a_command_without_its_bytes_proves_nothing(tmp_path: Path, command: str) -> None:
    assert contradictions(tmp_path, [0, 100, 100], [0, 3, 1], 100, commands=[command]) == []


@pytest.mark.parametrize("state", STATES[1:])
def test_a_drive_has_no_more_zones_than_planned(tmp_path: Path, state: str) -> None:
    (line,) = contradictions(tmp_path, [0, 100], [0, {state: 1, "empty": 4}], last=100)
    assert line == "series/zones.csv: has 5 zones at 1 s, the device has 4"
