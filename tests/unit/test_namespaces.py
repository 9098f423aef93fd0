"""Namespaces: planning from a drive's data, execution in steps, resumption, refusals."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

import harness.cli.layout as command
from harness.cli import main as cli
from harness.drive import layout, precondition, survey
from harness.drive.layout import REST, Role, Wanted
from harness.errors import ConfigError, GuardRefused, ToolFailed
from harness.machine.consent import Consent
from harness.machine.guard import Guard
from harness.machine.journal import Journal, JournalEvent
from harness.observe import nvme_ioctl
from harness.store.spec import Bytes, Device
from harness.tools import nvme_cli, proc
from harness.tools.nvme_cli import Format
from tests.runner.fakes import write_tree
from tests.unit.fake_nvme import GIB, MIB, DriveHost, FakeDrive, Killed, Space

FIXTURES = Path(__file__).parents[1] / "fixtures/nvme/synthetic-zn540"
LAYOUT = Path(__file__).parents[2] / "roles/namespaces/tasks/layout.yml"
ZONE = 1077 * MIB
WANTED = Wanted(Bytes(4 * GIB), Bytes(100 * ZONE), REST, 4096)
ARGUMENTS = [
    "--conventional-size",
    "4GiB",
    "--experiment-size",
    f"{100 * ZONE}",
    "--cold-size",
    "rest",
]

Make = Callable[..., DriveHost]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that makes a machine whose drive has its factory layout: two namespaces."""

    def machine(**changes: Any) -> DriveHost:
        drive = FakeDrive(tmp_path, **changes)
        if "spaces" not in changes:
            drive.spaces = {1: Space(4 * GIB, 1, False), 2: Space(904 * drive.zone_size, 1, True)}
        drive.publish()
        host = DriveHost(drive)
        monkeypatch.setattr(proc, "run", drive.run)
        monkeypatch.setattr(nvme_ioctl, "divisible_zones", lambda *_: drive.active_total)
        monkeypatch.setattr(command, "Host", lambda: host)
        return host

    return machine


def read(host: DriveHost) -> survey.Drive:
    return survey.read(host, str(host.drive.root / "dev/nvme0"))


def zonelab(host: DriveHost, *more: str, arguments: list[str] = ARGUMENTS) -> int:
    state = ["--state-dir", str(host.drive.root / "state")]
    return cli.main(["layout", "nvme0", *arguments, *state, *more])


def apply(host: DriveHost, *more: str) -> int:
    return zonelab(host, "--apply", "--recreate", "SYNTHETIC", *more)


def described(drive: FakeDrive) -> list[tuple[bool, int, int, bool]]:
    """Return kind, size, block and attachment of the namespaces."""
    spaces = drive.spaces.values()
    return sorted((s.zoned, s.size, drive.blocks[s.format], s.attached) for s in spaces)


AS_WANTED = [
    (False, 4 * GIB, 4096, True),
    (True, 100 * 2048 * MIB, 4096, True),
    (True, 804 * 2048 * MIB, 4096, True),
]


# --- what nvme-cli prints ---------------------------------------------------------------------


def load(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text())


def test_output_of_nvme_cli_is_parsed() -> None:
    controller = nvme_cli.parse_controller(load("id-ctrl.json"))
    assert (controller.serial, controller.model) == ("SYNTHETIC-ZN540", "WZS4C8T1TDSP303")
    assert controller.total == 904 * ZONE + 4 * GIB
    assert (controller.manages_namespaces, controller.most_namespaces) == (True, 32)
    assert nvme_cli.parse_numbers(load("list-ns-all.json"), "nsid_list", "nsid") == (1, 2)
    space = nvme_cli.parse_namespace(load("id-ns-2.json"))
    assert (space.size, space.block, space.allocated) == (904 * 2048 * MIB, 4096, 904 * ZONE)
    assert [one.data for one in space.formats] == [512, 4096]
    zoned = nvme_cli.parse_zoned(load("zns-id-ns-2.json"))
    assert zoned.most_active == 14
    assert zoned.zone_blocks == (2048 * MIB // 512, 2048 * MIB // 4096)
    assert nvme_cli.parse_namespace(load("id-ns-common.json")).block == 0
    assert nvme_cli.parse_numbers(load("list-ctrl-2.json"), "ctrl_list", "ctrl_id") == (0, 1)


@pytest.mark.parametrize("field", ["sn", "oacs", "tnvmcap", "cntlid", "nn"])
def test_a_field_that_is_missing_is_no_default(field: str) -> None:
    data = load("id-ctrl.json")
    del data[field]
    with pytest.raises(ToolFailed, match=f"no {field}"):
        nvme_cli.parse_controller(data)


def test_refusals_keep_the_drives_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = []
    for line in (FIXTURES / "refusals.txt").read_text().splitlines():
        done = proc.Completed(("nvme", "create-ns"), 1, None, "", line)
        monkeypatch.setattr(proc, "run", lambda *_, done=done, **__: done)
        with pytest.raises(nvme_cli.Refused) as caught:
            nvme_cli.create(["nvme", "create-ns"])
        status = re.search(r"\((0x\w+)\)$", caught.value.message)
        reported.append((int(status[1], 16) if status else 0, caught.value.exit_code))
        assert str(caught.value).startswith("nvme create-ns: ")
    assert reported == [(0x400B, 4), (0x2115, 4), (0x2116, 4), (0x2118, 4), (0x2128, 4), (0, 4)]
    assert "too old" in caught.value.hint


def test_an_error_in_json_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvme-cli 2.13 on the rig, 2026-11-22: id-ns --force of a zoned namespace of QEMU's."""
    stdout = '{\n  "error":"unrecognized",\n  "type":"nvme"\n}\n'
    done = proc.Completed(("nvme", "id-ns"), 1, None, stdout, "")
    monkeypatch.setattr(proc, "run", lambda *_, **__: done)
    with pytest.raises(nvme_cli.Refused, match="nvme id-ns: unrecognized"):
        nvme_cli.ask(["nvme", "id-ns"])


def test_only_detached_namespaces_are_identified_by_force(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make()
    host.drive.spaces[2].attached = False
    asked: list[list[str]] = []

    def run(argv: list[str], **_: Any) -> proc.Completed:
        asked.append(argv)
        return host.drive.run(argv)

    monkeypatch.setattr(proc, "run", run)
    assert [nvme_cli.namespace("/dev/nvme2", nsid).size > 0 for nsid in (1, 2)] == [True, True]
    assert ["--force" in argv for argv in asked] == [False, False, True]


# --- planning ---------------------------------------------------------------------------------


def test_sizes_are_capacities(make: Make) -> None:
    planned = layout.plan(read(make()), WANTED)
    assert planned.delete == (1, 2)
    assert [(one.role, one.zones, one.capacity) for one in planned.create] == [
        (Role.CONVENTIONAL, None, 4 * GIB),
        (Role.EXPERIMENT, 100, 100 * ZONE),
        (Role.COLD, 804, 804 * ZONE),
    ]
    assert [one.size for one in planned.create[1:]] == [100 * 2048 * MIB, 804 * 2048 * MIB]
    (note,) = planned.notes
    assert "not divided" in note


def test_a_capacity_between_two_zones_takes_the_next_one(make: Make) -> None:
    wanted = replace(WANTED, experiment=Bytes(100 * ZONE + 1))
    assert layout.plan(read(make()), wanted).create[1].zones == 101


def test_a_capacity_between_two_blocks_takes_the_next_one(make: Make) -> None:
    wanted = replace(WANTED, conventional=Bytes(4 * GIB - 1))
    assert layout.plan(read(make()), wanted).create[0].size == 4 * GIB


def test_a_part_of_a_byte_for_each_zone_counts_as_one(make: Make) -> None:
    """Otherwise the drive refuses the last creation, after all deletions."""
    drive = read(make())
    conventional, zoned = drive.namespaces
    larger = replace(zoned, allocated=Bytes(904 * ZONE + 1))
    planned = layout.plan(replace(drive, namespaces=(conventional, larger)), WANTED)
    assert [one.zones for one in planned.create] == [None, 100, 803]


@pytest.mark.parametrize("block", [512, 4096])
def test_block_sizes(make: Make, block: int) -> None:
    planned = layout.plan(read(make()), replace(WANTED, block=block, cold=None)).create[1]
    assert (planned.block, planned.size) == (block, 100 * 2048 * MIB)
    argv = command.apply.create_argv("/dev/nvme0", planned)
    assert f"--nsze={100 * 2048 * MIB // block}" in argv
    assert f"--flbas={(512, 4096).index(block)}" in argv
    assert "--csi=2" in argv


@pytest.mark.parametrize("index", [1, 15, 16, 37, 63])
def test_a_format_has_one_index_in_both_directions(index: int) -> None:
    argv = nvme_cli.create_argv("/dev/nvme0", blocks=1, format_=index, csi=0, resources=None)
    (flbas,) = (int(word.partition("=")[2]) for word in argv if word.startswith("--flbas="))
    data = load("id-ns-2.json") | {"flbas": flbas, "lbafs": [{"ms": 0, "ds": 12}] * 64}
    assert nvme_cli.parse_namespace(data).format == index
    assert not flbas & 1 << 4  # metadata would be part of each block


def test_active_zones_are_divided_where_the_drive_can(make: Make) -> None:
    planned = layout.plan(read(make(active_total=14)), WANTED)
    assert [one.active for one in planned.create] == [None, 12, 2]
    argv = command.apply.create_argv("/dev/nvme0", planned.create[1])
    assert {"--rar=12", "--ror=12"} <= set(argv)


def test_without_cold_data_the_experiment_has_them_all(make: Make) -> None:
    wanted = replace(WANTED, conventional=None, cold=None, experiment=REST)
    planned = layout.plan(read(make(active_total=14)), wanted)
    assert [(one.zones, one.active) for one in planned.create] == [(907, 14)]


def test_other_shares_of_the_active_zones_are_another_layout(make: Make) -> None:
    host = make(active_total=28)
    wanted = Wanted(Bytes(4 * GIB), REST, None, 4096)
    assert layout.plan(read(host), wanted).create
    host.drive.spaces[2].active = 28
    assert not layout.plan(read(host), wanted).create


@pytest.mark.parametrize(
    ("drive", "wanted", "code"),
    [
        ({}, {"block": 2048}, "no-such-format"),
        ({}, {"experiment": Bytes(905 * ZONE)}, "does-not-fit"),
        ({}, {"experiment": REST, "cold": Bytes(ZONE)}, "does-not-fit"),
        ({}, {"conventional": Bytes(2000 * GIB)}, "does-not-fit"),
        ({}, {"conventional": Bytes(2000 * GIB), "experiment": REST}, "does-not-fit"),
        ({}, {"conventional": Bytes(904 * ZONE + 4 * GIB), "experiment": REST}, "does-not-fit"),
        ({"active_total": 2}, {}, "does-not-fit"),
        ({"active_total": 14}, {"cold_active": 0}, "does-not-fit"),
        ({"active_total": 14}, {"cold_active": -3}, "does-not-fit"),
        ({"most": 2}, {}, "does-not-fit"),
        ({"manages": False}, {}, "no-namespace-management"),
        ({}, {"zone_capacity": Bytes(MIB)}, "zone-capacity"),
        ({"spaces": {}}, {}, "zone-capacity"),
        ({"spaces": {}}, {"zone_capacity": Bytes(4096 * MIB)}, "zone-capacity"),
        ({"spaces": {}}, {"zone_capacity": Bytes(0)}, "zone-capacity"),
        ({"spaces": {}, "common": False}, {"zone_capacity": Bytes(ZONE)}, "no-such-format"),
    ],
)
def test_impossible_layouts_are_refused(
    make: Make, drive: dict[str, Any], wanted: dict[str, Any], code: str
) -> None:
    with pytest.raises((ConfigError, GuardRefused)) as caught:
        layout.plan(read(make(**drive)), replace(WANTED, **wanted))
    assert caught.value.code == code
    assert caught.value.hint


@pytest.mark.parametrize(
    ("zone_sizes", "hint"),
    [({0: Bytes(2048 * MIB)}, "zones: 512"), ({}, "zones: none")],
)
def test_blocks_without_zones_are_refused(
    make: Make, zone_sizes: dict[int, Bytes], hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        layout.plan(replace(read(make()), zone_sizes=zone_sizes), WANTED)
    assert caught.value.code == "no-zoned-format"
    assert caught.value.hint.endswith(hint)


def test_formats_with_metadata_are_left_out(make: Make) -> None:
    drive = read(make())
    formats = (Format(0, 4096, 8), Format(1, 4096, 0), Format(2, 512, 8))
    drive = replace(drive, formats=formats, zone_sizes=dict.fromkeys(range(3), 2048 * MIB))
    assert {one.format for one in layout.plan(drive, WANTED).create} == {1}
    with pytest.raises(ConfigError) as caught:
        layout.plan(drive, replace(WANTED, block=512))
    assert (caught.value.code, caught.value.hint) == ("no-such-format", "it has 4096")


def test_zones_of_another_size_do_not_show_the_capacity(make: Make) -> None:
    drive = read(make())
    conventional, zoned = drive.namespaces
    other = replace(zoned, zone_size=Bytes(1024 * MIB), zone_capacity=Bytes(1024 * MIB))
    drive = replace(drive, namespaces=(conventional, other))
    with pytest.raises(ConfigError) as caught:
        layout.plan(drive, WANTED)
    assert caught.value.code == "zone-capacity"
    named = layout.plan(drive, replace(WANTED, zone_capacity=Bytes(ZONE)))
    assert [one.zones for one in named.create] == [None, 100, 804]


def test_nothing_left_for_cold_data_is_a_note(make: Make) -> None:
    planned = layout.plan(read(make(active_total=28)), replace(WANTED, experiment=REST))
    assert [(one.role, one.active) for one in planned.create] == [
        (Role.CONVENTIONAL, None),
        (Role.EXPERIMENT, 28),
    ]
    assert planned.notes[0] == "nothing is left for a cold namespace"


def test_as_many_namespaces_as_the_drive_can_have(make: Make) -> None:
    assert len(layout.plan(read(make(most=3)), WANTED).create) == 3


def test_another_disk_beside_a_drive_is_refused(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make().drive.root
    write_tree(root / "sys/class/block/sda", {"size": "8"})
    (root / "dev/sda").touch()
    assert cli.main(["layout", "sda", "--experiment-size", "rest"]) == 3
    assert "sda is not an NVMe drive" in capsys.readouterr().err


def test_an_empty_drive_needs_the_capacity_of_its_zones(make: Make) -> None:
    host = make(spaces={})
    planned = layout.plan(read(host), replace(WANTED, zone_capacity=Bytes(ZONE)))
    assert planned.delete == ()
    assert [one.zones for one in planned.create] == [None, 100, 804]
    full = replace(WANTED, zone_capacity=Bytes(2048 * MIB))  # a zone can hold its size
    assert layout.plan(read(host), full).create[1].capacity == 53 * 2048 * MIB


def test_formats_of_a_drive_without_common_formats(make: Make) -> None:
    planned = layout.plan(read(make(common=False)), WANTED)
    assert planned.create[1].zones == 100
    assert "formats come from namespace 1" in planned.notes[0]


def test_a_drive_that_does_not_report_a_namespaces_use(make: Make) -> None:
    planned = layout.plan(read(make(reports_allocated=False)), WANTED)
    assert [one.zones for one in planned.create] == [None, 100, 804]


@pytest.mark.parametrize("reports_allocated", [True, False])
def test_a_drive_that_does_not_report_its_size(make: Make, *, reports_allocated: bool) -> None:
    """The present namespaces show it: 904 zones of 1077 MiB and 4 GiB."""
    planned = layout.plan(read(make(total=0, reports_allocated=reports_allocated)), WANTED)
    assert [one.zones for one in planned.create] == [None, 100, 804]


def test_a_wanted_namespace_that_is_not_attached_is_created_again(make: Make) -> None:
    host = make()
    wanted = Wanted(Bytes(4 * GIB), REST, None, 4096)
    assert not layout.plan(read(host), wanted).create
    host.drive.spaces[1].attached = False
    host.drive.publish()
    planned = layout.plan(read(host), wanted)
    assert (planned.delete, len(planned.create)) == ((1, 2), 2)


def test_a_drive_without_management_that_is_as_wanted(make: Make) -> None:
    host = make(manages=False)
    wanted = Wanted(Bytes(4 * GIB), REST, None, 4096)
    assert not layout.plan(read(host), wanted).create


def test_a_namespace_with_metadata_is_not_the_wanted_one(make: Make) -> None:
    host = make(blocks=(512, 4096, 4096), metadata=(0, 0, 8))
    wanted = Wanted(Bytes(4 * GIB), REST, None, 4096)
    assert not layout.plan(read(host), wanted).delete
    for space in host.drive.spaces.values():
        space.format = 2
    planned = layout.plan(read(host), wanted)
    assert planned.delete == (1, 2)
    assert {one.format for one in planned.create} == {1}


# --- the command ------------------------------------------------------------------------------


def test_showing_changes_nothing(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = make()
    assert zonelab(host, "--format", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["layout"]["delete"] == [1, 2]
    assert len(shown["commands"]) == 5
    assert zonelab(host) == 0
    assert "experiment" in capsys.readouterr().out
    assert host.drive.steps == []
    assert not (host.drive.root / "state").exists()


def test_the_layout_is_made_once(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = make(active_total=14)
    assert apply(host) == 0
    assert described(host.drive) == AS_WANTED
    assert [s.active for s in host.drive.spaces.values() if s.zoned] == [12, 2]
    assert "changed" in capsys.readouterr().err
    steps = list(host.drive.steps)
    assert steps == ["delete-ns"] * 2 + ["create-ns", "attach-ns"] * 3
    assert apply(host) == 0
    assert zonelab(host, "--apply") == 0  # nothing to do: no serial number has to be named
    assert host.drive.steps == steps
    assert "unchanged" in capsys.readouterr().err


def role_changed(out: str, err: str) -> bool:
    """Return what the role reports; ``usetty = False`` keeps both streams apart over ssh too."""
    tasks = yaml.safe_load(LAYOUT.read_text())
    task = next(one for one in tasks if "register" in one)
    condition = jinja2.Environment(autoescape=True).compile_expression(task["changed_when"])
    lines = {"stdout_lines": out.splitlines(), "stderr_lines": err.splitlines()}
    return bool(condition(**{task["register"]: {"stdout": out, "stderr": err, **lines}}))


def test_the_role_reports_a_change_exactly_if_there_was_one(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    host = make()
    steps: list[tuple[Callable[[DriveHost], int], bool]] = [
        (zonelab, False),  # as with --check
        (apply, True),
        (lambda machine: zonelab(machine, "--apply"), False),
    ]
    for step, changes in steps:
        assert step(host) == 0
        assert role_changed(*capsys.readouterr()) == changes


CREATIONS = (3, 5, 7)  # steps


@pytest.mark.parametrize("how", ["refuse", "before", "after", "interrupt"])
@pytest.mark.parametrize("step", range(1, 9))
def test_layout_resumes_after_a_failure_of_any_step(
    make: Make, step: int, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host = make()
    host.drive.fail = (step, how)
    if how == "refuse":
        assert apply(host) == 4
        assert "Invalid Namespace or Format" in capsys.readouterr().err
    elif how == "interrupt":
        assert apply(host) == 130
    else:
        with pytest.raises(Killed):
            apply(host)
    host.drive.fail = None
    # Another layout is not begun on top of half of this one.
    assert zonelab(host, "--apply", arguments=["--experiment-size", "rest"]) == 2
    unproved = how == "after" and step in CREATIONS
    if unproved:
        delete_created(host, capsys)
    assert apply(host) == 0
    assert described(host.drive) == AS_WANTED
    created = ["create-ns", "attach-ns"] * 3 + ["create-ns"] * unproved
    assert sorted(host.drive.steps) == sorted(["delete-ns"] * 2 + created)


def test_layout_resumes_if_the_drive_is_named_by_a_namespace_that_is_gone(make: Make) -> None:
    host = make()
    killed(host, 2, "after")
    assert not host.sysfs.block("nvme0n1").exists()
    words = ["--apply", "--recreate", "SYNTHETIC", "--state-dir", str(host.drive.root / "state")]
    assert cli.main(["layout", "nvme1n1", *ARGUMENTS, *words]) == 3
    assert cli.main(["layout", "/dev/nvme0n1", *ARGUMENTS, *words]) == 0
    assert described(host.drive) == AS_WANTED


def delete_created(host: DriveHost, capsys: pytest.CaptureFixture[str]) -> None:
    """Do as the refusal of a namespace suggests, which nothing proves to be the layout's."""
    before = dict(host.drive.spaces)
    capsys.readouterr()
    assert apply(host) == 3
    (nsid,) = (nsid for nsid, space in host.drive.spaces.items() if not space.attached)
    err = capsys.readouterr().err
    assert f"namespace {nsid} of SYNTHETIC is of an interrupted creation, or of another" in err
    assert f"nvme delete-ns {host.drive.root}/dev/nvme0 --namespace-id={nsid}" in err
    assert host.drive.spaces == before
    del host.drive.spaces[nsid]
    host.drive.publish()


def test_layout_resumes_after_a_kill_at_any_write_of_its_progress(
    make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = make()
    write, written = command.apply.write_atomic, [0]

    def one_write(path: Path, text: str) -> None:
        written[0] += 1
        if written[0] > 1:
            raise Killed
        write(path, text)

    monkeypatch.setattr(command.apply, "write_atomic", one_write)
    for _ in range(40):  # each start stores one step, then it is killed
        written[0] = 0
        try:
            assert apply(host) == 0
            break
        except Killed:
            created = host.drive.steps[-1:] == ["create-ns"]
        if created and not recorded(host):
            delete_created(host, capsys)
            host.drive.steps.append("delete-ns")
    assert described(host.drive) == AS_WANTED
    assert sorted(host.drive.steps) == sorted(
        ["delete-ns"] * 5 + ["create-ns"] * 6 + ["attach-ns"] * 3
    )


def recorded(host: DriveHost) -> bool:
    """Whether the progress has the number of the namespace that is not attached yet."""
    progress = json.loads((host.drive.root / "state/namespaces-SYNTHETIC.json").read_text())
    numbers = {step["nsid"] for step in progress["steps"] if step["act"] == "create"}
    return all(space.attached or nsid in numbers for nsid, space in host.drive.spaces.items())


def killed(host: DriveHost, step: int, how: str = "before") -> None:
    host.drive.fail = (step, how)
    with pytest.raises(Killed):
        apply(host)
    host.drive.fail = None


@pytest.mark.parametrize("nsid", [1, 2], ids=["deleted-by-us", "deleted-by-them"])
@pytest.mark.parametrize("name", ["", "001b448b4a0000ff"], ids=["reused-name", "new-name"])
def test_a_blank_namespace_that_others_created_since_is_not_deleted(
    make: Make, nsid: int, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the number and the size of a planned one, and on some drives its name."""
    host = make()
    blank = replace(host.drive.spaces[nsid], name=name)
    if nsid == 1:
        killed(host, 1, "after")
        host.drive.spaces[1] = replace(blank)
        host.drive.publish()
    else:
        killed(host, 2)
        host.drive.replace(2, name=name)
    steps = list(host.drive.steps)
    assert apply(host) == 3
    reported = capsys.readouterr().err
    assert f"namespace {nsid} of SYNTHETIC is not proved to be the planned one" in reported
    assert "/state/namespaces-SYNTHETIC.json to plan from the current namespaces" in reported
    assert host.drive.steps == steps
    assert host.drive.spaces[nsid] == blank
    (host.drive.root / "state/namespaces-SYNTHETIC.json").unlink()
    assert apply(host, "--zone-capacity", "1077MiB") == 0
    assert described(host.drive) == AS_WANTED


@pytest.mark.parametrize("unknown", ["boot", "disk"])
def test_after_an_interruption_a_deletion_needs_a_proof(
    make: Make, unknown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restart, or a kernel without diskseq. Without an interruption it needs none."""
    host = make(numbers_disks=unknown != "disk")
    killed(host, 2)
    if unknown == "boot":
        host.drive.boot_id = "boot-2"
        host.drive.publish()
    assert apply(host) == 3
    assert "namespace 2 of SYNTHETIC is not proved to be the planned one" in capsys.readouterr().err
    assert 2 in host.drive.spaces
    (host.drive.root / "state/namespaces-SYNTHETIC.json").unlink()
    assert apply(host) == 0
    assert described(host.drive) == AS_WANTED


@pytest.mark.parametrize(("boot", "disk"), [("", 3), ("boot-1", None)])
def test_without_a_boot_or_a_disk_number_nothing_is_proved(boot: str, disk: int | None) -> None:
    one = survey.Incarnation(("001b448b4a000001",), boot, disk)
    assert (one.is_proved(one), one.differs(one)) == (False, False)


def test_a_namespace_in_the_place_of_the_created_one_is_not_attached(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    host = make()
    killed(host, 4)  # created, and not yet attached
    host.drive.replace(1, name="001b448b4a0000ff")
    assert apply(host) == 3
    assert "namespace 1 of SYNTHETIC is not proved to be the planned one" in capsys.readouterr().err
    assert not host.drive.spaces[1].attached


BESIDE = Space(2 * 2048 * MIB, 1, zoned=True, attached=False)  # of the conventional one's size


@pytest.mark.parametrize(
    "other",
    [
        BESIDE,
        replace(BESIDE, zoned=False, attached=True),
        replace(BESIDE, zoned=False, format=0),
        replace(BESIDE, zoned=False, size=8 * GIB),
        replace(BESIDE, zoned=False, format=2),
    ],
    ids=["zoned", "attached", "other-blocks", "other-size", "metadata"],
)
def test_a_namespace_that_others_created_is_not_taken_for_the_own_one(
    make: Make, other: Space
) -> None:
    host = make(blocks=(512, 4096, 4096), metadata=(0, 0, 8))
    host.drive.fail = (3, "before")  # the creation of the conventional namespace
    arguments = ["--conventional-size", "4GiB", "--experiment-size", f"{100 * ZONE}"]
    again = ("--apply", "--recreate", "SYNTHETIC")
    with pytest.raises(Killed):
        zonelab(host, *again, arguments=arguments)
    host.drive.fail = None
    host.drive.spaces[7] = replace(other)
    host.drive.publish()
    assert zonelab(host, *again, arguments=arguments) == 0
    assert host.drive.spaces.pop(7) == other
    assert described(host.drive) == AS_WANTED[:2]


def test_a_namespace_from_before_the_creation_is_not_taken_for_the_own_one(make: Make) -> None:
    host = make()
    arguments = ["--conventional-size", "4GiB", "--experiment-size", f"{100 * ZONE}"]
    again = ("--apply", "--recreate", "SYNTHETIC")
    for fail in ((2, "after"), (3, "before")):
        host.drive.fail = fail
        with pytest.raises(Killed):
            zonelab(host, *again, arguments=arguments)
        host.drive.spaces[7] = replace(BESIDE, zoned=False)  # all that was there is deleted
    host.drive.fail = None
    assert zonelab(host, *again, arguments=arguments) == 0
    assert not host.drive.spaces.pop(7).attached
    assert described(host.drive) == AS_WANTED[:2]


@pytest.mark.parametrize("late", [3, None])
def test_new_namespaces_are_waited_for_until_they_have_a_node(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    late: int | None,
) -> None:
    """The kernel makes the node of the last one late, or never."""
    host, sleeps = make(), list[float]()
    block_nodes = survey.block_nodes

    def nodes(machine: DriveHost, device: str) -> dict[int, str]:
        found = block_nodes(machine, device)
        hidden = host.drive.steps.count("attach-ns") == 3 and (
            late is None or sleeps.count(0.2) < late
        )
        return {nsid: node for nsid, node in found.items() if nsid != 3 or not hidden}

    monkeypatch.setattr(survey, "block_nodes", nodes)
    monkeypatch.setattr(command.apply.time, "sleep", sleeps.append)
    moments = iter(range(100))
    monkeypatch.setattr(host, "monotonic", lambda: float(next(moments)))
    if late is not None:
        assert apply(host) == 0
        assert sleeps.count(0.2) == late
        return
    assert apply(host) == 4
    assert "namespaces [3] have no block device" in capsys.readouterr().err
    assert sleeps.count(0.2) == 30


def test_a_deleted_namespace_leaves_no_preconditioning_to_its_successor(make: Make) -> None:
    """The drive gives the new namespaces the identities of the old ones."""
    host = make()
    state = host.drive.root / "state"
    (state / "preconditioned").mkdir(parents=True)
    spaces = [host.device(f"nvme0n{nsid}") for nsid in (1, 2)]
    for space in spaces:
        precondition.record_file(state, space).write_text("{}")
    host.drive.fail = (1, "before")
    with pytest.raises(Killed):
        apply(host)
    assert [precondition.record_file(state, one).exists() for one in spaces] == [False, True]
    host.drive.fail = None
    assert apply(host) == 0
    assert list((state / "preconditioned").iterdir()) == []


def test_a_drive_without_room_is_refused(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = make(total=904 * ZONE + 4 * GIB)
    host.drive.total += 10 * ZONE
    assert layout.plan(read(host), WANTED).create[2].zones == 814
    host.drive.fail = (7, "before")
    with pytest.raises(Killed):
        apply(host)
    host.drive.fail = None
    host.drive.total -= 10 * ZONE  # it reported more than it has
    assert apply(host) == 4
    assert "Insufficient Capacity" in capsys.readouterr().err


def test_the_new_namespaces_are_read_back(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert apply(make(rounds=True)) == 4
    assert "size is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"active": 11}, "(experiment): active is 11, not 12"),
        ({"format": 0}, "(experiment): block is 512, not 4096"),
    ],
)
def test_new_namespaces_of_other_properties_are_reported(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    message: str,
) -> None:
    host = make(active_total=14)
    create = host.drive._create

    def other(options: dict[str, str]) -> int:
        nsid = create(options)
        if nsid == 2:
            host.drive.spaces[nsid] = replace(host.drive.spaces[nsid], **changes)
        return nsid

    monkeypatch.setattr(host.drive, "_create", other)
    assert apply(host) == 4
    assert message in capsys.readouterr().err


def test_a_wrong_zone_capacity_is_found_in_the_new_namespace(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    host = make(spaces={})
    arguments = ["--experiment-size", f"{100 * 1000 * MIB}", "--zone-capacity", "1000MiB"]
    assert zonelab(host, "--apply", "--recreate", "SYNTHETIC", arguments=arguments) == 4
    assert f"zone_capacity is {ZONE}, not {1000 * MIB}" in capsys.readouterr().err


def test_an_nvme_cli_that_cannot_divide_is_found_out_before_anything_is_deleted(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    host = make(active_total=14, old_cli=True)
    assert apply(host) == 0
    assert "this nvme-cli cannot divide" in capsys.readouterr().err
    assert [s.active for s in host.drive.spaces.values() if s.zoned] == [14, 14]


def hold(host: DriveHost, kind: str) -> tuple[str, ...]:
    """Put the drive into a state in which it must not be touched; return further arguments."""
    node = host.drive.root / "dev/nvme0n2"
    if kind == "busy":
        host.busy = {"nvme0n2"}
    elif kind == "filled":
        host.filled = {"nvme0n2"}
    elif kind == "signature":
        with node.open("r+b") as file:
            file.write(b"XFSB")
    elif kind == "conventional-data":
        with (host.drive.root / "dev/nvme0n1").open("r+b") as file:
            file.seek(GIB + 12345)
            file.write(b"something")
    elif kind == "mounted":
        proc_files = {"self/mountinfo": "9 1 259:1 / /srv rw - ext4 /dev/x rw\n"}
        for name, text in proc_files.items():
            (host.drive.root / "proc" / name).parent.mkdir(parents=True, exist_ok=True)
            (host.drive.root / "proc" / name).write_text(text)
    elif kind == "detached":
        host.drive.spaces[2].attached = False
        host.drive.publish()
    elif kind == "shared":
        host.drive.shared = True
    more = {
        "no-serial": ("--recreate", ""),
        "wrong-serial": ("--recreate", "S1"),
        "detached": ("--zone-capacity", "1077MiB"),
    }
    return more.get(kind, ())


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("no-serial", "would be deleted"),
        ("wrong-serial", "would be deleted"),
        ("busy", "open exclusively"),
        ("filled", "not empty"),
        ("signature", "carries xfs"),
        ("conventional-data", "holds data that zonelab did not write"),
        ("mounted", "is mounted on /srv"),
        ("detached", "is not attached"),
        ("shared", "another controller"),
    ],
)
def test_namespaces_that_must_not_be_touched_are_refused(
    make: Make, kind: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host = make()
    assert apply(host, *hold(host, kind)) == 3
    reported = capsys.readouterr().err
    assert code in reported
    assert "hint: " in reported
    assert host.drive.steps == []


def test_a_namespace_that_came_into_use_is_not_deleted(make: Make) -> None:
    host = make()
    host.drive.fail = (2, "before")  # the first is gone, the second not yet
    with pytest.raises(Killed):
        apply(host)
    host.drive.fail = None
    host.busy = {"nvme0n2"}
    assert apply(host) == 3
    assert 2 in host.drive.spaces
    assert host.drive.spaces[2].attached


def test_a_namespace_is_held_while_it_is_deleted(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make()
    held: list[bool] = []
    delete = nvme_cli.delete

    def spy(device: str, nsid: int) -> None:
        node = host.drive.root / f"dev/nvme0n{nsid}"
        fds = [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]
        held.append(str(node) in fds)
        delete(device, nsid)

    monkeypatch.setattr(nvme_cli, "delete", spy)
    assert apply(host) == 0
    assert held == [True, True]


@pytest.mark.parametrize(("sign", "code"), [("bytes", 3), ("data", 3), ("nothing", 0)])
def test_a_writer_behind_the_guards_look_keeps_its_namespace(
    make: Make, sign: str, code: int
) -> None:
    host = make()

    def write() -> None:
        if sign == "bytes":
            host.drive.count_writes({"nvme0n1": 4096})
        if sign == "data":
            with (host.drive.root / "dev/nvme0n1").open("r+b") as file:
                file.write(b"precious")

    host.paused = write
    assert apply(host) == code
    assert len(host.drive.spaces) == (3 if code == 0 else 2)


def test_a_writer_during_the_guards_last_look_keeps_its_namespace(
    make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guard reads a conventional namespace whole, which takes minutes."""
    host, require = make(), Guard.require

    def slow(self: Guard, device: Device, *, held: bool = False) -> Consent | None:
        consent = require(self, device, held=held)
        if held:
            with Path(device.path).open("r+b") as file:
                file.write(b"precious")
        return consent

    monkeypatch.setattr(Guard, "require", slow)
    assert apply(host) == 3
    assert "changed after the guard's check" in capsys.readouterr().err
    assert host.drive.steps == []


def test_another_drive_in_its_place(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = make()
    run = host.drive.run

    def switch(argv: list[str], **options: Any) -> proc.Completed:
        done = run(argv, **options)
        if argv[1] == "delete-ns":
            host.drive.serial = "ANOTHER"
        return done

    proc.run = switch  # type: ignore[assignment]  # put back by the fixture
    assert apply(host) == 3
    assert "now it is ANOTHER" in capsys.readouterr().err
    assert host.drive.steps == ["delete-ns"]


def test_consents_name_further_namespaces_to_delete(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    host = make()

    def consents(*arguments: str) -> list[str]:
        capsys.readouterr()
        assert zonelab(host, "--format", "json", arguments=list(arguments)) == 0
        contents = json.loads(capsys.readouterr().out)["contents"]
        return [seen["consent"] for seen in contents if seen["consent"]]

    hold(host, "filled")
    (consent,) = consents(*ARGUMENTS)
    assert consent.startswith("eui.001b448b4a000002@")
    assert apply(host, "--erase", consent) == 0
    entries = Journal(host.drive.root / "state/journal.jsonl").entries()
    assert [(entry.event, entry.consent) for entry in entries] == [
        (JournalEvent.ERASE, consent.rpartition("@")[2])
    ]

    host.drive.spaces[3].attached = False
    host.drive.publish()
    other = ["--experiment-size", "rest", "--conventional-size", "8GiB"]
    host.filled = set()
    again = ("--apply", "--recreate", "SYNTHETIC")
    assert zonelab(host, *again, arguments=other) == 3
    (unattached,) = consents(*other)
    assert unattached.startswith("SYNTHETIC:3@")
    assert zonelab(host, *again, "--erase", consent, arguments=other) == 3
    assert zonelab(host, *again, "--erase", f"{consent},{unattached}", arguments=other) == 0
    used = [entry.consent for entry in Journal(host.drive.root / "state/journal.jsonl").entries()]
    assert used == [one.rpartition("@")[2] for one in (consent, unattached)]


def test_a_consent_is_used_by_one_deletion(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    host = make()
    hold(host, "filled")
    assert apply(host) == 3
    consent = re.findall(r"--erase (\S+@[0-9a-f]{8})", capsys.readouterr().err)[0]
    host.drive.fail = (2, "before")
    with pytest.raises(Killed):
        apply(host, "--erase", consent)
    host.drive.fail = None
    assert apply(host, "--erase", consent) == 3
    assert "an earlier wipe has used the consent" in capsys.readouterr().err
    assert 2 in host.drive.spaces


def test_drives_without_a_serial_number_are_left_alone(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would share a file of progress, and the check of the serial number."""
    host = make(serial="")
    for more in ((), ("--apply", "--recreate", "")):
        assert zonelab(host, *more) == 3
        assert "(Synthetic ZN540) reports no serial number" in capsys.readouterr().err
    assert host.drive.steps == []
    as_it_is = ["--conventional-size", "4GiB", "--experiment-size", "rest"]
    assert zonelab(host, "--apply", arguments=as_it_is) == 0


def test_each_serial_number_has_its_own_file_of_progress(tmp_path: Path) -> None:
    serials = ["A_B", "A/B", "A B", "AB"]
    files = {command.apply.progress_file(tmp_path, serial) for serial in serials}
    assert len(files) == len(serials)
    assert tmp_path / "namespaces-A_B.json" in files
    assert {file.parent for file in files} == {tmp_path}
