"""Bytes from user to media, of recorded runs (tests/fixtures/ledger)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.judge.compare import compare
from analysis.read.load import load
from analysis.show.flow_figure import from_user_to_media, layers
from analysis.show.groups import groups_of
from analysis.show.report import write_report
from harness.store import checksums
from harness.store.files import dumps
from harness.store.ledger import RUN
from tests.fixtures.campaigns import write_campaign
from tests.fixtures.ledgers import F2FS, ZLFS, build, entry


def test_the_layers_of_zlfs_equal_its_ledger() -> None:
    found = entry(build(ZLFS), "overwrite")
    shown = layers(found)
    assert shown["user"] == {"user": 80_728 * 8016}
    assert shown["RocksDB"] == {
        "WAL": 648_407_296,
        "flush": 604_580_859,
        "compaction": 936_748_330,
    }
    kernel = shown["kernel"]
    assert kernel is not None
    assert sum(kernel.values()) == 2_842_570_752
    assert kernel["garbage collection"] == 641_947_936
    # By zlfs's own count: wal, flush, compaction and other.
    assert kernel["from above"] == 649_111_034 + 604_580_859 + 936_748_330 + 127_299
    assert shown["device"] is None  # QEMU was not asked then
    assert shown["media"] == {"from above": 2_842_570_752, "pad": 0}


def test_bytes_hidden_by_a_file_system_are_not_split() -> None:
    shown = layers(entry(build(F2FS), "overwrite"))
    assert shown["kernel"] == {
        "not separated": 1_693_937_664 + 9_981_952 - 113_897_472,
        "garbage collection": 113_897_472,
    }
    assert shown["media"] is None


def test_pad_is_on_the_media_alone_and_an_unknown_wal_hides_its_layer() -> None:
    found = entry(build(ZLFS), RUN)
    media = {name: (size or 0) + 500 for name, size in found.media.items()}
    padded = replace(found, wal=None, pad={"threshold": 300, "explicit": 200}, media=media)
    shown = layers(padded)
    written = sum((shown["kernel"] or {}).values())
    assert shown["RocksDB"] is None
    assert shown["media"] == {"from above": written, "pad": 500}
    in_drive = layers(replace(padded, media_source="SMART"))["media"]
    assert in_drive == {"from above": written, "inside the drive": 500}


@pytest.mark.slow
def test_the_report_has_a_panel_for_each_level(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", series=False, repetitions=1)
    for name, source in (("f2fs", F2FS), ("btrfs", ZLFS)):
        run = folder / f"hosts/rig/runs/{name}--r01"
        (run / "ledger.json").write_text(dumps(build(source)))
        checksums.write(run)
    page, _ = write_report(compare(load(folder)), tmp_path / "out")
    svg = (page.parent / "figures/user-to-media.svg").read_text()
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert [text for text in texts if text in ("f2fs", "btrfs")] == ["f2fs", "btrfs"]
    layers_drawn = [text.strip() for text in texts if text.strip() in ("device", "media")]
    assert layers_drawn == ["media"]  # only the second ledger counts media bytes, none the device
    assert any(re.fullmatch(r"\d\.\d\d U", text) for text in texts)
    assert "Not drawn, because no counter reports it: device of f2fs, btrfs; media of f2fs." in (
        page.read_text()
    )
    assert "No ledger: conventional-ext4." in page.read_text()


def test_without_ledgers_there_is_a_sentence_and_no_figure(tmp_path: Path) -> None:
    comparison = compare(load(write_campaign(tmp_path / "c", series=False, repetitions=1)))
    found = from_user_to_media(comparison, groups_of(comparison))
    assert (found.svg, found.sentence) == (None, "No ok run has a ledger.")
