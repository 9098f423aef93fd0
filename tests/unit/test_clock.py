"""Times of a modelled drive are on its model's clock; everything else stays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.read.clock import model_time, on_model_clock
from analysis.read.load import load
from analysis.read.percentiles import percentile, together
from analysis.read.series import read_bytes_written, read_throughput
from harness.plan.reference import RIG
from harness.store.result import Result
from harness.store.spec import DeviceKind
from harness.tools import histogram
from tests.fixtures.campaigns import write_campaign

MODEL = "zoneblk zones-4m-0123abcd x8"


@pytest.mark.parametrize(
    ("key", "unit", "value"),
    [
        ("overwrite.throughput", "ops/s", 800.0),
        ("overwrite.latency_p99", "us", 12.5),
        ("overwrite.seconds", "s", 12.5),
        ("overwrite.reset_rate", "1/s", 800.0),
        ("overwrite.stall_share", "1", 100.0),
        ("overwrite.cpu_seconds", "s", 100.0),  # of the processor
        ("overwrite.cpu_per_operation", "us", 100.0),
        ("overwrite.device_written", "B", 100.0),
        ("overwrite.wa_total", "1", 100.0),
        # computed from a drive's published numbers, not from a clock
        ("run.modelled_finish_seconds", "s", 100.0),
        ("probe.first.latency", "us", 12.5),  # of a program; not in the catalogue
    ],
)
def test_a_metric_on_the_models_clock(key: str, unit: str, value: float) -> None:
    assert model_time(key, 100.0, unit, 8) == value
    assert model_time(key, 100.0, unit, 1) == 100.0


@pytest.mark.parametrize(
    ("kind", "model", "dilation"),
    [
        (DeviceKind.MODELLED, MODEL, 8),
        (DeviceKind.EMULATED, MODEL, 1),
        (DeviceKind.HARDWARE, "drive x8", 1),
        (DeviceKind.MODELLED, "zoneblk zones-4m-0123abcd", 1),
    ],
)
def test_the_model_s_name_has_the_dilation(kind: DeviceKind, model: str, dilation: int) -> None:
    assert replace(RIG.device, kind=kind, model=model).dilation == dilation


def test_a_histogram_on_the_models_clock() -> None:
    own = histogram.make(1000, 80_000.0, 8, 160, [[0, 80, 600], [80, 160, 400]])
    scaled = on_model_clock(own, 8)
    for part in (5000, 9000):
        (before, after) = histogram.quantile(own, part), histogram.quantile(scaled, part)
        assert before is not None
        assert after == pytest.approx(before / 8)
    assert histogram.mean(scaled) == histogram.mean(own) / 8
    assert on_model_clock(own, 1) is own


def _modelled(result: Result) -> Result:
    return replace(result, device=replace(result.device, kind=DeviceKind.MODELLED, model=MODEL))


def test_a_campaign_on_a_modelled_drive_is_read_on_its_clock(tmp_path: Path) -> None:
    """The same files are read as of an emulated drive and as of a modelled one."""
    plain = load(write_campaign(tmp_path / "plain", repetitions=2)).runs[0]
    modelled = write_campaign(tmp_path / "modelled", repetitions=2, change=_modelled)
    dilated = load(modelled).runs[0]
    assert dilated.result.device.dilation == 8
    for key, factor in {
        "overwrite.throughput": 8,
        "overwrite.latency_p99": 1 / 8,
        "overwrite.write_amplification": 1,
    }.items():
        before, after = plain.value(key), dilated.value(key)
        assert before is not None
        assert after == pytest.approx(before * factor)
    own = histogram.make(1_000_000, 8e6, 1, 16, [[0, 8, 900_000], [8, 16, 100_000]])
    for run in (plain, dilated):
        (run.path / "histograms").mkdir()
        (run.path / "histograms" / "overwrite.write.json").write_text(json.dumps(own))
    wholes = [together([run], "overwrite") for run in (plain, dilated)]
    before, after = (percentile(whole, "latency_p99") for whole in wholes)
    assert before is not None
    assert after == pytest.approx(before / 8)
    for own, scaled in zip(read_throughput(plain), read_throughput(dilated), strict=True):
        assert scaled.t == pytest.approx([t / 8 for t in own.t])
        assert scaled.values == pytest.approx([value * 8 for value in own.values])
    for own, scaled in zip(read_bytes_written(plain), read_bytes_written(dilated), strict=True):
        assert scaled.t == pytest.approx([t / 8 for t in own.t])
        assert scaled.values == own.values
