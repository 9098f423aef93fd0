"""fio: sweeps of block commands to a bare device. It uses no database."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.errors import ConfigError, ToolFailed
from harness.levels.level import LevelUp
from harness.store.spec import Device, PhaseSpec, Scalar
from harness.tools import fio, histogram
from harness.tools.fio import FioJob, FioOutput
from harness.tools.histogram import Histogram
from harness.workloads import fio_phases
from harness.workloads.fio_phases import ZBD
from harness.workloads.fio_sweeps import RAMP, RESERVED, Fio
from harness.workloads.load_program import (
    BareCounts,
    Invocation,
    LoadProgram,
    Parsed,
    ProgramReport,
    Rows,
)
from harness.workloads.planning import BareWork, refuse_flags


@dataclass(frozen=True, slots=True)
class FioSummary:
    """Operations of a phase in all directions; ``seconds`` are those of its slowest job."""

    operations: int
    seconds: float
    output: FioOutput


class FioProgram(LoadProgram):
    """The distribution's fio."""

    name: ClassVar[str] = fio.PROGRAM
    field: ClassVar[str] = "fio"
    work: ClassVar[Any] = Fio
    reserved: ClassVar[frozenset[str]] = frozenset({"name", "filename", "randseed", "output"})
    packages: ClassVar[tuple[str, ...]] = ("fio",)
    uses_database: ClassVar[bool] = False
    file_schema: ClassVar[str] = "fio-workload"
    factors: ClassVar[tuple[str, ...]] = ("ioengine", "bytes", "runtime", "ramp", "region")
    seed_flag: ClassVar[str] = "randseed"

    def path(self, db_bench: Path) -> Path:  # noqa: ARG002
        """Return fio; HostError: it is missing, or too old."""
        program = fio.find()
        fio.version(program)
        return program

    def check_host(self) -> None:
        """Refuse a host without fio, or with an old one (HostError)."""
        fio.version(fio.find())

    def report(self, up: LevelUp, csv: Path, stderr: Path) -> ProgramReport:  # noqa: ARG002
        """Return a report that fio never writes: it reports only at its end."""
        return ProgramReport(csv, {})

    def rows(self, report: Path) -> Rows:  # noqa: ARG002
        """Raise ToolFailed: there is no report."""
        raise ToolFailed("fio writes no report while it runs")

    def operations_in(self, line: str) -> int:  # noqa: ARG002
        """Return 0: there is no report."""
        return 0

    def flag(self, name: str, value: Scalar) -> str:
        """Return the argument that sets an option, of all jobs or of one."""
        return fio.flag(name.rpartition(".")[2], value)

    def given(self, argv: Sequence[str]) -> dict[str, str]:
        """Return the arguments by option, and by ``job.option`` behind a job's name."""
        found: dict[str, str] = {}
        job = ""
        for argument in argv:
            option, _, value = argument.removeprefix("--").partition("=")
            job = value if option == "name" else job
            found |= {option: argument, f"{job}.{option}": argument}
        return found

    def argv(self, call: Invocation) -> list[str]:
        """Return the argument list.

        Raises:
            ConfigError: the workload sets a reserved option, or the level has files.
        """
        spec, up = call.spec, call.up
        refuse_flags(spec.name, spec.flags, self.reserved)
        if up.db is not None or up.fs_uri is not None:
            raise ConfigError(
                f"phase {spec.name} needs a bare device",
                hint="levels: [raw-device, raw-conventional]",
                code="level-and-workload",
            )
        own: dict[str, Scalar] = {"filename": up.devices[0].path, self.seed_flag: call.seed}
        return fio.argv(call.program, spec.name, own | {**spec.flags})

    def failure(self, signal: int | None, output: str) -> str:
        """Return how fio failed: killed, before any job began, without space, or in a job."""
        if signal is not None:
            return "fio-killed"
        if not any(line.startswith("{") for line in output.splitlines()):
            return "fio-refused"  # without output no job began: an option is wrong
        return "no-space" if os.strerror(errno.ENOSPC) in output else "fio-error"

    def parse(self, phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:  # noqa: ARG002
        """Read a phase's output. A phase that began no job has no summary and raises nothing.

        Raises:
            ToolFailed: the output is damaged, a job failed, or a direction has no total latency.
        """
        output = fio.parse(stdout)
        if output is None:
            return Parsed(None, 0)
        written, writes = fio.total(output.jobs, "write")
        read, reads = fio.total(output.jobs, "read")
        _, trims = fio.total(output.jobs, "trim")
        resets = trims if phase.flags.get("zonemode") == ZBD else 0
        summary = FioSummary(
            operations=reads + writes + trims,
            seconds=max((job.seconds for job in output.jobs), default=0.0),
            output=output,
        )
        return Parsed(
            summary=summary,
            summaries=1,
            histograms=_histograms(output.jobs),
            warnings=output.notes,
            user_bytes=written,
            counts=BareCounts(written, writes, read, reads, resets),
        )

    def plan_bare(self, work: Fio, device: Device) -> BareWork:
        """Return the phases for a device.

        Raises:
            ConfigError: no sweep is for this kind of device, or one does not fit it.
        """
        return fio_phases.plan(work, device)

    def ordered(self, phases: Sequence[PhaseSpec], seed: int) -> tuple[PhaseSpec, ...]:
        """Return the phases in random order; each follows the phases that prepare it."""
        # A seeded generator, so that the same study always gives the same plan.
        generator = random.Random(f"{seed}/phases")  # noqa: S311
        units = list(_units(phases))
        generator.shuffle(units)
        found: list[PhaseSpec] = []
        for prepared, points in units:
            generator.shuffle(points)
            found += [*prepared, *(phase for point in points for phase in point)]
        return tuple(found)


def _units(
    phases: Sequence[PhaseSpec],
) -> Iterator[tuple[list[PhaseSpec], list[list[PhaseSpec]]]]:
    """Yield groups that stay together: preparing phases, the points after them, and ramps."""
    prepared: list[PhaseSpec] = []
    points: list[list[PhaseSpec]] = []
    ramp: list[PhaseSpec] = []
    for phase in phases:
        if phase.benchmark == RAMP:
            ramp = [phase]
        elif phase.benchmark not in RESERVED:
            points.append([*ramp, phase])
            ramp = []
        else:
            if points:
                yield prepared, points
                prepared, points = [], []
            prepared.append(phase)
    if points:
        yield prepared, points


def _histograms(jobs: Sequence[FioJob]) -> dict[str, Histogram]:
    """Return the histogram of each direction, from submission to completion.

    Raises:
        ToolFailed: fio did not keep one; a latency of completion only is not comparable.
    """
    found = {}
    for way in ("read", "write"):
        done = [job.directions[way] for job in jobs if way in job.directions]
        kept = [one.latencies["lat"].histogram for one in done if "lat" in one.latencies]
        if len(kept) != len(done) or None in kept:
            raise ToolFailed(
                f"fio kept no histogram of lat for its {way}s",
                hint="lat_percentiles=1 and --output-format=json+",
                code="output-malformed",
            )
        merged = histogram.merge(one for one in kept if one is not None)
        if merged is not None:
            found[way] = merged
    return found
