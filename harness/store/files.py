"""Read JSON records and growing files; write small files atomically: whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import ConfigError
from harness.store.codec import check_version, decode, encode

T = TypeVar("T")

_DAMAGED = "the file is damaged or was edited; restore it from a copy"
_OTHER_FIELDS = "another zonelab release wrote the file, or it is damaged; restore it from a copy"


def dumps(value: Any) -> str:
    """Return a record or plain data as the JSON text that zonelab stores."""
    return json.dumps(encode(value), indent=1, allow_nan=False) + "\n"


def write_atomic(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace the content of ``path``; with ``durable`` it also survives a power failure."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Make a file durable, or the new and renamed entries of a folder."""
    with descriptor(path, os.O_RDONLY) as fd:
        os.fsync(fd)


def sync_tree(folder: Path) -> None:
    """Make a folder durable, with all files and folders in it."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


@contextmanager
def descriptor(path: Path | str, flags: int) -> Iterator[int]:
    """Open a file or a device inside the block."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def text_or_empty(path: Path) -> str:
    """Return the text of a file, '' if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def new_lines(path: Path, offset: int) -> tuple[str, int]:
    """Return the whole lines of a growing file from an offset on, and the offset behind them.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode("utf-8", errors="replace"), offset + len(whole)


def read_json(path: Path) -> Any:
    """Return the parsed JSON of a file.

    Raises:
        ConfigError: the file is missing, unreadable or not JSON.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{path} does not exist", hint="check the path", code="file-missing"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            hint="check the path and its permissions",
            code="file-unreadable",
        ) from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}", hint=_DAMAGED, code="not-json") from None
    return parse_json(text, path)


def parse_json(text: str, path: Path) -> Any:
    """Return the parsed JSON of a file's text.

    Raises:
        ConfigError: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}", hint=_DAMAGED, code="not-json") from None


def load_record(cls: type[T], path: Path) -> T:
    """Return the record in a file.

    Raises:
        ConfigError: the file is missing, damaged, or of another schema (code ``schema-version``).
    """
    return to_record(cls, read_json(path), path)


def to_record(cls: type[T], data: Any, path: Path) -> T:
    """Return the record in the data of a file; errors are those of ``load_record``."""
    check_version(data, str(path))
    try:
        return decode(cls, data, str(path))
    except ConfigError as error:
        raise ConfigError(
            error.message, hint=error.hint or _OTHER_FIELDS, code=error.code
        ) from None
