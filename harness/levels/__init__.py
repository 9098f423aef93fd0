"""The integration levels: every concrete ``Level`` in a module of this folder."""

from __future__ import annotations

from harness.discovery import instances
from harness.levels.level import Level
from harness.observe.signatures import Probe


def discover() -> dict[str, Level]:
    """Return one instance of each level by name: by kind, then in the order of their names.

    A module in this folder is enough; no list names it.
    """
    levels = instances(__name__, __path__, Level)  # type: ignore[type-abstract]
    levels.sort(key=lambda level: (level.kind, level.name))
    return {level.name: level for level in levels}


def signatures() -> tuple[Probe, ...]:
    """Return the on-disk signatures of all levels."""
    return tuple(probe for level in LEVELS.values() for probe in level.signatures)


def kernel_errors() -> list[str]:
    """Return the regular expressions of all levels' errors in the kernel log."""
    return sorted({level.kernel_errors for level in LEVELS.values()} - {""})


def packages() -> list[str]:
    """Return the distribution packages of all levels, sorted."""
    return sorted({package for level in LEVELS.values() for package in level.packages})


def modules() -> list[str]:
    """Return the kernel modules of all levels, sorted."""
    return sorted({module for level in LEVELS.values() for module in level.modules})


LEVELS: dict[str, Level] = discover()

__all__ = ["LEVELS", "Level", "discover", "kernel_errors", "modules", "packages", "signatures"]
