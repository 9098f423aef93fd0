"""Whether different code produced two groups of runs.

Keys are those of a fingerprint. A value that a run did not record counts as equal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

RUNNER = "code.runner"
PROGRAMS = "code.programs."
_OF_SOURCE = " of source "
_DIGITS = 12
# The RocksDB build's identity is compared instead: equal sources can give different bytes.
_ROCKSDB = ("db_bench", "librocksdb")


def fingerprint(recorded: Any) -> dict[str, Any]:
    """Return a manifest's record of code: the runner's source, its commit, and the programs."""
    if not isinstance(recorded, Mapping):
        return {}
    runner, programs = recorded.get("runner"), recorded.get("programs")
    found: dict[str, Any] = {}
    if isinstance(runner, Mapping):
        found["runner"] = str(runner.get("source"))[:_DIGITS]
        found["commit"], found["uncommitted"] = runner.get("commit"), runner.get("uncommitted")
    if isinstance(programs, Mapping):
        found["programs"] = {name: _identity(one) for name, one in programs.items()}
    return found


def is_code(key: str) -> bool:
    """Whether a key records code whose difference can block a verdict."""
    if not key.startswith(PROGRAMS):
        return key == RUNNER
    return not key.removeprefix(PROGRAMS).rpartition("/")[2].startswith(_ROCKSDB)


def is_of_code(key: str) -> bool:
    """Whether a key records code."""
    return key.startswith("code.")


def blocks(
    key: str, base: Collection[str], level: Collection[str], contrasted: Collection[str]
) -> bool:
    """Whether different code produced the runs.

    If campaigns are compared with each other, they may differ, but each must have one version.
    """
    if not is_code(key):
        return False
    groups = [base, level] if "campaign" in contrasted else [{*base, *level}]
    return any(_differ(group) for group in groups)


def name(key: str) -> str:
    """Return a readable name of a key."""
    if key.startswith(PROGRAMS):
        return f"program {key.removeprefix(PROGRAMS)}"
    return "source of the runner" if key == RUNNER else key


def _identity(program: Any) -> str:
    if not isinstance(program, Mapping):
        return str(program)
    source = program.get("source")
    sha256 = str(program.get("sha256"))[:_DIGITS]
    return f"{sha256}{_OF_SOURCE}{source[:_DIGITS]}" if source else sha256


def _differ(values: Collection[str]) -> bool:
    """Whether values differ: a program is the same if its bytes or its source are equal."""
    pairs = [value.partition(_OF_SOURCE)[::2] for value in values]
    bytes_, sources = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    return len(bytes_) > 1 and (len(sources) > 1 or sources == {""})
