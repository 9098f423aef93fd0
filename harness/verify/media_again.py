"""Adds up recorded commands again and plays them again, for ``zonelab verify``.

The drive keeps its state from run to run, so the runs of a device are played together, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import HostError, ZonelabError
from harness.run.recording import unpacked
from harness.store import rundir, write_records
from harness.store.campaign import CampaignPaths
from harness.store.media_record import COMMANDS, MediaInterval, MediaRecord
from harness.store.spec import MediaModel
from harness.tools import zonemodel
from harness.verify.stored import read_media


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A stored run with a modelled conventional drive."""

    folder: Path
    record: MediaRecord
    model: MediaModel

    @property
    def file(self) -> Path:
        """Its recorded commands."""
        return self.folder / COMMANDS


def problems(paths: CampaignPaths) -> list[str]:
    """Return one line per difference between ``raw/media.json`` and the recorded commands."""
    found: list[str] = []
    for host in paths.hosts():
        runs = _runs(paths.runs(host))
        lines = [*_sums(runs), *_again(runs)]
        found += [f"{host}: {line}" for line in lines]
    return found


def notes(paths: CampaignPaths) -> list[str]:
    """Return what ``problems`` could not check."""
    played = [
        run
        for host in paths.hosts()
        for run in _runs(paths.runs(host)).values()
        if not run.record.problem
    ]
    if not played:
        return []
    try:
        zonemodel.program()
    except HostError as error:
        return [f"M of {len(played)} runs by a modelled drive: {error.message}"]
    return []


def _runs(folder: Path) -> dict[str, PlayedRun]:
    """Return the runs below a folder with a record. Other checks report unreadable records."""
    found = {}
    for run in rundir.completed(folder):
        try:
            record, spec = read_media(run), rundir.load_spec(run)
        except ZonelabError:
            continue
        if record is not None and spec.media_model is not None:
            found[run.name] = PlayedRun(run, record, spec.media_model)
    return found


def _sums(runs: Mapping[str, PlayedRun]) -> Iterator[str]:
    """Compare the bytes of each interval with its commands, and their sum with the kernel's."""
    for name, run in runs.items():
        stored = run.record.intervals
        if run.record.model != run.model.name:
            yield f"{name}: raw/media.json is of model {run.record.model}, run.json of another"
        if not stored:
            if not run.record.problem:
                yield f"{name}: raw/media.json has no commands and no reason for it"
            continue
        try:
            again = write_records.read(run.file)
        except ZonelabError as error:
            yield f"{name}: {error.message}"
            continue
        if [one.recorded for one in stored] != [one.recorded for one in again]:
            yield f"{name}: raw/media.json differs from {COMMANDS}"
        taken = sum(one.counted for one in again) + sum(one.failed for one in stored)
        if taken != run.record.counted and not run.record.problem:
            yield f"{name}: {COMMANDS} has {taken} B, the kernel counted another number"


def _again(runs: Mapping[str, PlayedRun]) -> Iterator[str]:
    """Play the longest history of a device first, because it contains the others."""
    done: set[str] = set()
    for name, run in sorted(runs.items(), key=lambda item: -len(item[1].record.earlier)):
        if name in done or run.record.problem:
            continue
        history = [*run.record.earlier, name]
        missing = [one for one in history if one not in runs]
        if missing:
            yield f"{name}: the run {missing[0]}, which wrote before it, is missing"
            continue
        done.update(history)
        try:
            with unpacked([runs[one].file for one in history]) as files:
                played = zonemodel.play_writes(run.model.parameters, files)
        except HostError:
            return  # ``notes`` reports it
        except ZonelabError as error:
            yield f"{name}: {error.message}"
            continue
        for place, (one, intervals) in enumerate(zip(history, played, strict=True)):
            yield from _compared(one, runs[one].record, history[:place], intervals)


def _compared(
    name: str, record: MediaRecord, before: list[str], again: tuple[MediaInterval, ...]
) -> Iterator[str]:
    if list(record.earlier) != before:
        yield f"{name}: raw/media.json names other runs before it"
    elif not record.problem and [replace(one, failed=0) for one in record.intervals] != [*again]:
        yield f"{name}: raw/media.json differs from what the model does with {COMMANDS}"
