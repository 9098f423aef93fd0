"""The level zlfs: its program's argument lists and output, its probes, its plug-in's RocksDB.

The program's output in here is synthetic, after docs/zlfs.md.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import levels
from harness.errors import ConfigError, GuardRefused, ToolFailed
from harness.levels import zlfs as level
from harness.levels.level import LevelContext
from harness.levels.zlfs import Zlfs
from harness.observe import signatures
from harness.store.spec import Bytes, DeviceKind
from harness.tools import ldd, native, proc, zlfs, zone_reset
from harness.tools.proc import Completed
from tests.fixtures.level_host import MIB, ZONED

FIXTURES = Path(__file__).parents[1] / "fixtures" / "levels" / "ldd"
PROGRAM = Path("/x/bin/zlfs")
DEVICE = Path("/dev/nvme0n3")
AUX = Path("/run/z/aux")

COUNTS = {
    "block_size": 4096,
    "zone_size": 8 * MIB,
    "zone_capacity": 6 * MIB,
    "zones": 384,
    "capacity_bytes": 384 * 6 * MIB,
    "free_bytes": 369 * 6 * MIB,
    "live_bytes": 0,
    "garbage_bytes": 0,
    "pad_bytes": 0,
    "metadata_bytes": 8192,
    "reserve_bytes": 15 * 6 * MIB,
    "files": 0,
    "zones_empty": 383,
    "zones_active": 1,
    "zones_full": 0,
    "max_active": 14,
    "finish_remaining_pct": 20,
    "finish_occupancy_pct": 80,
    "finishes": 0,
    "resets": 0,
}
DF: dict[str, Any] = {
    "schema_version": 1,
    "identity": "eui.1",
    "label": "zl-12345678",
    **COUNTS,
    "gc": {"copied_bytes": 4096, "zones_reclaimed": 3},
}


def test_argument_lists() -> None:
    assert zlfs.mkfs_argv(
        PROGRAM, DEVICE, aux=AUX, label="zl-1", policies={"gc_victim": "garbage", "gc": False}
    ) == [
        "/x/bin/zlfs",
        "mkfs",
        "--device=/dev/nvme0n3",
        "--aux=/run/z/aux",
        "--label=zl-1",
        "--gc-victim=garbage",
        "--gc=off",
    ]
    assert zlfs.read_argv(PROGRAM, "df", DEVICE) == [
        "/x/bin/zlfs",
        "df",
        "--device=/dev/nvme0n3",
        "--format=json",
    ]
    trace = AUX / "t"
    assert zlfs.import_argv(
        PROGRAM, DEVICE, aux=AUX, trace=trace, name="/cold", size=8192, seed=-1
    ) == [
        "/x/bin/zlfs",
        "import",
        "--device=/dev/nvme0n3",
        "--aux=/run/z/aux",
        "--trace=/run/z/aux/t",
        "--name=/cold",
        "--size=8192",
        f"--seed={2**64 - 1}",
        "--progress",
    ]


def test_every_field_of_df_is_read() -> None:
    space = zlfs.parse_df(json.dumps({**DF, "given_up_bytes": 7}))
    assert space["free_bytes"] == 369 * 6 * MIB
    assert space == {
        "identity": "eui.1",
        "label": "zl-12345678",
        **COUNTS,
        "gc.copied_bytes": 4096,
        "gc.zones_reclaimed": 3,
        "given_up_bytes": 7,
    }


@pytest.mark.parametrize("name", sorted(DF))
def test_df_without_a_field_is_refused(name: str) -> None:
    for record in ({k: v for k, v in DF.items() if k != name}, {**DF, name: None}):
        with pytest.raises(ToolFailed, match="zlfs printed"):
            zlfs.parse_df(json.dumps(record))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 2}', '{"schema_version": 1}'])
def test_other_output_is_refused(text: str) -> None:
    for parse in (zlfs.parse_df, zlfs.parse_list, zlfs.parse_fsck, zlfs.parse_import):
        with pytest.raises(ToolFailed, match="zlfs printed"):
            parse(text)


def test_files_and_violations() -> None:
    files = [{"name": "/cold", "size": 4096, "zones": [2]}, {"name": "/db/1.sst", "size": 70}]
    assert zlfs.parse_list(json.dumps({"schema_version": 1, "files": files})) == {
        "/cold": 4096,
        "/db/1.sst": 70,
    }
    broken = {"schema_version": 1, "violations": [{"invariant": 5, "what": "zone 7 twice"}]}
    assert zlfs.parse_fsck(json.dumps(broken)) == [zlfs.Violation(5, "zone 7 twice")]
    with pytest.raises(ToolFailed, match="no size"):
        zlfs.parse_list(json.dumps({"schema_version": 1, "files": [{"name": "/cold"}]}))


def test_import_ends_with_its_bytes() -> None:
    assert zlfs.parse_import('{"name": "/cold", "bytes": 8192}\n') == 8192
    with pytest.raises(ToolFailed, match="no bytes"):
        zlfs.parse_import('{"name": "/cold", "bytes": true}')


class Programs:
    """The programs that the level starts, and their output."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.answers: dict[str, Completed] = {}

    def run(self, argv: list[str | Path], **_: Any) -> Completed:
        args = tuple(map(str, argv))
        self.calls.append(args[1] if args[0] == str(PROGRAM) else Path(args[0]).name)
        done = Completed(args, 0, None, "", "")
        return self.answers.get(args[1], done)

    def fail(self, command: str, code: int, stderr: str) -> None:
        argv = (str(PROGRAM), command, f"--device={DEVICE}")
        self.answers[command] = Completed(argv, code, None, "", stderr)

    def print(self, command: str, stdout: str, code: int = 0) -> None:
        self.answers[command] = Completed((str(PROGRAM), command), code, None, stdout, "")


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    fake = Programs()
    monkeypatch.setattr(proc, "run", fake.run)
    monkeypatch.setattr(native, "program", lambda _: PROGRAM)
    monkeypatch.setattr(native, "library", lambda name: Path("/x/lib", name))
    monkeypatch.setattr(zone_reset, "reset_all", lambda *_: fake.calls.append("reset"))
    return fake


def context(programs: Programs, tmp_path: Path, **options: str | int) -> LevelContext:
    return LevelContext(
        ZONED, None, options, tmp_path / "scratch", "zl-1", lambda: programs.calls.append("check")
    )


def test_up_and_down(programs: Programs, tmp_path: Path) -> None:
    old = tmp_path / "scratch/aux/ledger.jsonl"
    old.parent.mkdir(parents=True)
    old.write_text("of a run that was killed\n")
    up = Zlfs().up(context(programs, tmp_path, on_active_limit="wait"))
    assert programs.calls == ["check", "reset", "mkfs"]
    aux = tmp_path / "scratch/aux"
    assert list(aux.iterdir()) == []
    assert up.fs_uri == f"zlfs://dev:/dev/nvme0n3?aux={aux}&trace={aux}/allocations.trace"
    assert (up.db, up.cold_dir) == (None, None)
    assert up.environment == {"LD_PRELOAD": "/x/lib/libzlfs.so"}
    assert up.database_log == aux / "db/LOG"
    assert up.records == (aux / "ledger.jsonl", aux / "allocations.trace")
    assert up.mount_options == "on_active_limit=wait"  # the same in every run of a cell
    for _ in range(2):
        Zlfs().down(up)
        assert not aux.exists()


def test_the_ledger_of_a_slowed_drive_has_a_line_per_sample(
    programs: Programs, tmp_path: Path
) -> None:
    slowed = replace(ZONED, kind=DeviceKind.MODELLED, model="zoneblk zones-4m-01234567 x256")
    up = Zlfs().up(replace(context(programs, tmp_path), device=slowed))
    assert up.fs_uri is not None
    assert up.fs_uri.endswith("&ledger_seconds=8")


def test_nothing_is_formatted_when_the_device_changed(programs: Programs, tmp_path: Path) -> None:
    def refuse() -> None:
        raise GuardRefused("another device")

    with pytest.raises(GuardRefused):
        Zlfs().up(replace(context(programs, tmp_path), check_devices=refuse))
    assert programs.calls == []
    assert not (tmp_path / "scratch/aux").exists()


def test_unknown_options_are_refused(programs: Programs, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no option 'finish_threshold'"):
        Zlfs().up(context(programs, tmp_path, finish_threshold=20))
    assert programs.calls == []


@pytest.mark.parametrize(
    ("stderr", "error"),
    [
        (
            "zlfs: zone 5 is offline\nhint: leave it out\n",
            ToolFailed("zlfs mkfs: zone 5 is offline", hint="leave it out", code="zlfs-failed"),
        ),
        (
            "zlfs: no hint\n",
            ToolFailed(
                "zlfs mkfs: no hint", hint=f"{PROGRAM} mkfs --device={DEVICE}", code="zlfs-failed"
            ),
        ),
        (
            "terminate called\n",
            ToolFailed(
                "zlfs failed (exit 4): terminate called", hint=f"{PROGRAM} mkfs --device={DEVICE}"
            ),
        ),
    ],
)
def test_messages_of_zlfs_are_passed_on(
    programs: Programs, tmp_path: Path, stderr: str, error: ToolFailed
) -> None:
    programs.fail("mkfs", 4, stderr)
    with pytest.raises(ToolFailed) as caught:
        Zlfs().up(context(programs, tmp_path))
    assert vars(caught.value) == vars(error)
    assert not (tmp_path / "scratch/aux").exists()


def test_usage_and_sizes(programs: Programs, tmp_path: Path) -> None:
    up = Zlfs().up(context(programs, tmp_path))
    programs.print("df", json.dumps(DF))
    usage = Zlfs().usage(up)
    assert (usage.free_bytes, usage.gc_events, usage.gc_bytes) == (369 * 6 * MIB, 3, 4096)
    assert usage.raw["finish_occupancy_pct"] == 80
    files = [{"name": "/cold", "size": 9000}, {"name": "/db/1.sst", "size": 70}]
    programs.print("list", json.dumps({"schema_version": 1, "files": files}))
    assert Zlfs().database_bytes(up) == 70


def test_fsck_with_violations_is_no_failure(programs: Programs) -> None:
    broken = {"schema_version": 1, "violations": [{"invariant": 4, "what": "a gap"}]}
    programs.print("fsck", json.dumps(broken), code=1)
    assert zlfs.fsck(DEVICE) == [zlfs.Violation(4, "a gap")]
    programs.fail("df", 1, "zlfs: out of memory\n")
    with pytest.raises(ToolFailed, match="out of memory"):
        zlfs.df(DEVICE)


def test_cold_fill_imports_whole_blocks(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def stream(argv: list[str], on_line: Any, *, timeout: float) -> Completed:
        asked.extend(argv)
        for line in ("4096", "", "zlfs: talk", "12288"):  # '': silence
            on_line(line)
        return Completed(tuple(argv), 0, None, '{"name": "/cold", "bytes": 12288}\n', "")

    monkeypatch.setattr(proc, "stream", stream)
    up = Zlfs().up(context(programs, tmp_path))
    progress: list[tuple[int, int]] = []
    assert Zlfs().fill_cold(up, 12_300, 9, lambda a, b: progress.append((a, b))) == 12_288
    assert {"--size=12288", "--seed=9", "--name=/cold"} < set(asked)
    assert progress == [(4096, 12_300), (4096, 12_300), (12_288, 12_300)]
    assert Zlfs().fill_cold(up, 4095, 9, print) == 0


@pytest.mark.parametrize(
    ("change", "code", "number"),
    [
        ({"zoned": False}, "not-zoned", ""),
        ({"zones": 15}, "zones-too-few", "16"),
        ({"max_active_zones": 5}, "zones-active-limit", "6"),
        ({"max_open_zones": 5}, "zones-open-limit", "6"),
        ({"zone_capacity": Bytes(MIB - 4096)}, "zones-too-small", str(MIB)),
    ],
)
def test_devices_it_cannot_use(
    programs: Programs, change: dict[str, Any], code: str, number: str
) -> None:
    assert Zlfs().probe(ZONED, None) is None
    reason = Zlfs().probe(replace(ZONED, **change), None)
    assert reason is not None
    assert reason.code == code
    assert number in reason.message


def test_no_limit_is_fine(programs: Programs) -> None:
    unlimited = replace(ZONED, max_active_zones=0, max_open_zones=0)
    assert Zlfs().probe(unlimited, None) is None


def test_library_is_found_beside_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path / "bin"))
    for folder in (tmp_path / "lib", tmp_path / "bin"):
        folder.mkdir()
        (folder / "libzlfs.so").touch()
        assert native.library("libzlfs.so") == folder / "libzlfs.so"


def test_ldd_of_captures() -> None:
    program = ldd.parse((FIXTURES / "db_bench.txt").read_text())
    plugin = ldd.parse((FIXTURES / "libzlfs.txt").read_text())
    name = "librocksdb.so.7.8"
    assert program[name] == plugin[name] == Path("/lib/x86_64-linux-gnu", name)
    assert plugin["libzbd.so.2"] is not None
    assert ldd.parse("\tlibzbd.so.2 => not found\n") == {"libzbd.so.2": None}
    with pytest.raises(ToolFailed, match="ldd printed"):
        ldd.parse("\tlibzbd.so.2 is nowhere\n")


def test_ldd_of_a_static_program(tmp_path: Path) -> None:
    script = tmp_path / "db_bench"
    script.write_text("#!/bin/sh\n")
    assert ldd.rocksdb(script) is None


@pytest.mark.parametrize(
    ("ours", "its", "same"),
    [("7.8", "7.8", True), ("7.8", "9.10", False), ("7.8", None, False), (None, None, False)],
)
def test_program_and_plugin_share_one_rocksdb(
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
    ours: str | None,
    its: str | None,
    *,
    same: bool,
) -> None:
    def rocksdb(file: Path) -> Path | None:
        version = ours if file.name == "libzlfs.so" else its
        return Path("/lib", f"librocksdb.so.{version}") if version else None

    monkeypatch.setattr(ldd, "rocksdb", rocksdb)
    reason = Zlfs().probe_program(Path("/usr/bin/db_bench"), "db_bench")
    assert (reason is None) == same
    assert same or (reason is not None and reason.code == "rocksdb-differs")


def test_an_ldd_that_fails_is_a_reason(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    def rocksdb(_: Path) -> Path | None:
        raise ToolFailed("ldd failed (exit 1): cannot read")

    monkeypatch.setattr(ldd, "rocksdb", rocksdb)
    reason = Zlfs().probe_program(Path("/usr/bin/db_bench"), "db_bench")
    assert reason is not None
    assert "cannot read" in reason.message


@pytest.mark.parametrize(("zones", "usable"), [(16, 7), (384, 366), (904, 870), (3, 0)])
def test_zones_that_can_be_filled(zones: int, usable: int) -> None:
    assert level.usable_zones(zones) == usable


def disk(*zones: int) -> signatures.Read:
    """A device of 8 MiB zones; the given zones start with a labelled superblock."""
    content = bytearray(16 * MIB)
    for zone in zones:
        at = zone * 8 * MIB
        content[at : at + 8] = b"ZLFSSB01"
        label = at + level.SIGNATURE.label_offset
        content[label : label + 4] = b"zl-1"
    return lambda offset, length: bytes(content[offset : offset + length])


@pytest.mark.parametrize("zones", [(0,), (1,), (0, 1)])
def test_the_superblock_is_in_either_metadata_zone(zones: tuple[int, ...]) -> None:
    assert signatures.find(disk(*zones), 8 * MIB, levels.signatures()) == [
        signatures.Signature("zlfs", "zl-1")
    ]


def test_a_conventional_device_has_no_zlfs() -> None:
    assert signatures.find(disk(0, 1), None, levels.signatures()) == []
