"""Rules about fio on bare devices: traps that leave its output looking complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.rule import error, issue, rule
from harness.store.result import Issue
from harness.store.spec import Scalar
from harness.tools import fio
from harness.tools.fio import FioJob
from harness.workloads.fio import FioProgram, FioSummary
from harness.workloads.fio_phases import wanted_bytes


@rule(
    error(
        "fio-ended-early",
        "fio moved fewer bytes than wanted, before its `runtime` was over",
        "its rates describe another state of the device",
    ),
    error(
        "fio-short",
        "fio had commands that moved fewer bytes than asked for, or dropped some",
        "the commands do not have the size that the phase measures",
    ),
    error(
        "zones-leaked",
        "zones are active after the phase that resets all zones of the sweeps",
        "later phases reach the limit of active zones early",
    ),
)
def whole(run: RunFacts) -> Iterator[Issue]:
    """Phases of fio do all that they are asked for, and sweeps begin without active zones."""
    for phase in run.phases:
        if phase.spec.program != FioProgram.name:
            continue
        summary = phase.parsed.summary if phase.parsed else None
        if isinstance(summary, FioSummary):
            yield from _commands(phase, summary)
        active = phase.zones.active if phase.zones else 0
        if phase.spec.benchmark == "reset" and active:
            text = f"{active} zones are active after {phase.spec.name}"
            yield issue("zones-leaked", text, phase, expected=0, actual=active)


@rule(
    error(
        "fio-incomplete",
        "fio's output is cut off, or has no job or several outputs",
        "it was killed while it printed, or `--status-interval` prints interim numbers",
    ),
    error(
        "fio-mixed",
        "a group of fio's jobs has jobs of different kinds",
        "fio adds up their numbers, and shows the options of the last",
    ),
    error("fio-error", "a job of fio ended with an error", "its numbers cover a part of the phase"),
    error("fio-version", "fio is older than 3.30", "its trims reset no zones"),
)
def understood(run: RunFacts) -> Iterator[Issue]:
    """The output of fio is whole, of one kind and without an error."""
    for phase in run.phases:
        if phase.parse_code in fio.FAULTS:
            yield issue(phase.parse_code, phase.parse_error, phase)


def _commands(phase: PhaseFacts, summary: FioSummary) -> Iterator[Issue]:
    jobs = fio.sections(phase.spec.name, phase.spec.flags)
    for name, flags in jobs.items():
        # A phase of one job has one section, whatever its name.
        own = [job for job in summary.output.jobs if job.name == name or len(jobs) == 1]
        yield from _early(phase, name, flags, own)
    done = [way for job in summary.output.jobs for way in job.directions.values()]
    odd = sum(way.short + way.dropped for way in done)
    if odd:
        text = f"{phase.spec.name} has {odd} short or dropped commands"
        yield issue("fio-short", text, phase, expected=0, actual=odd)


def _early(
    phase: PhaseFacts, name: str, flags: Mapping[str, Scalar], jobs: Sequence[FioJob]
) -> Iterator[Issue]:
    moved = sum(way.bytes for job in jobs for way in job.directions.values())
    seconds = sum(job.clone_seconds for job in jobs) / int(flags.get("numjobs", 1))
    # A job without a limit of bytes must move at least one byte.
    wanted, runtime = wanted_bytes(flags) or 1, float(flags.get("runtime", 0))
    if moved < wanted and not 0 < runtime <= seconds:
        yield issue(
            "fio-ended-early",
            f"{name} moved {moved} of {wanted} B in {seconds:.1f} s",
            phase,
            expected=wanted,
            actual=moved,
        )
