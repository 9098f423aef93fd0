"""``python -m harness.workloads``: packages of all programs, for roles/packages."""

from __future__ import annotations

from harness.workloads import packages

if __name__ == "__main__":
    print("\n".join(packages()))  # noqa: T201
