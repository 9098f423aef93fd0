"""Inputs of the native build: its packages and a hash of its source."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.tools import trees

LISTS = Path(__file__).parents[2] / "requirements" / "apt"


def packages(name: str) -> tuple[str, ...]:
    """Return the distribution packages of one list, in its order."""
    return tuple((LISTS / f"{name}.txt").read_text().split())


def source_hash(tree: Path) -> str:
    """Return the SHA-256 over relative names, executable bits and contents of a source tree.

    Hidden files, hidden folders, pages (``*.md``) and top-level folders named ``build*`` are left
    out. A missing tree has the hash of an empty one.
    """
    return trees.digest(
        tree, lambda parts: parts[0].startswith("build") or parts[-1].endswith(".md")
    )


def main(argv: list[str]) -> int:
    """Print the hash of one tree; for roles/native."""
    if len(argv) != 1 or not Path(argv[0]).is_dir():
        print("usage: python -m harness.rig.native_build TREE", file=sys.stderr)  # noqa: T201
        return 2
    print(source_hash(Path(argv[0])))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
