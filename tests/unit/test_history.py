"""Costs by prior history: table, directions, figures. SYNTHETIC latencies in captured output."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.judge import latencies, zone_history
from analysis.judge.compare import Comparison, compare
from analysis.read.load import load
from analysis.show import zone_history_figure
from analysis.show.report import write_report
from harness.plan.load import CONFIGS
from harness.store import checksums, rundir
from harness.store.files import dumps
from harness.store.result import Result
from harness.store.spec import DeviceKind, PhaseRole, PhaseSpec
from tests.fixtures.campaigns import Change, write_campaign

ROOT = Path(__file__).parents[2]
CAPTURED = (Path(__file__).parents[1] / "fixtures" / "zoneprobe" / "probe.stdout").read_text()
PHASE = PhaseSpec(
    "probe",
    "zones",
    PhaseRole.MEASURED,
    {},
    24,
    0,
    expects_gc=False,
    timeout_seconds=300,
    program="zoneprobe",
)


def test_the_workload_and_the_page_name_the_source_of_the_curves() -> None:
    """The report prints measured means beside those of the source at equal occupancies."""
    (source,) = re.findall(r"Source: data of (.+ et al\. \d{4})", latencies.__doc__ or "")
    workload = (CONFIGS / "workloads/reset-history.yml").read_text()
    head, _, section = (ROOT / "docs/methods.md").read_text().partition("## Prior history")
    assert head
    assert f"beside published means [{source}]" in section.partition("\n## ")[0]
    comment = " ".join(line.strip("# ") for line in workload.splitlines() if line[0] == "#")
    assert f"The occupancies are those of the curves of {source}" in comment
    zones = yaml.safe_load(workload)["zones"]
    named = {"block": 0.0004, "all-but-block": 99.9996}
    for field, curve in (
        ("occupancies", latencies.RESET),
        ("finish_occupancies", latencies.FINISH),
    ):
        for occupancy in zones[field]:
            assert latencies.at(curve, named.get(occupancy, occupancy)) is not None, (
                field,
                occupancy,
            )


def output(rng: random.Random, *, full: float, dilation: int = 1) -> str:
    """Return captured output with invented latencies: a full zone's reset takes ``full`` times.

    Each takes ``dilation`` times as long.
    """
    summary = json.loads(CAPTURED)
    for one in summary["treatments"]:
        slow = full if one["name"] == "reset-100" else 1.0
        one["reset_ns"] = [dilation * _noisy(rng, 2e6 * slow) for _ in one["reset_ns"]]
        one["finish_ns"] = [dilation * _noisy(rng, 4e8) for _ in one["finish_ns"]]
        one["write_ns"] = [
            [dilation * _noisy(rng, 14e3 if i == 0 else 11e3) for i, _ in enumerate(cycle)]
            for cycle in one["write_ns"]
        ]
    return json.dumps(summary)


def _noisy(rng: random.Random, size: float) -> int:
    return round(size * rng.lognormvariate(0, 0.01))


def campaign(
    folder: Path,
    kind: DeviceKind,
    *,
    full: float = 8.0,
    repetitions: int = 3,
    change: Change = lambda result: result,
) -> Comparison:
    write_campaign(
        folder,
        levels=("btrfs",),
        kind=kind,
        repetitions=repetitions,
        change=change,
        series=False,
    )
    rng = random.Random(7)  # noqa: S311 - not cryptography
    for run in rundir.completed(folder / "hosts" / "rig" / "runs"):
        spec = rundir.load_spec(run)
        (run / "run.json").write_text(dumps(dataclasses.replace(spec, phases=(PHASE,))))
        (run / "raw").mkdir(exist_ok=True)
        dilation = rundir.load_result(run).device.dilation
        (run / "raw" / "probe.stdout").write_text(output(rng, full=full, dilation=dilation))
        checksums.write(run)
    return compare(load(folder))


def words(comparison: Comparison) -> dict[str, str]:
    runs = zone_history.probed(comparison)
    table = zone_history.order_table(runs, not_hardware=comparison.campaign.not_hardware)
    assert set(table.column("cell")) == {"btrfs"}
    return dict(zip(table.column("direction"), table.column("verdict"), strict=True))


FULLER = zone_history.ORDERS[0].text


@pytest.mark.parametrize(
    ("full", "word"), [(8.0, "holds"), (0.5, "does not hold"), (1.0, "not shown")]
)
def test_directions_on_a_drive(tmp_path: Path, full: float, word: str) -> None:
    found = words(campaign(tmp_path / "c", DeviceKind.HARDWARE, full=full))
    assert found[FULLER] == word
    assert found["the first write to a fresh zone takes longer than later ones"] == "holds"
    # The captured run had no treatment finish-block.
    missing = next(text for text in found if text.startswith("finishing a zone with one block"))
    assert found[missing] == "too few"


def test_one_run_shows_nothing(tmp_path: Path) -> None:
    found = words(campaign(tmp_path / "c", DeviceKind.HARDWARE, repetitions=1))
    assert set(found.values()) == {"too few"}


@pytest.mark.slow
def test_emulated_times_are_no_result(tmp_path: Path) -> None:
    comparison = campaign(tmp_path / "c", DeviceKind.EMULATED)
    assert set(words(comparison).values()) == {"not a result"}
    for draw in (zone_history_figure.by_occupancy, zone_history_figure.behind_resets):
        svg = draw(comparison, zone_history.probed(comparison)).svg
        assert svg is not None
        assert "emulated: not a result" in svg


def test_latencies_of_a_modelled_drive_are_on_its_clock(tmp_path: Path) -> None:
    """The machine takes 256 times as long as the drive."""

    def change(result: Result) -> Result:
        model = "zoneblk zones-4m-0123abcd x256"
        return dataclasses.replace(result, device=dataclasses.replace(result.device, model=model))

    drive = campaign(tmp_path / "drive", DeviceKind.HARDWARE)
    model = campaign(tmp_path / "model", DeviceKind.MODELLED, change=change)
    tables = [zone_history.latency_table(zone_history.probed(one)) for one in (drive, model)]
    assert tables[0] == tables[1]
    assert set(words(model).values()) == {"not a result"}


def test_every_run_treatment_and_command_has_a_row(tmp_path: Path) -> None:
    comparison = campaign(tmp_path / "c", DeviceKind.HARDWARE)
    header, rows = zone_history.latency_table(zone_history.probed(comparison))
    # fresh: first write; four resets: reset, first write; three finishes: all.
    assert len(rows) == 3 * (1 + 4 * 2 + 3 * 3)
    assert {len(row) for row in rows} == {len(header)}
    cells: dict[str, Any] = dict(zip(header, rows[0], strict=True))
    assert (cells["treatment"], cells["command"], cells["n"]) == ("fresh", "first write", "3")
    (half,) = [row for row in rows[:18] if row[1] == "finish-50" and row[3] == "finish"]
    assert half[2] == "50 %"
    assert half[-1] == "457 ms"  # the ZN540's
    assert half[7] == "-"  # three samples have no p99


@pytest.mark.slow
def test_the_report_has_the_section(tmp_path: Path) -> None:
    comparison = campaign(tmp_path / "c", DeviceKind.HARDWARE)
    page, _ = write_report(comparison, tmp_path / "out")
    assert 'id="history"' in page.read_text()
    assert (tmp_path / "out" / "tables" / "history-directions.csv").is_file()
    assert (tmp_path / "out" / "figures" / "history-commands.svg").is_file()


@pytest.mark.slow
def test_campaigns_without_it_have_no_section(tmp_path: Path) -> None:
    write_campaign(tmp_path / "c")
    page, _ = write_report(compare(load(tmp_path / "c")), tmp_path / "out")
    assert 'id="history"' not in page.read_text()


def test_only_what_differs_most_is_drawn(tmp_path: Path) -> None:
    (one, *_) = zone_history.probed(campaign(tmp_path / "c", DeviceKind.HARDWARE))
    names = zone_history_figure.shown(one.summary.treatments)
    assert names == ["fresh", "reset-100", "finish-50"]


@pytest.mark.parametrize(
    ("percent", "milliseconds"),
    [(0, 1.077), (0.0977, 1.686), (6.25, 5.154), (7, None), (100, 16.187), (99.9, None)],
)
def test_nothing_published_is_interpolated(percent: float, milliseconds: float | None) -> None:
    assert latencies.at(latencies.RESET, percent) == milliseconds
    assert latencies.at(latencies.RESET_AFTER_FINISH, 99.9) == 15.372
