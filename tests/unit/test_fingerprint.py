"""What a run recorded about its surroundings, and what of it is compared. Synthetic."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from analysis.judge.comparability import Difference, differences
from analysis.judge.compare import compare
from analysis.judge.fingerprint import fingerprint
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from harness.levels import LEVELS
from harness.machine import manifest
from harness.machine.host import Host
from harness.observe.sysfs import Sysfs
from harness.store.result import Result
from tests.fixtures.campaigns import write_campaign

EXT4 = "conventional-ext4"
WRITTEN = "overwrite.device_written"


def _with_host(result: Result, **values: Any) -> Result:
    host = {**result.manifest["host"], **values}
    return dataclasses.replace(result, manifest={**result.manifest, "host": host})


def _found(tmp_path: Path, **of_zlfs: Any) -> tuple[Difference, ...]:
    """Return the differences when the runs of zlfs recorded these values, the others zeros."""

    def change(result: Result) -> Result:
        zeros = {name: _like(value) for name, value in of_zlfs.items()}
        return _with_host(result, **(of_zlfs if result.level == "zlfs" else zeros))

    folder = write_campaign(tmp_path / "c", levels=(EXT4, "zlfs"), series=False, change=change)
    comparison = compare(load(folder), metrics=[WRITTEN])
    return comparison.differences.get("zlfs", ())


def _like(value: Any) -> Any:
    return {key: _like(one) for key, one in value.items()} if isinstance(value, dict) else "0"


@pytest.mark.parametrize(
    "recorded",
    [
        {"cgroup_memory_used": "1"},
        {"pages_free": "1"},
        {"dirty_expire_time": "1"},
        {"writeback_seconds": "1"},
        {"swap_available": "1"},
        {"modules": {"f2fs": {"reclaim_time": "1"}}},
        {"virtual_time": "1"},
    ],
)
def test_a_setting_counts_whatever_its_name_ends_with(
    tmp_path: Path, recorded: dict[str, Any]
) -> None:
    (difference,) = _found(tmp_path, **recorded)
    assert difference.blocking


def test_only_the_boot_and_the_load_differ_between_any_two_runs(tmp_path: Path) -> None:
    assert _found(tmp_path, boot_id="1", loadavg="1") == ()


def test_the_end_of_preconditioning_differs_and_its_passes_do_not(tmp_path: Path) -> None:
    def devices(passes: int, ended: str) -> list[dict[str, Any]]:
        done = {"passes": passes, "ended": ended}
        return [{"path": "/dev/nvme0n2", "zoned": True, "preconditioned": done}]

    folder = write_campaign(tmp_path / "c", levels=(EXT4,), repetitions=1, series=False)
    campaign = load(folder)
    (run,) = campaign.runs
    record = dataclasses.replace(
        run, result=_with_host(run.result, devices=devices(2, "2026-01-01T00:00:00Z"))
    )
    found = fingerprint(campaign, record)
    assert found["manifest.devices.zoned.preconditioned.passes"] == "2"
    assert "manifest.devices.zoned.preconditioned.ended" not in found


def _blocks(key: str, contrasted: str = "level", owned: tuple[str, ...] = ()) -> list[bool]:
    found = differences({key: {"a"}}, {key: {"b"}}, {contrasted}, owned=owned)
    return [one.blocking for one in found]


@pytest.mark.parametrize(
    "key",
    [
        "manifest.level.mount_options",
        "manifest.level.gc_source",
        "manifest.level.facts.module_build_id",
        "manifest.level.direct_io.writes",
        "device.model",
    ],
)
def test_a_level_owns_how_it_is_mounted(key: str) -> None:
    assert _blocks(key) == []


@pytest.mark.parametrize(
    "key",
    [
        "manifest.level.program",
        "manifest.level.tracing.source",
        "manifest.level.invented_tomorrow",
        "manifest.modules.f2fs.invented_tomorrow",
        "device.kind",
        "device.invented_tomorrow",
    ],
)
def test_a_level_owns_nothing_else_of_its_record(key: str) -> None:
    assert _blocks(key) == [True]
    assert _blocks(key, "scheduler") == [True]


def test_zenfs_alone_declares_a_program_of_its_own() -> None:
    key = "manifest.level.program"
    owners = {name for name, level in LEVELS.items() if _blocks(key, owned=level.owns) == [False]}
    assert owners == {"zenfs"}


def test_another_tracer_blocks_the_verdict(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        source = "bpftrace" if result.level == "zlfs" else "trace buffer"
        level = {**result.manifest["level"], "tracing": {"source": source}}
        return dataclasses.replace(result, manifest={**result.manifest, "level": level})

    folder = write_campaign(tmp_path / "c", levels=(EXT4, "zlfs"), series=False, change=change)
    (row,) = compare(load(folder), metrics=[WRITTEN]).rows
    assert row.verdict is Verdict.NOT_COMPARABLE


def test_parameters_of_loaded_modules_are_recorded(tmp_path: Path) -> None:
    parameters = tmp_path / "sys/module/f2fs/parameters"
    parameters.mkdir(parents=True)
    (parameters / "num_compress_pages").write_text("512\n")
    (tmp_path / "sys/module/dm_zoned").mkdir()
    (tmp_path / "sys/module/nvme/parameters").mkdir(parents=True)
    found = manifest.modules(Host(Sysfs(tmp_path / "sys")))
    assert found == {"dm_zoned": {}, "f2fs": {"num_compress_pages": "512"}}
