"""Files of recorded writes: what is written is read back, and damage is refused."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.store import write_records
from harness.store.media_record import MediaInterval
from harness.store.write_records import Kind, WriteCommand

MARKS = {"cold": 2_000_000, "up": 1_000_000}  # in the order of their times, whatever the map has
COMMANDS = [
    WriteCommand(500_000, 8, 8, Kind.WRITE),
    WriteCommand(1_000_000, 16, 8, Kind.DISCARD),  # at the time of a mark: before it
    WriteCommand(1_000_001, 0, 16, Kind.ZEROES),
    WriteCommand(3_000_000, 8, 1, Kind.WRITE),
]
INTERVALS = (
    MediaInterval("up", 4096, 0, 4096),
    MediaInterval("cold", 0, 8192, 0),
    MediaInterval("", 512, 0, 0),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "writes.bin"
    assert write_records.write(path, COMMANDS, MARKS) == INTERVALS
    return path


def test_the_file_has_the_form_of_the_player(file: Path) -> None:
    """As harness/native/model/media/media.h describes it."""
    head, marks, data = file.read_bytes().split(b"\n", 2)
    assert (head, marks) == (b"zonelab-writes-1", b'{"marks": ["up", "cold"]}')
    assert [*struct.iter_unpack("<QQII", data)] == [
        (500, 8, 8, 0),
        (1000, 16, 8, 1),
        (1000, 0, 0, 3),
        (1000, 0, 16, 2),
        (2000, 1, 0, 3),
        (3000, 8, 1, 0),
    ]


def test_it_is_read_back_compressed_or_not(file: Path) -> None:
    assert write_records.read(file) == INTERVALS
    file.with_name(f"{file.name}.xz").write_bytes(lzma.compress(file.read_bytes()))
    file.unlink()
    assert write_records.read(file) == INTERVALS


def test_write_zeroes_count_as_written() -> None:
    assert MediaInterval("", 1, 2, 4).counted == 3


def test_marks_without_commands_are_kept(tmp_path: Path) -> None:
    found = write_records.write(tmp_path / "x", [], MARKS)
    assert [one.mark for one in found] == ["up", "cold", ""]
    assert write_records.read(tmp_path / "x") == found


@pytest.mark.parametrize(
    ("time", "mark"), [(0, "up"), (1_000_000, "up"), (1_000_001, "cold"), (2_000_001, "")]
)
def test_the_interval_of_a_time(time: int, mark: str) -> None:
    assert write_records.interval_of(time, MARKS) == mark


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], "ends within a record"),
        (lambda data: data[:-48], "lacks the mark cold"),
        (lambda data: data.replace(b"writes-1", b"writes-2"), "has another form"),
        (lambda data: data.replace(b"marks", b"marts"), "has no marks"),
        (lambda data: data[:-4] + b"\4\0\0\0", "has an unknown record"),
        (lambda data: data + struct.pack("<QQII", 0, 2, 0, 3), "has an unknown record"),
        (lambda data: data.replace(struct.pack("<QQII", 1000, 0, 0, 3), b""), "unknown record"),
    ],
)
def test_damage_is_refused(file: Path, damage: object, message: str) -> None:
    assert callable(damage)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ConfigError, match=message):
        write_records.read(file)


def test_a_cut_archive_and_a_missing_file_are_refused(file: Path) -> None:
    file.with_name(f"{file.name}.xz").write_bytes(lzma.compress(file.read_bytes())[:-8])
    file.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        write_records.read(file)
    with pytest.raises(ConfigError, match="is missing"):
        write_records.read(file.with_name("other"))
