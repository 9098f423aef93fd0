"""Samples a level with its own programs while a phase runs: one at a time, one per second."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from harness import nulls
from harness.errors import ToolFailed
from harness.levels.level import Question
from harness.tools import proc

_COST = ("seconds", "read_bytes")
# getrusage(2) counts input in blocks of this size, from the same counter as /proc/self/io.
_BLOCK = 512
_ACCOUNTED = Path("/proc/self/io").exists()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A running program; ``t`` is its start on the time axis of the run."""

    question: Question
    t: float
    child: subprocess.Popen[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]


@dataclass
class Asker(AbstractContextManager["Asker"]):
    """Appends a line to ``series/<question>.csv`` for each answer; the questions take turns.

    A line has the time of the question, its duration, the bytes it read from devices, and the
    answer. If the program failed, the fields are empty and its message is in ``raw/``. A program
    that still runs at the end is killed; that does no harm, because it only reads.

    ``began`` is the beginning of the run on ``clock``, in monotonic seconds.
    """

    questions: Sequence[Question]
    folder: Path
    clock: Callable[[], float]
    began: float
    _turn: int = field(default=0, init=False)
    _asked: _Asked | None = field(default=None, init=False)

    def tick(self) -> None:
        """Store an answer and ask the next question; called about once a second.

        Nothing is asked while an earlier program still runs.
        """
        if not self.questions or not self._collect():
            return
        question = self.questions[self._turn % len(self.questions)]
        self._turn += 1
        stdout, stderr = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - _forget
        t = self.clock() - self.began
        child = proc.spawn(question.argv, stdout=stdout, stderr=stderr)
        self._asked = _Asked(question, t, child, stdout, stderr)

    def __exit__(self, *_: object) -> None:
        if not self._collect() and self._asked is not None:
            proc.end(self._asked.child)
            self._forget()

    def _collect(self) -> bool:
        """Store the answer; False while the program still runs."""
        asked = self._asked
        if asked is None:
            return True
        pid, status, usage = os.wait4(asked.child.pid, os.WNOHANG)
        if pid == 0:
            return False
        asked.child.returncode = os.waitstatus_to_exitcode(status)
        took = self.clock() - self.began - asked.t
        read = usage.ru_inblock * _BLOCK if _ACCOUNTED else None
        self._write(asked, took, read)
        self._forget()
        return True

    def _write(self, asked: _Asked, took: float, read: int | None) -> None:
        question = asked.question
        try:
            answer: Sequence[int | None] = _answer(asked)
        except ToolFailed as error:
            answer = [None] * len(question.columns)
            with (self.folder / "raw" / f"{question.name}.failed").open("a") as log:
                log.write(f"{asked.t:.3f} {error.message}\n")
        with (self.folder / "series" / f"{question.name}.csv").open("a") as file:
            if file.tell() == 0:
                file.write(",".join(["t", *_COST, *question.columns]) + "\n")
            fields = [nulls.text(value) for value in (read, *answer)]
            file.write(",".join([f"{asked.t:.3f}", f"{took:.3f}", *fields]) + "\n")

    def _forget(self) -> None:
        if self._asked is not None:
            self._asked.stdout.close()
            self._asked.stderr.close()
            self._asked = None


def _answer(asked: _Asked) -> tuple[int, ...]:
    """Return the answer; ToolFailed if the program failed or printed something else."""
    ended = proc.completed(
        asked.question.argv, asked.child.returncode, _text(asked.stdout), _text(asked.stderr)
    )
    if not ended.ok:
        raise proc.failure(ended)
    return asked.question.read(ended.stdout)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")
