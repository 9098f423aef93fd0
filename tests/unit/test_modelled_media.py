"""M of a conventional device between two barriers, by a model: known only if all bytes arrived."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.run import modelled_media
from harness.store.ledger import ClosureState, Snapshot
from harness.store.media_record import MediaInterval, MediaRecord, ModelledMedia, at_barrier
from tests.fixtures.barriers import counters

MODEL = "conventional-7op-0a1b2c3d"
RECORD = MediaRecord(
    "nvme0n1",
    MODEL,
    ("earlier--r01",),
    "",
    (
        MediaInterval("up", 4096, 0, 0, 8192, 4096),
        MediaInterval("cold", 8192, 4096, 65536, 20480, 12288),
        MediaInterval("fill", 4096, 0, 0, 4096, 0, failed=512),
        MediaInterval("", 4096, 0, 0, 4096, 0),
    ),
    counted=25088,
    recorder_seconds=0.1,
)


def snapshot(written: int, *, settled: bool = True) -> Snapshot:
    return counters(
        settled=settled,
        zoned="",
        conventional="nvme0n1",
        written={"nvme0n1": written},
        read={"nvme0n1": 0},
        busy_ms={"nvme0n1": 0},
    )


def test_sums_up_to_a_barrier() -> None:
    assert at_barrier(RECORD, "up") == ModelledMedia(MODEL, "", 4096, 0, 8192)
    assert at_barrier(RECORD, "cold") == ModelledMedia(MODEL, "", 16384, 0, 28672)
    assert at_barrier(RECORD, "fill") == ModelledMedia(MODEL, "", 20480, 512, 32768)


def test_a_problem_leaves_the_bytes_but_not_the_media() -> None:
    record = replace(RECORD, problem="a gap")
    assert at_barrier(record, "cold") == ModelledMedia(MODEL, "a gap", 16384, 0, None)
    empty = replace(record, intervals=())
    assert at_barrier(empty, "cold") == ModelledMedia(MODEL, "a gap", None, 0, None)
    unplayed = replace(RECORD, intervals=(MediaInterval("up", 4096, 0, 0),))
    assert at_barrier(unplayed, "up").programmed is None


@pytest.mark.parametrize(
    ("written", "settled", "problem", "state", "media"),
    [
        (12288, True, "", ClosureState.EXACT, 20480),
        (12800, True, "", ClosureState.BROKEN, None),
        (11776, True, "", ClosureState.BROKEN, None),
        (12288, False, "", ClosureState.UNKNOWN, None),
        (12288, True, "a gap", ClosureState.EXACT, None),
    ],
)
def test_an_interval(
    written: int, settled: bool, problem: str, state: ClosureState, media: int | None
) -> None:
    record = replace(RECORD, problem=problem)
    played = at_barrier(record, "up"), at_barrier(record, "cold")
    snapshots = snapshot(1000), snapshot(1000 + written, settled=settled)
    (found,) = modelled_media.closure(*snapshots, *played)
    assert (found.upper, found.lower) == ("kernel nvme0n1", "model nvme0n1")
    assert (found.state, found.above, found.below) == (state, written, 12288)
    assert modelled_media.programmed(*played, [found]) == media


def test_commands_that_the_device_refused_are_explained() -> None:
    played = at_barrier(RECORD, "cold"), at_barrier(RECORD, "fill")
    (found,) = modelled_media.closure(snapshot(0), snapshot(4096 + 512), *played)
    assert (found.state, found.above, found.below) == (ClosureState.EXACT, 4608, 4096)
    assert found.explained == {"failed": -512}
    (broken,) = modelled_media.closure(snapshot(0), snapshot(4096), *played)
    assert broken.state is ClosureState.BROKEN


def test_without_a_model_there_is_nothing_to_compare() -> None:
    assert modelled_media.closure(snapshot(0), snapshot(1), None, None) == []
    assert modelled_media.programmed(None, None, []) is None
    assert modelled_media.source("modelled: H + P", None, None, zoned=True) == "modelled: H + P"


@pytest.mark.parametrize(
    ("known", "problem", "media", "zoned", "expected"),
    [
        ("", "", 1, False, f"modelled: {MODEL}"),
        ("modelled: H + P", "", 1, True, f"modelled: H + P + {MODEL}"),
        ("", "", 1, True, ""),  # M of the zones is unknown
        ("modelled: H + P", "a gap", None, True, "a gap"),
        ("", "", None, False, "the model did not take what the kernel counted"),
    ],
)
def test_the_source_of_media(
    known: str, problem: str, media: int | None, zoned: bool, expected: str
) -> None:
    last = ModelledMedia(MODEL, problem, 0, 0, media)
    assert modelled_media.source(known, last, media, zoned=zoned) == expected
