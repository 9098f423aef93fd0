"""``zonelab plan`` from the command line: files, refusals, messages."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.cli.main import main
from harness.cli.output import portable
from harness.plan import load
from harness.store.campaign import Campaign
from harness.store.codec import decode
from harness.store.files import dumps, write_atomic
from harness.store.spec import Bytes, LevelProbe, Plan, Reason, TracingMode
from tests.fixtures.planner import Planner, rig

MIB = 2**20


def configs_with(tmp_path: Path, kind: str, name: str, /, **changes: object) -> str:
    """Copy the shipped configs and change fields of one file."""
    folder = tmp_path / "configs"
    for path in [*load.CONFIGS.glob("studies/*.yml"), *load.CONFIGS.glob("workloads/*.yml")]:
        target = folder / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text())
    path = folder / kind / f"{name}.yml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))
    return f"--configs={folder}"


def test_a_plan_is_written_whole(planner: Planner) -> None:
    assert planner("integration-levels") == 0
    plan = planner.plan()
    assert [host.host for host in plan.hosts] == ["rig"]
    assert len(plan.hosts[0].runs) == 40
    folder = planner.results / "c"
    assert json.loads((folder / "hosts/rig/host.json").read_text()) == json.loads(dumps(rig()))
    record = decode(Campaign, json.loads((folder / "campaign.json").read_text()))
    assert record.study_digest == plan.study_digest
    assert "40 runs" in planner.out
    assert "cold_bytes" in planner.out


def test_planning_again_changes_nothing(planner: Planner) -> None:
    assert planner("smoke") == 0
    before = planner.files()
    moved = replace(rig(), device=replace(rig().device, path="/dev/nvme9n2", scheduler="x"))
    assert planner("smoke", inspection=moved) == 0
    assert "unchanged" in planner.err
    assert planner.files() == before


def test_check_writes_nothing(planner: Planner) -> None:
    assert planner("smoke", "--check") == 0
    assert planner.files() == {}
    assert "3 runs" in planner.out


def test_json_on_stdout_is_the_plan(planner: Planner) -> None:
    assert planner("smoke", "--format", "json") == 0
    assert decode(Plan, json.loads(planner.out)) == planner.plan()
    assert planner("smoke", "--check", "--format", "md") == 0
    assert "| conventional-ext4--r01 |" in planner.out.replace("  ", "")


def test_a_changed_host_is_refused(planner: Planner) -> None:
    planner("smoke")
    host = replace(rig().host, kernel="7.3.0")
    message = planner.refused("smoke", inspection=replace(rig(), host=host))
    assert "the campaign cannot continue on a changed host: rig: kernel" in message
    assert "CAMPAIGN=" in message
    device = replace(rig().device, identity=replace(rig().device.identity, eui64="1"))
    message = planner.refused("smoke", inspection=replace(rig(), device=device))
    assert "zoned.identity" in message
    assert "host other is new" in planner.refused("smoke", planner.inspection(rig(), "other"))


def test_a_changed_study_is_refused(planner: Planner) -> None:
    planner("smoke")
    assert "another version of study" in planner.refused("smoke", "--repetitions", "2")
    assert "another version" in planner.refused("smoke", "--check", "--set", "seed=9")


def test_a_campaign_of_another_schema_is_refused(planner: Planner) -> None:
    planner("smoke")
    path = planner.results / "c" / "plan.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    assert "schema_version 99" in planner.refused("smoke")


def test_two_hosts_share_the_blocks(planner: Planner) -> None:
    words = [planner.inspection(rig(), "a"), planner.inspection(rig(), "b")]
    assert planner("integration-levels", *words) == 0
    blocks = {h.host: {run.block for run in h.runs} for h in planner.plan().hosts}
    assert blocks == {"a": {1, 3}, "b": {2, 4}}


def test_a_program_that_cannot_run_is_refused(planner: Planner) -> None:
    missing = Reason("program-missing", "fio is not installed", "apt-get install fio")
    old = Reason("fio-version", "fio-3.28 is too old", "newer")
    without = replace(rig(), unusable={"fio": missing})
    message = planner.refused("block-smoke", inspection=without)
    assert "workload.fio cannot run on rig: fio is not installed" in message
    assert "apt-get install fio" in message
    # The playbook installs it before it plans for good.
    assert planner("block-smoke", "--check", inspection=without) == 0
    assert planner("smoke", inspection=without) == 0, "smoke runs no fio"
    outdated = replace(rig(), unusable={"fio": old})
    assert "fio-3.28" in planner.refused("block-smoke", "--check", inspection=outdated)


def test_a_level_that_cannot_run_stays_in_the_plan(planner: Planner) -> None:
    missing = LevelProbe("f2fs", available=False, reason=Reason("x", "no f2fs here", "install it"))
    levels = tuple(missing if p.level == "f2fs" else p for p in rig().levels)
    device = replace(rig().device, max_active_zones=3)  # too few for f2fs, which cannot run anyway
    inspection = replace(rig(), levels=levels, device=device)
    words = ("smoke", "--levels", "f2fs,conventional-ext4")
    assert planner(*words, inspection=inspection) == 0
    runs = {run.level: run for run in planner.plan().hosts[0].runs}
    assert runs["f2fs"].predicted.bytes_written == 0
    assert runs["conventional-ext4"].predicted.bytes_written > 0
    assert "f2fs: no f2fs here (install it)" in planner.out


def test_levels_and_repetitions_narrow_a_study(planner: Planner) -> None:
    words = ("--levels", "f2fs,btrfs", "--repetitions", "2")
    assert planner("integration-levels", *words) == 0
    plan = planner.plan()
    assert {run.level for run in plan.hosts[0].runs} == {"f2fs", "btrfs"}
    assert len(plan.hosts[0].runs) == 4
    assert (plan.baseline, plan.claims) == ("f2fs", ())


def test_set_reaches_study_and_workload(planner: Planner) -> None:
    words = ("--set", "target_utilisation=30%", "--set", "workload.value_size=4KiB")
    assert planner("smoke", *words) == 0
    run = planner.plan().hosts[0].runs[0]
    assert run.cold is not None
    assert run.cold.target_utilisation == pytest.approx(0.3)
    assert run.phases[0].flags["value_size"] == 4096


def test_the_scheduler_is_a_factor(planner: Planner) -> None:
    assert planner("schedulers") == 0
    seen = {(run.level, run.scheduler, run.cell) for run in planner.plan().hosts[0].runs}
    assert ("btrfs", "mq-deadline", "btrfs_scheduler-mq-deadline") in seen
    assert len(seen) == 6  # two levels and a twin


def test_an_option_of_the_only_level_is_a_factor(planner: Planner, tmp_path: Path) -> None:
    changes = {
        "levels": ["f2fs"],
        "factors": {"f2fs.o": [5, 20]},
        "contrast": "f2fs.o",
        "baseline": "5",
        "claims": [],
    }
    assert planner("smoke", configs_with(tmp_path, "studies", "smoke", **changes)) == 0
    runs = planner.plan().hosts[0].runs
    assert {run.run for run in runs} == {"f2fs_f2fs.o-5--r01", "f2fs_f2fs.o-20--r01"}
    assert sorted(run.level_options["o"] for run in runs) == [5, 20]
    changes["levels"] = ["f2fs", "btrfs"]
    assert planner("smoke", configs_with(tmp_path, "studies", "smoke", **changes)) == 2
    assert "factor 'f2fs.o' needs levels: [f2fs]" in planner.err
    changes |= {"levels": ["f2fs"], "factors": {"f2fs.size": [5]}, "contrast": "f2fs.size"}
    assert planner("smoke", configs_with(tmp_path, "studies", "smoke", **changes)) == 2
    assert "level f2fs has no option 'size'" in planner.err


def test_a_level_that_wants_a_scheduler_gets_it(planner: Planner, tmp_path: Path) -> None:
    changes = {"levels": ["zenfs", "f2fs"], "baseline": "f2fs"}
    varied = {**changes, "factors": {"scheduler": ["none"]}}
    able = tuple(
        replace(probe, available=True, reason=None) if probe.level == "zenfs" else probe
        for probe in rig().levels
    )
    there = replace(rig(), levels=able)
    configs = configs_with(tmp_path, "studies", "smoke", **varied)
    # Where it is skipped anyway it stands in nobody's way.
    assert planner("smoke", configs, "--check") == 0
    assert planner("smoke", configs, inspection=there) == 2
    assert "zenfs does not work with scheduler none" in planner.err
    configs = configs_with(tmp_path, "studies", "smoke", **changes)
    assert planner("smoke", configs, inspection=there) == 0
    chosen = {run.level: run.scheduler for run in planner.plan().hosts[0].runs}
    assert chosen == {"zenfs": "mq-deadline", "f2fs": "none"}


def test_old_kernels_get_mq_deadline(planner: Planner) -> None:
    old = replace(rig(), host=replace(rig().host, kernel="6.1.0-25-amd64"))
    assert "reorders zone writes" in planner.refused("schedulers", inspection=old)
    assert planner("smoke", "--check", "--format", "json", inspection=old) == 0
    assert {r.scheduler for r in decode(Plan, json.loads(planner.out)).hosts[0].runs} == {
        "mq-deadline"
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("integration-level",), "did you mean integration-levels?"),
        (("smoke", "--levels", "f2sf"), "did you mean f2fs?"),
        (("smoke", "--set", "workload=smok"), "did you mean smoke?"),
        (("smoke", "--set", "levels=[f2f]", "--set", "baseline=f2f"), "there is no level 'f2f'"),
        (("smoke", "--set", "tolerence=3%"), "did you mean tolerance?"),
        (("smoke", "--set", "workload.value_size=6XB"), "known size units: B, KiB, MiB"),
        (("smoke", "--set", "workload.value_size=0"), "value_size"),
        (("smoke", "--set", "repetitions=0"), "repetitions"),
        (("smoke", "--set", "baseline=btrfs"), "baseline 'btrfs' is not one of f2fs"),
        (("smoke", "--set", "metrics=[overwrite.speed]"), "unknown metric 'overwrite.speed'"),
        (("smoke", "--set", "factors={thread: [1, 2]}"), "did you mean threads?"),
        (("smoke", "--set", "factors={scheduler: [bfq]}"), "does not offer scheduler 'bfq'"),
        (("smoke", "--set", "oops"), "not FIELD=VALUE"),
        (("smoke", "--inspection=nofile"), "not HOST=FILE.json"),
        (("smoke", "--inspection=h=/nonexistent.json"), "/nonexistent.json does not exist"),
        (("smoke", "--set", "limit_bytes=1MiB"), "the study allows 1024.0 KiB"),
        (("smoke", "--set", "limit_time=3s"), "the study allows 3 s"),
        (("smoke", "--set", "memory_limit=64MiB"), "memory_limit 64.0 MiB is less than the"),
        (("smoke", "--set", "memory_limit=4GiB"), "has no effect: rig has only 4096.0 MiB"),
        (("smoke", "--set", "target_utilisation=0.5%"), "less than the database"),
        (("smoke", "--set", "target_utilisation=99%"), "leaves"),
        (("smoke", "--set", "workload.database_share=90%"), "less than the database"),
        (
            ("smoke", "--set", "factors={target_file_size_base: [7340032]}"),
            "larger than a zone's capacity of 4096.0 KiB",
        ),
    ],
)
def test_bad_input_is_one_clear_line(
    planner: Planner, words: tuple[str, ...], message: str
) -> None:
    if any(word.startswith("--inspection") for word in words) or "oops" in words:
        assert planner(*words) == 2
        assert message in planner.err
    else:
        assert message in planner.refused(*words)
    assert planner.files() == {}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"level": "zlsf"}, "claim b: 'zlsf' is not one of "),
        ({"baseline": "ext4"}, "claim b: 'ext4' is not one of "),
        ({"id": "a", "metric": "overwrite.wa_total"}, "two claims have the same id"),
        ({}, "two claims have the same comparison"),
    ],
)
def test_claims_are_about_different_comparisons_of_the_study(
    planner: Planner, second: dict[str, str], message: str
) -> None:
    claim = {
        "id": "a",
        "metric": "overwrite.throughput",
        "level": "zlfs",
        "baseline": "f2fs",
        "expect": "better",
    }
    claims = json.dumps([claim, claim | {"id": "b"} | second])
    words = ("--set", "levels=[f2fs, zlfs]", "--set", "baseline=f2fs", "--set", f"claims={claims}")
    assert message in planner.refused("smoke", *words)


def test_an_inspection_without_a_level_of_the_study_is_old(planner: Planner) -> None:
    older = replace(rig(), levels=tuple(p for p in rig().levels if p.level != "f2fs"))
    message = planner.refused("smoke", inspection=older)
    assert "is older than level f2fs" in message
    assert "inspect the device again" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"zones": 12}, "f2fs needs at least 16 zones, /dev/nvme0n2 has 12"),
        ({"max_active_zones": 5}, "f2fs needs 6 active zones, /dev/nvme0n2 allows 5"),
        ({"zones": 32, "zone_capacity": Bytes(32 * 1024)}, "no key"),
    ],
)
def test_a_device_that_cannot_carry_the_study(
    planner: Planner, changes: dict[str, int], message: str
) -> None:
    small = replace(rig(), device=replace(rig().device, **changes))  # type: ignore[arg-type]
    words = ("--set", "workload.value_size=1GiB") if "zone_capacity" in changes else ()
    assert message in planner.refused("smoke", *words, inspection=small)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"zones": 15}, "zlfs needs at least 16 zones, /dev/nvme0n2 has 15"),
        ({"max_active_zones": 5}, "zlfs needs 6 active zones, /dev/nvme0n2 allows 5"),
        # 6 zones of 26 are for metadata and for what frees space; the target is 78 % of all.
        ({"zones": 26}, "zlfs can fill 68.0 MiB of 104.0 MiB"),
    ],
)
def test_a_device_that_cannot_carry_zlfs(
    planner: Planner, changes: dict[str, int], message: str
) -> None:
    small = replace(rig(), device=replace(rig().device, **changes))  # type: ignore[arg-type]
    words = ("--levels", "zlfs", "--set", "target_utilisation=78%")
    words += ("--set", "workload.database_share=0.5%", "--set", "workload.largest_file=64KiB")
    assert message in planner.refused("integration-levels", *words, inspection=small)
    absent = replace(rig().levels[-1], available=False, reason=Reason("x", "not here", ""))
    small = replace(small, levels=(*small.levels[:-1], absent))
    assert planner("integration-levels", *words, inspection=small) == 0  # a skipped row


def test_a_device_without_active_limit_is_fine(planner: Planner) -> None:
    free = replace(rig(), device=replace(rig().device, max_active_zones=0))
    assert planner("smoke", inspection=free) == 0


def test_reading_more_than_there_is_is_refused(planner: Planner, tmp_path: Path) -> None:
    phases = yaml.safe_load((load.CONFIGS / "workloads/smoke.yml").read_text())["phases"]
    phases[2]["benchmark"] = "readseq"
    phases[2]["operations"] = {"keys": 0.7}
    configs = configs_with(tmp_path, "workloads", "smoke", phases=phases)
    assert "set its operations to keys: 0.62" in planner.refused("smoke", configs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phases": []}, "phases"),
        ({"value_sise": 3}, "did you mean value_size?"),
        ({"name": "smoked"}, "its name is 'smoked'"),
    ],
)
def test_a_broken_workload_names_file_and_field(
    planner: Planner, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    error = planner.refused("smoke", configs_with(tmp_path, "workloads", "smoke", **changes))
    assert message in error
    assert "smoke.yml" in error


def test_a_workload_extends_another(tmp_path: Path) -> None:
    own = {"name": "smoke", "description": "d", "extends": "levels"}
    phases = [{"name": "f", "benchmark": "fillseq", "role": "fill", "operations": {"keys": 1}}]
    own |= {"key_size": 24, "flags": {"sync": 1, "verify_checksum": True}, "phases": phases}
    configs = tmp_path / "configs"
    configs_with(tmp_path, "workloads", "smoke")
    (configs / "workloads/smoke.yml").write_text(yaml.safe_dump(own))
    _, found = load.load_study("smoke", configs, {"workload.value_size": 4096})
    _, base = load.load_study("levels-all", configs)
    assert list(found.flags.items()) == [
        *(base.flags | {"sync": 1}).items(),
        ("verify_checksum", True),
    ]
    assert [phase.name for phase in found.phases] == ["f"]
    assert (found.name, found.description, found.key_size, found.value_size) == (
        "smoke",
        "d",
        24,
        4096,
    )
    kept = {"name", "description", "key_size", "value_size", "flags", "phases"}
    assert found.model_dump(exclude=kept) == base.model_dump(exclude=kept)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("level", "smoke.yml: extends: there is no workload 'level'"),
        (["levels"], "there is no workload"),
        ("smoke", "smoke.yml extends itself"),
        ("overhead", "smoke.yml extends overhead, which extends levels"),
        ("levels", "levels.yml: key_size: Field required"),
    ],
)
def test_a_plan_that_cannot_be_extended_is_reported(
    planner: Planner, tmp_path: Path, base: object, message: str
) -> None:
    configs = configs_with(tmp_path, "workloads", "smoke", extends=base)
    levels = tmp_path / "configs/workloads/levels.yml"
    levels.write_text(levels.read_text().replace("key_size", "key_sise"))
    error = planner.refused("smoke", configs)
    assert message in error
    hint = {
        "level": "did you mean levels?",
        "smoke": "a workload without extends",
        "overhead": "a workload without extends",
    }
    assert hint.get(str(base), "") in error


def test_name_and_description_are_not_taken_over(planner: Planner, tmp_path: Path) -> None:
    configs = configs_with(tmp_path, "workloads", "smoke")
    smoke = tmp_path / "configs/workloads/smoke.yml"
    smoke.write_text(smoke.read_text().replace("description: ", "# "))
    assert "smoke.yml: description" in planner.refused("smoke", configs)


def test_a_study_that_is_not_yaml(planner: Planner, tmp_path: Path) -> None:
    configs = configs_with(tmp_path, "studies", "smoke")
    (tmp_path / "configs/studies/smoke.yml").write_text("a: [1\n")
    assert planner("smoke", configs) == 2
    assert "is not YAML" in planner.err


def test_a_full_disk_is_one_line(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.plan.save.write_atomic", full)
    assert planner("smoke") == 2
    assert "no space left" in planner.err


def test_a_plan_of_the_same_name_that_another_process_wrote_meanwhile_stays(
    planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outrun(path: Path, text: str) -> None:
        write_atomic(path, text)
        if path.name == "plan.json":
            raise FileNotFoundError(2, "No such file or directory")  # the other one renamed it

    monkeypatch.setattr("harness.plan.save.write_atomic", outrun)
    assert planner("smoke") == 2
    assert planner.plan().campaign == "c"
    assert planner("smoke") == 0


def test_list_names_every_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in load.names("studies"))
    assert "min" in out


def test_list_goes_on_after_a_study_that_does_not_fit(
    planner: Planner, capsys: pytest.CaptureFixture[str]
) -> None:
    inspection = f"x={Path(__file__).parents[1] / 'fixtures/plan/synthetic-zn540.json'}"
    assert main(["plan", "--list", "--inspection", inspection, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    rows = {row["study"]: row for row in json.loads(out)}
    assert set(rows) == set(load.names("studies"))
    assert rows["finish-thresholds"]["runs"] is None
    assert rows["integration-levels"]["runs"] == 40
    assert "finish-thresholds cannot be planned here: " in err


def test_schemas_are_written_where_asked(tmp_path: Path) -> None:
    assert main(["plan", "--schemas", "--configs", str(tmp_path)]) == 0
    assert {p.name for p in (tmp_path / "schema").iterdir()} == {
        "study.json",
        "workload.json",
        "probe-workload.json",
        "fio-workload.json",
        "tuning.json",
        "mix.json",
        "model.json",
        "job.json",
        "curves.json",
    }


def test_a_real_drives_geometry(planner: Planner) -> None:
    assert planner("integration-levels", inspection=rig("zn540")) == 0
    run = next(r for r in planner.plan().hosts[0].runs if r.level == "btrfs")
    sst = run.phases[0].flags["target_file_size_base"]
    assert isinstance(sst, int)
    assert 60 * MIB < sst <= 64 * MIB
    assert run.predicted.live_bytes == pytest.approx(0.8 * 904 * 1077 * MIB, rel=0.001)
    assert "skipped on rig" in planner.out


def test_a_plan_without_its_baseline_says_that_nothing_gets_a_verdict(planner: Planner) -> None:
    absent = Reason("no-conventional", "no conventional device was named", "name one")
    probes = tuple(
        replace(probe, available=False, reason=absent)
        if probe.level in ("conventional-ext4", "conventional-xfs")
        else probe
        for probe in rig().levels
    )
    bare = replace(rig(), levels=probes)
    line = "the baseline conventional-ext4 cannot run on rig: rows against it get no verdict"
    assert planner("integration-levels", "--check", inspection=bare) == 0
    assert line in planner.out
    assert planner("integration-levels", "--check", "--levels", "f2fs,zlfs", inspection=bare) == 0
    assert "baseline" not in planner.out.partition("derived on")[0]
    assert planner("integration-levels", "--check") == 0
    assert line not in planner.out


def test_the_recorded_command_names_no_folder_of_this_machine() -> None:
    argv = ["/x/.venv/bin/zonelab", "plan", "s", "--results", "/x/ansible/../results"]
    argv += ["--inspection=rig=/x/ansible/../build/rig.json", "--campaign=c"]
    expected = ["zonelab", "plan", "s", "--results", "results"]
    expected += ["--inspection=rig=build/rig.json", "--campaign=c"]
    assert portable(argv, Path("/x")) == expected


def test_off_is_a_word(planner: Planner) -> None:
    """YAML 1.1 reads it as false."""
    assert planner("smoke", "--set", "tracing=off") == 0
    assert {run.tracing for run in planner.plan().hosts[0].runs} == {TracingMode.OFF}


TWICE = "levels=[f2fs, {name: zlfs, variant: lazy, options: {gc: off}}, zlfs]"


def test_a_level_can_appear_twice_under_different_names(planner: Planner) -> None:
    assert planner("smoke", "--set", TWICE, "--set", "baseline=f2fs") == 0
    runs = {run.row: run for run in planner.plan().hosts[0].runs}
    assert runs.keys() == {"f2fs", "zlfs", "zlfs-lazy"}
    lazy = runs["zlfs-lazy"]
    assert (lazy.level, lazy.variant, lazy.level_options) == ("zlfs", "lazy", {"gc": "off"})
    assert (lazy.cell, lazy.run) == ("zlfs-lazy", "zlfs-lazy--r01")
    assert (runs["zlfs"].level, runs["zlfs"].variant) == ("zlfs", "")


def test_a_variant_is_chosen_by_its_whole_name(planner: Planner) -> None:
    words = ("smoke", "--set", TWICE, "--set", "baseline=zlfs-lazy")
    assert planner(*words, "--levels", "zlfs-lazy,f2fs") == 0
    assert {run.row for run in planner.plan().hosts[0].runs} == {"f2fs", "zlfs-lazy"}
    assert planner.plan().baseline == "zlfs-lazy"


def test_the_same_level_twice_needs_a_variant(planner: Planner) -> None:
    error = planner.refused("smoke", "--set", "levels=[f2fs, zlfs, {name: zlfs, options: {}}]")
    assert "levels must differ: f2fs, zlfs, zlfs" in error
    assert "give levels of the same name a variant" in error


def test_a_preconditioned_drive_is_written_once_more(planner: Planner) -> None:
    aged = "{name: conventional-ext4, variant: aged, options: {precondition: on}}"
    assert planner("smoke", "--set", f"levels=[conventional-ext4, {aged}]") == 0
    runs = {run.row: run for run in planner.plan().hosts[0].runs}
    fresh, old = runs["conventional-ext4"], runs["conventional-ext4-aged"]
    more = old.predicted.bytes_written - fresh.predicted.bytes_written
    assert more == rig().device.capacity
    assert old.predicted.seconds > fresh.predicted.seconds
