"""Build ``zonelab.pyz``, the runner as one file: ``python -m harness.pack build/zonelab.pyz``.

It contains only packages that import nothing but the standard library, and the commit of the tree.
The archive is reproducible (fixed timestamps, sorted names), so an unchanged runner is never copied
to a host twice.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path

from harness import compiled
from harness.cli import commands
from harness.errors import UsageError
from harness.machine import code
from harness.tools import proc

_SHARED = ("__init__", "commands", "main", "output")  # of harness/cli, beside shipped commands
_GIT_SECONDS = 60.0
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date a ZIP file can carry


def sources(package: Path) -> list[Path]:
    """Return the runner's files below ``package``, the harness folder, sorted."""
    files = list(package.glob("*.py"))
    for room in code.ROOMS:
        files += package.glob(f"{room}/**/*.py")
    shipped = [name for name, command in commands.discover().items() if command.shipped]
    files += [package / "cli" / f"{name}.py" for name in (*_SHARED, *shipped)]
    return sorted(file for file in files if file != package / "pack.py")


def archive(package: Path) -> bytes:
    """Return the zipapp: an interpreter line, then a ZIP whose entry point is the CLI."""
    buffer = io.BytesIO()
    buffer.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        _add(bundle, "__main__.py", (package / "__main__.py").read_bytes())
        for file in sources(package):
            _add(bundle, str(file.relative_to(package.parent)), file.read_bytes())
        _add(bundle, code.STAMP, json.dumps(stamp(package)).encode())
    return buffer.getvalue()


def stamp(package: Path) -> dict[str, str | bool | None]:
    """Return the commit, and whether the harness folder differs from it; null without git.

    A tree inside a foreign repository has no commit of its own.
    """
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or Path(top.strip()) != package.parent.resolve():
        return {"commit": None, "uncommitted": None}
    commit = _git(package, "rev-parse", "HEAD")
    changes = _git(package, "status", "--porcelain", "--", ".")
    return {
        "commit": commit.strip() if commit else None,
        "uncommitted": bool(changes) if commit and changes is not None else None,
    }


def _git(folder: Path, *arguments: str) -> str | None:
    if proc.which("git") is None:
        return None
    argv = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    done = proc.run(argv, timeout=_GIT_SECONDS, check=False)
    return done.stdout if done.ok else None


def _add(bundle: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    bundle.writestr(info, content)


def main() -> int:
    """Write the zipapp to the named file; print ``changed`` or ``unchanged``."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and its one argument
        raise UsageError("usage: python -m harness.pack FILE")
    target = Path(sys.argv[1])
    content = archive(Path(__file__).parent)
    if target.is_file() and target.read_bytes() == content:
        print("unchanged")  # noqa: T201
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    compiled.write(target, content, executable=True)
    print("changed")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
