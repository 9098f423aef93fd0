"""Run directories: written beside their final name, synced, renamed. One that exists is whole."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import ConfigError, HostError, RunFailed, ZonelabError
from harness.store import checksums, packed
from harness.store.files import dumps, load_record, sync_dir
from harness.store.result import Result
from harness.store.spec import RunSpec

_ATTEMPT = re.compile(r"^(?P<base>.+--r\d+)(?:\.a(?P<attempt>\d+))?$")
_FOLDERS = ("series", "histograms", "raw")

T = TypeVar("T")

CORRUPT = "corrupt-run"
CORRUPT_HINT = "zonelab verify CAMPAIGN lists all damage; move the run away to have it run again"
_CORRUPT = "corrupt run directory: "


@contextmanager
def full_disk_is_clear(path: Path) -> Iterator[None]:
    """Turn ENOSPC and EDQUOT below into one clear HostError."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise HostError(
            f"no space left on the disk that holds {path}",
            hint="free some space there and repeat; completed runs are kept",
            code="disk-full",
        ) from None


class RunWriter:
    """A run directory under construction, ``.<run>.partial``. Commit it or discard it."""

    def __init__(self, runs: Path, name: str) -> None:
        self.final = runs / name
        self.path = runs / f".{name}.partial"
        if self.final.exists():
            raise RunFailed(f"{self.final} exists already; nothing is ever overwritten")
        shutil.rmtree(self.path, ignore_errors=True)
        with full_disk_is_clear(runs):
            for folder in _FOLDERS:
                (self.path / folder).mkdir(parents=True)

    def write(self, name: str, content: Any) -> None:
        """Write a file: text as it is, bytes as they are, anything else as JSON."""
        with full_disk_is_clear(self.path.parent):
            if isinstance(content, bytes):
                (self.path / name).write_bytes(content)
            else:
                text = content if isinstance(content, str) else dumps(content)
                (self.path / name).write_text(text, encoding="utf-8")

    def pack(self, source: Path, name: str) -> None:
        """Keep another program's file, compressed (hours of it are large), as far as it reads."""
        try:
            with full_disk_is_clear(self.path.parent):
                packed.copy(source, self.path / name)
        except OSError:
            return  # it was never written, or its file system is gone

    def commit(self) -> Path:
        """Pack what is large, add checksums, make everything durable, give the directory its name.

        Raises:
            HostError: the disk is full; the partial directory is removed.
        """
        try:
            with full_disk_is_clear(self.path.parent):
                for folder in ("raw", "series"):
                    packed.large(self.path / folder)
                checksums.write(self.path)
                for path in self.path.rglob("*"):
                    _fsync(path)
                sync_dir(self.path)
                self.path.rename(self.final)
                sync_dir(self.final.parent)
        except HostError:
            self.discard()
            raise
        return self.final

    def discard(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self.path, ignore_errors=True)


def remove_partials(runs: Path) -> list[str]:
    """Remove directories that a killed runner left; return the runs they were for."""
    removed = []
    for path in sorted(runs.glob(".*.partial")):
        shutil.rmtree(path)
        removed.append(path.name[1 : -len(".partial")])
    return removed


def completed(runs: Path) -> list[Path]:
    """Return the run directories below ``runs``, sorted by name."""
    if not runs.is_dir():
        return []
    return sorted(path for path in runs.iterdir() if path.is_dir() and path.name[0] != ".")


def split_attempt(name: str) -> tuple[str, int]:
    """Return a run's base name and attempt: ``x--r01.a2`` is ``('x--r01', 2)``.

    Raises:
        ConfigError: the name is not that of a run.
    """
    match = _ATTEMPT.match(name)
    if match is None:
        raise ConfigError(
            f"{name!r} is not the name of a run (<cell>--r<NN>[.a<K>])",
            hint="only run directories belong into a folder runs/: move it away",
            code="run",
        )
    return match["base"], int(match["attempt"] or 1)


def attempt_name(base: str, attempt: int) -> str:
    """Return the directory name of an attempt; the first has no suffix."""
    return base if attempt == 1 else f"{base}.a{attempt}"


def attempts(runs: Path, base: str) -> list[Path]:
    """Return the completed attempts of a run, first to last."""
    own = [path for path in completed(runs) if split_attempt(path.name)[0] == base]
    return sorted(own, key=lambda path: split_attempt(path.name)[1])


def load_result(folder: Path) -> Result:
    """Return a run's result.

    Raises:
        RunFailed: the file is missing or damaged (code ``corrupt-run``).
        ConfigError: it is of another schema version.
    """
    return _load(Result, folder / "result.json")


def load_spec(folder: Path) -> RunSpec:
    """Return what a run was told; errors as for :func:`load_result`."""
    return _load(RunSpec, folder / "run.json")


def problems(folder: Path) -> list[str]:
    """Return one line per thing wrong with a run directory: checksums, schemas, names."""
    lines = checksums.problems(folder)
    try:
        result, spec = load_result(folder), load_spec(folder)
    except ZonelabError as error:
        return [*lines, error.message.removeprefix(_CORRUPT).replace(f"{folder}/", "")]
    if (
        result.run != folder.name
        or attempt_name(split_attempt(spec.run)[0], spec.attempt) != result.run
    ):
        lines.append(f"result.json: is of run {result.run!r}, run.json of {spec.run!r}")
    for phase in result.phases:
        for path in (phase.stdout, phase.stderr, phase.histogram):
            if path and packed.find(folder / path) is None:
                lines.append(f"{path}: named by result.json but missing")
    return lines


def _load(cls: type[T], path: Path) -> T:
    try:
        if path.exists() and not path.is_file():  # a named pipe would block for ever
            raise ConfigError(f"{path} is not a regular file")
        return load_record(cls, path)
    except ConfigError as error:
        if error.code == "schema-version":
            raise
        raise RunFailed(f"{_CORRUPT}{error.message}", hint=CORRUPT_HINT, code=CORRUPT) from None


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
