"""nvme-cli (``nvme``): identify a drive and manage its namespaces. Long options only.

Parsers expect the output of nvme-cli 2.3 (Debian 12), where 128-bit numbers are strings, or of
later versions, where they are numbers. A refused command prints ``NVMe status: …(0x400b)``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.errors import ToolFailed
from harness.store.spec import Bytes
from harness.tools import proc

T = TypeVar("T")

PROGRAM = "nvme"

# NVM Express base specification, "Identify Controller", OACS: namespace management and attachment.
_OACS_NAMESPACES = 1 << 3
# "Identify Namespace" with all bits of the NSID set: capabilities common to all namespaces.
COMMON = 0xFFFFFFFF
# Command set identifiers; zoned namespaces have their own.
NVM, ZNS = 0, 2
_TIMEOUT = 60.0
# Creating and deleting may format, which takes tens of seconds.
_SLOW = 600.0

_STATUS = re.compile(r"NVMe status: (?P<text>.+?)\((?P<code>0x[0-9a-fA-F]+)\)")
_CREATED = re.compile(r"created nsid: ?(\d+)")


@dataclass(frozen=True, slots=True)
class ControllerFacts:
    """Output of ``id-ctrl``."""

    serial: str
    model: str
    number: int  # controller identifier
    manages_namespaces: bool
    total: Bytes  # capacity of the drive; 0: not reported
    most_namespaces: int


@dataclass(frozen=True, slots=True)
class Format:
    """An LBA format: its index, and bytes of data and metadata per block."""

    index: int
    data: int
    metadata: int


@dataclass(frozen=True, slots=True)
class IdNamespace:
    """Output of ``id-ns``."""

    size: Bytes
    allocated: Bytes  # NVMCAP; 0: not reported
    block: int  # bytes per logical block; 0: no such namespace
    metadata: int  # bytes per logical block
    format: int  # index of its LBA format
    formats: tuple[Format, ...]
    names: tuple[str, str]  # EUI-64 and NGUID; '': not reported


@dataclass(frozen=True, slots=True)
class IdZoned:
    """Output of ``zns id-ns``."""

    most_active: int  # zones; 0: no limit
    zone_blocks: tuple[int, ...]  # zone size in blocks, by LBA format


class Refused(ToolFailed):
    """The drive's firmware refused a command."""

    default_code = "firmware-refused"


def identify(device: str) -> ControllerFacts:
    """Identify the controller. Raises the errors of ``ask``."""
    return parse_controller(ask([PROGRAM, "id-ctrl", device, "--output-format=json"]))


def namespaces(device: str) -> tuple[int, ...]:
    """Return the numbers of all namespaces, also of those that are not attached."""
    argv = [PROGRAM, "list-ns", device, "--all", "--output-format=json"]
    return parse_numbers(ask(argv), "nsid_list", "nsid")


def namespace(device: str, nsid: int) -> IdNamespace:
    """Identify a namespace.

    If the namespace is not attached to any controller, ``--force`` is needed. Otherwise it is not
    used, because QEMU refuses it for zoned namespaces.
    """
    argv = [PROGRAM, "id-ns", device, f"--namespace-id={nsid}", "--output-format=json"]
    record = parse_namespace(ask(argv))
    if record.size or nsid == COMMON:
        return record
    return parse_namespace(ask([*argv, "--force"]))


def controllers(device: str, nsid: int) -> tuple[int, ...]:
    """Return the numbers of the controllers to which a namespace is attached."""
    argv = [PROGRAM, "list-ctrl", device, f"--namespace-id={nsid}", "--output-format=json"]
    return parse_numbers(ask(argv), "ctrl_list", "ctrl_id")


def zoned(device: str, nsid: int) -> IdZoned:
    """Identify a zoned namespace; a conventional one raises Refused."""
    argv = [PROGRAM, "zns", "id-ns", device, f"--namespace-id={nsid}", "--output-format=json"]
    return parse_zoned(ask(argv))


def create_argv(
    device: str, *, blocks: int, format_: int, csi: int, resources: int | None
) -> list[str]:
    """Return the argument list that creates a namespace; ``resources`` are active zones.

    FLBAS has the bits of the format's index as ``parse_namespace`` reads them.
    Size and capacity are the same, also of a zoned namespace: the drive decides the capacity of its
    zones (NVMe Zoned Namespace Command Set, "Zone Capacity").
    """
    limits = [f"--rar={resources}", f"--ror={resources}"] if resources is not None else []
    return [
        PROGRAM,
        "create-ns",
        device,
        f"--nsze={blocks}",
        f"--ncap={blocks}",
        f"--flbas={format_ & 0xF | format_ >> 4 << 5}",
        f"--csi={csi}",
        *limits,
    ]


def divides() -> bool:
    """Whether this version can request a share of the active zones (``--rar``); 2.3 cannot."""
    done = proc.run([PROGRAM, "create-ns", "--help"], timeout=_TIMEOUT, check=False)
    return "--rar" in done.stdout + done.stderr


def create(argv: list[str]) -> int:
    """Run ``create_argv``; return the number of the new namespace."""
    done = _do(argv)
    match = _CREATED.search(done.stdout)
    if match is None:
        raise ToolFailed(
            f"nvme create-ns printed {done.stdout.strip()[:80]!r}", hint=" ".join(argv)
        )
    return int(match[1])


def delete(device: str, nsid: int) -> None:
    """Delete a namespace and everything on it."""
    _do([PROGRAM, "delete-ns", device, f"--namespace-id={nsid}"])


def attach(device: str, nsid: int, controller: int) -> None:
    """Attach a namespace to the controller."""
    _do([PROGRAM, "attach-ns", device, f"--namespace-id={nsid}", f"--controllers={controller}"])


def rescan(device: str) -> None:
    """Make the kernel scan for namespaces."""
    _do([PROGRAM, "ns-rescan", device])


def ask(argv: list[str]) -> Any:
    """Run a read-only command; return its JSON.

    Raises:
        HostError: nvme is not installed.
        Refused: the drive refused the command.
        ToolFailed: the output is not JSON.
    """
    done = _do(argv, timeout=_TIMEOUT)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise ToolFailed(
            f"{' '.join(argv)} printed no JSON: {done.stdout.strip()[:80]!r}",
            code="output-malformed",
        ) from None


def parse_controller(data: Any) -> ControllerFacts:
    """Read ``id-ctrl``; raises ToolFailed when a field is missing."""
    return ControllerFacts(
        serial=_field(data, "sn", str).strip(),
        model=_field(data, "mn", str).strip(),
        number=_number(data, "cntlid"),
        manages_namespaces=bool(_number(data, "oacs") & _OACS_NAMESPACES),
        total=Bytes(_number(data, "tnvmcap")),
        most_namespaces=_number(data, "nn"),
    )


def parse_numbers(data: Any, entries: str, name: str) -> tuple[int, ...]:
    """Parse ``list-ns`` or ``list-ctrl``; newer versions omit an empty list."""
    return tuple(sorted(_number(entry, name) for entry in _field(data, entries, list, [])))


def parse_namespace(data: Any) -> IdNamespace:
    """Parse ``id-ns``; FLBAS has the index of the format in bits 3:0, its upper bits in 6:5."""
    entries = _field(data, "lbafs", list)
    if not entries:
        raise _missing("lbafs")
    formats = tuple(
        Format(index, 1 << _number(entry, "ds"), _number(entry, "ms"))
        for index, entry in enumerate(entries)
        if _number(entry, "ds")
    )
    flbas = _number(data, "flbas")
    chosen = flbas & 0xF | (flbas >> 5 & 0x3) << 4
    used = next((one for one in formats if one.index == chosen), Format(chosen, 0, 0))
    return IdNamespace(
        size=Bytes(_number(data, "nsze") * used.data),
        allocated=Bytes(_number(data, "nvmcap")),
        block=used.data if _number(data, "nsze") else 0,
        metadata=used.metadata,
        format=chosen,
        formats=formats,
        names=(str(data.get("eui64") or ""), str(data.get("nguid") or "")),
    )


def parse_zoned(data: Any) -> IdZoned:
    """Parse ``zns id-ns``; MAR is zero-based, and all bits set mean no limit."""
    return IdZoned(
        most_active=(_number(data, "mar") + 1) & COMMON,
        zone_blocks=tuple(_number(entry, "zsze") for entry in _field(data, "lbafe", list)),
    )


def _do(argv: list[str], timeout: float = _SLOW) -> proc.Completed:
    done = proc.run(argv, timeout=timeout, check=False)
    if done.ok:
        return done
    lines = [*done.stderr.strip().splitlines(), _json_error(done.stdout), "no reason given"]
    match = _STATUS.search(done.stderr)
    text = f"{match['text']} ({match['code']})" if match else next(line for line in lines if line)
    hint = f"the command was: {' '.join(argv)}"
    if "unrecognized option" in done.stderr:
        hint = "this nvme-cli is too old for the command; " + hint
    raise Refused(f"nvme {argv[1]}: {text}", hint=hint)


def _json_error(stdout: str) -> str:
    """Return the error that nvme-cli 2.13 prints as JSON with ``--output-format=json``."""
    try:
        return str(json.loads(stdout).get("error", ""))
    except (ValueError, AttributeError):
        return ""


def _field(data: Any, name: str, kind: type[T], default: T | None = None) -> T:
    value = data.get(name, default) if isinstance(data, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _missing(name)
    return value


def _number(data: Any, name: str) -> int:
    if isinstance(data, dict) and str(data.get(name)).isdigit():  # some versions print texts
        return int(data[name])
    return _field(data, name, int)


def _missing(name: str) -> ToolFailed:
    return ToolFailed(f"nvme printed no {name}", code="output-malformed")
