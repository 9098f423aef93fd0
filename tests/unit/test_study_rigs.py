"""A study with several rigs: planned one by one into one campaign, and compared as one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.judge.compare import Comparison, compare
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from analysis.show.render import render
from harness.cli.main import main
from harness.errors import ConfigError
from harness.plan import load as configs
from harness.plan.reference import RIG
from harness.rig import model
from harness.store.campaign import load_plan
from harness.store.files import dumps
from harness.store.result import Result, Status
from harness.store.spec import Bytes, DeviceIdentity, Inspection, LevelProbe, Plan, Reason
from tests.fixtures.campaigns import MIB, Part, make_result, with_status, write_rigs, write_run
from tests.unit.conftest import Refused

WRITTEN = "overwrite.device_written"
# What is special about the rigs of levels-all, beside the NVMe rig.
DEVICES: dict[str, dict[str, Any]] = {
    "nvme": {},
    "dm-zoned": {"zone_size": Bytes(4 * MIB), "max_open_zones": 0, "max_active_zones": 0},
    "xfs": {"zone_size": Bytes(4 * MIB)},
}
CANNOT = {"nvme": {"btrfs", "zenfs", "xfs"}, "dm-zoned": {"dm-zap"}, "xfs": set[str]()}
HOSTS = {"nvme": "rig", "dm-zoned": "rig-dm-zoned", "xfs": "rig-xfs"}


def inspection(rig: str) -> Inspection:
    identity = DeviceIdentity(f"52540000000000{len(rig):02x}", "", "", rig, 2)
    levels = tuple(
        LevelProbe(p.level, False, Reason("x", f"{p.level} cannot run on {rig}", "hint"))
        if p.level in CANNOT[rig]
        else p
        for p in RIG.levels
    )
    device = replace(RIG.device, identity=identity, **DEVICES[rig])
    return replace(RIG, device=device, levels=levels)


class Campaign:
    """One folder into which the command plans one rig after the other."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        self.results = folder / "results"
        self.root = self.results / "all"

    def words(self, rig: str, *more: str, of: Inspection | None = None) -> list[str]:
        file = self.folder / f"{rig}.json"
        file.write_text(dumps(of or inspection(rig)))
        given = ["--rig", rig, "--inspection", f"{HOSTS[rig]}={file}"]
        return [
            "plan",
            "levels-all",
            *given,
            "--results",
            str(self.results),
            "--campaign",
            "all",
            *more,
        ]

    def plan(self, *rigs: str) -> Plan:
        for rig in rigs:
            assert main(self.words(rig)) == 0
        self.capsys.readouterr()  # not what tests look at
        return load_plan(self.root / "plan.json")

    def run(self) -> None:
        """Write a synthetic result for each planned run, as the runner does."""
        for host in load_plan(self.root / "plan.json").hosts:
            for spec in host.runs:
                result = replace(make_result(spec, host.host), phases=())
                if spec.level in CANNOT[host.rig]:
                    result = with_status(result, Status.SKIPPED, "cannot")
                write_run(self.root, host.host, spec, result, series=False)


@pytest.fixture
def campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Campaign:
    return Campaign(tmp_path, capsys)


def test_each_rig_gives_its_levels_with_all_repetitions(campaign: Campaign) -> None:
    plan = campaign.plan("nvme", "dm-zoned", "xfs")
    study, _ = configs.load_study("levels-all")
    assert [host.rig for host in plan.hosts] == list(plan.rigs) == list(study.rigs)
    for host in plan.hosts:
        runs = {(run.cell, run.repetition) for run in host.runs}
        assert runs == {(level, r) for level in study.rigs[host.rig] for r in (1, 2, 3)}
    # Files and memtables are as large on each, or nothing could be compared.
    sizes = {run.phases[0].flags["target_file_size_base"] for h in plan.hosts for run in h.runs}
    assert len(sizes) == 1
    assert plan.rigs_to_come == ()


def test_the_drives_of_its_rigs_hold_the_same_in_as_many_zones() -> None:
    """Otherwise files and amounts differ, and the rig's rows are not comparable."""
    study, _ = configs.load_study("levels-all")
    drives = [namespace for rig in study.rigs for namespace in model.load(rig).namespaces]
    assert len({(drive.zones, drive.zone_capacity) for drive in drives if drive.zoned}) == 1
    assert len({drive.capacity for drive in drives}) == 1


def test_the_order_of_planning_does_not_matter_and_again_changes_nothing(
    campaign: Campaign, tmp_path: Path
) -> None:
    forward = campaign.plan("nvme", "dm-zoned", "xfs")
    before = {path: path.read_bytes() for path in campaign.root.rglob("*.json")}
    assert campaign.plan("dm-zoned", "nvme") == forward
    assert {path: path.read_bytes() for path in campaign.root.rglob("*.json")} == before
    (tmp_path / "other").mkdir()
    other = Campaign(tmp_path / "other", campaign.capsys)
    assert other.plan("xfs", "dm-zoned", "nvme") == forward


def test_an_existing_part_keeps_its_plan(campaign: Campaign) -> None:
    campaign.plan("nvme")
    path = campaign.root / "plan.json"
    path.write_text(path.read_text().replace('"position": 1,', '"position": 77,'))
    kept = load_plan(path).hosts
    assert campaign.plan("xfs").hosts[:1] == kept


def test_a_changed_rig_is_refused_and_the_others_are_not_looked_at(
    campaign: Campaign, refused: Refused
) -> None:
    campaign.plan("nvme", "dm-zoned")
    other = replace(inspection("dm-zoned"), host=replace(RIG.host, kernel="9.9.9"))
    message = refused(2, *campaign.words("dm-zoned", of=other), keeps=campaign.results)
    assert "the campaign cannot continue on a changed host: rig-dm-zoned: kernel" in message


def test_another_study_or_a_whole_campaign_is_not_continued(
    campaign: Campaign, refused: Refused
) -> None:
    campaign.plan("nvme")
    message = refused(2, *campaign.words("xfs", "--repetitions", "2"), keeps=campaign.results)
    assert "another version of study" in message
    whole = [word for word in campaign.words("nvme") if word not in ("--rig", "nvme")]
    assert "another version of study" in refused(2, *whole, keeps=campaign.results)


def test_a_rig_that_the_study_does_not_name(campaign: Campaign, refused: Refused) -> None:
    words = campaign.words("xfs")
    words[words.index("--rig") + 1] = "xsf"
    assert "study levels-all has no levels for rig 'xsf'" in refused(2, *words)
    words[1] = "smoke"
    assert "study smoke has no levels for rig 'xsf'" in refused(2, *words)
    more = f"--inspection=b={campaign.folder / 'xfs.json'}"
    assert "--rig needs exactly one inspection" in refused(2, *campaign.words("xfs", more))


def test_the_rigs_are_listed_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "levels-all", "--rigs"]) == 0
    assert capsys.readouterr().out.splitlines() == ["nvme", "dm-zoned", "xfs"]
    assert main(["plan", "levels-all", "--rigs", "--levels", "xfs,conventional-ext4"]) == 0
    assert capsys.readouterr().out.splitlines() == ["nvme", "xfs"]
    assert main(["plan", "smoke", "--rigs"]) == 0
    assert capsys.readouterr().out == ""


def test_shipped_studies_name_rigs_that_there_are() -> None:
    named = {rig for name in configs.names("studies") for rig in configs.load_study(name)[0].rigs}
    assert named
    assert named <= set(model.names())


@pytest.mark.parametrize(
    ("rigs", "message"),
    [
        ({"a": ["f2fs"]}, "level 'conventional-ext4' is named under 0 rigs"),
        (
            {"a": ["f2fs", "conventional-ext4", "zlfs"], "b": ["zlfs"]},
            "level 'zlfs' is named under 2 rigs",
        ),
        ({"a": ["f2fs", "conventional-ext4", "zlfs", "xfs"]}, "the study has no level 'xfs'"),
        ({"a": []}, "rigs.a"),
    ],
)
def test_rigs_that_make_no_sense(rigs: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configs.load_study("smoke", settings={"rigs": rigs})
    assert message in caught.value.message


def test_status_and_verify_count_the_parts_to_come(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign.plan("nvme", "dm-zoned")
    campaign.run()
    assert main(["status", str(campaign.root), "--check"]) == 0
    assert "rig xfs: not planned yet" in capsys.readouterr().out
    assert main(["status", str(campaign.root), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rigs_to_come"] == ["xfs"]
    assert main(["verify", str(campaign.root)]) == 4
    output = "".join(capsys.readouterr())
    assert "rig xfs: its part is not planned yet" in output
    assert main(["compare", str(campaign.root), "--metric", WRITTEN]) == 0
    assert "not measured yet: the part of rig xfs" in capsys.readouterr().out


@pytest.mark.slow
def test_every_command_works_on_a_whole_campaign_of_rigs(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign.plan("nvme", "dm-zoned", "xfs")
    campaign.run()
    # Its runs are synthetic: verify names the missing raw files and the model of the devices.
    assert main(["verify", str(campaign.root)]) == 4
    problems = capsys.readouterr().out.splitlines()
    assert all("--r0" in line or "device.kind" in line for line in problems), problems
    assert main(["status", str(campaign.root), "--check"]) == 0
    assert main(["report", str(campaign.root)]) == 0
    capsys.readouterr()
    assert main(["compare", str(campaign.root), "--format", "json"]) == 0
    output = json.loads(capsys.readouterr().out)
    skipped = {row["level"]: row["notes"] for row in output["rows"] if row["verdict"] == "skipped"}
    assert skipped.keys() == {"btrfs", "zenfs", "dm-zap"}
    found = {name: {d["key"] for d in rows} for name, rows in output["differences"].items()}
    assert {"rig", "geometry.zone_size", "geometry.max_active_zones"} <= found["dm-zoned"]
    assert not any(d["blocking"] for rows in output["differences"].values() for d in rows)
    page = (campaign.root / "report/index.html").read_text()
    assert "zone size" in page
    assert "8.00 MiB" in page


def test_a_level_is_not_skipped_because_another_rig_lacks_it(campaign: Campaign) -> None:
    campaign.plan("nvme", "dm-zoned", "xfs")  # nothing has run, and the NVMe rig has no xfs
    reasons = {row: reason.message for row, reason in load(campaign.root).skipped().items()}
    assert reasons == {
        "btrfs": "btrfs cannot run on nvme",
        "zenfs": "zenfs cannot run on nvme",
        "dm-zap": "dm-zap cannot run on dm-zoned",
    }


def rigs(tmp_path: Path, **changes: Any) -> Comparison:
    parts = {
        "rig": Part("nvme", ("conventional-ext4", "zlfs")),
        "rig-dm": Part("dm-zoned", ("zenfs",), DEVICES["dm-zoned"]),
    }
    return compare(load(write_rigs(tmp_path / "c", parts, **changes)))


def verdict(comparison: Comparison, level: str) -> tuple[Verdict, tuple[str, ...]]:
    row = next(r for r in comparison.rows if (r.metric, r.level) == (WRITTEN, level))
    return row.verdict, row.notes


def test_a_declared_geometry_is_a_footnote_and_no_reason_against_a_verdict(tmp_path: Path) -> None:
    comparison = rigs(tmp_path)
    word, notes = verdict(comparison, "zenfs")
    assert word is Verdict.HIGHER
    assert "on another rig, as declared (below)" in notes
    assert "few common blocks: Welch t" in notes
    assert not any("declared" in note for note in verdict(comparison, "zlfs")[1])
    table = " ".join(render(comparison, "table").split())
    assert "declared: zenfs vs conventional-ext4: active zones allowed 14 vs any number;" in table
    assert "zone size 8.00 MiB vs 4.00 MiB; rig nvme vs dm-zoned" in table
    assert "NOT COMPARABLE" not in table


def test_another_name_at_another_boot_is_no_difference(tmp_path: Path) -> None:
    """Devices of two rigs are matched by their roles; differences due to the rig are not listed."""

    def on_another_node(result: Result) -> Result:
        rig = result.level == "zenfs"
        node, other = ("nvme0n3", "nvme0n1") if rig else ("nvme0n2", "nvme0n3")
        devices = [
            {
                "path": f"/dev/{node}",
                "zoned": True,
                "key": node,
                "zone_size": 4 if rig else 8,
                "queue": {node: {"scheduler": "none", "nomerges": "64" if rig else "1023"}},
            },
            {"path": f"/dev/{other}", "zoned": False, "queue": {other: {"scheduler": "none"}}},
        ]
        manifest = {**result.manifest, "host": {**result.manifest["host"], "devices": devices}}
        return replace(result, manifest=manifest)

    found = rigs(tmp_path, change=on_another_node).differences["zenfs"]
    listed = {d.key for d in found if not d.declared}
    assert listed == {"manifest.devices.zoned.queue.own.nomerges"}


def test_an_undeclared_geometry_blocks_the_verdict(tmp_path: Path) -> None:
    folder = rigs(tmp_path).campaign.path
    path = folder / "plan.json"
    plan = json.loads(path.read_text())
    plan["rigs"] = []
    for host in plan["hosts"]:
        host["rig"] = ""
    path.write_text(json.dumps(plan))
    comparison = compare(load(folder))
    word, notes = verdict(comparison, "zenfs")
    assert word is Verdict.NOT_COMPARABLE
    assert "zone size 8.00 MiB vs 4.00 MiB" in notes
    assert "NOT COMPARABLE: zenfs vs conventional-ext4" in render(comparison, "md")
    assert verdict(comparison, "zlfs")[0] is Verdict.HIGHER


def test_a_device_that_differs_from_the_plan_is_not_declared(tmp_path: Path) -> None:
    """The declaration covers the planned rigs, not their replacements."""

    def halved(result: Result) -> Result:
        if (result.level, result.repetition) != ("zenfs", 2):
            return result
        device = replace(result.device, zone_capacity=Bytes(3 * MIB))
        return replace(result, device=device)

    word, notes = verdict(rigs(tmp_path, change=halved), "zenfs")
    assert word is Verdict.NOT_COMPARABLE
    assert "zone capacity 6.00 MiB vs 3.00 MiB or 6.00 MiB" in notes


def test_differences_besides_geometry_still_block_between_rigs(tmp_path: Path) -> None:
    changes = {"rig-dm": {"rocksdb": "8.0"}}

    def older(result: Result) -> Result:
        if result.level != "zenfs":
            return result
        manifest = json.loads(json.dumps(result.manifest))
        manifest["host"]["packages"] = {"rocksdb-tools": "8.0"}
        return replace(result, manifest=manifest)

    word, notes = verdict(rigs(tmp_path, host_changes=changes, change=older), "zenfs")
    assert word is Verdict.NOT_COMPARABLE
    assert "RocksDB build 9.10.0 vs 8.0" in notes
