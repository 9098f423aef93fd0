"""zlfs-replay, the native program that replays traces of allocations (docs/replay.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.errors import ToolFailed, UsageError
from harness.store.spec import Scalar
from harness.tools import native, proc

PROGRAM = "zlfs-replay"
# It replays two million events per second, so the trace of any run takes less.
_TIMEOUT_SECONDS = 3600.0
_SCHEMA_VERSION = 1
_USAGE, _REFUSED = 2, 3


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of replaying a trace at one setting."""

    setting: Mapping[str, Scalar]
    counterfactual: bool  # the setting differs from the recorded one
    rules: str  # allocation rules that were applied
    mounts: tuple[Mapping[str, Any], ...]  # the last ledger line of each mount
    wear: tuple[int, ...]  # resets by zone
    infeasible: Mapping[str, Any] | None  # what did not fit; null: the setting holds the data
    document: str  # the program's output
    modelled: Mapping[str, Any] | None = None  # times on a modelled drive, in ns

    @property
    def differences(self) -> tuple[str, ...]:
        """Counts that differ from the recorded ledger; empty unless the recorded rules applied."""
        return tuple(
            f"mount {number}: {name}"
            for number, mount in enumerate(self.mounts, 1)
            for name in mount.get("differences", ())
        )


def program() -> Path:
    """Return the program where native programs are installed, else from the checkout's build.

    Raises:
        HostError: it is in neither.
    """
    return native.program_or_built(PROGRAM, "replay")


def argv(
    executable: Path,
    trace: Path,
    changes: Mapping[str, Scalar],
    *,
    own_rules: bool = False,
    model: Path | None = None,
    dilation: int = 1,
) -> list[str]:
    """Return the argument list; ``changes`` are options by name, with underscores."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in changes.items()]
    if own_rules:
        options.append("--own-rules")
    if model is not None:
        options += [f"--model={model}", *([f"--dilation={dilation}"] if dilation != 1 else [])]
    return [str(executable), str(trace), *options]


def recorded_setting(trace: Path) -> dict[str, Scalar]:
    """Return the setting of a trace's first mount, without its number of events.

    Raises:
        HostError: the program is not installed.
        UsageError: the file is missing, damaged, unfinished or not a trace.
        ToolFailed: the program failed or printed unexpected output.
    """
    printed = _run([str(program()), str(trace), "--info"])
    first = native.document(PROGRAM, _SCHEMA_VERSION, printed)["mounts"][0]
    return {
        name: value
        for name, value in first.items()
        if isinstance(value, Scalar) and name != "events"
    }


def replay(
    trace: Path,
    changes: Mapping[str, Scalar],
    *,
    own_rules: bool = False,
    model: Path | None = None,
    dilation: int = 1,
) -> Replayed:
    """Replay a trace at the recorded setting with ``changes``.

    ``model`` is a file with the modelled drive whose times are used (:func:`model_file`).
    ``dilation`` is the recorded drive's: its second took so many of the recording. Raises the
    errors of ``recorded_setting``.
    """
    options = argv(program(), trace, changes, own_rules=own_rules, model=model, dilation=dilation)
    return parse(_run(options))


@contextmanager
def model_file(model: Mapping[str, Any] | None) -> Iterator[Path | None]:
    """Write a drive to a file that exists inside the block; None without a drive."""
    if model is None:
        yield None
        return
    with TemporaryDirectory(prefix="zonelab-replay-") as folder:
        path = Path(folder, "model.json")
        path.write_text(json.dumps(model), encoding="utf-8")
        yield path


def parse(stdout: str) -> Replayed:
    """Parse the program's output.

    Raises:
        ToolFailed: the output is unexpected.
    """
    document = native.document(PROGRAM, _SCHEMA_VERSION, stdout)
    try:
        return Replayed(
            setting=document["setting"],
            counterfactual=document["counterfactual"],
            rules=document["rules"],
            mounts=tuple(document["mounts"]),
            wear=tuple(document["wear"]),
            infeasible=document.get("infeasible"),
            document=stdout,
            modelled=document.get("modelled"),
        )
    except (KeyError, TypeError):
        raise native.foreign(PROGRAM, stdout) from None


def _run(args: Sequence[str]) -> str:
    done = proc.run(args, timeout=_TIMEOUT_SECONDS, check=False)
    if done.ok:
        return done.stdout
    message, hint = native.complaint(PROGRAM, done)
    if done.exit_code in (_USAGE, _REFUSED):
        raise UsageError(f"{PROGRAM}: {message}", hint=hint, code="trace")
    raise ToolFailed(f"{PROGRAM}: {message}", hint=hint)
