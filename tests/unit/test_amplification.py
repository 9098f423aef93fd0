"""Bytes per user byte over device writes: synthetic ledgers, and a recorded campaign."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.judge.compare import compare
from analysis.read.amplification import Amplification, read
from analysis.read.load import load
from analysis.show import drawing
from analysis.show.amplification_figure import by_layer, over_writes, split_of
from analysis.show.drawing import Plot
from analysis.show.groups import groups_of
from analysis.show.report import write_report
from harness.store import checksums
from harness.store.files import dumps
from harness.store.ledger import RUN, Ledger, LedgerEntry
from harness.store.result import Result
from tests.fixtures.campaigns import CAPACITY, write_campaign
from tests.fixtures.ledgers import ZLFS, build, entry

_STARTS = {"fillrandom": "00:00:00", "overwrite": "00:00:20", "readrandom": "00:00:40"}
_WRITTEN = {"fillrandom": CAPACITY, "overwrite": 3 * CAPACITY, "readrandom": 0}
_MEDIA = {"fillrandom": CAPACITY, "overwrite": 6 * CAPACITY, "readrandom": 0}


def _apart(result: Result) -> Result:
    """Return a result whose phases follow each other, with operations at an even pace."""
    phases = tuple(
        dataclasses.replace(phase, started=f"2026-01-01T{_STARTS[phase.name]}+00:00")
        for phase in result.phases
    )
    return dataclasses.replace(result, phases=phases, started="2026-01-01T00:00:00+00:00")


def _entry(name: str, written: int, media: int | None, user: int) -> LedgerEntry:
    template = entry(build(ZLFS), "overwrite")
    return dataclasses.replace(
        template,
        name=name,
        user=user,
        submitted={"nvme0n2": written},
        media={"nvme0n2": media},
        media_source="" if media is None else "modelled: synthetic",
    )


def _campaign(
    folder: Path, *, media: Mapping[str, int] | None = None, series: str | None = None
) -> Path:
    """Write a campaign whose runs of f2fs have a ledger, and even series of bytes."""
    write_campaign(folder, levels=("f2fs", "btrfs"), repetitions=1, change=_apart)
    run = folder / "hosts/rig/runs/f2fs--r01"
    user = {"fillrandom": CAPACITY, "overwrite": CAPACITY, "readrandom": 0}
    entries = [
        _entry(name, size, media[name] if media else None, user[name])
        for name, size in _WRITTEN.items()
    ]
    whole = sum(media.values()) if media else None
    entries.append(_entry(RUN, sum(_WRITTEN.values()), whole, 2 * CAPACITY))
    (run / "ledger.json").write_text(dumps(Ledger("f2fs", tuple(entries))))
    at = {0: 0, 20: CAPACITY, 40: 4 * CAPACITY, 60: 4 * CAPACITY}
    lines = ["t,nvme0n2.write_bytes", *(f"{t},{size}" for t, size in at.items())]
    (run / "series/diskstats.csv").write_text("\n".join(lines) + "\n")
    for begin, name in ((0, "fillrandom"), (20, "overwrite")):
        rows = [f"{begin + second},7500" for second in range(1, 21)]
        (run / f"series/{name}.csv").write_text("\n".join(["t,operations", *rows]) + "\n")
    if series is not None:
        (run / "series/media.csv").write_text(series)
    checksums.write(run)
    return folder


def _line(folder: Path) -> Amplification:
    (run,) = (run for run in load(folder).runs if run.spec.level == "f2fs")
    line = read(run)
    assert line is not None
    return line


def _at(line: Amplification, turnover: float) -> tuple[float, float | None]:
    (point,) = (point for point in line.points if abs(point.turnover - turnover) < 1e-9)
    return point.cumulative, point.window


def _plots(folder: Path) -> tuple[Plot, Plot]:
    comparison = compare(load(folder))
    groups = groups_of(comparison)
    with drawing.style():
        return over_writes(comparison, groups), by_layer(comparison, groups)


def _texts(plot: Plot) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg or "")


def test_a_line_ends_at_the_media_bytes_of_the_ledger(tmp_path: Path) -> None:
    line = _line(_campaign(tmp_path / "c", media=_MEDIA))
    assert line.media
    assert _at(line, 4.0) == pytest.approx((3.5, 6.0))  # 7 C of media for 2 C of the user
    assert _at(line, 1.0) == pytest.approx((1.0, 1.0))  # the fill has no amplification
    assert line.ends == pytest.approx({"fillrandom": 1.0, "overwrite": 4.0, "readrandom": 4.0})


def test_without_a_series_media_bytes_follow_device_bytes(tmp_path: Path) -> None:
    line = _line(_campaign(tmp_path / "c", media=_MEDIA))
    assert _at(line, 2.5) == pytest.approx((4 / 1.5, 6.0))  # half of the overwrite's 6 C


def test_a_series_divides_media_bytes_over_a_phase(tmp_path: Path) -> None:
    text = "t,nvme0n2\n0,0\n20,500\n30,600\n40,1000\n"  # a fifth in half of the overwrite
    line = _line(_campaign(tmp_path / "c", media=_MEDIA, series=text))
    assert _at(line, 2.5) == pytest.approx((2.2 / 1.5, 6.0 / 2.5))
    assert _at(line, 4.0) == pytest.approx((3.5, 6.0 * 8 / 5))


@pytest.mark.parametrize("capacities", [5, 6, 16])
def test_a_window_is_half_of_the_capacity_even_of_a_run_that_writes_less(
    tmp_path: Path, capacities: int
) -> None:
    """The run writes four times CAPACITY: the fill once, and the overwrite with twice the M."""
    folder = _campaign(tmp_path / "c", media=_MEDIA)
    path = folder / "hosts/rig/runs/f2fs--r01/result.json"
    record = json.loads(path.read_text())
    record["device"]["zones"] *= capacities
    path.write_text(json.dumps(record))
    checksums.write(path.parent)
    line = _line(folder)
    windows = {point.turnover: point.window for point in line.points}
    assert all((window is None) == (turnover < 0.5) for turnover, window in windows.items())
    if capacities == 16:
        assert set(windows.values()) == {None}  # a quarter of the capacity was written
    else:
        assert windows[max(windows)] == pytest.approx(6.0)  # of the overwrite alone


def test_unknown_media_bytes_are_replaced_by_device_bytes_and_named(tmp_path: Path) -> None:
    folder = _campaign(tmp_path / "c")
    line = _line(folder)
    assert not line.media
    assert _at(line, 4.0) == pytest.approx((2.0, 3.0))
    plot, _ = _plots(folder)
    assert plot.title == "Device bytes per user byte against device writes"
    assert "Dashed, device bytes, because media bytes are unknown: f2fs." in plot.sentence
    assert "No line: btrfs." in plot.sentence
    assert plot.svg is not None
    assert "stroke-dasharray" in plot.svg


def test_known_media_bytes_are_named_with_their_source(tmp_path: Path) -> None:
    plot, _ = _plots(_campaign(tmp_path / "c", media=_MEDIA))
    assert plot.title == "Media bytes per user byte against device writes"
    assert "Media bytes: modelled: synthetic." in plot.sentence
    assert "unknown" not in plot.sentence
    assert {"fillrandom", "overwrite"} <= set(_texts(plot))
    assert "readrandom" not in _texts(plot)  # it has no width: it writes nothing


def test_the_parts_of_the_end_add_up_to_its_amplification() -> None:
    one = dataclasses.replace(
        _entry(RUN, 900, 1200, 400), wal=0, flush=400, compaction=300, submitted={"a": 900}
    )
    assert split_of(one) == {"RocksDB": 1.75, "level": 0.5, "device": 0.75}
    unknown = dataclasses.replace(one, media={"a": None})
    assert split_of(unknown) == {"RocksDB": 1.75, "level": 0.5}
    # Deleted before the file system wrote them: RocksDB's bytes end at the device's.
    assert split_of(dataclasses.replace(one, submitted={"a": 600})) == {
        "RocksDB": 1.5,
        "level": 0.0,
        "device": 1.5,
    }
    assert split_of(dataclasses.replace(one, flush=None)) is None


def test_a_layer_without_a_count_is_named_beside_its_bar(tmp_path: Path) -> None:
    _, plot = _plots(_campaign(tmp_path / "c"))
    assert "2.00 + device" in _texts(plot)
    assert "device" not in _texts(plot)  # not in the legend
    _, plot = _plots(_campaign(tmp_path / "d", media=_MEDIA))
    assert {"3.50", "device"} <= set(_texts(plot))


def test_both_figures_come_before_every_table(tmp_path: Path) -> None:
    comparison = compare(load(_campaign(tmp_path / "c", media=_MEDIA)))
    page, _ = write_report(comparison, tmp_path / "out")
    text = page.read_text()
    first = text.index("<table")
    assert text.index("Media bytes per user byte against device writes") < first
    assert text.index("Bytes per user byte at the end") < first
    assert (tmp_path / "out/figures/amplification.svg").is_file()


def test_a_campaign_without_ledgers_has_no_such_section(tmp_path: Path) -> None:
    comparison = compare(load(write_campaign(tmp_path / "c", repetitions=1)))
    page, _ = write_report(comparison, tmp_path / "out")
    assert 'id="amplification"' not in page.read_text()


@pytest.mark.parametrize(("count", "beside"), [(1, True), (6, True), (7, False)])
def test_names_beside_lines_stay_apart_and_inside_the_figure(
    tmp_path: Path, count: int, *, beside: bool
) -> None:
    comparison = compare(load(_campaign(tmp_path / "c", media=_MEDIA)))
    (group,) = (group for group in groups_of(comparison) if group.value == "f2fs")
    names = [f"{index} conventional-ext4-discard, 40%" for index in range(count)]
    groups = [dataclasses.replace(group, value=name) for name in names]
    with drawing.style(), drawing.keeping_figures():
        figure = over_writes(comparison, groups).figure
    assert figure is not None
    renderer = figure._get_renderer()  # type: ignore[attr-defined]
    figure.draw_without_rendering()
    for axes in figure.axes:
        texts = [text for text in axes.texts if text.get_text() in names]
        assert len(texts) == (count if beside else 0)
        boxes = sorted((text.get_window_extent(renderer) for text in texts), key=lambda b: b.y0)
        assert all(a.y1 <= b.y0 for a, b in pairwise(boxes))
        assert all(box.x1 / figure.dpi <= drawing.WIDTH for box in boxes)
        assert axes.get_position().width >= 0.45  # of the figure's width
    assert len(figure.legends) == (not beside)
