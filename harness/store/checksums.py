"""``SHA256SUMS``: ``sha256sum -c`` can check it with no help from us."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

NAME = "SHA256SUMS"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    return _digest(str(path))


def files(folder: Path) -> list[str]:
    """Return every file below ``folder`` except the checksum file, sorted by folders, relative."""
    # Strings: a campaign has tens of thousands of files, and a path takes longer than its file.
    top = len(str(folder)) + 1
    found = []
    for root, _, names in os.walk(folder):
        inside = f"{root[top:]}/" if root[top:] else ""
        found += [inside + name for name in names]
    return sorted((name for name in found if name != NAME), key=lambda name: name.split("/"))


def write(folder: Path) -> None:
    """Write the checksum file over everything in ``folder``."""
    lines = [f"{digest(folder / name)}  {name}\n" for name in files(folder)]
    (folder / NAME).write_text("".join(lines), encoding="utf-8")


def problems(folder: Path) -> list[str]:
    """Return one line per file that is missing, changed, or not listed; empty when whole."""
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
    found = set(files(folder))
    lines = [f"{name}: missing" for name in sorted(set(expected) - found)]
    lines += [f"{name}: not in {NAME}" for name in sorted(found - set(expected))]
    for name in sorted(found & set(expected)):
        path = f"{folder}/{name}"
        if not os.path.isfile(path):  # noqa: PTH113 - a string, see files
            lines.append(f"{name}: not a regular file")  # a FIFO or device would be read forever
        elif _digest(path) != expected[name]:
            lines.append(f"{name}: checksum differs")
    return lines


# Bytes at a time: most files are smaller.
_BLOCK = 1 << 16


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a string, see files
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()
