"""The sentence that divides media bytes into the factors of RocksDB, level and device."""

from dataclasses import replace
from math import prod
from pathlib import Path

from analysis.judge.compare import compare
from analysis.read.load import RunRecord, load
from analysis.show.headline import answers
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import with_metric, write_on_demand

EXT4 = "conventional-ext4"
NAMES = ("wa_lsm", "level_write_amplification", "wa_dev")
# Level → L / U, H / L, M / H.
FACTORS = {EXT4: (2.5, 1.2, 2.0), "f2fs": (6.5, 1.4, 0.66), "zlfs": (5.5, 1.05, 1.0)}


def answered(
    folder: Path,
    metric: str = "wa_total",
    unknown: str = "",
    ext4: tuple[float, float, float] = FACTORS[EXT4],
) -> dict[str, str]:
    """Return a campaign's answers about overwrites.

    Level ``unknown`` has no factor of RocksDB; ``ext4`` replaces that level's factors.
    """
    write_on_demand(folder, kind=DeviceKind.HARDWARE, series=False, levels=tuple(FACTORS))

    def with_factors(run: RunRecord) -> RunRecord:
        factors = {**FACTORS, EXT4: ext4}[run.spec.level]
        result = with_metric(run.result, f"overwrite.{metric}", prod(factors), "1")
        for name, value in zip(NAMES, factors, strict=True):
            known = name != "wa_lsm" or run.spec.level != unknown
            result = with_metric(result, f"overwrite.{name}", value if known else None, "1")
        return replace(run, result=result)

    campaign = load(folder)
    runs = tuple(with_factors(run) for run in campaign.runs)
    found = compare(replace(campaign, runs=runs), metrics=[f"overwrite.{metric}"])
    return {item.topic: item.text for item in answers(found)}


def test_the_factors_name_the_layer_that_makes_the_difference(tmp_path: Path) -> None:
    found = answered(tmp_path / "c")
    assert found["Which"].startswith("At 80 % utilisation, zlfs has the lowest media bytes")
    assert found["Why"] == (
        "RocksDB, level and device multiply the bytes. zlfs leads f2fs mostly in "
        "the level (x1.05 against x1.40) and RocksDB (x5.50 against x6.50), and conventional-ext4 "
        "mostly in the device (x1.00 against x2.00)."
    )


def test_a_layer_with_half_of_the_largest_gain_is_named_too(tmp_path: Path) -> None:
    # ln(1.2 / 1.05) = 0.134: more than half of ln 1.2 = 0.182, less than half of ln 1.4 = 0.336.
    both = answered(tmp_path / "both", unknown="f2fs", ext4=(5.5, 1.2, 1.2))["Why"]
    assert both.endswith("in the device (x1.00 against x1.20) and the level (x1.05 against x1.20).")
    one = answered(tmp_path / "one", unknown="f2fs", ext4=(5.5, 1.2, 1.4))["Why"]
    assert one.endswith("mostly in the device (x1.00 against x1.40).")


def test_a_level_with_an_unknown_factor_is_left_out(tmp_path: Path) -> None:
    found = answered(tmp_path / "c", unknown="f2fs")
    assert found["Why"].endswith(
        "zlfs leads conventional-ext4 mostly in the device (x1.00 against x2.00)."
    )


def test_nothing_explains_a_value_without_its_factors(tmp_path: Path) -> None:
    assert "Why" not in answered(tmp_path / "best", unknown="zlfs")
    assert "Why" not in answered(tmp_path / "baseline", unknown=EXT4)
    assert "Why" not in answered(tmp_path / "other", metric="device_written")
