"""The level zenfs: its tool's captured output, probes, options, and ownership by its superblock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import levels
from harness.errors import ConfigError, HostError, ToolFailed
from harness.levels import zenfs_programs
from harness.levels.level import LevelContext
from harness.levels.zenfs import SIGNATURE, ZenFs
from harness.observe import signatures
from harness.plan import reference
from harness.plan.requirements import choose_scheduler
from harness.store.files import dumps
from harness.store.spec import Device
from harness.tools import ldd, proc, rocksdb_plugin, zenfs, zone_reset
from harness.tools.kernel import Kernel
from harness.tools.proc import Completed
from harness.tools.rocksdb_plugin import PluginFacts
from harness.tools.rocksdb_source import Tree
from tests.fixtures.level_host import FIXTURES, MIB, ZONED

CAPTURED = FIXTURES / "zenfs"
DEVICE = replace(ZONED, schedulers=("none", "mq-deadline"))
# Captured with db_bench and librocksdb 7.8.3-2 of Debian 12. INSIDE: with plugin-toy, which uses
# ZenFS's words. UNKNOWN: the status of Env::CreateFromUri, after the words of db_bench with our
# patch; without the patch db_bench prints nothing and is killed by signal 11.
INSIDE = "Failed creating env: Invalid argument: Malformed URI: zenfs://probe:x\n"
UNKNOWN = "Failed creating env: Not implemented: Could not load FileSystem: zenfs://probe:x\n"
NOT_PRELOADED = (
    "ERROR: ld.so: object '/tmp/nosuch.so' from LD_PRELOAD cannot be preloaded "
    "(cannot open shared object file): ignored.\n"
)
# Captured with --env_uri, which this db_bench ignores.
IGNORED = (
    "fillseq      :    5072.000 micros/op 194 ops/sec 0.005 seconds 1 operations;    0.0 MB/s\n"
)
# Synthetic, in the form of the captured beginning.
DUMP = {
    "zones": {
        "meta": [
            {
                "start": 0,
                "capacity": 1,
                "max_capacity": 1,
                "wp": 0,
                "lifetime": 0,
                "used_capacity": 0,
            }
        ],
        "io": [
            {
                "start": 0,
                "capacity": 0,
                "max_capacity": 100,
                "wp": 0,
                "lifetime": 3,
                "used_capacity": 60,
            },
            {
                "start": 0,
                "capacity": 40,
                "max_capacity": 100,
                "wp": 0,
                "lifetime": 0,
                "used_capacity": 50,
            },
        ],
    },
    "files": [
        {"id": 57, "size": 70, "hint": 3, "filename": ["/db/000050.sst"], "extents": []},
        {"id": 3, "size": 40, "hint": 3, "filename": ["/cold/000004.sst"], "extents": []},
    ],
}


def test_captured_output_is_read() -> None:
    info = zenfs.parse_info((CAPTURED / "fs-info.txt").read_text())
    assert info["ZenFS Version"] == "v2.1.0-65-g919c2eb"
    assert (info["Finish Threshold"], info["Superblock Version"]) == ("10", "2")
    assert zenfs.parse_df((CAPTURED / "df.txt").read_text()) == {
        "df.free": 2042 * MIB,
        "df.used": 504 * MIB,
        "df.reclaimable": 348 * MIB,
    }


def test_the_dump_has_the_captured_fields() -> None:
    beginning = (CAPTURED / "dump-beginning.txt").read_text()
    captured = json.loads(beginning[: beginning.rindex("},") + 1] + "]}}")
    assert captured["zones"]["io"][0].keys() == DUMP["zones"]["io"][0].keys()  # type: ignore[index]
    dump = zenfs.parse_dump(json.dumps({**captured, "files": []}))
    # A zone that is open: what was written is in use, or lost to alignment.
    assert dump.zones[0] == zenfs.ZenfsZone(50331648, 50135040, 7743)


def test_sizes_come_from_the_dump() -> None:
    dump = zenfs.parse_dump(json.dumps(DUMP))
    assert (dump.free_bytes, dump.garbage_bytes) == (40, 50)
    assert dump.files == {"/db/000050.sst": 70, "/cold/000004.sst": 40}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"zones":{"io":[]},"files":[]}',
        '{"zones":{"io":[{}]},"files":[]}',
        json.dumps({**DUMP, "files": [{"size": 1, "filename": "x"}]}),
    ],
)
def test_another_dump_is_an_error(text: str) -> None:
    with pytest.raises(ToolFailed, match="zenfs dump"):
        zenfs.parse_dump(text)


def test_other_output_is_an_error() -> None:
    with pytest.raises(ToolFailed, match="zenfs df"):
        zenfs.parse_df("Free: 1 MB\n")
    with pytest.raises(ToolFailed, match="zenfs fs-info"):
        zenfs.parse_info("Magic:\t\t\tFNEZ\n")


class Programs:
    """The user's parts in a folder, and a db_bench with a given exit status."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[tuple[str, ...]] = []
        self.probe = Completed((), 1, None, "", INSIDE)
        folder.mkdir()
        for name in (zenfs.PROGRAM, zenfs.PLUGIN, zenfs.DB_BENCH):
            (folder / name).write_bytes(b"\x7fELF")
        self.block = folder.parent / "sys/class/block/nvme0n3/queue"
        self.block.mkdir(parents=True)
        (self.block / "scheduler").write_text("none [mq-deadline]\n")
        (self.block / "max_active_zones").write_text("14\n")

    def run(self, argv: Sequence[str | Path], **more: Any) -> Completed:
        args = tuple(str(arg) for arg in argv)
        self.calls.append(args)
        if f"--fs_uri={zenfs.PROBE_URI}" in args:
            return self.probe
        text = {
            "fs-info": (CAPTURED / "fs-info.txt").read_text(),
            "mkfs": (CAPTURED / "mkfs.txt").read_text(),
            "df": (CAPTURED / "df.txt").read_text(),
            "dump": json.dumps(DUMP),
        }[args[1]]
        return Completed(args, 0, None, text, "")

    def level(self) -> ZenFs:
        return ZenFs(Kernel(self.folder.parent))

    def reason(self, device: Device = DEVICE) -> str | None:
        found = self.level().probe(device, None)
        return found.code if found else None


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    fake = Programs(tmp_path / "zenfs")
    monkeypatch.setenv("ZONELAB_ZENFS", str(fake.folder))
    monkeypatch.setattr(proc, "run", fake.run)
    monkeypatch.setattr(proc, "which", lambda _: None)
    library = tmp_path / "librocksdb.so.9.10"
    library.write_bytes(b"\x7fELF rocksdb")
    monkeypatch.setattr(ldd, "rocksdb", lambda _: library)
    monkeypatch.setattr(zone_reset, "reset_all", lambda *_: fake.calls.append(("reset",)))
    return fake


def test_all_parts_are_there(programs: Programs) -> None:
    assert programs.reason() is None
    assert programs.level().probe_program(Path("/usr/bin/db_bench"), "db_bench") is None


def test_missing_parts(programs: Programs) -> None:
    (programs.folder / zenfs.PLUGIN).unlink()
    assert programs.reason() is None  # a db_bench with ZenFS inside will do
    (programs.folder / zenfs.PROGRAM).unlink()
    assert programs.reason() == "program-missing"
    with pytest.raises(HostError, match="zenfs is not installed"):
        zenfs.tool()


def test_the_plugin_can_be_in_the_common_db_bench(programs: Programs) -> None:
    for name in (zenfs.PLUGIN, zenfs.DB_BENCH):
        (programs.folder / name).unlink()
    level = programs.level()
    assert level.probe_program(Path("/usr/bin/db_bench"), "db_bench") is None
    programs.probe = Completed((), None, 11, "", "")
    reason = level.probe_program(Path("/usr/bin/db_bench"), "db_bench")
    assert reason is not None
    assert (reason.code, "signal 11" in reason.message) == ("zenfs-missing", True)


def test_a_plug_in_of_another_rocksdb_is_never_started(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ldd, "rocksdb", lambda file: Path("/usr/lib", file.name))
    reason = programs.level().probe_program(Path("/usr/bin/db_bench"), "db_bench")
    assert reason is not None
    assert reason.code == "rocksdb-differs"
    assert programs.calls == []


@pytest.mark.parametrize("words", ["Malformed URI", "No such device"])
def test_a_plug_in_that_refuses_the_address_is_there(programs: Programs, words: str) -> None:
    """The words of the refusal are the plug-in's; "Invalid argument" is RocksDB's."""
    programs.probe = Completed((), 1, None, "", INSIDE.replace("Malformed URI", words))
    assert programs.level().probe_program(Path("/usr/bin/db_bench"), "db_bench") is None


@pytest.mark.parametrize(
    ("ended", "how"),
    [
        (Completed((), None, 11, "", ""), "signal 11"),
        (Completed((), None, 11, "", NOT_PRELOADED), "cannot be preloaded"),
        (Completed((), 1, None, "", UNKNOWN), "Could not load FileSystem"),
        (Completed((), 0, None, IGNORED, ""), "exit status 0"),
        (Completed((), None, 6, "", INSIDE), "signal 6"),
    ],
)
def test_a_db_bench_that_does_not_know_the_scheme(
    programs: Programs, ended: Completed, how: str
) -> None:
    programs.probe = ended
    reason = programs.level().probe_program(Path("/usr/bin/db_bench"), "db_bench")
    assert reason is not None
    assert reason.code == "zenfs-not-registered"
    assert how in reason.message


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"zones": 31}, "zones-too-few"),
        ({"zoned": False}, "not-zoned"),
        ({"schedulers": ("none",)}, "scheduler-missing"),
    ],
)
def test_devices_it_cannot_use(programs: Programs, change: dict[str, Any], code: str) -> None:
    assert programs.reason(replace(DEVICE, **change)) == code


def test_multipath_heads_are_refused(programs: Programs) -> None:
    (programs.block / "max_active_zones").write_text("0\n")
    assert programs.reason() == "multipath-head"  # as older heads: the path node knows 14
    (programs.block / "max_active_zones").write_text("14\n")
    mine = (programs.block / "scheduler").read_text()
    (programs.block / "scheduler").write_text("none\n")
    assert programs.reason() == "multipath-head"  # an older head of a device without limits
    (programs.block / "scheduler").write_text(mine)
    assert programs.reason() is None
    (programs.block / "scheduler").unlink()
    assert programs.reason() == "multipath-head"  # as captured under Linux 7.2


def test_up_records_versions_and_builds(programs: Programs, tmp_path: Path) -> None:
    def check() -> None:
        programs.calls.append(("check",))

    context = LevelContext(
        DEVICE,
        None,
        {"finish_occupancy_pct": 90, "gc": True},
        tmp_path / "run",
        "zl-0123abcd",
        check,
        Path("/usr/bin/db_bench"),
    )
    up = programs.level().up(context)
    aux = tmp_path / "run/aux/zl-0123abcd"
    assert programs.calls[:3] == [
        ("check",),
        ("reset",),
        (
            str(programs.folder / "zenfs"),
            "mkfs",
            "--zbd=nvme0n3",
            f"--aux_path={aux}",
            "--finish_threshold=10",
            "--enable_gc",
        ),
    ]
    assert up.fs_uri == "zenfs://dev:nvme0n3"
    assert up.program == programs.folder / "db_bench"
    assert up.environment == {"LD_PRELOAD": str(programs.folder / "libzenfs.so")}
    assert up.facts["zenfs_version"] == "v2.1.0-65-g919c2eb"
    assert (up.facts["finish_remaining_pct"], up.facts["finish_occupancy_pct"]) == (10, 90)
    assert len(str(up.facts["zenfs_plugin_sha256"])) == 64
    assert not aux.exists()  # mkfs creates it, and refuses an existing one
    usage = programs.level().usage(up)
    assert (usage.free_bytes, usage.gc_events, usage.gc_bytes) == (40, None, None)
    assert (usage.raw["garbage_bytes"], usage.raw["df.used"]) == (50, 504 * MIB)
    assert programs.level().database_bytes(up) == 70
    for _ in range(2):
        programs.level().down(up)
        assert not (tmp_path / "run/aux").exists()


def test_a_build_of_zonelab_is_recorded(programs: Programs, tmp_path: Path) -> None:
    home = tmp_path / "plugins/zenfs-0123"
    (home / "lib").mkdir(parents=True)
    library = home / "lib/libzenfs.so"
    library.write_bytes(b"\x7fELF")
    (programs.folder / zenfs.PLUGIN).unlink()
    (programs.folder / zenfs.PLUGIN).symlink_to(library)
    assert "zenfs_build" not in zenfs_programs.builds()
    facts = PluginFacts(
        name="zenfs",
        version="v2.1.4",
        source=Tree("/src/zenfs", "aa"),
        rocksdb="7.8.3",
        headers=Tree("/src/rocksdb", "bb"),
        library=Tree("/usr/lib/librocksdb.so.7.8.3", "cc"),
        flags="-O2",
        compiler="g++ 12",
    )
    record = rocksdb_plugin.identify(facts)
    (home / "build.json").write_text(dumps(record))
    recorded = zenfs_programs.builds()
    assert recorded["zenfs_plugin"] == str(library)
    assert (recorded["zenfs_build"], recorded["zenfs_source_sha256"]) == (record.id, "aa")
    assert (recorded["zenfs_source_version"], recorded["zenfs_flags"]) == ("v2.1.4", "-O2")


def test_nothing_is_formatted_under_another_scheduler(programs: Programs, tmp_path: Path) -> None:
    (programs.block / "scheduler").write_text("[none] mq-deadline\n")
    context = LevelContext(DEVICE, None, {}, tmp_path / "run", "zl-0123abcd", lambda: None)
    with pytest.raises(ToolFailed, match="not mq-deadline"):
        programs.level().up(context)
    assert programs.calls == []


def test_the_planner_chooses_its_scheduler() -> None:
    assert choose_scheduler("zenfs", None, reference.RIG) == "mq-deadline"
    assert choose_scheduler("f2fs", None, reference.RIG) == "none"
    with pytest.raises(ConfigError, match="zenfs does not work with scheduler none"):
        choose_scheduler("zenfs", "none", reference.RIG)


@pytest.mark.parametrize("zone", [0, 1, 2])
def test_its_superblock_carries_the_runs_label(zone: int) -> None:
    """Synthetic: header, magic, UUID, six numbers, then the auxiliary path."""
    content = bytearray(24 * MIB)
    at = zone * 8 * MIB
    content[at + 8 : at + 12] = b"FNEZ"
    path = b"/run/zonelab/zenfs--r01/aux/zl-0123abcd/"
    begin = at + SIGNATURE.label_offset
    content[begin : begin + len(path)] = path
    found = signatures.find(lambda o, n: bytes(content[o : o + n]), 8 * MIB, levels.signatures())
    assert found == [signatures.Signature("zenfs", "zl-0123abcd")]


def test_dm_zoned_carries_the_runs_label() -> None:
    """Synthetic, after struct dm_zoned_super: magic, then the label behind ten numbers."""
    head = bytearray(4 * MIB)
    head[:4] = b"DBZD"
    head[48:59] = b"zl-0123abcd"
    for zone_size in (None, 2 * MIB):
        found = signatures.find(lambda o, n: bytes(head[o : o + n]), zone_size, levels.signatures())
        assert found == [signatures.Signature("dm-zoned", "zl-0123abcd")]
