"""Files of raw/ that are packed."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.store import packed


def test_large_files_are_packed_and_read_as_before(tmp_path: Path) -> None:
    content = {"small": "x" * packed.LARGE, "large": "é\r\n" * packed.LARGE, "was.xz": "y" * 9999}
    for name, text in content.items():
        (tmp_path / name).write_bytes(text.encode())
    packed.compress_large(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large.xz", "small", "was.xz"]
    assert lzma.decompress((tmp_path / "large.xz").read_bytes()).decode() == content["large"]
    for name in ("small", "large"):
        assert packed.text(tmp_path / name) == content[name]
    file = packed.opened(tmp_path / "large")
    assert file is not None
    with file:
        assert file.readline() == "é\r\n"


def test_no_more_bytes_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"abc\xc3\xa9")
    assert packed.text(tmp_path / "out", 3) == "abc"
    assert packed.text(tmp_path / "out", 4) == "abc�"


@pytest.mark.parametrize(
    ("limit", "tail", "wanted"),
    [(4, 3, "abcd\nhij"), (4, 6, "abcdefghij"), (7, 3, "abcdefghij"), (10, 3, "abcdefghij")],
)
def test_the_end_follows_the_limit(tmp_path: Path, limit: int, tail: int, wanted: str) -> None:
    (tmp_path / "out").write_text("abcdefghij")
    assert packed.text(tmp_path / "out", limit, tail) == wanted


def test_a_missing_file_reads_as_empty(tmp_path: Path) -> None:
    assert packed.find(tmp_path / "none") is None
    assert packed.opened(tmp_path / "none") is None
    assert packed.text(tmp_path / "none") == ""


def test_a_damaged_file_is_reported_by_name(tmp_path: Path) -> None:
    whole = lzma.compress(b"x" * 100_000)
    (tmp_path / "cut.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match=r"cut\.xz cannot be read"):
        packed.text(tmp_path / "cut")
    lines = packed.opened(tmp_path / "cut")
    assert lines is not None
    with lines, pytest.raises(ConfigError, match=r"cut\.xz cannot be read"):
        lines.read()


def test_only_files_with_the_suffix_are_compressed() -> None:
    content = b"x" * 9999
    small = packed.pack(".xz", content)
    assert lzma.decompress(small) == content
    assert packed.unpack(".xz", small) == content
    assert packed.pack(".csv", content) == packed.unpack(".csv", content) == content
