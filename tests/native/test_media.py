"""Recorded writes on the program built from this tree, with the model that a plan carries."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.plan import load, media
from harness.store import write_records
from harness.store.spec import MediaModel
from harness.store.write_records import Kind, WriteCommand
from harness.tools import zonemodel
from tests.fixtures.native_build import BUILD, build
from tests.fixtures.planner import rig

BLOCKS = 1536 * 256  # of 4 KiB, as many as the device has
WRITES = 20_000
MARKS = {"up": WRITES // 2 * 1000}

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _built(monkeypatch: pytest.MonkeyPatch) -> None:
    build()
    monkeypatch.setenv("ZONELAB_NATIVE", str(BUILD / "bin"))


def planned() -> MediaModel:
    study, _ = load.load_study("smoke", settings={"media_model": "conventional-7op"})
    found = media.model_of(media.resolved(study), "conventional-ext4", rig().conventional)
    assert found is not None
    return found


def recorded(file: Path, kind: Kind = Kind.WRITE) -> Path:
    chosen = random.Random(1)  # noqa: S311 - the same writes each time
    write_records.write(
        file,
        (
            WriteCommand(index * 1000, chosen.randrange(BLOCKS) * 8, 8, kind)
            for index in range(WRITES)
        ),
        MARKS,
    )
    return file


def test_the_drive_is_in_steady_state_and_goes_on(tmp_path: Path) -> None:
    file, model = recorded(tmp_path / "writes"), planned().parameters
    once = zonemodel.play_writes(model, [file])
    twice = zonemodel.play_writes(model, [file, file])
    assert twice[0] == once[0]
    assert all(one.collected for one in once[0])  # steady state: it collects from the begin on
    assert twice[1] != once[0]  # the same commands meet another drive
    for intervals in twice:
        assert [one.mark for one in intervals] == ["up", ""]
        for one, known in zip(intervals, write_records.read(file), strict=True):
            assert (one.written, one.zeroed, one.discarded) == (known.written, 0, 0)
            assert one.programmed is not None
            assert one.programmed == one.written + (one.collected or 0)


def test_discards_make_room(tmp_path: Path) -> None:
    model = planned().parameters
    writes = recorded(tmp_path / "writes")
    discards = recorded(tmp_path / "discards", Kind.DISCARD)
    (plain,) = zonemodel.play_writes(model, [writes])
    _, after = zonemodel.play_writes(model, [discards, writes])
    assert sum(one.collected or 0 for one in after) < sum(one.collected or 0 for one in plain)


def test_a_command_behind_the_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "writes"
    write_records.write(file, [WriteCommand(0, BLOCKS * 8, 8, Kind.WRITE)], {})
    with pytest.raises(ConfigError, match="behind the end of the drive"):
        zonemodel.play_writes(planned().parameters, [file])
