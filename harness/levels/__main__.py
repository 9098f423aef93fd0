"""``python -m harness.levels``: the distribution packages of all levels, for roles/packages."""

from __future__ import annotations

from harness.levels import packages

if __name__ == "__main__":
    print("\n".join(packages()))  # noqa: T201
