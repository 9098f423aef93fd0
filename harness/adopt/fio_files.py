"""Published output files of fio: what each of them measured, and how their options differ."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from harness.errors import UsageError, ZonelabError
from harness.run import imported
from harness.tools import fio
from harness.tools.fio import FioJob, FioOutput

# Options by their other names.
_ALIASES = {"readwrite": "rw", "blocksize": "bs", "blocksize_range": "bsrange"}
_DEFAULTS = {"rw": "read", "bs": "4096", "iodepth": "1", "numjobs": "1"}
# Options that a figure varies, and names.
_AXES = frozenset({"name", "rw", "bs", "iodepth", "numjobs", "rate", "output", "randseed"})
# Options that may differ between repetitions of one measurement.
_NAMES = frozenset({"name", "output", "randseed"})
# With these, fio waits for each command: the depth is 1 whatever iodepth is.
_WAITING = frozenset({"psync", "sync", "vsync", "pvsync", "pvsync2", "mmap"})
# With these, the commands of a job have several sizes.
_SIZES = ("bsrange", "bssplit")
# Jobs of a file are added up, so they run at the same time and are equal in these.
_EQUAL = ("rw", "bs", *_SIZES, "iodepth", "numjobs", "filename")
_NOT_SET = "not set"
_MOST_VALUES = 4
# A run that moves all its bytes can end before its runtime.
_COMPLETE_SHARE = 0.95
_TIME = re.compile(r"(\d+)(ms|s|m|h|)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class AdoptedFile:
    """A file of fio. ``path`` is relative to the folder; ``options`` are those of all its jobs.

    ``scheduler`` is '' where the user declared none: fio does not record it.
    """

    path: Path
    text: str
    output: FioOutput
    options: Mapping[str, str]
    scheduler: str
    overwrites: bool

    @property
    def device(self) -> str:
        """The name of the device in fio's ``filename``."""
        return Path(self.options.get("filename", "")).name

    @property
    def label(self) -> str:
        """The device, and the scheduler if one is declared."""
        return " ".join(filter(None, (self.device, self.scheduler)))

    @property
    def zoned(self) -> bool:
        """Whether fio treated the device as zoned."""
        return self.options.get("zonemode") == "zbd"

    @property
    def operation(self) -> str:
        """The kind of access."""
        return f"over{self.options['rw']}" if self.overwrites else self.options["rw"]

    @property
    def bs(self) -> int:
        """Bytes of a command."""
        return fio.size(self.options["bs"], self.options.get("kb_base", fio.KB_BASE))

    @property
    def iodepth(self) -> int:
        """Commands in flight of each job."""
        waits = self.options.get("ioengine", "psync") in _WAITING
        return 1 if waits else int(self.options["iodepth"])

    @property
    def jobs(self) -> int:
        """Number of jobs; without group_reporting each has its numbers."""
        return max(int(self.options["numjobs"]), len(self.output.jobs))

    @property
    def setting(self) -> tuple[tuple[str, str], ...]:
        """Everything that makes two files repetitions of each other."""
        own = {key: value for key, value in self.options.items() if key not in _NAMES}
        return tuple(sorted({**own, "overwrites": str(self.overwrites)}.items()))

    @property
    def ended_early(self) -> tuple[float, float] | None:
        """Return seconds and the wanted runtime of a run that ended before it; else None."""
        found = _TIME.fullmatch(self.options.get("runtime", ""))
        if found is None:
            return None
        wanted = int(found[1]) * _SECONDS[found[2]]
        done = [way.seconds for job in self.output.jobs for way in job.directions.values()]
        spent = max(done, default=0.0)
        return (spent, wanted) if spent < _COMPLETE_SHARE * wanted else None


@dataclass(frozen=True, slots=True)
class OptionDifference:
    """An option that differs between the files of one folder and device."""

    folder: str
    device: str
    option: str
    files: Mapping[str, int]  # value → number of files

    @property
    def text(self) -> str:
        """The difference for people."""
        parts = [f"{value} in {count}" for value, count in self.files.items()]
        more = len(parts) - _MOST_VALUES
        shown = [*parts[:_MOST_VALUES], *([f"{more} more values"] if more > 0 else [])]
        return f"{self.folder}, {self.device}: {self.option} is {', '.join(shown)} files"


def read(
    folder: Path,
    *,
    skip: Sequence[str] = (),
    schedulers: Sequence[tuple[str, str]] = (),
    overwrites: Sequence[str] = (),
) -> list[AdoptedFile]:
    """Read all ``*.json`` below a folder, sorted by path.

    Args:
        folder: of any layout.
        skip: patterns of relative paths to leave out.
        schedulers: pattern and I/O scheduler.
        overwrites: patterns of files whose writes overwrite data.

    Raises:
        UsageError: there is no such file, or one of them cannot be adopted.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name a folder with JSON files of fio")
    paths = [path.relative_to(folder) for path in folder.rglob("*.json") if path.is_file()]
    left = sorted(path for path in paths if not _matches(path, skip))
    if not left:
        raise UsageError(
            f"{folder} has no *.json" + (" that is not skipped" if paths else ""),
            hint="fio writes them with --output-format=json --output=FILE.json",
        )
    for pattern, _ in schedulers:
        _require_match(left, "--scheduler", pattern)
    for pattern in overwrites:
        _require_match(left, "--overwrites", pattern)
    return [
        _file(folder, path, _scheduler(path, schedulers), overwrites=_matches(path, overwrites))
        for path in left
    ]


def differences(files: Sequence[AdoptedFile]) -> list[OptionDifference]:
    """Return the options, besides a sweep's axes, that differ within a folder and device."""
    groups: dict[tuple[str, str], list[AdoptedFile]] = defaultdict(list)
    for file in files:
        groups[str(file.path.parent), file.label].append(file)
    found = []
    for (folder, device), own in groups.items():
        for option in sorted({key for file in own for key in file.options} - _AXES):
            counts = Counter(file.options.get(option, _NOT_SET) for file in own)
            if len(counts) > 1:
                found.append(OptionDifference(folder, device, option, dict(counts.most_common())))
    return found


def _file(folder: Path, path: Path, scheduler: str, *, overwrites: bool) -> AdoptedFile:
    try:
        text = (folder / path).read_text(encoding="utf-8")
        output = imported.read(text)
    except UnicodeDecodeError:
        raise _refused(path, "it is not UTF-8 text") from None
    except ZonelabError as error:
        raise _refused(path, error.message) from None
    jobs = [_options(job) for job in output.jobs]
    if unequal := [key for key in _EQUAL if len({one.get(key) for one in jobs}) > 1]:
        raise _refused(path, f"its jobs differ in {', '.join(unequal)}")
    if len({job.groupid for job in output.jobs}) > 1:
        raise _refused(path, "its jobs are several groups, which can run one after another")
    for name in _SIZES:
        if name in jobs[0]:
            raise _refused(path, f"{name} is {jobs[0][name]!r}, not one number")
    file = AdoptedFile(path, text, output, jobs[0], scheduler, overwrites)
    for name, number in _numbers(file):
        try:
            number()
        except ValueError:
            raise _refused(path, f"{name} is {jobs[0][name]!r}, not one number") from None
    if overwrites and "write" not in file.options["rw"]:
        raise _refused(path, f"--overwrites matches it, and it does {file.options['rw']}")
    return file


def _numbers(file: AdoptedFile) -> Iterator[tuple[str, Callable[[], int]]]:
    yield "bs", lambda: file.bs
    yield "iodepth", lambda: file.iodepth
    yield "numjobs", lambda: file.jobs


def _options(job: FioJob) -> dict[str, str]:
    given = {_ALIASES.get(key, key): value for key, value in job.options.items()}
    return _DEFAULTS | given


def _scheduler(path: Path, schedulers: Sequence[tuple[str, str]]) -> str:
    found = {name for pattern, name in schedulers if _matches(path, [pattern])}
    if len(found) > 1:
        raise UsageError(
            f"--scheduler: {path} matches {' and '.join(sorted(found))}",
            hint="change the patterns: each file has one scheduler",
        )
    return found.pop() if found else ""


def _matches(path: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(str(path), pattern) for pattern in patterns)


def _require_match(paths: Sequence[Path], option: str, pattern: str) -> None:
    if not any(_matches(path, [pattern]) for path in paths):
        raise UsageError(
            f"{option}: no file matches {pattern!r}",
            hint=f"paths are relative to the folder, such as {paths[0]}",
        )


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path}: {why}", hint=f"leave it out with --skip '{path}'", code="adopt-file"
    )
