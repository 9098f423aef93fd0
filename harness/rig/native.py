"""What the native programs are built from. Standard library only: lab hosts use it too."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.tools import trees

# Also in roles/native/defaults and the Makefile. Ninja and the like would cost more to unpack than
# they save.
BUILD_PACKAGES = (
    "cmake",
    "g++",
    "make",
    # for zlfs; what it needs at run time comes with rocksdb-tools and zbd-utils
    "libcli11-dev",
    "librocksdb-dev",
    "libxxhash-dev",
    "libzbd-dev",
    "nlohmann-json3-dev",
)


def source_hash(tree: Path) -> str:
    """Return the SHA-256 over relative names, executable bits and contents of a source tree.

    Hidden files and directories and ``build*`` directories at the top do not count. An absent tree
    has the hash of an empty one.
    """
    return trees.digest(tree, lambda parts: parts[0].startswith("build"))


def main(argv: list[str]) -> int:
    """Print the hash of one tree; for roles/native."""
    if len(argv) != 1 or not Path(argv[0]).is_dir():
        print("usage: python -m harness.rig.native TREE", file=sys.stderr)  # noqa: T201
        return 2
    print(source_hash(Path(argv[0])))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
