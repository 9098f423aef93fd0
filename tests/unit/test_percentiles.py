"""Percentiles of cells: histograms are merged, and those of an open loop are kept apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.read import percentiles
from analysis.read.load import RunRecord
from harness.store import rundir
from tests.fixtures.example import unpacked

TENANTS = Path(__file__).parents[1] / "fixtures" / "verify"
METRICS = ["latency_p50", "latency_p99", "intended_latency_p50"]


@pytest.fixture(scope="module")
def open_loop() -> RunRecord:
    folder = unpacked("tenants", TENANTS).parent / "small_mix-shared--r01"
    return RunRecord("rig", folder, rundir.load_spec(folder), rundir.load_result(folder))


@pytest.mark.parametrize("name", METRICS)
def test_latencies_of_an_open_loop_are_not_mixed_with_intended_ones(
    open_loop: RunRecord, name: str
) -> None:
    intended = percentiles.is_intended(name)
    whole = percentiles.together([open_loop], "victim.mix", intended=intended)
    found = percentiles.percentile(whole, name)
    assert found == open_loop.value(f"victim.mix.{name}")
    assert found is not None or name == "latency_p99"  # of 403 operations


def test_an_open_loop_has_two_histograms_of_the_same_operations(open_loop: RunRecord) -> None:
    served, intended = (
        percentiles.together([open_loop], "victim.mix", intended=kind) for kind in (False, True)
    )
    assert served is not None
    assert intended is not None
    assert served["count"] == intended["count"] == 403
    assert served["max"] < intended["max"]
