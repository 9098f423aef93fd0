"""Entry point of ``zonelab``: finds the sub-command, maps expected errors to a line and a code."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from harness import __version__
from harness.errors import ExitCode, HostError, UsageError, ZonelabError

# In the order in which a user meets them. The zipapp carries those that need no library.
COMMANDS = {
    "inspect": "what a device is, what the guard says of it, and which levels it can run",
    "layout": "plan the namespaces of a drive from its own data, and create them",
    "age": "precondition a device: purge it, write all of it a number of times",
    "plan": "validate a study, expand it into runs, predict bytes and time",
    "run": "execute a plan on this machine (as root, on the system under test)",
    "status": "how far a campaign is, with time left",
    "collect": "take finished run directories over from a host (used by the playbooks)",
    "replay": "what other settings would have done with what zlfs recorded",
    "compare": "verdict table: each level against the baseline, with intervals",
    "report": "write the campaign's page, figures and tables",
    "verify": "check a campaign: checksums, schemas, completeness",
    "bundle": "pack a campaign into one archive that verify accepts elsewhere",
    "rules": "what makes a run invalid, and what is warned of",
    "rocksdb": "fetch and identify a RocksDB to be built (used by the playbooks)",
    "rig": "build, boot and stop the emulated machine",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/architecture.md, "Exit codes")."""
    signal.signal(signal.SIGTERM, _terminate)
    _prepare_streams()
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(args)
        sys.stdout.flush()  # here a full disk or a reader that left can still be answered
        return code
    except ZonelabError as error:
        return _complain(error)
    except KeyboardInterrupt:
        print("zonelab: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`): whatever is still buffered goes nowhere, silently.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.OK
    except OSError as error:
        return _complain(_host_error(error))
    except Exception as error:
        if "ZONELAB_TRACEBACK" in os.environ:
            raise
        return _complain(_internal_error(error))


class _Parser(argparse.ArgumentParser):
    """Says what is wrong as every other error is said; abbreviations of options are none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["allow_abbrev"] = False
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help", code="arguments")


def _dispatch(args: list[str]) -> int:
    name = next((arg for arg in args if not arg.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        raise UsageError(
            f"there is no command {name!r}", hint=f"commands: {', '.join(COMMANDS)}", code="command"
        )
    parser = _Parser(
        prog="zonelab",
        description="How should RocksDB sit on a zoned (ZNS) SSD? Answered with evidence.",
        epilog="examples:\n  zonelab inspect nvme0n2\n  zonelab plan --list\n"
        "  zonelab compare results/example --format md\n  zonelab rig up default",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"zonelab {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    module = None
    for command, summary in COMMANDS.items():
        if command != name:
            commands.add_parser(command, help=summary)
            continue
        module = _load(command)
        sub = commands.add_parser(
            command,
            help=summary,
            description=module.HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
    arguments = parser.parse_args(args)
    if module is None:  # argparse has already answered --help, --version and a missing command
        raise UsageError("no command given", hint="zonelab --help")
    return int(module.execute(arguments))


def _load(command: str) -> ModuleType:
    try:
        return importlib.import_module(f"harness.cli.{command}")
    except ModuleNotFoundError as error:
        raise HostError(
            f"zonelab {command} needs {error.name}, which is not here",
            hint="run it from a checkout: make setup, then .venv/bin/zonelab",
            code="module-missing",
        ) from error


def _complain(error: ZonelabError) -> int:
    print(f"zonelab: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code


def _host_error(error: OSError) -> ZonelabError:
    """Name what the operating system refused; a full disk gets its own hint."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return HostError(
            f"no space left on the disk{where}", hint="free some space and repeat", code="disk-full"
        )
    hint = {
        errno.EACCES: "run it as root, or as the owner of that file",
        errno.EPERM: "run it as root, or as the owner of that file",
        errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
        errno.EROFS: "name a folder that can be written to",
    }.get(error.errno or 0, "check the path")
    return HostError(f"{error.strerror or error}{where}", hint=hint, code="os-error")


def _internal_error(error: Exception) -> ZonelabError:
    """A fault of zonelab itself; its exit code must not be that of a regression (1)."""
    text = " ".join(str(error).split())
    return ZonelabError(
        f"internal error: {type(error).__name__}: {text}",
        hint="this is a bug: repeat it with ZONELAB_TRACEBACK=1 and report what it prints",
        code="internal",
    )


def _prepare_streams() -> None:
    """Make stdout and stderr usable when closed, or unable to show a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # `>&-`
            setattr(sys, name, io.StringIO())
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _terminate(_signal: int, _frame: object) -> None:
    """SIGTERM ends a command the way ^C does, so that every ``finally`` runs."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
