"""``SHA256SUMS``: ``sha256sum -c`` can check it with no help from us."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

NAME = "SHA256SUMS"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files(folder: Path) -> list[Path]:
    """Return every regular file below ``folder`` except the checksum file, sorted, relative."""
    found = []
    for root, _, names in os.walk(folder):
        found += [(Path(root) / name).relative_to(folder) for name in names]
    return sorted(path for path in found if str(path) != NAME)


def write(folder: Path) -> None:
    """Write the checksum file over everything in ``folder``."""
    lines = [f"{digest(folder / path)}  {path}\n" for path in files(folder)]
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
    found = {str(path) for path in files(folder)}
    lines = [f"{name}: missing" for name in sorted(set(expected) - found)]
    lines += [f"{name}: not in {NAME}" for name in sorted(found - set(expected))]
    for name in sorted(found & set(expected)):
        if not (folder / name).is_file():  # a FIFO or device would be read forever
            lines.append(f"{name}: not a regular file")
        elif digest(folder / name) != expected[name]:
            lines.append(f"{name}: checksum differs")
    return lines
