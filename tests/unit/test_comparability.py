"""The conditions that forbid a verdict, listed by hand so that the test notices a removed entry."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.judge.comparability import (
    BUILD,
    NAMED,
    NEVER_BY_DESIGN,
    NOT_RECORDED,
    declared,
    differences,
    gathered,
    owned_by_levels,
)
from analysis.judge.compare import Comparison, Row, compare
from analysis.judge.fingerprint import GEOMETRY
from analysis.judge.verdicts import Verdict
from analysis.read.load import load, load_pool
from harness.cli import verify
from harness.cli.main import main
from harness.store.result import Result
from harness.store.spec import Claim
from tests.fixtures.campaigns import Part, with_metric, write_on_demand, write_rigs

WRITTEN = "overwrite.device_written"
BASE = "conventional-ext4"

# Each key with two values that make a comparison of levels unfair.
BLOCKS: dict[str, tuple[str, str]] = {
    "host.cpus": ("2", "4"),
    "host.memory_bytes": ("1000000", "1200000"),
    "host.rocksdb": ("9.10.0", "7.8.3"),
    "flags.target_file_size_base": ("4194304", "67108864"),
    "flags.use_direct_reads": ("1", "0"),
    "flags.use_direct_io_for_flush_and_compaction": ("1", "0"),
    "flags.sync": ("0", "1"),
    "flags.disable_wal": ("0", "1"),
    "device.kind": ("hardware", "emulated"),
    "cold.target_utilisation": ("0.8", "0.4"),
    "workload.phases": ("['fillrandom', 'overwrite']", "['fillrandom']"),
    "memory_limit": ("536870912", "none"),
    "flags.num": ("1000", "2000"),
    "flags.writes": ("1000", "2000"),
    "flags.reads": ("1000", "2000"),
    "flags.duration": ("30", "60"),
    "flags.key_size": ("16", "20"),
    "flags.value_size": ("400", "800"),
    "flags.threads": ("1", "8"),
    "flags.compression_type": ("snappy", "none"),
    "geometry.zones": ("384", "192"),
    "geometry.zone_size": ("8388608", "4194304"),
    "geometry.zone_capacity": ("4194304", "8388608"),
    "geometry.max_open_zones": ("14", "0"),
    "geometry.max_active_zones": ("14", "0"),
    "geometry.logical_block_size": ("4096", "512"),
    "host.kernel": ("6.12.0", "6.19.0"),
    "host.os": ("Debian 12", "Debian 13"),
    "manifest.governor": ("performance", "powersave"),
    "manifest.remainder_bytes": ("0", "1000000"),
    "utilisation.u_drive": ("45 %", "80 %"),
    # Nobody has to think of a flag or a setting before it counts.
    "flags.write_buffer_size": ("16777216", "22369621"),
    "flags.cache_size": ("33554432", "8589934592"),
    "flags.max_background_jobs": ("2", "16"),
    "flags.invented_tomorrow": ("0", "1"),
    "manifest.swappiness": ("60", "0"),
    "manifest.nvme_multipath": ("Y", "N"),
    "manifest.devices.zoned.preconditioned.passes": ("2", "0"),
    "manifest.devices.zoned.queue.own.wbt_lat_usec": ("2000", "0"),
}


def diff(key: str, base: set[str], level: set[str], contrasted: str = "level") -> list[bool]:
    """Return for each difference found whether it blocks the verdict."""
    return [one.blocking for one in differences({key: base}, {key: level}, {contrasted})]


@pytest.mark.parametrize("key", BLOCKS)
def test_a_difference_blocks_the_verdict(key: str) -> None:
    one, other = BLOCKS[key]
    assert diff(key, {one}, {other}) == [True]
    assert diff(key, {one}, {one}) == []


@pytest.mark.parametrize("key", BLOCKS)
def test_differences_within_one_side_block_too(key: str) -> None:
    one, other = BLOCKS[key]
    assert diff(key, {one, other}, {one}) == [True]
    assert diff(key, {one}, {one, other}) == [True]


def test_the_same_mix_on_both_sides_is_no_difference() -> None:
    assert (
        diff("manifest.governor", {"performance", "powersave"}, {"powersave", "performance"}) == []
    )
    assert diff(BUILD, {"9.10.0", "7.8.3"}, {"9.10.0", "7.8.3"}) == [True]


@pytest.mark.parametrize(
    ("key", "values", "rigs", "is_declared", "expected"),
    [
        # Rigs differ in geometry, and the study names them.
        ("geometry.zones", ("32", "64"), ("a", "b"), False, [("no verdict", "zones 32 vs 64")]),
        ("geometry.zones", ("32", "64"), ("a", "b"), True, [("declared", "zones 32 vs 64")]),
        # A device's fields repeat the geometry or the identity there.
        *(
            (f"manifest.devices.zoned.{name}", ("1", "2"), ("a", "b"), True, [])
            for name in (
                *("path", "key", "eui64", "nguid", "uuid", "serial", "nsid", "size", "zones"),
                *("zone_size", "zone_capacity", "max_open_zones", "max_active_zones"),
                *("logical_block_size", "physical_block_size", "chunk_sectors", "nr_zones"),
            )
        ),
        (
            "manifest.devices.zoned.zones",
            ("32", "64"),
            ("a", "b"),
            False,
            [("no verdict", "manifest.devices.zoned.zones 32 vs 64")],
        ),
        (
            "manifest.devices.zoned.zones",
            ("32", "64"),
            ("a", "a"),
            True,
            [("no verdict", "manifest.devices.zoned.zones 32 vs 64")],
        ),
        (
            "manifest.devices.zoned.preconditioned.passes",
            ("0", "2"),
            ("a", "b"),
            True,
            [("no verdict", "manifest.devices.zoned.preconditioned.passes 0 vs 2")],
        ),
        # The study declares nothing else.
        ("zonelab", ("0.1", "0.2"), ("a", "b"), True, [("listed", "zonelab 0.1 vs 0.2")]),
        ("manifest.governor", ("x", "y"), ("a", "b"), True, [("no verdict", "governor x vs y")]),
        # A level that does not use a device has no record of it.
        ("manifest.devices.zoned.zones", ("32", NOT_RECORDED), ("a", "a"), False, []),
        ("manifest.devices.zoned.zones", (NOT_RECORDED, "32"), ("a", "a"), False, []),
    ],
)
def test_rigs_that_differ(
    key: str,
    values: tuple[str, str],
    rigs: tuple[str, str],
    is_declared: bool,
    expected: list[tuple[str, str]],
) -> None:
    base, level = ({key: {value}, "rig": {rig}} for value, rig in zip(values, rigs, strict=True))
    found = differences(base, level, {"level"}, declared=is_declared)
    about_rig = [("declared" if is_declared else "no verdict", "rig a vs b")] * (rigs[0] != rigs[1])
    assert {(one.consequence, one.label) for one in found} == {*expected, *about_rig}
    assert not any(one.blocking and one.declared for one in found)


def test_flags_of_a_phase_are_compared_where_phases_differ() -> None:
    def found(phases: str) -> list[str]:
        base, level = (
            {"flags.reads": {"by phase"}, "phase.read.reads": {reads}, "workload.phases": {all_}}
            for reads, all_ in (("1000", "read"), ("2000", phases))
        )
        return [one.key for one in differences(base, level, {"level"})]

    assert found("read") == ["phase.read.reads"]
    # A user can permit other phases. That permits no other flags in a phase that both sides have.
    assert found("fill, read") == ["phase.read.reads", "workload.phases"]


def test_a_flag_that_one_side_lacks_in_a_phase_is_a_difference() -> None:
    phases = {"workload.phases": {"fill=a, read=b"}}
    everywhere = phases | {f"{key}.sync": {"1"} for key in ("flags", "phase.fill", "phase.read")}
    in_the_fill = {key: everywhere[key] for key in everywhere if key != "phase.read.sync"}

    def found(base: dict[str, set[str]], level: dict[str, set[str]]) -> list[tuple[str, bool]]:
        return [(one.key, one.blocking) for one in differences(base, level, {"campaign"})]

    assert found(everywhere, in_the_fill) == [("phase.read.sync", True)]
    assert found(in_the_fill, everywhere) == [("phase.read.sync", True)]
    # The difference of the merged flag, or of the phases, covers these.
    none = phases | {"flags.num": {"9"}}
    assert found(everywhere, none) == [("flags.num", True), ("flags.sync", True)]
    shorter = in_the_fill | {"workload.phases": {"fill=a"}}
    assert found(everywhere, shorter) == [("workload.phases", True)]


def test_a_phase_that_sets_a_flag_otherwise_is_a_difference_in_both_orders() -> None:
    """A user can permit the merged flag. That permits no other flag in this phase."""
    same = {"flags.sync": {"1"}, "phase.fill.sync": {"1"}, "phase.read.sync": {"1"}}
    other = {"flags.sync": {"by phase"}, "phase.fill.sync": {"1"}, "phase.read.sync": {"0"}}
    for base, level in ((same, other), (other, same)):
        found = differences(base, level, {"level"}, owned=("flags.sync",))
        blocking = [("flags.sync", False), ("phase.read.sync", True)]
        assert [(one.key, one.blocking) for one in found] == blocking


@pytest.mark.parametrize(("flag", "blocks"), [("sync", True), ("write_buffer_size", False)])
def test_no_factor_changes_the_wal_of_one_phase(flag: str, *, blocks: bool) -> None:
    base, level = (
        {f"flags.{flag}": {"by phase"}, f"phase.read.{flag}": {value}} for value in ("0", "1")
    )
    found = differences(base, level, {"value_size"})
    assert [one.blocking for one in found] == [blocks]


@pytest.mark.parametrize(
    ("key", "base", "level", "label"),
    [
        ("geometry.zone_size", {"8388608"}, {"4194304"}, "zone size 8.00 MiB vs 4.00 MiB"),
        ("memory_limit", {"536870912"}, {"none"}, "memory limit 512 MiB vs none"),
        ("geometry.max_open_zones", {"14"}, {"0"}, "open zones allowed 14 vs any number"),
        ("geometry.zones", {"10", "0"}, {"9"}, "zones 0 or 10 vs 9"),
        ("host.cpus", {"0"}, {"4194304"}, "CPU count 0 vs 4194304"),
        ("flags.max_open_files", {"0"}, {"9"}, "flags.max_open_files 0 vs 9"),
    ],
)
def test_values_for_people(key: str, base: set[str], level: set[str], label: str) -> None:
    (found,) = differences({key: base}, {key: level}, {"level"})
    assert found.label == label


TWO_RIGS = {"one": Part("small", (BASE,)), "two": Part("large", ("zlfs",), {"zones": 64})}


def test_only_planned_geometries_of_one_campaign_are_declared(tmp_path: Path) -> None:
    def unplanned(level: str) -> Path:
        """Write a campaign, in which one level ran on another device than the planned one."""

        def change(result: Result) -> Result:
            other = dataclasses.replace(result.device, zones=48)
            return dataclasses.replace(result, device=other) if result.level == level else result

        return write_rigs(tmp_path / level, TWO_RIGS, change=change)

    folders = [write_rigs(tmp_path / name, TWO_RIGS) for name in ("c", "d")]
    for pool, blocking in (
        (load(folders[0]), False),
        (load(unplanned(BASE)), True),
        (load(unplanned("zlfs")), True),
        (load_pool(folders), True),
    ):
        groups = compare(pool, contrast="level").differences.values()
        found = {one.blocking for group in groups for one in group if one.key == "geometry.zones"}
        assert found == {blocking}


def test_a_study_declares_the_geometries_of_the_rigs_that_it_names(tmp_path: Path) -> None:
    campaign = load(write_rigs(tmp_path / "c", TWO_RIGS))
    first, second = (
        next(run for run in campaign.runs if run.host == host) for host in ("one", "two")
    )
    assert declared(campaign, [first, second])
    # It used another device than the planned one.
    other = dataclasses.replace(second.result, device=first.result.device)
    assert not declared(campaign, [first, dataclasses.replace(second, result=other)])
    assert not declared(campaign, [first, dataclasses.replace(second, host="three")])
    unnamed = dataclasses.replace(campaign.plan, rigs=("small",))
    assert not declared(dataclasses.replace(campaign, plan=unnamed), [first, second])


RUNNER, KVMIX = "code.runner", "code.programs.kvmix"
ONE, OTHER = "0123456789ab", "ba9876543210"


@pytest.mark.parametrize(
    ("key", "base", "level", "expected"),
    [
        (RUNNER, {ONE}, {ONE}, []),
        (RUNNER, {ONE}, {OTHER}, [True]),
        (RUNNER, {ONE, OTHER}, {ONE, OTHER}, [True]),  # the same mix on both sides
        (RUNNER, {ONE, OTHER}, {ONE}, [True]),
        (RUNNER, {NOT_RECORDED}, {NOT_RECORDED}, []),  # old campaigns: nothing is claimed
        (RUNNER, {NOT_RECORDED}, {ONE}, [False]),
        (RUNNER, {NOT_RECORDED, ONE}, {ONE}, [False]),
        (RUNNER, {NOT_RECORDED, ONE}, {OTHER}, [True]),
        (KVMIX, {ONE}, {OTHER}, [True]),
        (KVMIX, {ONE, OTHER}, {ONE, OTHER}, [True]),
        (KVMIX, {NOT_RECORDED}, {ONE}, []),  # one side does not use it
        (KVMIX, {f"{ONE} of source {ONE}"}, {f"{OTHER} of source {ONE}"}, [False]),  # two compilers
        (KVMIX, {f"{ONE} of source {ONE}"}, {f"{ONE} of source {OTHER}"}, [False]),  # equal bytes
        (KVMIX, {f"{ONE} of source {ONE}"}, {f"{OTHER} of source {OTHER}"}, [True]),
        (KVMIX, {f"{ONE} of source {ONE}"}, {OTHER}, [True]),  # not known to be the same
        # The build's identity decides about RocksDB (host.rocksdb).
        ("code.programs.db_bench", {ONE}, {OTHER}, [False]),
        ("code.programs.librocksdb.so.9.10.0", {ONE}, {OTHER}, [False]),
        ("code.programs./opt/zenfs/db_bench", {ONE}, {OTHER}, [False]),
        ("code.commit", {ONE}, {OTHER}, [False]),
        ("code.uncommitted", {"false"}, {"true"}, [False]),
    ],
)
def test_different_code(key: str, base: set[str], level: set[str], expected: list[bool]) -> None:
    assert diff(key, base, level) == expected
    assert diff(key, level, base) == expected
    allowed = differences({key: base}, {key: level}, {"level"}, different_code=True)
    assert [one.blocking for one in allowed] == [False] * len(expected)


@pytest.mark.parametrize("key", [RUNNER, KVMIX])
def test_two_campaigns_may_have_different_code_but_not_a_mix(key: str) -> None:
    assert diff(key, {ONE}, {OTHER}, "campaign") == [False]
    assert diff(key, {ONE, OTHER}, {OTHER}, "campaign") == [True]
    assert diff(key, {OTHER}, {ONE, OTHER}, "campaign") == [True]


def coded(result: Result) -> Result:
    """Let another runner have made the first repetition."""
    source = "a" * 64 if result.repetition == 1 else "b" * 64
    code = {"runner": {"source": source, "commit": None}, "programs": {}}
    host = {**(result.manifest.get("host") or {}), "code": code}
    return dataclasses.replace(result, manifest={**result.manifest, "host": host})


def test_runs_of_one_cell_by_different_code_give_no_verdict(tmp_path: Path) -> None:
    campaign = load(write_on_demand(tmp_path / "c", change=coded))
    mixed = compare(campaign, metrics=[WRITTEN])
    assert {row.verdict for row in mixed.rows} == {Verdict.NOT_COMPARABLE}
    labels = [one.label for found in mixed.differences.values() for one in found]
    both = "aaaaaaaaaaaa or bbbbbbbbbbbb"
    assert set(labels) == {f"source of the runner {both} vs {both}"}
    allowed = compare(campaign, metrics=[WRITTEN], different_code=True)
    assert Verdict.NOT_COMPARABLE not in {row.verdict for row in allowed.rows}


@pytest.mark.parametrize("command", ["report", "compare"])
def test_each_command_judges_different_code_at_the_users_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    claim = Claim("writes-more", WRITTEN, "zlfs", "conventional-ext4", "different")
    folder = write_on_demand(tmp_path / "c", change=coded, claims=(claim,), series=False)

    def printed(*more: str) -> str:
        words = ["--format", "md"] if command == "report" else ["--metric", WRITTEN]
        main([command, str(folder), *words, *more])
        return capsys.readouterr().out

    assert "not comparable" in printed()
    assert "not comparable" not in printed("--different-code")


def test_verify_hands_different_code_to_the_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verify, "problems", lambda _: ([], []))
    claim = Claim("writes-more", WRITTEN, "zlfs", "conventional-ext4", "different")
    folder = write_on_demand(tmp_path / "c", change=coded, claims=(claim,), series=False)
    asked = ["verify", str(folder), "--claims", "--format", "csv"]
    outcomes = []
    for more in ([], ["--different-code"]):
        main([*asked, *more])
        outcomes.append("not comparable" in capsys.readouterr().out)
    assert outcomes == [True, False]
    assert main(["verify", str(folder), "--different-code"]) == 2
    assert main(["verify", str(folder), "--slower", str(folder)]) == 2


# Names for people, copied by hand from docs/methods.md and the report.
LABELS = {
    "host.cpus": "CPU count",
    "host.memory_bytes": "memory",
    "host.rocksdb": "RocksDB build",
    "flags.target_file_size_base": "SST size",
    "flags.use_direct_reads": "direct reads",
    "flags.use_direct_io_for_flush_and_compaction": "direct writes",
    "flags.sync": "WAL sync",
    "flags.disable_wal": "WAL",
    "device.kind": "device kind",
    "cold.target_utilisation": "target utilisation",
    "workload.phases": "phases",
    "memory_limit": "memory limit",
    "host.kernel": "kernel",
    "host.os": "operating system",
    "manifest.governor": "governor",
    "manifest.remainder_bytes": "bytes on the remainder",
    "utilisation.u_drive": "utilisation of the drive",
    "geometry.zones": "zones",
    "geometry.zone_size": "zone size",
    "geometry.zone_capacity": "zone capacity",
    "geometry.max_open_zones": "open zones allowed",
    "geometry.max_active_zones": "active zones allowed",
    "geometry.logical_block_size": "block size",
}


@pytest.mark.parametrize("key", LABELS)
def test_a_difference_has_a_name_for_people(key: str) -> None:
    one, other = BLOCKS[key]
    (found,) = differences({key: {one}}, {key: {other}}, {"level"})
    assert found.what == LABELS[key]


def test_every_name_has_a_case() -> None:
    assert {*NAMED, *GEOMETRY} == set(LABELS)


# A planner derives flags from the values of other factors, but never these.
NO_FACTOR_CHANGES = {
    "device.kind": "level",
    "flags.target_file_size_base": "value_size",
    "flags.use_direct_reads": "value_size",
    "flags.use_direct_io_for_flush_and_compaction": "value_size",
    "flags.sync": "value_size",
    "flags.disable_wal": "value_size",
}


@pytest.mark.parametrize("key", NO_FACTOR_CHANGES)
def test_no_other_factor_excuses_it(key: str) -> None:
    one, other = BLOCKS[key]
    assert diff(key, {one}, {other}, NO_FACTOR_CHANGES[key]) == [True]


def test_each_of_them_has_a_case() -> None:
    assert set(NO_FACTOR_CHANGES) == NEVER_BY_DESIGN


def test_a_level_owns_what_it_declares_and_nothing_else() -> None:
    def listed(key: str, *owned: str) -> list[tuple[bool, bool]]:
        found = differences({key: {"a"}}, {key: {"b"}}, {"level"}, owned=owned)
        return [(one.blocking, one.declared) for one in found]

    assert listed("host.kernel", "host.kernel") == [(False, True)]
    assert listed("host.kernel", "manifest.packages.") == [(True, False)]
    assert listed("host.rocksdb", "host.") == [(True, False)]  # no level owns RocksDB itself


_LEVELS_RECORD = ("mount_options", "gc_source", "facts.discarded", "direct_io.reads")


@pytest.mark.parametrize(
    ("factor", "key"),
    [
        *(
            (factor, f"manifest.level.{name}")
            for factor in ("level", "finish_occupancy_pct")
            for name in _LEVELS_RECORD
        ),
        ("level", "device.model"),
        ("target_utilisation", "cold.tolerance"),
        ("scheduler", "manifest.devices.zoned.queue.own.nr_requests"),
        ("zone_size", "geometry.zones"),
        ("zone_size", "manifest.devices.zoned.zones"),
    ],
)
def test_a_factor_changes_these_by_design(factor: str, key: str) -> None:
    assert diff(key, {"a"}, {"b"}, factor) == []
    assert diff(key, {"a"}, {"b"}, "value_size") == [True]


@pytest.mark.parametrize(
    ("level", "key"),
    [
        ("xfs", "host.kernel"),  # it needs a newer kernel
        ("zenfs", "manifest.level.program"),
        # It needs mq-deadline, which has queue settings of its own.
        ("zenfs", "scheduler"),
        ("zenfs", "manifest.devices.zoned.scheduler"),
        ("zenfs", "manifest.devices.zoned.queue.own.async_depth"),
        ("zenfs", "manifest.devices.zoned.queue.path.nr_requests"),
        ("zenfs", "manifest.devices.zoned.queue.path.scheduler"),
        ("zenfs", "manifest.devices.zoned.queue.own.wbt_lat_usec"),
    ],
)
def test_a_level_owns_the_settings_that_it_needs(level: str, key: str) -> None:
    def blocks(*levels: str) -> list[bool]:
        runs: Any = [SimpleNamespace(spec=SimpleNamespace(level=name)) for name in levels]
        found = differences({key: {"a"}}, {key: {"b"}}, {"level"}, owned=owned_by_levels(runs))
        return [one.blocking for one in found]

    assert blocks(BASE, "zlfs", "a level of a later release") == [True]
    assert blocks(BASE, "a level of a later release", level) == [False]


def test_derived_flags_may_follow_a_factor_but_not_a_level() -> None:
    assert diff("flags.write_buffer_size", {"1"}, {"2"}, "value_size") == [False]
    assert diff("flags.use_direct_reads", {"1"}, {"0"}, "value_size") == [True]
    assert diff("manifest.governor", {"a"}, {"b"}, "value_size") == [True]


def test_what_one_side_did_not_record_is_listed() -> None:
    for key in ("manifest.governor", "device.serial", "utilisation.x", "rig"):
        assert diff(key, {NOT_RECORDED}, {"a"}) == [False]
        assert diff(key, {"a"}, {"b"}) == [True]
    assert diff("flags.max_background_jobs", {NOT_RECORDED}, {"16"}) == [True]
    assert diff("workload.phases", {NOT_RECORDED}, {"['fillrandom']"}) == [True]


def test_the_names_of_a_namespace_change_between_boots() -> None:
    for name in ("path", "key", "eui64", "nguid", "uuid", "nsid"):
        assert diff(f"device.{name}", {"a"}, {"b"}) == [False]
    assert diff("device.serial", {"S1"}, {"S2"}) == [True]  # another drive


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("1019000", []),
        ("980000", []),  # of the larger one
        ("979000", [True]),
        ("1021000", [True]),
        ("1200000", [True]),
        ("800000", [True]),
    ],
)
def test_memory_is_allowed_to_differ_by_two_percent(other: str, expected: list[bool]) -> None:
    assert diff("host.memory_bytes", {"1000000"}, {other}) == expected
    assert diff("host.memory_bytes", {"1000000"}, {NOT_RECORDED}) == [True]
    for key in ("geometry.zones", "memory_limit"):  # a limit is declared, so it is equal
        assert diff(key, {"1000000"}, {other}) == [True]


def test_a_key_that_only_some_runs_recorded_is_a_difference() -> None:
    some = gathered([{"flags.sync": "0", "x": "1"}, {"x": "1"}])
    all_of_them = gathered([{"flags.sync": "0", "x": "1"}])
    assert some["flags.sync"] == {"0", NOT_RECORDED}
    found = differences(all_of_them, some, {"level"})
    assert [(one.key, one.blocking) for one in found] == [("flags.sync", True)]
    assert [one.key for one in differences({}, all_of_them, {"level"})] == ["flags.sync", "x"]


def test_a_module_that_was_not_loaded_has_no_parameters() -> None:
    key = "manifest.modules.f2fs.num_compress_pages"
    some = {key: {"512", NOT_RECORDED}}
    for group in ({key: {"512"}}, {key: {NOT_RECORDED}}, {}):
        assert differences(some, group, []) == ()
        assert differences(group, some, []) == ()
    (other,) = differences(some, {key: {"256"}}, [])
    assert other.key == key


def test_a_contrasted_factor_changes_only_its_own_conditions() -> None:
    assert diff("cold.target_utilisation", {"0.8"}, {"0.4"}, "target_utilisation") == []
    assert diff("flags.sync", {"0"}, {"1"}, "sync") == []
    assert diff("flags.disable_wal", {"0"}, {"1"}, "sync") == [True]
    for key in ("host.cpus", "manifest.governor", "device.serial", "utilisation.x"):
        assert diff(key, {"2"}, {"4"}, "host") == [False]  # listed where hosts are compared
        assert diff(key, {"2"}, {"4"}, "level") == [True]
    for key in ("host.rocksdb", "device.kind", "memory_limit", "workload.phases"):
        one, other = BLOCKS[key]
        assert diff(key, {one}, {other}, "host") == [True]


def made(tmp_path: Path, **options: Any) -> Comparison:
    return compare(load(write_on_demand(tmp_path / "c", series=False, **options)))


def claimed(comparison: Comparison, level: str) -> Row:
    return next(r for r in comparison.rows if (r.metric, r.level) == (WRITTEN, level))


def test_a_claim_does_not_override_not_comparable(tmp_path: Path) -> None:
    """The difference is large and certain, but the sides had different numbers of CPUs."""

    def other_cpus(result: Result) -> Result:
        if result.level != "zlfs":
            return result
        manifest = dict(result.manifest)
        manifest["host"] = {**(manifest.get("host") or {}), "cpus": 64}
        return dataclasses.replace(result, manifest=manifest)

    claims = (Claim("C1", WRITTEN, "zlfs", BASE, "worse"),)
    fair = claimed(made(tmp_path / "fair", claims=claims), "zlfs")
    assert (fair.verdict, fair.claim) == (Verdict.WORSE, "C1")
    unfair = claimed(made(tmp_path / "unfair", claims=claims, change=other_cpus), "zlfs")
    assert unfair.estimate.p_value is not None
    assert (unfair.verdict, unfair.claim) == (Verdict.NOT_COMPARABLE, "C1")
    assert unfair.p_holm is None


def slightly_more(factor: float) -> Callable[[Result], Result]:
    """Give zlfs ``factor`` times the baseline's bytes, with a spread that is much smaller."""

    def change(result: Result) -> Result:
        is_level = result.level == "zlfs"
        spread = 1 + 1e-5 * result.repetition ** (2 if is_level else 1)
        return with_metric(result, WRITTEN, 1e9 * spread * (factor if is_level else 1.0))

    return change


def test_a_claim_does_not_override_the_noise_floor(tmp_path: Path) -> None:
    claims = (Claim("C1", WRITTEN, "zlfs", BASE, "worse"),)
    below = claimed(made(tmp_path / "a", claims=claims, change=slightly_more(1.005)), "zlfs")
    assert below.verdict is Verdict.NO_DIFFERENCE
    above = claimed(made(tmp_path / "b", claims=claims, change=slightly_more(1.02)), "zlfs")
    assert above.verdict is Verdict.WORSE
