"""zonemodel, the native program that plays jobs on a model of a drive (docs/model.md)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, ToolFailed
from harness.store.media_record import MediaInterval
from harness.tools import native, proc

PROGRAM = "zonemodel"
_SCHEMA_VERSION = 1
_TIMEOUT_SECONDS = 3600.0
_PLAY_SECONDS = 6 * 3600.0  # enough to fill a drive of a terabyte three times first
# Random overwrites of the drive before the first file. After them, write amplification differs by
# less than 0.5 % from its value after eight, at 7 and at 28 % over-provisioning. After a single
# overwrite it is 0.7 % too low.
_ROUNDS = "2"
_BAD_INPUT = 2


@dataclass(frozen=True, slots=True)
class Played:
    """The results of a job. Times are in ns of virtual time.

    ``clients`` has, by client and command, counts, latencies and rates as the program names them.
    """

    job: str
    model: str
    clients: Mapping[str, Mapping[str, Mapping[str, Any]]]
    media: Mapping[str, Any]
    document: Mapping[str, Any]  # the program's output


def program() -> Path:
    """Return the program; HostError if it is not installed."""
    return native.program_or_built(PROGRAM)


def argv(executable: Path, model: Path, jobs: Path, threads: int) -> list[str]:
    """Return the argument list. ``jobs`` is a file with an array of jobs."""
    files = ["--model", str(model), "--job", str(jobs)]
    return [str(executable), "run", *files, "--threads", str(threads)]


def run(
    model: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]], threads: int = 1
) -> list[Played]:
    """Play each job on a new drive; results in the order of the jobs.

    Raises:
        HostError: the program is not installed.
        ConfigError: the program refuses the model or a job.
        ToolFailed: the program failed or printed unexpected output.
    """
    executable = program()
    with tempfile.TemporaryDirectory(prefix="zonelab-model-") as folder:
        files = Path(folder, "model.json"), Path(folder, "jobs.json")
        for file, data in zip(files, (model, jobs), strict=True):
            file.write_text(json.dumps(data), encoding="utf-8")
        done = proc.run(argv(executable, *files, threads), timeout=_TIMEOUT_SECONDS, check=False)
    return parse(_stdout(done))


def play_writes(model: Mapping[str, Any], files: Sequence[Path]) -> list[tuple[MediaInterval, ...]]:
    """Play files of recorded writes in their order on one conventional drive in steady state.

    Returns the intervals of each file, the last one without a mark.

    Raises:
        HostError: the program is not installed.
        ConfigError: the program refuses the model or a file.
        ToolFailed: the program failed or printed unexpected output.
    """
    done = proc.run(
        [program(), "media", "--model", "-", "--rounds", _ROUNDS, *files],
        timeout=_PLAY_SECONDS,
        stdin=json.dumps(model),
        check=False,
    )
    found = _intervals(_stdout(done))
    if len(found) != len(files):
        raise native.foreign(PROGRAM, done.stdout)
    return found


def _intervals(stdout: str) -> list[tuple[MediaInterval, ...]]:
    document = native.document(PROGRAM, _SCHEMA_VERSION, stdout)
    names = ("written", "zeroed", "discarded", "programmed", "collected")
    try:
        return [
            tuple(
                MediaInterval(str(one["mark"]), *(native.whole(one[name]) for name in names))
                for one in file
            )
            for file in document["files"]
        ]
    except (KeyError, TypeError):
        raise native.foreign(PROGRAM, stdout) from None


def _stdout(done: proc.Completed) -> str:
    """Return the program's output; raises ConfigError and ToolFailed as ``run`` does."""
    if done.ok:
        return done.stdout
    message, hint = native.complaint(PROGRAM, done)
    if done.exit_code == _BAD_INPUT:
        raise ConfigError(message, hint=hint or "see docs/model.md", code="model")
    raise ToolFailed(f"{PROGRAM}: {message}", hint=hint)


def parse(stdout: str) -> list[Played]:
    """Parse the program's output.

    Raises:
        ToolFailed: the output is unexpected.
    """
    document = native.document(PROGRAM, _SCHEMA_VERSION, stdout)
    try:
        return [
            Played(
                job=result["job"],
                model=result["model"],
                clients={client["name"]: client["commands"] for client in result["clients"]},
                media=result["media"],
                document=result,
            )
            for result in document["results"]
        ]
    except (KeyError, TypeError):
        raise native.foreign(PROGRAM, stdout) from None
