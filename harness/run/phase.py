"""One phase: its program between two barriers, and the facts collected about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.cleanup import first_of
from harness.errors import TimedOut, ZonelabError
from harness.nulls import difference
from harness.observe.threads import ThreadUse, ThreadWatch
from harness.rules.facts import PhaseFacts
from harness.run import barrier, phase_facts, phase_files
from harness.run.asker import Asker
from harness.run.context import RunContext
from harness.run.ledger import BarrierSnapshot
from harness.run.load_process import ProgramExit, run_program
from harness.run.progress import ReadShare
from harness.run.stall import PhaseProgress, stall_limit, time_limit
from harness.run.tenant import RunningTenant
from harness.store.codec import encode
from harness.store.result import PhaseResult
from harness.store.spec import PhaseRole, PhaseSpec, Reason, RunSpec
from harness.workloads import load_program, program_of
from harness.workloads.load_program import messages, text

_SEED_STEP = 100
# Seeds of blocks are 10,000 apart, and a study has at most 99 blocks.
_IN_BLOCK = 100
_BEYOND_BLOCKS = 1_000_000
# As RocksDB and the C library print it. RocksDB waits for ever if a compaction has no room.
_FULL = ("No space left", "NoSpace", "ENOSPC", "Compaction too large")
_MIB = 2**20


class Infeasible(Exception):
    """Raised if the level cannot reach the wanted state; the run is skipped."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU use of the program and of the harness, null without cgroups, and of the whole machine.

    Instructions are null too without a performance counter for them. ``threads`` are the program's,
    by name; empty if it ended before the first look.
    """

    load_seconds: float | None
    harness_seconds: float | None
    load_instructions: float | None
    # Of all CPUs, also of the kernel and of other programs; null if several tenants run.
    busy_seconds: float | None = None
    threads: Mapping[str, ThreadUse] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedPhase:
    """A phase's program: its argument list and the files for its output."""

    spec: PhaseSpec
    argv: tuple[str, ...]
    report: load_program.ProgramReport
    stdout: Path
    stderr: Path


@dataclass(frozen=True, slots=True)
class PhaseExecution:
    """How a phase's program ran.

    ``offset`` is its start on the time axis of the run. ``shift`` turns seconds since the epoch
    into seconds on that axis.
    """

    exit: ProgramExit
    cpu: CpuUse
    started: str
    offset: float
    shift: float


def seed(base_seed: int, phases: Sequence[PhaseSpec], phase: PhaseSpec) -> int:
    """Return a phase's seed. With equal seeds, overwrite would repeat the key order of the fill.

    db_bench adds the thread number to it, so phases are 100 apart (and blocks 10,000). Phases
    beyond the 100th have seeds above those of all blocks.
    """
    beyond, within = divmod(phases.index(phase), _IN_BLOCK)
    return base_seed + _SEED_STEP * within + _BEYOND_BLOCKS * beyond


def prepare(context: RunContext, tenant: RunningTenant, spec: PhaseSpec) -> PreparedPhase:
    """Return the command of a tenant's next phase."""
    running = tenant.running
    raw = running.writer.path / "raw"
    stderr = raw / f"{spec.name}.stderr"
    load = program_of(spec)
    report = load.report(running.up, raw / f"{spec.name}.report.csv", stderr)
    call = load_program.Invocation(
        spec,
        running.up,
        seed(tenant.seed, tenant.phases, spec),
        first=not tenant.facts,
        program=load.path(running.up.program or context.program),
        report=report,
        key_seed=tenant.seed,
    )
    return PreparedPhase(spec, tuple(load.argv(call)), report, raw / f"{spec.name}.stdout", stderr)


def execute(
    context: RunContext,
    tenant: RunningTenant,
    spec: PhaseSpec,
    *,
    seconds_left: float,
    tick: Callable[[ReadShare], None],
    tick_seconds: float,
) -> PhaseFacts:
    """Run a phase's program once, with a tick at each interval; add the phase to the tenant."""
    running, host = tenant.running, context.host
    prepared = prepare(context, tenant, spec)
    started, offset = host.now(), host.monotonic() - running.began
    shift = offset - host.realtime()
    progress = PhaseProgress(prepared.report.path, prepared.stdout, spec)
    questions = running.level.questions(running.up) if spec.role is PhaseRole.MEASURED else ()
    # Not at the barriers: CPU time of the harness between phases does not disturb a program.
    before = _cpu(context)
    threads = ThreadWatch(host.proc)

    def begin(process: int) -> None:
        context.cgroups.enter_load(process)
        threads.begin(process)

    with Asker(questions, running.writer.path, clock=host.monotonic, began=running.began) as asker:

        def on_tick(seconds: float) -> None:
            asker.tick()
            threads.look()
            tick(lambda: progress.share(seconds))

        exited = run_program(
            prepared.argv,
            env=running.up.environment,
            stdout=prepared.stdout,
            stderr=prepared.stderr,
            timeout=min(time_limit(spec), seconds_left),
            started=begin,
            tick=on_tick,
            tick_seconds=tick_seconds,
            stalled=progress.stalled,
            clock=host.monotonic,
        )
    cpu = replace(_since(before, _cpu(context)), threads=threads.use)
    execution = PhaseExecution(exited, cpu, started, offset, shift)
    try:
        return conclude(context, tenant, prepared, execution)
    except Exception as error:
        # After a program failed, the barrier can fail too.
        output = text(prepared.stdout) + "\n" + messages(prepared.stderr)
        first = None if exited.well else failure(spec, exited, output, "")
        raise first_of(first, error) from None


def conclude(
    context: RunContext, tenant: RunningTenant, prepared: PreparedPhase, execution: PhaseExecution
) -> PhaseFacts:
    """Take the barrier after a phase, store its files, and add it to the tenant."""
    running, spec, exited = tenant.running, prepared.spec, execution.exit
    before = tenant.snapshots[-1]
    after = barrier.take(context, running, spec.name, tenant.cold)
    writer = running.writer
    requests = phase_facts.requests(before.counters, after.counters)
    process = encode(exited) | encode(execution.cpu) | {"requests": requests}
    log_end = phase_files.keep_log(running, f"raw/{spec.name}.LOG.xz")
    facts = phase_facts.collect(
        spec,
        before,
        after,
        process,
        (text(prepared.stdout), messages(prepared.stderr)),
        log_end=lambda: log_end,
        read_log=lambda: phase_files.read_log(running.up.database_log),
    )
    writer.write(f"raw/{spec.name}.process.json", process)
    phase_files.write_series(writer, spec, prepared.report.path, execution.offset)
    phase_files.write_tree(writer, spec, facts.lsm, execution.shift)
    phase_files.keep_options(running, f"raw/{spec.name}.OPTIONS.xz")
    histogram = phase_files.write_histograms(writer, spec, facts)
    summary = facts.parsed.summary if facts.parsed else None
    result = PhaseResult(
        name=spec.name,
        benchmark=spec.benchmark,
        role=spec.role.value,
        argv=prepared.argv,
        started=execution.started,
        seconds=round(exited.seconds, 3),
        exit_code=exited.exit_code,
        signal=exited.signal,
        operations_requested=spec.operations,
        operations_done=summary.operations if summary else None,
        stdout=f"raw/{spec.name}.stdout",
        stderr=f"raw/{spec.name}.stderr",
        histogram=histogram,
    )
    tenant.facts.append(facts)
    tenant.results.append(result)
    tenant.snapshots.append(after)
    return facts


def failure(
    spec: PhaseSpec, ended: ProgramExit | PhaseFacts, output: str, log: str
) -> ZonelabError:
    """Return the error of a phase that failed; ``log`` is the end of RocksDB's LOG."""
    if ended.timed_out:
        return TimedOut(
            f"phase {spec.name} did not end within {time_limit(spec):.0f} s",
            hint="raise its timeout_seconds, or lower the number of operations",
            code="phase-timeout",
        )
    if ended.stalled:
        return TimedOut(
            f"phase {spec.name} made no progress for {stall_limit(spec):.0f} s"
            + _last_warning(log),
            hint="give the database more room, or raise the phase's stall_timeout",
            code="phase-stalled",
        )
    how = f"exit status {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
    lines = [line for line in output.splitlines() if line.strip()]
    return ZonelabError(
        f"{spec.program} ended with {how} in phase {spec.name}"
        + (f": {lines[-1].strip()[:200]}" if lines else ""),
        hint=f"see raw/{spec.name}.stderr",
        code=program_of(spec).failure(ended.signal, output),
    )


def full(spec: RunSpec, facts: PhaseFacts, after: BarrierSnapshot) -> Reason | None:
    """Return why this setting cannot hold the data; null if the phase failed for another reason."""
    output = facts.output + facts.database_log
    if not spec.trades_room or not any(word in output for word in _FULL):
        return None
    own = after.usage.own
    capacity = spec.device.capacity
    if own is None:
        spent = f"{(sum(after.allocated or ())) / _MIB:.0f} MiB are allocated"
    else:
        kinds = {"live": "live", "given up by finishing": "pad", "garbage": "garbage"}
        known = {words: own.space.get(kind, 0) for words, kind in kinds.items()}
        known["empty, reserved, being filled or metadata"] = capacity - sum(known.values())
        spent = " + ".join(f"{size / _MIB:.0f} MiB {words}" for words, size in known.items())
    return Reason(
        "infeasible",
        f"{spec.level} has no room left in phase {facts.spec.name}: {spent} of "
        f"{capacity / _MIB:.0f} MiB",
        "use a higher finish_occupancy_pct, which gives up less, or a lower target_utilisation",
    )


def _last_warning(log: str) -> str:
    """Return the last warning in RocksDB's LOG; most often it reports a full device."""
    lines = [line for line in log.splitlines() if "[WARN]" in line or "[ERROR]" in line]
    return f"; RocksDB: {lines[-1].split('] ', 2)[-1][:200]}" if lines else ""


def _cpu(context: RunContext) -> CpuUse:
    groups = context.cgroups
    return CpuUse(
        groups.load_seconds(),
        groups.harness_seconds(),
        groups.load_instructions(),
        context.host.busy_seconds(),
    )


def _since(before: CpuUse, after: CpuUse) -> CpuUse:
    return CpuUse(
        difference(before.load_seconds, after.load_seconds),
        difference(before.harness_seconds, after.harness_seconds),
        difference(before.load_instructions, after.load_instructions),
        difference(before.busy_seconds, after.busy_seconds),
    )
