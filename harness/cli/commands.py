"""Find the sub-commands: each module of this folder that assigns ``SUMMARY`` is one."""

from __future__ import annotations

import ast
import pkgutil
from dataclasses import dataclass
from typing import Any

import harness.cli
from harness.errors import ConfigError

GROUPS = {"users": "commands", "playbooks": "commands that the playbooks use"}


@dataclass(frozen=True, slots=True)
class Command:
    """Constants at the top of a command's module.

    Attributes:
        name: the module's name.
        summary: ``SUMMARY``, one line for ``zonelab --help``.
        group: ``GROUP``, a key of ``GROUPS``.
        shipped: ``SHIPPED``, true for a command of the runner's zipapp (standard library only).
    """

    name: str
    summary: str
    group: str
    shipped: bool


def discover() -> dict[str, Command]:
    """Return all commands by name, sorted.

    The modules are parsed, not imported: ``zonelab --help`` needs no library.
    """
    found = (find(module.name) for module in pkgutil.iter_modules(harness.cli.__path__))
    return {command.name: command for command in found if command is not None}


def find(name: str) -> Command | None:
    """Return one command, or None if there is no such module or it is not a command."""
    if not name.isidentifier():
        return None
    try:
        source = pkgutil.get_data("harness.cli", f"{name}.py")
    except OSError:
        return None
    return parse(name, (source or b"").decode())


def parse(name: str, source: str) -> Command | None:
    """Return the command that a module declares, or None for a module without ``SUMMARY``.

    Raises:
        ConfigError: ``GROUP`` or ``SHIPPED`` is missing, or ``GROUP`` is unknown.
    """
    constants: dict[str, Any] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            constants |= {t.id: node.value.value for t in node.targets if isinstance(t, ast.Name)}
    if "SUMMARY" not in constants:
        return None
    group, shipped = constants.get("GROUP"), constants.get("SHIPPED")
    if group not in GROUPS or not isinstance(shipped, bool):
        raise ConfigError(
            f"harness/cli/{name}.py: GROUP is {group!r}, SHIPPED is {shipped!r}",
            hint=f"GROUP is one of {', '.join(GROUPS)}; SHIPPED is True or False",
        )
    return Command(name, constants["SUMMARY"], str(group), shipped)
