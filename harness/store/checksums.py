"""Write and check ``SHA256SUMS``, which ``sha256sum -c`` can check as well."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

NAME = "SHA256SUMS"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    return _digest(str(path))


def of_text(text: str) -> str:
    """Return the SHA-256 of a text, as of a file without compression."""
    return hashlib.sha256(text.encode()).hexdigest()


def of_json(content: Any) -> str:
    """Return the SHA-256 of data as JSON with sorted keys."""
    return of_text(json.dumps(content, sort_keys=True))


def files(folder: Path) -> list[str]:
    """Return the sorted relative names of all files in ``folder`` except the checksum file."""
    # Strings, because a campaign has tens of thousands of files and Path objects are slow.
    top = len(str(folder)) + 1
    relative = []
    for root, _, names in os.walk(folder):
        inside = f"{root[top:]}/" if root[top:] else ""
        relative += [inside + name for name in names]
    return sorted((name for name in relative if name != NAME), key=lambda name: name.split("/"))


def write(folder: Path) -> None:
    """Write the checksums of all files in ``folder``."""
    lines = [f"{digest(folder / name)}  {name}\n" for name in files(folder)]
    (folder / NAME).write_text("".join(lines), encoding="utf-8")


def problems(folder: Path) -> list[str]:
    """Return one line per file that is missing, changed or not listed."""
    try:
        text = (folder / NAME).read_text(encoding="utf-8")
    except OSError as error:
        return [f"{NAME}: {error.strerror}"]
    except UnicodeDecodeError:
        return [f"{NAME}: not text"]
    expected = {}
    for line in text.splitlines():
        sum_, separator, name = line.partition("  ")
        if not separator:
            return [f"{NAME}: malformed line {line!r}"]
        expected[name] = sum_
    present = set(files(folder))
    lines = [f"{name}: missing" for name in sorted(set(expected) - present)]
    lines += [f"{name}: not in {NAME}" for name in sorted(present - set(expected))]
    for name in sorted(present & set(expected)):
        path = f"{folder}/{name}"
        if not os.path.isfile(path):  # noqa: PTH113 - a string, see files
            lines.append(f"{name}: not a regular file")  # a FIFO or device would be read forever
        elif _digest(path) != expected[name]:
            lines.append(f"{name}: checksum differs")
    return lines


def _digest(path: str) -> str:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a string, see files
        return hashlib.file_digest(file, "sha256").hexdigest()
