"""Run directories: written under another name, synced, then renamed, so never partial."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import ConfigError, HostError, RunFailed, ZonelabError
from harness.store import checksums, packed
from harness.store.files import dumps, load_record, sync, sync_tree
from harness.store.result import Result
from harness.store.spec import RunSpec

_ATTEMPT = re.compile(r"^(?P<base>.+--r\d+)(?:\.a(?P<attempt>\d+))?$")
_FOLDERS = ("series", "histograms", "raw")

T = TypeVar("T")

CORRUPT = "corrupt-run"
CORRUPT_HINT = "zonelab verify CAMPAIGN lists all damage; move the run directory away to repeat it"
_CORRUPT = "corrupt run directory: "


@contextmanager
def full_disk_is_clear(path: Path) -> Iterator[None]:
    """Turn ENOSPC and EDQUOT in the body into a HostError."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise HostError(
            f"no space left on the disk that holds {path}",
            hint="free space there and repeat the command",
            code="disk-full",
        ) from None


class RunWriter:
    """A run directory under construction, ``.<run>.partial``: commit or discard it."""

    def __init__(self, runs: Path, name: str) -> None:
        self.final = runs / name
        self.path = runs / f".{name}.partial"
        if self.final.exists():
            raise RunFailed(f"{self.final} exists already and is never overwritten")
        shutil.rmtree(self.path, ignore_errors=True)
        with full_disk_is_clear(runs):
            for folder in _FOLDERS:
                (self.path / folder).mkdir(parents=True)

    def write(self, name: str, content: Any) -> None:
        """Write a file: text and bytes unchanged, anything else as JSON."""
        with full_disk_is_clear(self.path.parent):
            if isinstance(content, bytes):
                (self.path / name).write_bytes(content)
            else:
                text = content if isinstance(content, str) else dumps(content)
                (self.path / name).write_text(text, encoding="utf-8")

    def pack(self, source: Path, name: str) -> None:
        """Store a compressed copy of another program's file, if the file is readable."""
        try:
            with full_disk_is_clear(self.path.parent):
                packed.copy(source, self.path / name)
        except OSError:
            return  # it was never written, or its file system is gone

    def commit(self) -> Path:
        """Compress large files, write checksums, sync everything, rename; return the directory.

        Raises:
            HostError: the disk is full; the partial directory is removed.
        """
        try:
            with full_disk_is_clear(self.path.parent):
                for folder in ("raw", "series"):
                    packed.compress_large(self.path / folder)
                checksums.write(self.path)
                sync_tree(self.path)
                self.path.rename(self.final)
                sync(self.final.parent)
        except HostError:
            self.discard()
            raise
        return self.final

    def discard(self) -> None:
        """Remove the partial directory."""
        shutil.rmtree(self.path, ignore_errors=True)


def remove_partials(runs: Path) -> list[str]:
    """Remove the partial directories of a killed runner; return the names of their runs."""
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
    """Split a directory name into run and attempt: ``x--r01.a2`` gives ``('x--r01', 2)``.

    Raises:
        ConfigError: the name is not a run name.
    """
    match = _ATTEMPT.match(name)
    if match is None:
        raise ConfigError(
            f"{name!r} is not a run name (<cell>--r<NN>[.a<K>])",
            hint="a folder runs/ holds only run directories; move it away",
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
        ConfigError: the file has another schema version.
    """
    return _load(Result, folder / "result.json")


def load_spec(folder: Path) -> RunSpec:
    """Return a run's specification. Raises the errors of :func:`load_result`."""
    return _load(RunSpec, folder / "run.json")


def problems(folder: Path) -> list[str]:
    """Return one line per problem of a run directory: checksums, schemas, names."""
    lines = checksums.problems(folder)
    try:
        result, spec = load_result(folder), load_spec(folder)
        planned = attempt_name(split_attempt(spec.run)[0], spec.attempt)
    except ZonelabError as error:
        return [*lines, error.message.removeprefix(_CORRUPT).replace(f"{folder}/", "")]
    if result.run != folder.name or planned != result.run:
        lines.append(f"result.json belongs to run {result.run!r}, run.json to {spec.run!r}")
    for phase in result.phases:
        for path in (phase.stdout, phase.stderr, phase.histogram):
            if path and packed.find(folder / path) is None:
                lines.append(f"{path}: named in result.json but missing")
    return lines


def _load(cls: type[T], path: Path) -> T:
    try:
        if path.exists() and not path.is_file():  # a named pipe would block forever
            raise ConfigError(f"{path} is not a regular file")
        return load_record(cls, path)
    except ConfigError as error:
        if error.code == "schema-version":
            raise
        raise RunFailed(f"{_CORRUPT}{error.message}", hint=CORRUPT_HINT, code=CORRUPT) from None
