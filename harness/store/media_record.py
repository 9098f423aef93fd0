"""``raw/media.json``: what a modelled drive would have written to its medium during a run."""

from __future__ import annotations

from dataclasses import dataclass

from harness.nulls import total
from harness.store.codec import SCHEMA_VERSION

NAME = "raw/media.json"
COMMANDS = "raw/writes.bin"  # the recorded commands


@dataclass(frozen=True, slots=True)
class MediaInterval:
    """Bytes up to a barrier. ``programmed`` and ``collected`` are null if nothing was played."""

    mark: str  # name of the barrier; '' after the last one
    written: int  # by write commands
    zeroed: int  # by write-zeroes commands
    discarded: int
    programmed: int | None = None  # M: pages of the host, and collected ones
    collected: int | None = None  # copied by the drive
    failed: int = 0  # by commands that the device refused: not recorded

    @property
    def counted(self) -> int:
        """Bytes that the kernel counts as written, which include Write Zeroes."""
        return self.written + self.zeroed

    @property
    def recorded(self) -> tuple[str, int, int, int]:
        """The values that follow from the recorded commands, without the model of the drive."""
        return (self.mark, self.written, self.zeroed, self.discarded)


@dataclass(frozen=True, slots=True)
class MediaRecord:
    """The commands of a run to a conventional device, played after the commands of earlier runs."""

    device: str  # kernel name of the conventional device
    model: str  # name of the model
    earlier: tuple[str, ...]  # runs whose commands the drive took before, in order
    problem: str  # why M is unknown; '' if it is known
    intervals: tuple[MediaInterval, ...]  # up to each barrier, and after the last one; () if unread
    counted: int  # bytes that the kernel counted as written over all intervals
    recorder_seconds: float  # CPU time of copying the trace
    schema_version: int = SCHEMA_VERSION  # of this file


@dataclass(frozen=True, slots=True)
class ModelledMedia:
    """Sums in bytes from the start of the recording up to a barrier; null: unknown."""

    model: str
    problem: str  # why something is unknown; '' if nothing is
    recorded: int | None  # written by the recorded commands, write zeroes included
    failed: int  # counted by the kernel for commands that the device refused
    programmed: int | None  # M


@dataclass(frozen=True, slots=True)
class WriteHistory:
    """The runs of a campaign on this machine that wrote to one conventional device.

    ``write_count`` is the kernel's count of writes after the last run. ``recording``: a run has
    begun and not ended.
    """

    runs: tuple[str, ...]
    boot_id: str
    write_count: int | None
    gap: str  # why commands are missing; '' if none are
    recording: bool
    schema_version: int = SCHEMA_VERSION  # of this file


def at_barrier(record: MediaRecord, name: str) -> ModelledMedia:
    """Return the sums up to a barrier."""
    marks = [one.mark for one in record.intervals]
    if name not in marks:
        return ModelledMedia(record.model, record.problem or "no commands", None, 0, None)
    until = record.intervals[: marks.index(name) + 1]
    return ModelledMedia(
        record.model,
        record.problem,
        recorded=sum(one.counted for one in until),
        failed=sum(one.failed for one in until),
        programmed=None if record.problem else total(one.programmed for one in until),
    )
