"""What a run writes to its conventional device, recorded and played through a modelled drive.

The drive keeps its state from run to run of a campaign, so the files of all earlier runs are played
first. If a command is missing, the state of the drive is unknown. M is then unknown for this run
and all later ones.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness.cleanup import cleaned
from harness.errors import ConfigError, ToolFailed, ZonelabError
from harness.machine.host import Host
from harness.observe.tracing.write_recorder import WriteRecorder
from harness.quantities import SECTOR
from harness.run.ledger import BarrierSnapshot
from harness.store import checksums, packed, write_records
from harness.store.files import dumps, load_record, write_atomic
from harness.store.media_record import (
    COMMANDS,
    NAME,
    MediaInterval,
    MediaRecord,
    WriteHistory,
    at_barrier,
)
from harness.store.rundir import RunWriter
from harness.store.spec import Device, MediaModel, RunSpec
from harness.store.write_records import Kind
from harness.tools import zonemodel

_NS = 1_000_000_000


class Recording:
    """The commands of one run to one device.

    Args:
        host: the machine.
        campaign: folder of the campaign on it; gets the history of the device and the trace.
        run: name of the run.
        device: the conventional device.
        model: plays the commands.
    """

    def __init__(
        self, host: Host, campaign: Path, run: str, device: Device, model: MediaModel
    ) -> None:
        self._host = host
        self._run = run
        self._name = device.name
        self._model = model
        key = checksums.of_text(device.identity.key)[:16]
        self._file = campaign / f"writes-{key}.json"
        self._scratch = campaign / f"writes-{key}"
        self._marks: dict[str, int] = {}
        self._counted = 0
        self._recorder: WriteRecorder | None = None
        self._problem = ""
        self._history = self._begin(device)

    def mark(self, barrier: str, moment: float) -> None:
        """Record a barrier, at ``moment`` on CLOCK_MONOTONIC. The last mark of a name counts."""
        self._marks[barrier] = round(moment * _NS)

    def stop(self) -> None:
        """End the recording; the device is quiet, and the run sends it no more commands."""
        if self._recorder is not None:
            self._recorder.stop()
        self._counted = self._written() - self._counted
        self._history = replace(self._history, write_count=self._host.write_count(self._name))

    def store(self, writer: RunWriter) -> MediaRecord:
        """Store the commands, play them, and store what the drive did; return that."""
        file = writer.path / COMMANDS
        intervals = self._packed(file)
        problem = self._problem or self._history.gap
        gap = problem
        if not problem:
            try:
                intervals = self._played(file, writer.final.parent, intervals)
            except (ZonelabError, OSError) as error:
                problem = str(error)
        shutil.rmtree(self._scratch, ignore_errors=True)
        record = MediaRecord(
            device=self._name,
            model=self._model.name,
            earlier=self._history.runs,
            problem=problem,
            intervals=intervals,
            counted=self._counted,
            recorder_seconds=round(self._recorder.seconds, 6) if self._recorder else 0.0,
        )
        writer.write(NAME, record)
        runs = (*self._history.runs, self._run)
        self._save(replace(self._history, runs=runs, gap=gap, recording=False))
        return record

    def _begin(self, device: Device) -> WriteHistory:
        history = self._continued()
        self._save(replace(history, recording=True))
        self._counted = self._written()
        shutil.rmtree(self._scratch, ignore_errors=True)  # files of a killed run
        self._scratch.mkdir()
        try:
            self._recorder = self._host.record_writes(device, self._scratch)
        except ZonelabError as error:
            self._problem = error.message
        return history

    def _continued(self) -> WriteHistory:
        """Return the history of the device, with a gap if commands are missing in it."""
        boot, count = self._host.boot_id(), self._host.write_count(self._name)
        if not self._file.exists():
            return WriteHistory((), boot, count, gap="", recording=False)
        known = load_record(WriteHistory, self._file)
        gap = known.gap
        if self._run in known.runs:
            gap = gap or f"{self._run} ran before, and its commands of then are lost"
        elif known.recording:
            gap = gap or "an earlier run was killed, and its commands are lost"
        elif count != (known.write_count if known.boot_id == boot else 0):
            gap = gap or f"{self._name} was written to between two runs"
        return replace(known, boot_id=boot, gap=gap)

    def _packed(self, file: Path) -> tuple[MediaInterval, ...]:
        """Write the commands to a file; return its intervals, or () if commands are missing."""
        if self._recorder is None:
            return ()
        try:
            found = write_records.write(file, self._recorder.commands(), self._marks)
        except (ZonelabError, OSError) as error:
            self._problem = str(error)
            file.unlink(missing_ok=True)
            return ()
        failed = self._failed(self._recorder)
        intervals = tuple(replace(one, failed=failed[one.mark]) for one in found)
        recorded = sum(one.counted for one in found) + failed.total()
        if recorded != self._counted:
            self._problem = (
                f"{recorded} B of commands were recorded, the kernel counted {self._counted} B"
            )
        return intervals

    def _failed(self, recorder: WriteRecorder) -> Counter[str]:
        """Return the bytes of refused writes and write zeroes by interval."""
        found: Counter[str] = Counter()
        for one in recorder.refused:
            if one.kind is not Kind.DISCARD:
                found[write_records.interval_of(one.time, self._marks)] += one.sectors * SECTOR
        return found

    def _played(
        self, file: Path, runs: Path, recorded: Sequence[MediaInterval]
    ) -> tuple[MediaInterval, ...]:
        earlier = [runs / run / COMMANDS for run in self._history.runs]
        with unpacked([*earlier, file], self._scratch) as files:
            last = zonemodel.play_writes(self._model.parameters, files)[-1]
        if [one.recorded for one in last] != [one.recorded for one in recorded]:
            raise ToolFailed("the model took other bytes than were recorded", code="media")
        return tuple(
            replace(one, failed=known.failed) for one, known in zip(last, recorded, strict=True)
        )

    def _written(self) -> int:
        return self._host.disk_counters([self._name])[self._name].write_bytes

    def _save(self, history: WriteHistory) -> None:
        write_atomic(self._file, dumps(history))


def recording(host: Host, campaign: Path, spec: RunSpec) -> Recording | None:
    """Return the recording of a run; None if it has no model, or the drive counts M itself."""
    device, model = spec.conventional, spec.media_model
    if device is None or model is None:
        return None
    if host.media([device.name]) is not None:
        return None
    return Recording(host, campaign, spec.run, device, model)


@contextmanager
def stopped(found: Recording | None) -> Iterator[None]:
    """Stop a recording after the block, however it ended."""
    if found is None:
        yield
        return
    with cleaned(found.stop, uses_device=False):
        yield


def with_media(
    snapshots: Sequence[BarrierSnapshot], phases: Sequence[str], record: MediaRecord
) -> list[BarrierSnapshot]:
    """Return the barriers of a plain run (level up, cold data, each phase) with their M."""
    names = ("up", "cold", *phases)
    return [
        replace(snapshot, modelled=at_barrier(record, name))
        for name, snapshot in zip(names, snapshots, strict=False)
    ]


@contextmanager
def unpacked(files: Sequence[Path], folder: Path | None = None) -> Iterator[list[Path]]:
    """Return the stored files decompressed; inside the block, the copies are in ``folder``.

    Raises:
        ConfigError: one is missing or damaged.
    """
    with tempfile.TemporaryDirectory(prefix="writes-", dir=folder) as scratch:
        found = []
        for number, file in enumerate(files):
            stored = packed.find(file)
            if stored is None:
                raise ConfigError(
                    f"{file} is missing, so the state of the modelled drive is unknown",
                    hint="start a new campaign",
                    code="file-missing",
                )
            if stored.suffix == packed.SUFFIX:
                stored = _decompressed(stored, Path(scratch, f"{number}.bin"))
            found.append(stored)
        yield found


def _decompressed(stored: Path, copy: Path) -> Path:
    try:
        with packed.opened_bytes(stored) as file, copy.open("wb") as out:
            shutil.copyfileobj(file, out)
    except packed.UNREADABLE as error:
        raise ConfigError(
            f"{stored} cannot be read: {error}",
            hint="restore it from a copy",
            code="packed-damaged",
        ) from None
    return copy
