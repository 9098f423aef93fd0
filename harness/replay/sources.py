"""Sources of traces: a file that zlfs recorded, or a run directory that contains one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import UsageError
from harness.store import checksums, packed, rundir
from harness.store.spec import RunSpec, Scalar
from harness.tools import zlfs_replay

# Where level zlfs stores the trace in a run directory.
TRACE = "raw/allocations.trace"


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """One trace. ``spec`` is null when the trace is a file outside a run directory."""

    name: str
    trace: Path
    digest: str
    setting: Mapping[str, Scalar]  # of its first mount
    spec: RunSpec | None
    dilation: int = 1  # seconds of the recording per second of its drive


@contextmanager
def opened(paths: Sequence[Path], dilation: int = 1) -> Iterator[list[RecordedTrace]]:
    """Unpack the traces for as long as the context lasts.

    ``dilation`` belongs to traces outside run directories.

    Raises:
        UsageError: a trace is missing or damaged, or the traces have different settings.
        HostError: the disk for the unpacked traces is full.
    """
    with TemporaryDirectory(prefix="zonelab-replay-") as folder:
        sources = [_source(path, Path(folder) / str(i), dilation) for i, path in enumerate(paths)]
        first_run = next((source for source in sources if source.spec is not None), sources[0])
        for source in sources[1:]:
            differs = source.setting != sources[0].setting
            if differs or not _same_cell(source, first_run):
                other = sources[0] if differs else first_run
                raise UsageError(
                    f"{source.name} was recorded with other settings than {other.name}",
                    hint="replay only repetitions of one cell together",
                )
        yield sources


def _same_cell(one: RecordedTrace, other: RecordedTrace) -> bool:
    """Whether both runs have the same cell and options; a trace file may be of any cell."""
    if one.spec is None or other.spec is None:
        return True
    return (one.spec.cell, one.spec.level_options) == (other.spec.cell, other.spec.level_options)


def _source(path: Path, unpacked: Path, dilation: int) -> RecordedTrace:
    spec = None
    stored = path
    if path.is_dir():
        spec = rundir.load_spec(path)
        dilation = spec.device.dilation
        trace = packed.find(path / TRACE)
        if trace is None:
            raise UsageError(
                f"{path} has no {TRACE}",
                hint="name a run of level zlfs, or a trace file",
                code="trace",
            )
        stored = trace
    if not stored.is_file():
        raise UsageError(
            f"{path} is neither a trace nor a run directory",
            hint="name a file that zlfs wrote (trace=… in its URI), or results/…/runs/<run>",
            code="trace",
        )
    try:
        with (
            rundir.full_disk_is_clear(unpacked),
            packed.opened_bytes(stored) as file,
            unpacked.open("wb") as out,
        ):
            shutil.copyfileobj(file, out)
    except packed.UNREADABLE as error:
        raise UsageError(f"{stored} cannot be read: {error}", code="trace") from None
    name = path.name if path.name else path.resolve().name
    setting = zlfs_replay.recorded_setting(unpacked)
    return RecordedTrace(name, unpacked, checksums.digest(unpacked), setting, spec, dilation)
