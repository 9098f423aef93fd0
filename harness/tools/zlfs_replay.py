"""zlfs-replay, our native program that plays traces of allocations (docs/replay.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HostError, ToolFailed, UsageError
from harness.store.spec import Scalar
from harness.tools import native, proc

PROGRAM = "zlfs-replay"
# Two million events a second when last measured; a trace that takes longer is no trace of a run.
_TIMEOUT_SECONDS = 3600.0
_SCHEMA_VERSION = 1
_BUILT = Path(__file__).parents[2] / "build" / "native-release" / "replay" / PROGRAM
_USAGE, _REFUSED = 2, 3


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a trace says of itself: the setting of each mount, and the ledger at its end."""

    settings: tuple[Mapping[str, Scalar], ...]
    ledgers: tuple[Mapping[str, Any], ...]
    events: int

    @property
    def written(self) -> int:
        """Bytes that the recorded mounts wrote, of all causes."""
        return sum(
            part["payload"] + part["pad"]
            for ledger in self.ledgers
            for part in ledger["written"].values()
        )


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trace at one setting.

    ``mounts`` are lines of zlfs' ledger, ``wear`` the resets by zone; ``infeasible`` says what
    there was no room for, and where everything was, null where the setting holds the data.
    ``counterfactual``: it is another setting than the recorded one.
    """

    setting: Mapping[str, Scalar]
    counterfactual: bool
    rules: str
    mounts: tuple[Mapping[str, Any], ...]
    wear: tuple[int, ...]
    infeasible: Mapping[str, Any] | None
    document: str

    @property
    def differences(self) -> tuple[str, ...]:
        """Counts that differ from the recorded ledger; only looked for by the recorded rules."""
        return tuple(
            f"mount {number}: {name}"
            for number, mount in enumerate(self.mounts, 1)
            for name in mount.get("differences", ())
        )


def program() -> Path:
    """Return the program: as all native ones, or where `make build/native-release` puts it.

    Raises:
        HostError: it is in neither.
    """
    try:
        return native.program(PROGRAM)
    except HostError as error:
        if _BUILT.is_file():
            return _BUILT
        hint = "make build/native-release; or set ZONELAB_NATIVE to the folder that has it"
        raise HostError(error.message, hint=hint, code=error.code) from None


def argv(
    executable: Path, trace: Path, changes: Mapping[str, Scalar], *, own_rules: bool = False
) -> list[str]:
    """Return the argument list; ``changes`` are options by name, underscores for hyphens."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in changes.items()]
    return [str(executable), str(trace), *options, *(["--own-rules"] if own_rules else [])]


def info(trace: Path) -> Recorded:
    """Say what was recorded.

    Raises:
        HostError: the program is not installed.
        UsageError: the file is missing, damaged, unfinished or none of its traces.
        ToolFailed: it failed or printed something else than promised.
    """
    document = _object(_run([str(program()), str(trace), "--info"]))
    mounts = document["mounts"]
    return Recorded(
        settings=tuple(
            {name: value for name, value in mount.items() if isinstance(value, Scalar)}
            for mount in mounts
        ),
        ledgers=tuple(mount["recorded"] for mount in mounts),
        events=sum(mount["events"] for mount in mounts),
    )


def replay(trace: Path, changes: Mapping[str, Scalar], *, own_rules: bool = False) -> Replayed:
    """Play a trace at the recorded setting with ``changes``; errors as for ``info``."""
    return parse(_run(argv(program(), trace, changes, own_rules=own_rules)))


def parse(stdout: str) -> Replayed:
    """Read what the program prints.

    Raises:
        ToolFailed: it is something else.
    """
    document = _object(stdout)
    try:
        return Replayed(
            setting=document["setting"],
            counterfactual=document["counterfactual"],
            rules=document["rules"],
            mounts=tuple(document["mounts"]),
            wear=tuple(document["wear"]),
            infeasible=document.get("infeasible"),
            document=stdout,
        )
    except (KeyError, TypeError):
        raise native.foreign(PROGRAM, stdout) from None


def _run(args: Sequence[str]) -> str:
    done = proc.run(args, timeout=_TIMEOUT_SECONDS, check=False)
    if done.ok:
        return done.stdout
    said = dict(line.partition(": ")[::2] for line in done.stderr.splitlines())
    if done.signal is not None or PROGRAM not in said:
        raise proc.failure(done)
    message, hint = f"{PROGRAM}: {said[PROGRAM]}", said.get("hint", "")
    if done.exit_code in (_USAGE, _REFUSED):
        raise UsageError(message, hint=hint, code="trace")
    raise ToolFailed(message, hint=hint)


def _object(stdout: str) -> Any:
    try:
        document = json.loads(stdout)
        version = document["schema_version"]
    except (ValueError, KeyError, TypeError):
        raise native.foreign(PROGRAM, stdout) from None
    if version != _SCHEMA_VERSION:
        raise native.foreign(PROGRAM, stdout)
    return document
