"""Find levels, programs and rules: a module in their folder is enough, no list names it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def modules(package: str, paths: Iterable[str]) -> list[ModuleType]:
    """Import the modules of a package, by name; names with an underscore are left out."""
    names = sorted(module.name for module in pkgutil.iter_modules(paths))
    return [importlib.import_module(f"{package}.{name}") for name in names if name[0] != "_"]


def instances(package: str, paths: Iterable[str], base: type[T]) -> list[T]:
    """Return an instance of each concrete subclass of ``base`` that a module defines."""
    return [
        member()
        for module in modules(package, paths)
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, base)
        and member.__module__ == module.__name__
        and not inspect.isabstract(member)
    ]
