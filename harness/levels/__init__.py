"""The integration levels: every concrete ``Level`` in a module of this folder."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from harness.levels.base import Level


def discover() -> dict[str, Level]:
    """Return one instance of each level by name: by kind, then in the order of their names.

    A module beside this one is all it takes; nothing lists them.
    """
    found = []
    for module in pkgutil.iter_modules(__path__):
        if module.name == "__main__":
            continue
        members = vars(importlib.import_module(f"{__name__}.{module.name}"))
        found += [
            thing()
            for thing in members.values()
            if isinstance(thing, type)
            and issubclass(thing, Level)
            and thing.__module__ == f"{__name__}.{module.name}"
            and "name" in vars(thing)
            and not inspect.isabstract(thing)
        ]
    return {level.name: level for level in sorted(found, key=lambda one: (one.kind, one.name))}


def packages() -> list[str]:
    """Return the distribution packages of all levels, sorted."""
    return sorted({package for level in LEVELS.values() for package in level.packages})


LEVELS: dict[str, Level] = discover()

__all__ = ["LEVELS", "Level", "discover", "packages"]
