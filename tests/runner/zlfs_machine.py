"""The fake machine with zlfs's programs: fake_zlfs.py and a fake ldd."""

from __future__ import annotations

import lzma
from pathlib import Path

from harness.levels import zlfs
from tests.runner.conftest import Machine

LDD = """#!/bin/sh
case $1 in *{odd}*) rocksdb=librocksdb.so.7.8 ;; *) rocksdb=librocksdb.so.9.10 ;; esac
printf '\\t%s => %s/%s (0x00007f1c)\\n' $rocksdb {lib} $rocksdb
printf '\\tlibc.so.6 => /lib/libc.so.6 (0x00007f1d)\\n\\t/lib64/ld-linux.so.2 (0x00007f1e)\\n'
"""


class Zoned(Machine):
    """The fake machine with zlfs's programs; its plan has one run on zlfs."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        native = root / "native"
        native.mkdir()
        (native / "zlfs").symlink_to(Path(__file__).parent / "fake_zlfs.py")
        (native / "libzlfs.so").touch()
        (root / "label-offset").write_text(str(zlfs.SIGNATURE.label_offset))
        self.lib = root.resolve() / "lib"
        self.lib.mkdir()
        for version in ("7.8", "9.10"):
            (self.lib / f"librocksdb.so.{version}").write_text(version)
        self.ldd(odd="nothing")
        self.change_runs(run="zlfs--r01", cell="zlfs", level="zlfs")
        self.keep_first_run()

    def ldd(self, *, odd: str) -> None:
        """Let ldd report another RocksDB for files whose name contains ``odd``."""
        path = self.root / "bin" / "ldd"
        path.parent.mkdir(exist_ok=True)
        path.write_text(LDD.format(odd=odd, lib=self.lib))
        path.chmod(0o755)

    def packed(self, name: str) -> str:
        return lzma.decompress((self.folder / "raw" / name).read_bytes()).decode()
