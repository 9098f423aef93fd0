"""M of ext4's conventional device on the NVMe rig: recorded in the guest, played on a model there.

Two runs, so that the drive's state goes on; with and without the mount option ``discard``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store import packed
from harness.store.files import load_record
from harness.store.ledger import COLD, ClosureState, Ledger
from harness.store.media_record import MediaRecord
from harness.store.result import Result, Status
from harness.verify.stored import read_media

from .conftest import RigHandle
from .guest_runner import GuestRunner

MODEL = ["--set", "media_model=conventional-7op", "--set", "twin=false", "--repetitions", "2"]
LEVELS = {
    "plain": "levels=[conventional-ext4]",
    "discard": "levels=[{name: conventional-ext4, options: {mount_options: discard}}]",
}
MOST_CPU = 0.01  # of the run


@pytest.fixture(scope="module", params=LEVELS)
def played(
    rig: RigHandle, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[str, GuestRunner, dict[str, Result]]]:
    name = str(request.param)
    plan = [*MODEL, "--set", LEVELS[name]]
    own = GuestRunner(rig, tmp_path_factory.mktemp(name), f"media-{name}", plan)
    try:
        own.start()
        own.wait_end(1200)
        yield name, own, own.assert_complete()
    finally:
        own.remove()


def folder(own: GuestRunner, run: str) -> Path:
    return own.results / "hosts" / "rig" / "runs" / run


def record(own: GuestRunner, run: str) -> MediaRecord:
    found = read_media(folder(own, run))
    assert found is not None
    return found


def test_the_model_takes_each_byte_that_the_kernel_counts(
    played: tuple[str, GuestRunner, dict[str, Result]],
) -> None:
    _, own, results = played
    assert len(results) == 2
    for run, result in results.items():
        assert result.status is Status.OK, result.issues
        ledger = load_record(Ledger, folder(own, run) / "ledger.json")
        for entry in ledger.entries:
            (one,) = [item for item in entry.closures if item.lower.startswith("model ")]
            assert (one.state, one.above) == (ClosureState.EXACT, one.below), entry.name
            assert entry.media_source.startswith("modelled: conventional-7op-")
            (media,) = entry.media.values()
            assert media is not None
            assert media >= sum(entry.submitted.values()), entry.name
            if entry.name == COLD:
                continue
            wa_dev = result.metrics[f"{entry.name}.wa_dev"].value
            written = sum(entry.submitted.values())
            assert wa_dev == (media / written if written else None)


def test_the_history_goes_on(played: tuple[str, GuestRunner, dict[str, Result]]) -> None:
    _, own, results = played
    first, second = sorted(results)
    assert record(own, first).earlier == ()
    assert record(own, second).earlier == (first,)
    assert record(own, second).problem == ""


def test_discards_arrive_with_the_mount_option(
    played: tuple[str, GuestRunner, dict[str, Result]],
) -> None:
    name, own, results = played
    for run in results:
        after_mount = record(own, run).intervals[1:-1]
        assert (sum(one.discarded for one in after_mount) > 0) is (name == "discard")


def test_recording_takes_little_of_the_processor(
    played: tuple[str, GuestRunner, dict[str, Result]],
) -> None:
    _, own, results = played
    for run, result in results.items():
        share = record(own, run).recorder_seconds / result.seconds
        print(f"{run}: {share:.2%} of {result.seconds} s")  # noqa: T201
        assert share <= MOST_CPU


def test_a_changed_record_is_refuted(played: tuple[str, GuestRunner, dict[str, Result]]) -> None:
    _, own, results = played
    file = packed.find(folder(own, min(results)) / "raw/media.json")
    assert file is not None
    kept = file.read_bytes()
    data = json.loads(packed.unpack(file.suffix, kept))
    data["intervals"][1]["written"] += 4096
    file.write_bytes(packed.pack(file.suffix, json.dumps(data).encode()))
    try:
        done = own.verify()
    finally:
        file.write_bytes(kept)
    assert done.exit_code == 4
    assert "raw/media.json differs from raw/writes.bin" in done.stdout
