"""The timeline of zone states, on captured and on synthetic commands."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.judge.compare import compare
from analysis.read import zones
from analysis.read.load import RunRecord, load
from analysis.read.zones import Span, StateChange, ZoneState
from analysis.show.report import write_report
from harness.errors import RunFailed
from harness.store import checksums
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import write_campaign

CAPTURED = Path(__file__).parents[1] / "fixtures" / "zones" / zones.NAME
HEADER = "t,device,zone,action,latency_us,status,by,written,unwritten\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_campaign(tmp_path / "c", levels=("f2fs", "btrfs"), repetitions=1)


def trace(folder: Path, text: str, zones_there: int = 384) -> RunRecord:
    """Give the run of f2fs a timeline."""
    path = folder / "hosts/rig/runs/f2fs--r01"
    (path / "series" / zones.NAME).write_text(text)
    checksums.write(path)
    run = next(run for run in load(folder).runs if run.name == "f2fs--r01")
    device = replace(run.result.device, zones=zones_there)
    return replace(run, result=replace(run.result, device=device))


def row(t: float, zone: int | str, action: str, status: int = 0) -> str:
    return f"{t},nvme0n2,{zone},{action},1.0,{status},zlfs,,\n"


def test_a_captured_timeline(folder: Path) -> None:
    text = CAPTURED.read_text()
    found = zones.read_changes(trace(folder, text))
    rows = list(csv.DictReader(text.splitlines()))
    counted = Counter(row["action"] for row in rows)
    assert {row["status"] for row in rows} == {"0"}
    # Every zone was reset before it was written again, so each command but the resets of empty
    # zones (all of them twice, and zone 1) changed one.
    assert zones.count(found) == {
        ZoneState.ACTIVE: counted["first-write"],
        ZoneState.FULL: counted["last-write"],
        ZoneState.FINISHED: counted["finish"],
        ZoneState.EMPTY: counted["reset"] - 1,
    }
    spans = zones.spans(found)
    (finished,) = (span for span in spans if span.state is ZoneState.FINISHED)
    assert (finished.zone, finished.begin) == (297, 8.673336)
    last: dict[int, float] = {}
    for span in sorted(spans, key=lambda span: (span.begin, span.end)):
        assert last.get(span.zone, 0.0) <= span.begin <= span.end  # never two states at once
        last[span.zone] = span.end
    open_at_end = [span for span in spans if span.end == found[-1].t]
    assert all(span.begin <= span.end for span in open_at_end)
    assert (
        1 <= sum(span.state is ZoneState.ACTIVE for span in open_at_end) <= 14
    )  # the device's limit


def test_commands_without_effect_are_not_changes(folder: Path) -> None:
    text = HEADER + "".join(
        (
            row(1, "", "reset-all"),
            row(2, 0, "first-write"),
            row(2.5, 0, "open"),
            row(3, 0, "last-write"),
            row(4, 0, "finish"),  # full already
            row(5, 1, "open"),
            row(6, 1, "close"),
            row(7, 1, "finish"),
            row(8, 2, "first-write", status=1),  # refused
            row(9, 1, "reset"),
            row(9.5, 1, "reset"),
            row(10, "", "reset-all"),
            "11,nvme0n2,2,first-wr",  # the runner was killed here
        )
    )
    found = zones.read_changes(trace(folder, text, zones_there=3))
    assert found == (
        StateChange(2, 0, ZoneState.ACTIVE),
        StateChange(3, 0, ZoneState.FULL),
        StateChange(5, 1, ZoneState.ACTIVE),
        StateChange(7, 1, ZoneState.FINISHED),
        StateChange(9, 1, ZoneState.EMPTY),
        StateChange(10, 0, ZoneState.EMPTY),
    )
    assert zones.spans(found) == [
        Span(0, ZoneState.ACTIVE, 2, 3),
        Span(1, ZoneState.ACTIVE, 5, 7),
        Span(1, ZoneState.FINISHED, 7, 9),
        Span(0, ZoneState.FULL, 3, 10),
    ]


@pytest.mark.parametrize(
    "text", [HEADER + row(1, 5, "first-write"), HEADER + "x" + row(1, 0, "open"), "a,b\n1,2\n"]
)
def test_a_damaged_timeline_is_named(folder: Path, text: str) -> None:
    run = trace(folder, text, zones_there=3)
    with pytest.raises(RunFailed, match=f"f2fs--r01/series/{zones.NAME}"):
        zones.read_changes(run)


def test_changes_are_on_the_clock_of_the_drive_s_model(folder: Path) -> None:
    """The beginnings of phases, which the figure also draws, are on this clock."""
    run = trace(folder, CAPTURED.read_text())
    model = "zoneblk zones-4m-0123abcd x4"
    device = replace(run.result.device, kind=DeviceKind.MODELLED, model=model)
    modelled = replace(run, result=replace(run.result, device=device))
    for one, other in zip(zones.read_changes(modelled), zones.read_changes(run), strict=True):
        assert one == replace(other, t=other.t / 4)


@pytest.mark.slow
def test_the_report_draws_the_timeline_and_notes_a_missing_one(folder: Path) -> None:
    trace(folder, CAPTURED.read_text())
    page, _ = write_report(compare(load(folder)), folder.parent / "out")
    text = page.read_text()
    assert '<h3 id="zones">Zones</h3>' in text
    assert "No zone command of btrfs was traced." in text
    assert "finished early (1)" in text
    svg = (page.parent / "figures/zones-f2fs.svg").read_text()
    assert "data:image/png;base64," in svg
    assert not (page.parent / "figures/zones-btrfs.svg").exists()


@pytest.mark.slow
def test_without_any_timeline_there_is_no_section(folder: Path) -> None:
    page, _ = write_report(compare(load(folder)), folder.parent / "out")
    assert 'id="zones"' not in page.read_text()
    assert zones.read_changes(load(folder).runs[0]) == ()
