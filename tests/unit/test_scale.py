"""What a report costs, counted: files opened, functions called per run (SYNTHETIC campaigns)."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from analysis.judge.compare import compare
from analysis.read import parallel
from analysis.read.load import load
from analysis.read.series import read_columns
from analysis.show import drawing
from analysis.show.drawing import MOST_POINTS, by_rank
from analysis.show.report import write_report
from harness.errors import RunFailed
from harness.store import checksums
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import write_campaign

ROOT = str(Path(__file__).parents[2])
OURS = tuple(f"{ROOT}/{room}/" for room in ("analysis", "harness"))
LEVELS = ("conventional-xfs", "f2fs")  # that something is published about: compared again for it
# Calls of the project's functions per run: 7,890 where two runs are a cell, and 5 % to spare.
MOST_CALLS = 8_280
_opened: list[str] | None = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened is not None and isinstance(arguments[0], str | os.PathLike):
        _opened.append(os.fspath(arguments[0]))


sys.addaudithook(_hook)  # there is no way to remove it


@contextmanager
def opened() -> Iterator[list[str]]:
    """Record every file that is opened."""
    global _opened  # noqa: PLW0603
    _opened = []
    try:
        yield _opened
    finally:
        _opened = None


@contextmanager
def called() -> Iterator[Counter[str]]:
    """Count calls of the project's own functions, comprehensions too."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            found[f"{frame.f_code.co_filename.removeprefix(ROOT)}:{frame.f_code.co_name}"] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


def report(campaign: Path, folder: Path) -> Path:
    return write_report(compare(load(campaign)), folder)[0]


def made(folder: Path, repetitions: int, cells: int = 1) -> Path:
    factors = tuple({"threads": n} for n in range(1, cells + 1)) if cells > 1 else ({},)
    return write_campaign(
        folder, levels=LEVELS, repetitions=repetitions, factors=factors, kind=DeviceKind.HARDWARE
    )


@pytest.mark.slow
def test_each_file_of_a_run_is_read_once_for_its_checksum_and_once_for_its_content(
    tmp_path: Path,
) -> None:
    campaign = made(tmp_path / "c", 3)
    with opened() as paths:
        report(campaign, tmp_path / "out")
    counts = Counter(path for path in paths if path.startswith(f"{campaign}/hosts/"))
    # Checksums are read again for the root hash.
    # Series are read for their label, and again for the figure of the first runs of a group.
    most = {"SHA256SUMS": 2, "run.json": 2, "result.json": 2}
    beyond = {p: n for p, n in counts.items() if n > most.get(Path(p).name, 3)}
    assert not beyond
    assert sum(counts.values()) <= 18 * 6


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [[(4, 1), (8, 1), (16, 1)], [(2, 2), (2, 4), (2, 8)]],
    ids=["more repetitions", "more cells"],
)
def test_twice_the_runs_are_at_most_twice_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: Sequence[tuple[int, int]]
) -> None:
    # Writing a figure as SVG takes seconds, and none of our functions.
    monkeypatch.setattr(drawing, "stamped", lambda _figure, plot, *_, **__: replace(plot, svg="x"))
    report(made(tmp_path / "warm", *sizes[0]), tmp_path / "out")  # what is cached once for all
    counts = []
    for index, size in enumerate(sizes):
        campaign = made(tmp_path / f"c{index}", *size)
        with called() as found:
            report(campaign, tmp_path / f"out{index}")
        counts.append(found)
    first, second, third = (found.total() for found in counts)
    grown = (counts[2] - counts[1]) - (counts[1] - counts[0]) - (counts[1] - counts[0])
    assert third - second <= 2.05 * (second - first), grown.most_common(5)
    runs = len(LEVELS) * (sizes[2][0] * sizes[2][1] - sizes[1][0] * sizes[1][1])
    assert third - second <= MOST_CALLS * runs, counts[2].most_common(5)


@pytest.mark.slow
def test_other_processes_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = made(tmp_path / "c", 3)
    alone = report(campaign, tmp_path / "alone")
    monkeypatch.setattr(parallel, "MANY", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    page = report(campaign, tmp_path / "many")
    for path in alone.parent.rglob("*.*"):
        other = page.parent / path.relative_to(alone.parent)
        assert other.read_bytes() == path.read_bytes(), path.name
    broken = campaign / "hosts/rig/runs/f2fs--r02"
    (broken / "series/overwrite.csv").write_text("t,operations\n1.0,2\n2.0,many\n")
    with pytest.raises(RunFailed, match=r"f2fs--r02: series/overwrite.csv: checksum differs"):
        load(campaign)
    checksums.write(broken)
    with pytest.raises(RunFailed, match=r"f2fs--r02/series/overwrite.csv is not numeric") as caught:
        report(campaign, tmp_path / "none")
    assert caught.value.hint


def test_many_points_are_drawn_by_rank() -> None:
    values = [float((7919 * i) % 1000) for i in range(1000)]  # 0 to 999, shuffled
    drawn = by_rank(values)
    assert len(drawn) == MOST_POINTS
    assert (min(drawn), max(drawn)) == (0.0, 999.0)
    ordered = sorted(drawn)
    assert max(b - a for a, b in pairwise(ordered)) <= 6
    assert [v for v in values if v in set(drawn)] == drawn
    assert by_rank(values[:MOST_POINTS]) == values[:MOST_POINTS]


@pytest.mark.slow
def test_a_page_of_many_runs_states_which_runs_it_does_not_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = made(tmp_path / "c", 6)
    assert "evenly by rank" not in report(campaign, tmp_path / "all").read_text()
    monkeypatch.setattr("analysis.show.drawing.MOST_POINTS", 4)
    monkeypatch.setattr(drawing, "MOST_RUNS", 4)
    text = report(campaign, tmp_path / "few").read_text()
    assert "evenly by rank" in text
    assert "The first 4 of 6 runs are drawn." in text


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("t,n\n1.0,2\n2.5,3\n", [[1.0, 2.0], [2.5, 3.0]]),
        ("t,n\n1.0,2\n2.5,3", [[1.0, 2.0]]),  # of 31, or 3.5
        ("t,n\n1.0,2\n2.5", [[1.0, 2.0]]),
        ("t,n\n1.0,2\n2.5,\n3.0,4\n", [[1.0, 2.0], [3.0, 4.0]]),
        ("t,operations,latency_max_us\n1.0,2,\n2.0,,\n3.0,4,5\n", [[3.0, 4.0, 5.0]]),
        ("t,n\n1.0,2,3\n2.5\n3.0,4\n", [[3.0, 4.0]]),  # as many commas as there should be
        ("t,n\r\n1.0,2\r\n", [[1.0, 2.0]]),
        ('t,n\n"1.0","2"\n', [[1.0, 2.0]]),
        ("t,n\n\n1.0,2\n\n", [[1.0, 2.0]]),
        ("t\n1.0\n\n2.0\n", [[1.0], [2.0]]),
        ("t,n\n", []),
        ("", []),
    ],
)
def test_rows_of_a_series_are_read(tmp_path: Path, text: str, rows: list[list[float]]) -> None:
    path = tmp_path / "one.csv"
    path.write_bytes(text.encode())
    header, columns = read_columns(path)
    assert [list(row) for row in zip(*columns, strict=True)] == rows
    assert header == text.split("\n", 1)[0].rstrip("\r").split(",") if text else header == []
