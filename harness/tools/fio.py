"""fio, the I/O tester: its command line and the parser of ``--output-format=json+``.

Times are in microseconds unless a name has another unit. One job is a job section of fio, or a
group of equal clones (``numjobs`` with ``group_reporting``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import HostError, ToolFailed
from harness.store.spec import Scalar
from harness.tools import histogram, proc
from harness.tools.histogram import Histogram
from harness.tools.native import whole

PROGRAM = "fio"
# The first release in which a trim resets zones, and zone limits count closed zones.
OLDEST = (3, 30)

# Codes of the parser's errors for which rules have their own issue.
FAULTS = frozenset({"fio-incomplete", "fio-mixed", "fio-error", "fio-version"})

DIRECTIONS = ("read", "write", "trim")
# fio's latencies: of submission, of completion, and of both together.
LATENCIES = ("slat", "clat", "lat")

_VERSION = re.compile(r"^fio-(\d+)\.(\d+)")
_SIZE = re.compile(r"^(\d+)(?:([kmgtp])(i?b?)|b)?$", re.IGNORECASE)
_POWERS = {unit: power for power, unit in enumerate("kmgtp", start=1)}
# fio's default of the option kb_base.
KB_BASE = 1024
# Kinds of access with one direction; all others mix directions.
_ONE_WAY = {
    "read": "read",
    "randread": "read",
    "write": "write",
    "randwrite": "write",
    "trim": "trim",
    "randtrim": "trim",
}
# stat.h: a histogram has 64 buckets in each power of two (FIO_IO_U_PLAT_BITS).
_BITS = 6
_NS_PER_US = 1000
_MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class FioLatency:
    """One kind of latency. ``histogram`` is null if fio counted no buckets for it."""

    count: int
    maximum: float
    mean: float
    percentiles: Mapping[float, float]  # by percent; {} if fio computed none
    histogram: Histogram | None


@dataclass(frozen=True, slots=True)
class FioDirection:
    """Reads, writes or trims of a job. Rates are fio's own, over its own time."""

    bytes: int
    commands: int
    seconds: float
    commands_per_second: float
    short: int  # commands that moved fewer bytes than requested
    dropped: int
    latencies: Mapping[str, FioLatency]  # by name in LATENCIES; only kinds with samples


@dataclass(frozen=True, slots=True)
class FioJob:
    """A job, or a group of equal clones. ``directions`` has the directions with a command.

    ``groupid`` rises at each ``stonewall`` and ``new_group``. ``seconds`` end with the last command
    of the slowest clone. ``clone_seconds`` add up the times of all clones, as fio's ``job_runtime``
    does.
    """

    name: str
    groupid: int
    options: Mapping[str, str]  # the job's own and the global ones, as given
    seconds: float
    clone_seconds: float
    directions: Mapping[str, FioDirection]


@dataclass(frozen=True, slots=True)
class FioOutput:
    """A complete output of fio. ``notes`` are the lines that it printed around the JSON."""

    version: str
    epoch: int  # seconds since the epoch at the end
    jobs: tuple[FioJob, ...]
    notes: tuple[str, ...]


def find() -> Path:
    """Return fio's file; HostError: it is not installed."""
    path = proc.which(PROGRAM)
    if path is None:
        raise HostError("fio is not installed", hint="apt-get install fio", code="program-missing")
    return path


@cache
def version(program: Path) -> str:
    """Return the output of ``fio --version``, such as fio-3.39.

    Raises:
        HostError: it is older than OLDEST.
        ToolFailed: it is not a version of fio.
    """
    printed = proc.run([str(program), "--version"]).stdout.strip()
    try:
        check_version(printed)
    except ToolFailed as error:
        if error.code != "fio-version":
            raise
        raise HostError(error.message, hint=error.hint, code=error.code) from None
    return printed


def check_version(printed: str, oldest: tuple[int, int] = OLDEST) -> None:
    """Refuse older releases (ToolFailed)."""
    found = _VERSION.match(printed)
    if found is None:
        raise _malformed(f"{printed[:60]!r} is not a version of fio")
    if (int(found[1]), int(found[2])) < oldest:
        raise ToolFailed(
            f"{printed} is too old: zonelab needs fio {oldest[0]}.{oldest[1]} or newer",
            hint="use the fio of Debian 12 or newer",
            code="fio-version",
        )


def argv(program: Path, name: str, options: Mapping[str, Scalar]) -> list[str]:
    """Return the argument list; ``options`` have fio's names, in order.

    If there are several jobs, an option of one job is ``job.option``; others apply to all jobs.
    Every option has a value, even flags: without one, fio leaves it out of its JSON.
    """
    several = any(map(_dotted, options))
    common = [flag(*one) for one in options.items() if several and not _dotted(one[0])]
    found = [str(program), "--output-format=json+", *common]
    for job, given in sections(name, options).items():
        found += [f"--name={job}", *(flag(*one) for one in given.items())]
    return found


def sections(name: str, options: Mapping[str, Scalar]) -> dict[str, dict[str, Scalar]]:
    """Return each job's own options, without the common ones; a single job is named ``name``."""
    found: dict[str, dict[str, Scalar]] = {}
    for key, value in options.items():
        if _dotted(key):
            job, _, option = key.rpartition(".")
            found.setdefault(job, {})[option] = value
    return found or {name: {**options}}


def _dotted(key: str) -> bool:
    return "." in key


def flag(name: str, value: Scalar) -> str:
    """Return the argument that sets an option; booleans are 0 and 1."""
    return f"--{name}={int(value) if isinstance(value, bool) else value}"


def size(text: str, kb_base: int | str = KB_BASE) -> int:
    """Return the bytes of a size as fio reads it: 4096, 4k, 4Ki, 1m.

    ``kb_base`` is fio's option, 1024 or 1000. It is the base of k, kb and ki; KiB has the other
    base (parse.c), so 4KiB is 4000 by default.

    Raises:
        ValueError: it is not a single size, for example a range.
    """
    found = _SIZE.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not a size")
    if found[2] is None:
        return int(found[1])
    base = int(kb_base)
    if found[3].lower() == "ib":
        base = 1000 if base == KB_BASE else KB_BASE
    unit: int = base ** _POWERS[found[2].lower()]
    return int(found[1]) * unit


def parse(text: str, *, oldest: tuple[int, int] = OLDEST) -> FioOutput | None:
    """Parse the output of fio; None without JSON, because fio failed before its jobs began.

    ``oldest``: imported files can come from older releases than those that zonelab runs.

    Raises:
        ToolFailed: with code ``fio-version``: too old; ``fio-incomplete``: cut off, or several
            outputs; ``fio-error``: a job failed; ``fio-mixed``: a group has jobs of different
            kinds; ``output-malformed``: anything else that fio does not print.
    """
    before, found, rest = _split(text)
    if not found:
        return None
    try:
        document, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        raise _incomplete("it ends inside the JSON") from None
    after = rest[end:].strip()
    if any(line.strip() == "{" for line in after.splitlines()):
        raise _incomplete("it has several outputs, as --status-interval prints them")
    try:
        check_version(str(document["fio version"]), oldest)
        common = document.get("global options", {})
        jobs = tuple(_job(one, common) for one in document["jobs"])
        read = FioOutput(
            version=str(document["fio version"]),
            epoch=whole(document["timestamp"]),
            jobs=jobs,
            notes=tuple(line for line in (*before, *after.splitlines()) if line.strip()),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _malformed(f"{type(error).__name__} {error}") from None
    if not jobs:
        raise _incomplete("it has no job")
    return read


def _split(text: str) -> tuple[list[str], bool, str]:
    """Return the lines before the JSON, whether there is JSON, and the text from there on."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if line.startswith("{"):
            return lines[:at], True, "".join(lines[at:])
    return lines, False, ""


def _job(job: Mapping[str, Any], common: Mapping[str, str]) -> FioJob:
    name, error = str(job["jobname"]), whole(job["error"])
    own = {str(key): str(value) for key, value in job.get("job options", {}).items()}
    if error:
        raise _failed(name, error)
    directions = {
        way: _direction(job[way]) for way in DIRECTIONS if whole(job[way]["total_ios"]) > 0
    }
    options = {**common, **own}
    _check_kind(name, options, directions)
    return FioJob(
        name=name,
        groupid=whole(job["groupid"]),
        options=options,
        seconds=max((way.seconds for way in directions.values()), default=0.0),
        clone_seconds=whole(job["job_runtime"]) / _MS_PER_S,
        directions=directions,
    )


def _check_kind(
    name: str, options: Mapping[str, str], directions: Mapping[str, FioDirection]
) -> None:
    """Refuse a group of different jobs: fio adds up their numbers, but shows the options of one."""
    if options.get("name", name) != name:
        raise _mixed(name, f"it also has the job {options['name']}")
    way = _ONE_WAY.get(options.get("rw", options.get("readwrite", "")))
    others = [other for other in directions if way is not None and other != way]
    if others:
        raise _mixed(name, f"rw={options.get('rw', options.get('readwrite'))} has a {others[0]}")
    try:
        base = options.get("kb_base", KB_BASE)
        block = size(options.get("bs", options.get("blocksize", "")), base)
    except ValueError:
        return  # a range, or one size for each direction
    for direction, done in directions.items():
        if not done.short and done.bytes != done.commands * block:
            raise _mixed(name, f"{done.commands} {direction}s of {block} B are not {done.bytes} B")


def _direction(found: Mapping[str, Any]) -> FioDirection:
    kinds = {kind: found[f"{kind}_ns"] for kind in LATENCIES if f"{kind}_ns" in found}
    return FioDirection(
        bytes=whole(found["io_bytes"]),
        commands=whole(found["total_ios"]),
        seconds=whole(found["runtime"]) / _MS_PER_S,
        commands_per_second=float(found["iops"]),
        short=whole(found["short_ios"]),
        dropped=whole(found["drop_ios"]),
        latencies={kind: _latency(times) for kind, times in kinds.items() if times.get("N", 1) > 0},
    )


def _latency(times: Mapping[str, Any]) -> FioLatency:
    bins = {whole(int(value)): whole(count) for value, count in times.get("bins", {}).items()}
    counted = whole(times.get("N", sum(bins.values())))
    mean, low, high = (float(times[name]) / _NS_PER_US for name in ("mean", "min", "max"))
    kept = None
    if bins:
        if sum(bins.values()) != counted:
            raise _malformed(f"a histogram has {sum(bins.values())} of {counted} samples")
        kept = histogram.make(counted, mean * counted, low, high, buckets(bins))
    return FioLatency(
        count=counted,
        maximum=high,
        mean=mean,
        percentiles={
            float(percent): value / _NS_PER_US
            for percent, value in times.get("percentile", {}).items()
        },
        histogram=kept,
    )


def buckets(bins: Mapping[int, int]) -> list[list[float]]:
    """Return fio's buckets as [low, high, count] in microseconds, sorted.

    ``bins`` counts samples by the middle of their bucket in nanoseconds (plat_idx_to_val, stat.c).
    A bucket of fio begins with a whole nanosecond; ours are intervals (low, high].
    """
    found = []
    for middle, count in sorted(bins.items()):
        # Up to 2**(_BITS + 1) each nanosecond has its bucket.
        shift = max(middle.bit_length() - 1 - _BITS, 0)
        first = middle >> shift << shift
        last = first + (1 << shift) - 1
        found.append([max(first - 1, 0) / _NS_PER_US, last / _NS_PER_US, count])
    return found


def total(jobs: Sequence[FioJob], direction: str) -> tuple[int, int]:
    """Return bytes and commands of all jobs in a direction."""
    found = [job.directions[direction] for job in jobs if direction in job.directions]
    return sum(one.bytes for one in found), sum(one.commands for one in found)


def _malformed(what: str) -> ToolFailed:
    return ToolFailed(
        f"fio's output is damaged: {what}",
        hint="fio writes it with --output-format=json+",
        code="output-malformed",
    )


def _incomplete(what: str) -> ToolFailed:
    return ToolFailed(
        f"fio's output is incomplete: {what}",
        hint="run fio again and keep its whole output",
        code="fio-incomplete",
    )


def _failed(name: str, error: int) -> ToolFailed:
    return ToolFailed(
        f"fio's job {name} ended with error {error} ({os.strerror(error)})",
        hint="see the raw output of the phase",
        code="fio-error",
    )


def _mixed(name: str, what: str) -> ToolFailed:
    return ToolFailed(
        f"fio's group {name} mixes jobs of different kinds: {what}",
        hint="leave out group_reporting, or give each kind its own group: new_group",
        code="fio-mixed",
    )
