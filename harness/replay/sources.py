"""Where traces come from: a file that zlfs recorded, or a run's directory that keeps one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import UsageError
from harness.store import checksums, packed, rundir
from harness.store.result import Result
from harness.store.spec import RunSpec
from harness.tools import zlfs_replay
from harness.tools.zlfs_replay import Recorded

# What the level zlfs records, beside its ledger.
TRACE = "raw/allocations.trace"


@dataclass(frozen=True, slots=True)
class Source:
    """One trace. ``spec`` and ``result`` are null of a trace that is no run's."""

    name: str
    trace: Path
    digest: str
    recorded: Recorded
    spec: RunSpec | None
    result: Result | None


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[list[Source]]:
    """Give the traces, unpacked while the context lasts.

    Raises:
        UsageError: there is none, it is damaged, or they were recorded at different settings.
    """
    with TemporaryDirectory(prefix="zonelab-replay-") as folder:
        sources = [_source(path, Path(folder) / str(i)) for i, path in enumerate(paths)]
        for source in sources[1:]:
            if source.recorded.settings[0] != sources[0].recorded.settings[0]:
                raise UsageError(
                    f"{source.name} was recorded at another setting than {sources[0].name}",
                    hint="repetitions of one cell can be replayed together, others one by one",
                )
        yield sources


def _source(path: Path, unpacked: Path) -> Source:
    spec = result = None
    stored = path
    if path.is_dir():
        spec, result = rundir.load_spec(path), rundir.load_result(path)
        found = packed.find(path / TRACE)
        if found is None:
            raise UsageError(
                f"{path} has no {TRACE}",
                hint="only runs of level zlfs record one; or name a trace file",
                code="trace",
            )
        stored = found
    if not stored.is_file():
        raise UsageError(
            f"{path} is neither a trace nor a run's directory",
            hint="name a file that zlfs recorded (trace=… in its URI), or results/…/runs/<run>",
            code="trace",
        )
    try:
        with packed.opened_bytes(stored) as file, unpacked.open("wb") as out:
            shutil.copyfileobj(file, out)
    except packed.UNREADABLE as error:
        raise UsageError(f"{stored} cannot be read: {error}", code="trace") from None
    name = path.name if path.name else path.resolve().name
    return Source(
        name, unpacked, checksums.digest(unpacked), zlfs_replay.info(unpacked), spec, result
    )
