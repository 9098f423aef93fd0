"""A compiled copy of the zipapp beside it, so that Python does not compile it at each start.

An emulated CPU starts a command in 5 seconds instead of 17 (Python stores nothing of an archive).
The copy's name has the SHA-256 of the archive and the version of Python: a changed archive gets
another copy. Whoever may change the copy may change the archive as well: it lies in the same
folder, and no copy is used in a folder that everybody may write to.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import marshal
import os
import stat
import sys
import zipfile
from pathlib import Path

import harness

_UNCHECKED = (1).to_bytes(4, "little")  # PEP 552: valid without a look at the source


def use() -> None:
    """Import all further modules from the copy; make it first where there is none.

    Without a zipapp, and where no copy can be written, nothing changes.
    """
    archive = Path(harness.__file__).parent.parent
    if not archive.is_file() or sys.dont_write_bytecode:
        return
    with contextlib.suppress(OSError):
        if archive.parent.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return
        content = archive.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:16]
        python = sys.implementation.cache_tag
        copy = archive.with_name(f".{archive.name}-{digest}.{python}.compiled")
        if not copy.is_file():
            write(copy, compiled(content, archive))
            for older in archive.parent.glob(f".{archive.name}-*.compiled"):
                if older != copy:
                    older.unlink(missing_ok=True)
        harness.__path__ = [f"{copy}/harness"]


def compiled(content: bytes, archive: Path) -> bytes:
    """Return an archive of the same files, and a compiled one beside each module."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as bundle,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as into,
    ):
        for name in bundle.namelist():
            source = bundle.read(name)
            into.writestr(name, source)
            if name.endswith(".py"):
                code = compile(source, f"{archive}/{name}", "exec", dont_inherit=True)
                head = importlib.util.MAGIC_NUMBER + _UNCHECKED
                head += importlib.util.source_hash(source)
                into.writestr(f"{name}c", head + marshal.dumps(code))
    return buffer.getvalue()


def write(path: Path, content: bytes, *, executable: bool = False) -> None:
    """Write a file completely or not at all, even if the power fails.

    store/files.py does this for texts, but ``use`` imports no other module of the archive.

    Raises:
        OSError: the file cannot be written, for example on a full disk.
    """
    # A copy that a kill leaves has the ending of a copy, so the next version removes it.
    partial = path.with_name(f"{path.stem}-{os.getpid()}{path.suffix}")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            if executable:
                os.fchmod(file.fileno(), 0o755)
            os.fsync(file.fileno())
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
