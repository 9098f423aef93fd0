"""ublk devices: never hardware, and modelled only when zoneblk answers for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.judge.comparability import differences
from analysis.judge.compare import WATERMARK, compare
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from analysis.show.drawing import mark_of
from analysis.show.render import render
from harness.metrics.catalogue import MetricKind
from harness.observe import witness, zoneblk
from harness.observe.sampler import media
from harness.observe.sysfs import Sysfs, kind_of
from harness.store.ledger import Completions, Witness
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import write_campaign
from tests.fixtures.unix_server import server

UUID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
ANSWER: dict[str, Any] = {
    "server": "zoneblk",
    "device": "ublkb0",
    "uuid": UUID,
    "model": "zn540-1tb-0123abcd",
    "dilation": 8,
}


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    for name in ("ublkb0", "ublkb1"):
        (tmp_path / "sys/class/block" / name / "queue").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    return Sysfs(tmp_path / "sys", tmp_path / "dev", tmp_path / "run")


def test_a_ublk_device_without_zoneblk_is_emulated(sysfs: Sysfs) -> None:
    assert sysfs.kind("ublkb0") is DeviceKind.EMULATED
    assert sysfs.model("ublkb0") == "ublkb"
    assert not sysfs.identity("ublkb0").stable


def test_zoneblk_makes_it_modelled(sysfs: Sysfs) -> None:
    with server(sysfs.servers / "ublkb0", json.dumps(ANSWER).encode()):
        assert sysfs.kind("ublkb0") is DeviceKind.MODELLED
        assert sysfs.model("ublkb0") == "zoneblk zn540-1tb-0123abcd x8"
        assert sysfs.identity("ublkb0").key == f"model.{UUID}"
        assert sysfs.identity("ublkb0").stable
        assert sysfs.kind("ublkb1") is DeviceKind.EMULATED
    assert sysfs.kind("ublkb0") is DeviceKind.EMULATED


def test_another_overhead_is_another_drive(sysfs: Sysfs) -> None:
    less = ANSWER | {"overhead_ns": 20500}
    with server(sysfs.servers / "ublkb0", json.dumps(less).encode()):
        assert sysfs.model("ublkb0") == "zoneblk zn540-1tb-0123abcd -20500ns x8"


def test_what_ended_on_time_is_read_of_modelled_drives_only(sysfs: Sysfs) -> None:
    sums = {"late_sum_ns": 90, "latency_sum_ns": 1000}
    late = ANSWER | {"lateness": {"count": 8, "on_time_share": 0.875} | sums}
    with server(sysfs.servers / "ublkb0", json.dumps(late).encode()):
        counted = {"ublkb0": Completions(8, 7, 90, 1000)}
        assert witness.completions(sysfs, ["ublkb0"]) == counted
        assert witness.completions(sysfs, ["ublkb0", "ublkb1"]) == {}


def test_stacked_devices_have_the_kind_of_their_drive(sysfs: Sysfs) -> None:
    for stacked, drive in (("dm-0", "ublkb0"), ("dm-1", "ublkb1")):
        (sysfs.block(stacked) / "slaves" / drive).mkdir(parents=True)
    with server(sysfs.servers / "ublkb0", json.dumps(ANSWER).encode()):
        assert sysfs.kind("dm-0") is DeviceKind.MODELLED
    assert sysfs.kind("dm-0") is sysfs.kind("dm-1") is DeviceKind.EMULATED


def report(number: int, written: int, **media: int) -> bytes:
    counts = {"host_bytes": written, "collected_bytes": 0, "pad_bytes": 0} | media
    commands = {
        "write": {"bytes": written - 4096},
        "append": {"bytes": 4096},
        "read": {"bytes": 8192},
    }
    own = {"device": f"ublkb{number}", "commands": commands, "media": counts}
    return json.dumps(ANSWER | own).encode()


def test_the_servers_are_the_witness_and_count_media(sysfs: Sysfs) -> None:
    zoned, conventional = report(0, 1 << 20, pad_bytes=7), report(1, 1 << 22, collected_bytes=9)
    names = ("ublkb0", "ublkb1")
    covers = {name: (name,) for name in names}
    with (
        server(sysfs.servers / "ublkb0", zoned),
        server(sysfs.servers / "ublkb1", conventional),
    ):
        assert witness.find("quiet", sysfs, names) == Witness(
            "zoneblk write and append bytes",
            0,
            {"ublkb0": 1 << 20, "ublkb1": 1 << 22},
            covers,
            {"ublkb0": 8192, "ublkb1": 8192},
        )
        assert witness.media(sysfs, names) == Witness(
            "modelled: zn540-1tb-0123abcd",
            0,
            {"ublkb0": (1 << 20) + 7, "ublkb1": (1 << 22) + 9},
            covers,
        )


def test_media_bytes_are_a_series_of_modelled_drives_only(sysfs: Sysfs) -> None:
    with server(sysfs.servers / "ublkb1", report(1, 1 << 22, collected_bytes=9)):
        series = media(["ublkb0", "ublkb1"], sysfs)
        assert series.columns == ["ublkb1"]
        assert series.read() == [(1 << 22) + 9]
    assert series.read() == [None]  # the server is gone


def test_a_drive_without_a_server_has_no_witness(sysfs: Sysfs) -> None:
    with server(sysfs.servers / "ublkb0", report(0, 8192)):
        assert witness.find("quiet", sysfs, ("ublkb0", "ublkb1")) is None
        assert witness.media(sysfs, ("ublkb0", "ublkb1")) is None


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        *(
            json.dumps(ANSWER | change).encode()
            for change in (
                {"server": "ublksrv"},
                {"device": "ublkb1"},
                {"uuid": "7c9e"},
                {"model": ""},
                {"dilation": 0},
                {"dilation": "8"},
                {"overhead_ns": -1},
                {"overhead_ns": "26us"},
            )
        ),
    ],
)
def test_other_answers_prove_nothing(sysfs: Sysfs, answer: bytes) -> None:
    with server(sysfs.servers / "ublkb0", answer):
        assert sysfs.kind("ublkb0") is DeviceKind.EMULATED
        assert not sysfs.identity("ublkb0").stable


def test_only_names_of_ublk_devices_are_looked_up(sysfs: Sysfs) -> None:
    with server(sysfs.servers / "sda", json.dumps(ANSWER | {"device": "sda"}).encode()):
        assert zoneblk.served("sda", sysfs.servers) is None


@pytest.mark.parametrize(
    ("name", "model", "kind"),
    [
        ("ublkb0", "ublkb", DeviceKind.EMULATED),
        ("ublkb0", "WZS4C8T1TDSP303", DeviceKind.EMULATED),
        ("zl-slice", "zoneblk zn540-1tb x8", DeviceKind.MODELLED),
        ("dm-0", "zoneblk zn540-1tb x8 + WZS4C8T1TDSP303", DeviceKind.EMULATED),
        ("dm-0", "nullb + WZS4C8T1TDSP303", DeviceKind.EMULATED),
        ("nvme0n1", "Linux", DeviceKind.EMULATED),  # the kernel's NVMe target, over any transport
        ("sda", "scsi_debug", DeviceKind.EMULATED),
        ("sda", "Virtual disk", DeviceKind.EMULATED),
        ("dm-0", "scsi_debug + WZS4C8T1TDSP303", DeviceKind.EMULATED),
        ("vda", "vda", DeviceKind.EMULATED),  # virtio
        ("dm-0", "xvdb + WZS4C8T1TDSP303", DeviceKind.EMULATED),
        ("nvme0n1", "WZS4C8T1TDSP303", DeviceKind.HARDWARE),
        ("dm-0", "dm-", DeviceKind.HARDWARE),  # as recorded before stacked devices had models
    ],
)
def test_kinds(name: str, model: str, kind: DeviceKind) -> None:
    assert kind_of(name, model) is kind


@pytest.mark.parametrize("contrasted", [{"level"}, {"host"}, {"scheduler"}])
def test_kinds_never_mix(contrasted: set[str]) -> None:
    (found,) = differences({"device.kind": {"modelled"}}, {"device.kind": {"hardware"}}, contrasted)
    assert found.blocking


def test_times_of_an_unknown_modelled_drive_are_labelled_and_get_no_verdict(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", series=False, kind=DeviceKind.MODELLED)
    comparison = compare(load(folder))
    (row,) = (r for r in comparison.rows if (r.metric, r.level) == ("overwrite.throughput", "f2fs"))
    assert row.verdict is Verdict.NOT_A_RESULT
    for form in ("table", "md", "json"):
        text = render(comparison, form)
        assert "modelled drive" in text
        assert WATERMARK not in text
    assert mark_of(comparison, MetricKind.TIME) == "modelled drive"
