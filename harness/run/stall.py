"""Progress of a phase, from the report of its program; its time limit, and its stalls."""

from __future__ import annotations

from pathlib import Path

from harness.store.files import new_lines, text_or_empty
from harness.store.spec import PhaseSpec
from harness.tools.virtual_clock import patience
from harness.workloads import program_of


def time_limit(spec: PhaseSpec) -> float:
    """Return how long a phase may take, in seconds of this machine's clock."""
    return spec.timeout_seconds * patience()


def stall_limit(spec: PhaseSpec) -> float:
    """Return how long a phase may complete no operation; 0 is for ever."""
    return spec.stall_seconds * patience()


class PhaseProgress:
    """Follows the report file and the output of one phase."""

    def __init__(self, report: Path, stdout: Path, spec: PhaseSpec) -> None:
        self._report = report
        self._stdout = stdout
        self._spec = spec
        self._program = program_of(spec)
        self._wanted = spec.operations
        self._duration = float(spec.flags.get("duration", 0) or 0)
        self._longest = stall_limit(spec)
        self._position = 0
        self._operations = 0
        self._began: float | None = None  # first and last progress
        self._moved: float | None = None

    def share(self, seconds: float) -> float | None:
        """Return the share done after ``seconds``; null if unknown."""
        if not self._wanted:
            return seconds / self._duration if self._duration else None
        return self._operations / self._wanted

    def stalled(self, seconds: float) -> bool:
        """Whether no operation ended for longer than the stall timeout.

        The time before the first operation does not count, because opening a large database takes
        long. Nor does the time after the last one, when the database is closed.
        """
        done = self._new_operations()
        self._operations += done
        if done:
            self._moved = seconds
            self._began = seconds if self._began is None else self._began
        if not self._longest or self._moved is None or self._began is None:
            return False
        if self._wanted and self._operations >= self._wanted:
            return False
        if self._duration:  # then the program begins no more operations
            seconds = min(seconds, self._began + self._duration)
        return seconds - self._moved > self._longest and not self._is_closing()

    def _is_closing(self) -> bool:
        """Whether the output shows it. A report may lack the last operations of each thread."""
        return self._program.is_closing(self._spec, text_or_empty(self._stdout))

    def _new_operations(self) -> int:
        try:
            text, self._position = new_lines(self._report, self._position)
        except OSError:
            return 0
        return sum(map(self._program.operations_in, text.splitlines()))
