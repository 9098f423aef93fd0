"""Errors that users see, each with a hint and an exit code."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes of every zonelab command (docs/architecture.md, "Exit codes")."""

    OK = 0
    REGRESSION = 1
    USAGE = 2
    REFUSED = 3
    RUNS_FAILED = 4
    TIMEOUT = 124
    INTERRUPTED = 130


class ZonelabError(Exception):
    """Base of all expected errors: one clear line, a hint what to type or change, and an exit code.

    ``message`` names the offending value. ``code`` is a machine-readable reason in kebab-case,
    stable across releases.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.RUNS_FAILED
    default_code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.default_code

    def __str__(self) -> str:
        return self.message


class UsageError(ZonelabError):
    """The command line is wrong or names something that does not exist."""

    exit_code = ExitCode.USAGE
    default_code = "usage"


class ConfigError(ZonelabError):
    """A configuration, plan or result file is wrong or has another schema version."""

    exit_code = ExitCode.USAGE
    default_code = "config"


class HostError(ZonelabError):
    """This machine lacks a package, disk space, memory or a privilege."""

    exit_code = ExitCode.USAGE
    default_code = "host"


class GuardRefused(ZonelabError):
    """The guard refused a device, or it is missing. Nothing is written to it afterwards."""

    exit_code = ExitCode.REFUSED
    default_code = "guard-refused"


class RunFailed(ZonelabError):
    """A run failed or is invalid, or a stored run is corrupt."""

    exit_code = ExitCode.RUNS_FAILED
    default_code = "run-failed"


class ToolFailed(RunFailed):
    """An external program failed, was killed, or printed unexpected output."""

    default_code = "tool-failed"


class TimedOut(ZonelabError):
    """Something did not finish in time."""

    exit_code = ExitCode.TIMEOUT
    default_code = "timeout"


class Hung(ZonelabError):
    """A process does not end after SIGKILL, because it waits in the kernel for a device.

    ``stacks`` is the text of its threads' kernel stacks. ``pid`` and ``start`` (clock ticks since
    boot, as in proc_pid_stat(5)) identify the process.
    """

    default_code = "hung"

    def __init__(self, message: str, *, stacks: str, pid: int, start: int) -> None:
        super().__init__(
            message,
            hint="zonelab keeps its claim; see raw/hung.txt and the kernel log, repair the drive, "
            "reboot if the process stays, and repeat the command",
        )
        self.stacks = stacks
        self.pid = pid
        self.start = start


class Interrupted(ZonelabError):
    """The command was interrupted by SIGINT or SIGTERM."""

    exit_code = ExitCode.INTERRUPTED
    default_code = "interrupted"
