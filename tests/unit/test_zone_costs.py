"""Wear, occupancy at finish, and the modelled cost of finishing and resetting."""

from __future__ import annotations

import pytest

from analysis.read import points as measured
from harness import zn540
from harness.errors import ToolFailed
from harness.metrics.catalogue import CATALOGUE
from harness.run import zone_costs

CAPACITY = zn540.ZONE_CAPACITY
HEADER = "t,device,zone,action,latency_us,status,by,written,unwritten"
MIB = 1 << 20


def points(curve: str) -> list[tuple[float, float, float]]:
    """Return the published (occupancy in %, seconds, tolerance as a share)."""
    return [
        (point.x, point.value / 1e6, point.tolerance)
        for point in measured.load(measured.FOLDER / "zn540.csv")
        if (point.curve, point.statistic) == (curve, "mean") and point.tolerance
    ]


def test_a_finish_takes_what_a_zn540_took() -> None:
    wanted = points("finish")
    assert len(wanted) == 6
    for occupancy, seconds, tolerance in wanted:
        written = max(1, round(occupancy / 100 * CAPACITY))
        found = zone_costs.finish_seconds(written, CAPACITY)
        # At the full end the published line is 0.7 ms above its own point.
        assert found == pytest.approx(seconds, rel=tolerance, abs=0.001)
    assert zone_costs.finish_seconds(0, CAPACITY) == pytest.approx(13.55e-6, rel=0.05)


def test_a_smaller_zone_takes_as_long_as_its_bytes() -> None:
    half = zone_costs.finish_seconds(16 * MIB, 32 * MIB)
    whole = zone_costs.finish_seconds(CAPACITY - 16 * MIB, CAPACITY)
    assert half == pytest.approx(whole)


@pytest.mark.parametrize("finished", [False, True])
def test_a_reset_takes_what_a_zn540_took(finished: bool) -> None:
    wanted = points("reset_after_finish" if finished else "reset_unfinished")
    assert len(wanted) >= 6
    for occupancy, seconds, tolerance in wanted:
        written = round(occupancy / 100 * CAPACITY)
        found = zone_costs.reset_seconds(written, finished=finished)
        assert found == pytest.approx(seconds, rel=tolerance)


def timeline(*rows: str) -> list[str]:
    return [HEADER, *rows]


def test_a_timeline_adds_up() -> None:
    rows = timeline(
        "0.1,d,,reset-all,100,0,python3,,",
        "0.2,d,0,first-write,,0,,,",
        f"0.3,d,0,finish,200,0,x,{MIB},{3 * MIB}",  # metadata
        "0.4,d,2,first-write,,0,,,",
        f"0.5,d,2,finish,1000,0,x,{MIB},{3 * MIB}",
        f"0.6,d,2,finish,1000,0,x,{MIB},0",  # again: it is full
        f"0.7,d,2,finish,500,10,x,{MIB},",  # failed
        f"0.8,d,2,reset,3000,0,x,{MIB},",
        "0.9,d,3,first-write,,0,,,",
        "1.0,d,3,last-write,,0,,,",
        f"1.1,d,3,reset,5000,0,x,{4 * MIB},",
        "1.2,d,4,reset,400,0,x,0,",  # was empty
        "1.3,d,2,first-write,,0,,,",
        "1.4,d,,reset-all,600,0,x,,",
    )
    found = zone_costs.read(rows, 4 * MIB, metadata_zones=1)
    assert found.occupancies == [25.0]
    assert found.resets == {2: 2, 3: 1}
    assert found.finish == pytest.approx(0.0022)
    assert found.reset == pytest.approx(0.0091)
    assert found.modelled_finish == pytest.approx(2 * zone_costs.finish_seconds(MIB, 4 * MIB))
    assert found.modelled_reset == pytest.approx(
        zone_costs.reset_seconds(MIB, finished=True)
        + zone_costs.reset_seconds(4 * MIB, finished=False)
        + zone_costs.reset_seconds(0, finished=False)
    )
    metrics = zone_costs.metrics(found, 4, 10 * MIB, 2.0)
    values = {key.partition(".")[2]: metric.value for key, metric in metrics.items()}
    assert set(values) == set(zone_costs.NAMES) <= set(CATALOGUE)
    assert (values["wear_min"], values["wear_median"], values["wear_max"]) == (0, 0.5, 2)
    assert values["wear_cv"] == pytest.approx((11 / 16) ** 0.5 / 0.75)
    assert values["finish_occupancy_p50"] == 25
    assert values["finish_reset_share"] == pytest.approx(0.0113 / 2)
    modelled = values["modelled_finish_seconds"] + values["modelled_reset_seconds"]  # type: ignore[operator]
    assert values["modelled_cost_share"] == pytest.approx(modelled / (modelled + 10 / 1155))


def test_unknown_costs_are_null() -> None:
    rows = timeline("0.5,d,2,finish,1000,0,x,,", "0.6,d,2,reset,1000,0,x,,")
    found = zone_costs.read(rows, 4 * MIB)
    assert found.modelled_finish is None
    assert found.modelled_reset is None
    assert found.finish == found.reset == pytest.approx(0.001)
    values = zone_costs.metrics(found, 4, None, None)
    assert values["run.modelled_cost_share"].value is None
    assert values["run.finish_occupancy_p50"].value is None
    untraced = zone_costs.metrics(None, 0, 1, 1.0)
    assert {metric.value for metric in untraced.values()} == {None}


def test_no_timeline_is_refused() -> None:
    with pytest.raises(ToolFailed, match="not a timeline"):
        zone_costs.read(["a,b", "1,2"], 4 * MIB)
