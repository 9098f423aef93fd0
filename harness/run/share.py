"""How far a phase is, by what its program reports, and whether it still gets anywhere."""

from __future__ import annotations

from pathlib import Path

from harness.store.spec import PhaseSpec
from harness.workloads import program_of


class ShareDone:
    """Follows the report of one phase."""

    def __init__(self, path: Path, spec: PhaseSpec) -> None:
        self._path = path
        self._operations_in = program_of(spec).operations_in
        self._wanted = spec.operations
        self._duration = float(spec.flags.get("duration", 0) or 0)
        self._patience = spec.stall_seconds
        self._position = 0
        self._operations = 0
        self._moved: float | None = None

    def read(self, seconds: float) -> float | None:
        """Return the share done after ``seconds``, None when it cannot be told."""
        if not self._wanted:
            return seconds / self._duration if self._duration else None
        return self._operations / self._wanted

    def stalled(self, seconds: float) -> bool:
        """Whether no operation ended for too long.

        The time before the first one does not count, opening a large database takes its time, nor
        that behind the last, which belongs to closing it.
        """
        done = self._new_operations()
        self._operations += done
        if done:
            self._moved = seconds
        if not self._patience or self._moved is None:
            return False
        if self._wanted and self._operations >= self._wanted:
            return False
        return seconds - self._moved > self._patience

    def _new_operations(self) -> int:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                text = file.read()
        except OSError:
            return 0
        complete = text[: text.rfind(b"\n") + 1]
        self._position += len(complete)
        lines = complete.decode("utf-8", errors="replace").splitlines()
        return sum(self._operations_in(line) for line in lines)
