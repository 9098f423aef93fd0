"""How a run ended: its status, the first error as the reason, later errors as issues."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from harness import cleanup
from harness.errors import HostError, Hung, Interrupted, ZonelabError
from harness.run.phase import Infeasible
from harness.store.result import Issue, Severity, Status
from harness.store.rundir import RunWriter
from harness.store.spec import Reason


@dataclass(frozen=True, slots=True)
class Ending:
    """Status and reason of a run. ``error`` is its first error; null if it has none."""

    status: Status
    reason: Reason | None = None
    error: Exception | None = None

    @property
    def hung(self) -> Hung | None:
        """The process that cannot be killed; null if there is none."""
        return cleanup.hung(self.error)

    @property
    def later(self) -> tuple[str, ...]:
        """Messages of the errors after the first one."""
        return tuple(reason_of(error).message for error in cleanup.later(self.error))

    @property
    def issues(self) -> tuple[Issue, ...]:
        """An issue for each later error."""
        return tuple(Issue("clean-up", Severity.ERROR, message) for message in self.later)

    def raise_last(self) -> None:
        """Raise the error that ends the campaign too; the run is stored by then."""
        if isinstance(self.error, Interrupted):
            raise self.error
        if self.hung is not None:
            raise self.hung

    def store(self, writer: RunWriter) -> None:
        """Store the traceback of a fault of zonelab, and the kernel stacks of a hung process."""
        if self.hung is not None:
            writer.write("raw/hung.txt", f"{self.hung.message}\n{self.hung.stacks}")
        faults = [
            "".join(traceback.format_exception(error))
            for error in (self.error, *cleanup.later(self.error))
            if error is not None and not isinstance(error, ZonelabError | Infeasible)
        ]
        if faults:
            writer.write("raw/traceback.txt", "\n".join(faults))


def of_error(error: Exception) -> Ending:
    """Return the ending of a run that raised an error; a full disk ends the campaign instead."""
    if isinstance(error, Infeasible):
        return Ending(Status.SKIPPED, error.reason, error)
    if isinstance(error, HostError) and error.code == "disk-full":
        raise error
    status = Status.ABORTED if isinstance(error, Interrupted) else Status.FAILED
    return Ending(status, reason_of(error), error)


def and_then(ending: Ending, error: Exception) -> Ending:
    """Return the ending after another error: the first one stays the reason."""
    if ending.error is None:
        return of_error(error)
    cleanup.add(ending.error, error)
    return ending


def reason_of(error: Exception) -> Reason:
    """Return an error as results store it."""
    if isinstance(error, Infeasible):
        return error.reason
    if isinstance(error, ZonelabError):
        return Reason.of(error)
    text = f"{type(error).__name__}: {error}"
    return Reason("internal", text, "see raw/traceback.txt; report it")
