"""Entry point of ``zonelab``: run one sub-command, map its errors to a line and an exit code."""

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
from harness.cli import commands
from harness.errors import ExitCode, HostError, UsageError, ZonelabError

DESCRIPTION = "Measure how RocksDB should use a zoned (ZNS) SSD."
EXAMPLES = """examples:
  zonelab inspect nvme0n2
  zonelab plan --list
  zonelab compare results/first --format md
  zonelab rig up nvme

zonelab COMMAND --help describes a command and its options."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/architecture.md, "Exit codes")."""
    signal.signal(signal.SIGTERM, _terminate)
    _prepare_streams()
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(args)
        sys.stdout.flush()  # a full disk or a closed pipe is still reported here
        return code
    except ZonelabError as error:
        return complain(error)
    except KeyboardInterrupt:
        print("zonelab: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe (`| head`): discard the rest of the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.OK
    except OSError as error:
        return complain(_host_error(error))
    except Exception as error:
        if "ZONELAB_TRACEBACK" in os.environ:
            raise
        return complain(_internal_error(error))


class _Parser(argparse.ArgumentParser):
    """Reports errors as ``main`` does and accepts no abbreviated options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["allow_abbrev"] = False
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help", code="arguments")


def _dispatch(args: list[str]) -> int:
    split = next((i for i, arg in enumerate(args) if not arg.startswith("-")), len(args))
    if split:
        _general_parser().parse_args(args[:split])
    if split == len(args):
        raise UsageError("no command given", hint="zonelab --help", code="arguments")
    command = args[split]
    module = _load(command)
    parser = _parser(f"zonelab {command}", module.HELP)
    module.add_arguments(parser)
    return int(module.execute(parser.parse_args(args[split + 1 :])))


def _parser(prog: str, description: str, **more: Any) -> _Parser:
    formatter = argparse.RawDescriptionHelpFormatter
    return _Parser(prog=prog, description=description, formatter_class=formatter, **more)


def _general_parser() -> argparse.ArgumentParser:
    """Return the parser of the options before a command; its help lists the commands."""
    usage = "zonelab [-h] [--version] COMMAND ..."
    parser = _parser("zonelab", DESCRIPTION, usage=usage, epilog=_overview())
    parser.add_argument("--version", action="version", version=f"zonelab {__version__}")
    return parser


def _overview() -> str:
    """Return the commands by group, with their summaries, and examples."""
    text = ""
    for group, title in commands.GROUPS.items():
        text += f"{title}:\n"
        for command in commands.discover().values():
            if command.group == group:
                text += f"  {command.name:<10} {command.summary}\n"
        text += "\n"
    return text + EXAMPLES


def _load(name: str) -> ModuleType:
    """Import a command's module, and no other.

    Raises:
        UsageError: there is no such command.
        HostError: the command needs a library that is not installed.
    """
    if commands.find(name) is None:
        known = ", ".join(commands.discover())
        raise UsageError(f"there is no command {name!r}", hint=f"commands: {known}", code="command")
    try:
        return importlib.import_module(f"harness.cli.{name}")
    except ModuleNotFoundError as error:
        raise HostError(
            f"zonelab {name} needs {error.name}, which is not installed",
            hint="run it from a checkout: make setup, then .venv/bin/zonelab",
            code="module-missing",
        ) from error


def complain(error: ZonelabError) -> int:
    """Print an error and its hint on stderr; return its exit code."""
    print(f"zonelab: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code


def _host_error(error: OSError) -> ZonelabError:
    """Name the file and the reason; a full disk gets its own hint."""
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
    """Report a bug of zonelab; the exit code must differ from a regression's (1)."""
    text = " ".join(str(error).split())
    return ZonelabError(
        f"internal error: {type(error).__name__}: {text}",
        hint="this is a bug: repeat it with ZONELAB_TRACEBACK=1 and report the output",
        code="internal",
    )


def _prepare_streams() -> None:
    """Accept closed streams, and characters that the terminal cannot show."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # `>&-`
            setattr(sys, name, io.StringIO())
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _terminate(_signal: int, _frame: object) -> None:
    """Handle SIGTERM like ^C, so that every ``finally`` block runs."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
