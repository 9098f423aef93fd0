"""zlfs, the native program that makes and inspects zlfs devices (docs/zlfs.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ToolFailed
from harness.store.spec import Scalar
from harness.tools import coldfill, native, proc

PROGRAM = "zlfs"
# The plug-in that db_bench preloads.
LIBRARY = "libzlfs.so"

# mkfs resets zones, the others replay the metadata log.
_MKFS_TIMEOUT_SECONDS = 600.0
_READ_TIMEOUT_SECONDS = 300.0

_VIOLATED = 1
_CODES = {2: "zlfs-usage", 3: "zlfs-refused", 4: "zlfs-failed"}

# A line of the ledger (docs/zlfs.md): totals since mount, and the current state.
_CAUSES = ("wal", "flush", "compaction", "other", "import", "gc", "metadata")
_SPACE = ("live", "garbage", "pad", "given_up", "free", "empty_zones", "active_zones")
LEDGER_COLUMNS = (
    *(f"written_{cause}" for cause in _CAUSES),
    *("finishes", "finished_bytes", "resets", "collected_zones"),
    *_SPACE,
)

# Fields that df must print; it may print more.
_COUNTS = """
block_size zone_size zone_capacity zones capacity_bytes free_bytes live_bytes garbage_bytes
pad_bytes metadata_bytes reserve_bytes files zones_empty zones_active zones_full max_active
finish_remaining_pct finish_occupancy_pct finishes resets
"""
_WORDS = ("identity", "label")
_GC_COUNTS = ("copied_bytes", "zones_reclaimed")
_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold."""

    invariant: int  # its number in docs/zlfs.md
    what: str


def mkfs_argv(
    program: Path, device: Path, *, aux: Path, label: str, policies: Mapping[str, Scalar]
) -> list[str]:
    """Return the argument list of ``mkfs``; ``policies`` are its flags with underscores."""
    flags = [f"--{name.replace('_', '-')}={_word(value)}" for name, value in policies.items()]
    own = [f"--aux={aux}", f"--label={label}"]
    return [str(program), "mkfs", f"--device={device}", *own, *flags]


def read_argv(program: Path, command: str, device: Path) -> list[str]:
    """Return the argument list of ``df``, ``list`` or ``fsck`` with JSON output."""
    return [str(program), command, f"--device={device}", "--format=json"]


def import_argv(
    program: Path, device: Path, *, aux: Path, trace: Path, name: str, size: int, seed: int
) -> list[str]:
    """Return the argument list that writes a cold file with coldfill's pattern."""
    return [
        str(program),
        "import",
        f"--device={device}",
        f"--aux={aux}",
        f"--trace={trace}",
        f"--name={name}",
        f"--size={size}",
        f"--seed={seed % 2**64}",
        "--progress",
    ]


def mkfs(device: Path, *, aux: Path, label: str, policies: Mapping[str, Scalar]) -> None:
    """Make a zlfs on a device with empty zones.

    Raises:
        HostError: zlfs is not installed.
        ToolFailed: zlfs failed.
    """
    argv = mkfs_argv(native.program(PROGRAM), device, aux=aux, label=label, policies=policies)
    _run(argv, timeout=_MKFS_TIMEOUT_SECONDS)


def df(device: Path) -> dict[str, Scalar]:
    """Return the use of a device's space, as ``parse_df`` does. Raises the errors of ``mkfs``."""
    return parse_df(_read("df", device))


def files(device: Path) -> dict[str, int]:
    """Return the lengths of the files on a device by absolute name. Raises as ``mkfs`` does."""
    return parse_list(_read("list", device))


def fsck(device: Path) -> list[Violation]:
    """Return the invariants that do not hold. Raises the errors of ``mkfs``."""
    return parse_fsck(_read("fsck", device, also=_VIOLATED))


def import_cold(
    device: Path,
    *,
    aux: Path,
    trace: Path,
    name: str,
    size: int,
    seed: int,
    progress: Callable[[int], None],
) -> int:
    """Write and sync a cold file; return its bytes. ``progress`` is as for ``coldfill.write``.

    Raises:
        TimedOut: it is slower than 2 MB/s.
        ToolFailed: zlfs failed.
    """
    program = native.program(PROGRAM)
    argv = import_argv(program, device, aux=aux, trace=trace, name=name, size=size, seed=seed)
    on_line = coldfill.progress_reader(
        progress, lambda line: int(line) if line.isdecimal() else None
    )
    done = proc.stream(argv, on_line, timeout=coldfill.timeout(size))
    if not done.ok:
        raise _failure(done)
    return parse_import(done.stdout)


def parse_df(stdout: str) -> dict[str, Scalar]:
    """Parse ``df --format=json``: all fields by name, nested ones with the prefix ``gc.``.

    Like all parsers here it raises ToolFailed for other output.
    """
    record = _object(stdout)
    gc = _field(record, "gc", dict)
    for name in _WORDS:
        _field(record, name, str)
    for name in _COUNTS.split():
        _field(record, name, int)
    for name in _GC_COUNTS:  # since mkfs
        _field(gc, name, int)
    fields = {**record, **{f"gc.{name}": value for name, value in gc.items()}}
    return {
        name: value
        for name, value in fields.items()
        if isinstance(value, Scalar) and name != "schema_version"
    }


def parse_list(stdout: str) -> dict[str, int]:
    """Parse ``list --format=json``."""
    rows = _field(_object(stdout), "files", list)
    return {_field(row, "name", str): _field(row, "size", int) for row in rows}


def parse_fsck(stdout: str) -> list[Violation]:
    """Parse ``fsck --format=json``."""
    rows = _field(_object(stdout), "violations", list)
    return [Violation(_field(row, "invariant", int), _field(row, "what", str)) for row in rows]


def parse_import(stdout: str) -> int:
    """Parse the last line of ``import``; return the bytes stored."""
    lines = stdout.splitlines() or [""]
    return int(_field(_json(lines[-1]), "bytes", int))


def parse_ledger(data: bytes) -> list[int | None]:
    """Return LEDGER_COLUMNS from the last complete line of a ledger.

    Raises:
        ValueError: there is no such line, or a column is missing.
    """
    line = json.loads(data[: data.rindex(b"\n")].rpartition(b"\n")[2])
    try:
        space, written = line["space"], line["written"]
        return [
            *(written[cause]["payload"] + written[cause]["pad"] for cause in _CAUSES),
            sum(finish["count"] for finish in line["finishes"].values()),
            sum(finish["given_up"] for finish in line["finishes"].values()),
            sum(line["resets"].values()),
            line["collected_zones"],
            *(space[name] for name in _SPACE),
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no line of a ledger: {error}") from None


def _word(value: Scalar) -> str:
    """Format a value for zlfs; YAML turns on and off into booleans."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _read(command: str, device: Path, *, also: int = 0) -> str:
    argv = read_argv(native.program(PROGRAM), command, device)
    return _run(argv, timeout=_READ_TIMEOUT_SECONDS, also=also).stdout


def _run(argv: Sequence[str], *, timeout: float, also: int = 0) -> proc.Completed:
    """Run zlfs; ``also`` is an exit status that counts as success."""
    done = proc.run(argv, timeout=timeout, check=False)
    if done.exit_code not in (0, also):
        raise _failure(done)
    return done


def _failure(done: proc.Completed) -> ToolFailed:
    message, hint = native.complaint(PROGRAM, done)
    code = _CODES.get(done.exit_code or 0, "tool-failed")
    return ToolFailed(
        f"zlfs {done.argv[1]}: {message}", hint=hint or " ".join(done.argv), code=code
    )


def _object(stdout: str) -> Any:
    record = _json(stdout)
    if _field(record, "schema_version", int) != _SCHEMA_VERSION:
        raise native.foreign(PROGRAM, stdout)
    return record


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise native.foreign(PROGRAM, text) from None


def _field(record: Any, name: str, kind: type) -> Any:
    value = record.get(name) if isinstance(record, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise native.foreign(PROGRAM, f"no {name} in {json.dumps(record)}")
    return value
