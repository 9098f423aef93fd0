"""``patches/dm-zap/*.patch``: each makes its change once, and leaves other sources alone.

The sources here are the patches' own lines: nothing of dm-zap is in this repository.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATCHES = sorted((ROOT / "patches/dm-zap").glob("*.patch"))
FILE = "dm-zap-target.c"

pytestmark = pytest.mark.needs("patch")


def source(patch: Path, without: str) -> str:
    """Return the hunks of a patch, far apart, without the lines that begin with a sign."""
    hunks = re.split(r"^@@ .*\n", patch.read_text(), flags=re.MULTILINE)[1:]
    kept = [
        "".join(f"{line[1:]}\n" for line in h.splitlines() if line[0] != without) for h in hunks
    ]
    return "/* line */\n" * 40 + ("/* line */\n" * 9).join(kept) + "/* line */\n" * 5


def apply(folder: Path, patch: Path) -> int:
    """Apply a patch as roles/dm_zap does."""
    argv = ["patch", "--strip=1", "--forward", "--fuzz=0", f"--input={patch}"]
    tried = subprocess.run(
        [*argv, "--dry-run"], cwd=folder, capture_output=True, text=True, check=False
    )
    if tried.returncode == 0:
        subprocess.run([*argv, "--no-backup-if-mismatch"], cwd=folder, check=True)
    return tried.returncode


def test_there_are_patches_and_each_is_in_the_readme() -> None:
    readme = (ROOT / "patches/README.md").read_text()
    assert len(PATCHES) == 2
    for patch in PATCHES:
        assert f"`{patch.stem}`" in readme


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_patch_has_one_line_of_context_and_applies_at_any_place(
    patch: Path, tmp_path: Path
) -> None:
    before, after = source(patch, "+"), source(patch, "-")
    for hunk in re.split(r"^@@ .*\n", patch.read_text(), flags=re.MULTILINE)[1:]:
        signs = "".join(line[0] for line in hunk.splitlines())
        assert re.fullmatch(r" [+-]+ ", signs), "context is third-party source: one line"
    (tmp_path / FILE).write_text(before)
    assert apply(tmp_path, patch) == 0
    assert (tmp_path / FILE).read_text() == after
    assert apply(tmp_path, patch) == 1
    assert (tmp_path / FILE).read_text() == after
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_another_source_is_left_as_it_is(patch: Path, tmp_path: Path) -> None:
    other = source(patch, "+").replace("zap_stat_kobject", "zap_kobject").replace("_HM", "_NONE")
    (tmp_path / FILE).write_text(other)
    assert apply(tmp_path, patch) == 1
    assert (tmp_path / FILE).read_text() == other


def test_what_the_patches_change() -> None:
    changed = [line for p in PATCHES for line in p.read_text().splitlines() if line[:1] in "+-"]
    words = "\n".join(line for line in changed if line[:3] not in {"+++", "---"})
    assert re.findall(r"^\+\tlimits->zoned = (\w+);", words, re.MULTILINE) == ["BLK_ZONED_NONE"]
    assert words.count("+\tkobject_put(zap_stat_kobject);") == 1
    assert words.count("-\tkobject_put(zap_stat_kobject);") == 1
