"""Keep the compiled modules of ZIP archives: Python stores none, and compiles them at each start.

Each Ansible task sends such an archive, and an emulated CPU compiles its 50 modules for seconds.
Only bytecode is kept, by the hash of its source, so the same code runs. Every Python imports this
file at its start: it uses built-in modules alone.
"""

from __future__ import annotations

import _imp
import marshal
import os
import zipimport

_FOLDER = "/var/cache/zonelab-compiled"
_KEY = int.from_bytes(b"zonelab", "little")
_compile = zipimport._compile_source


def _compiled(path: str, source: bytes) -> object:
    name = f"{_FOLDER}/{_imp.source_hash(_KEY, source).hex()}-{len(source)}"
    try:
        with open(name, "rb") as file:  # noqa: PTH123 - pathlib is not built in
            return marshal.load(file)  # noqa: S302 - written below, by root
    except (OSError, ValueError, EOFError, TypeError):
        pass  # not there yet, or torn by a reset
    code = _compile(path, source)
    try:
        if not os.path.isdir(_FOLDER):  # noqa: PTH112
            os.mkdir(_FOLDER, 0o700)  # noqa: PTH102
        partial = f"{name}-{os.getpid()}"
        with open(partial, "wb") as file:  # noqa: PTH123
            marshal.dump(code, file)
        os.rename(partial, name)  # noqa: PTH104
    except OSError:
        pass
    return code


zipimport._compile_source = _compiled
