"""Each validity rule fires on its own problem only (facts are synthetic)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import zn540
from harness.cli.main import main
from harness.levels.level import LevelUsage
from harness.observe.diskstats import DiskCounters
from harness.observe.tracing.zone_history import Traced
from harness.observe.zone_reports import ZoneCounts
from harness.plan import rate_caps
from harness.plan.workload_models import PhaseBase
from harness.rules import RULES, bandwidth, judge
from harness.rules.facts import PhaseFacts, RunFacts
from harness.run import phase_metrics
from harness.store.ledger import RUN, Closure, ClosureState, Ledger, LedgerEntry
from harness.store.observed import TenantFacts
from harness.store.result import Issue, Severity, Utilisation
from harness.store.spec import NATIVE, DeviceKind, MediaModel, PhaseRole, Reason, TracingMode
from harness.tools import db_bench
from harness.tools import fio as fio_tool
from harness.tools.db_bench import BenchmarkSummary
from harness.tools.direct_io import DirectIo
from harness.tools.rocksdb_log import CAUSES, Log, TableBytes
from harness.tools.rocksdb_stats import Statistics
from harness.workloads.db_bench import READ_TICKERS
from harness.workloads.fio import FioProgram
from harness.workloads.load_program import Parsed
from harness.workloads.rocksdb import Below
from tests.fixtures.run_facts import MIB, disk, parsed, plain, usage
from tests.runner.fakes import phase

ROOT = Path(__file__).parents[2]
SIZE = "target_file_size_base"
FIXTURES = ROOT / "tests" / "fixtures" / "db_bench"
BROKEN = Closure("kernel", "device", ClosureState.BROKEN, above=9, below=8, low=9, high=9)


# One write too few: the kernel counts ten (``disk``).
SEEN = Traced(
    zoned="nvme0n2",
    conventional=None,
    commands={("nvme0n2", "write", 0): 9},
    bytes={},
    finishes=0,
    pad={},
    problems=(),
    kernel_seconds=None,
)


def debug_build() -> Parsed:
    """What Debian's db_bench 9.10 printed: one warning, about its assertions."""
    file = FIXTURES / "9.10" / "overwrite.out"
    output = db_bench.parse(file.read_text(), "")
    assert len(output.warnings) == 1
    return parsed(warnings=output.warnings, assertions=output.assertions)


def fio(
    run: RunFacts,
    *,
    benchmark: str = "randwrite",
    wanted: int = 4000,
    short: int = 0,
    dropped: int = 0,
    **changes: Any,
) -> RunFacts:
    """Return a run of the captured fio: 4000 writes of 4 KiB, of which some may be short."""
    spec = phase(
        "overwrite",
        PhaseRole.MEASURED,
        program="fio",
        benchmark=benchmark,
        flags={"io_size": wanted * 4096},
        operations=4000,
        expects_gc=False,
    )
    text = (ROOT / "tests/fixtures/fio/randwrite.json").read_text()
    text = text.replace('"short_ios" : 0', f'"short_ios" : {short}')
    text = text.replace('"drop_ios" : 0', f'"drop_ios" : {dropped}')
    output = FioProgram().parse(spec, text, "")
    return with_phase(run, spec=spec, parsed=output, **changes)


def on(run: RunFacts, kind: DeviceKind) -> RunFacts:
    device = replace(run.spec.device, kind=kind)
    return replace(run, spec=replace(run.spec, device=device))


def with_phase(run: RunFacts, **changes: Any) -> RunFacts:
    return replace(run, phases=(replace(run.phases[0], **changes), *run.phases[1:]))


def test_a_good_run_has_no_issues(good: RunFacts) -> None:
    assert judge(good) == ()


PHASE_CASES: list[tuple[dict[str, Any], str, Severity]] = [
    ({"exit_code": 1}, "exit-status", Severity.ERROR),
    ({"exit_code": None, "signal": 11}, "exit-status", Severity.ERROR),
    ({"exit_code": None, "signal": 15, "timed_out": True}, "phase-timeout", Severity.ERROR),
    # A program that handles SIGTERM exits with 0.
    ({"timed_out": True}, "phase-timeout", Severity.ERROR),
    ({"stalled": True}, "phase-stalled", Severity.ERROR),
    ({"parsed": parsed(summary=None, summaries=0)}, "summary-count", Severity.ERROR),
    ({"parsed": parsed(summary=None, summaries=2)}, "summary-count", Severity.ERROR),
    ({"parsed": parsed(summary=None, summaries=1)}, "summary-count", Severity.ERROR),
    ({"parsed": parsed(summaries=2)}, "summary-count", Severity.ERROR),
    ({"parsed": None, "parse_error": "damaged"}, "output-malformed", Severity.ERROR),
    *(
        ({"parsed": None, "parse_error": "damaged", "parse_code": code}, code, Severity.ERROR)
        for code in sorted(fio_tool.FAULTS)
    ),
    (
        {"parsed": parsed(summary=None, summaries=0, skipped=True)},
        "benchmark-skipped",
        Severity.ERROR,
    ),
    (
        {"parsed": parsed(summary=BenchmarkSummary("overwrite", 1, 1, 1, 19_999, None))},
        "operations-differ",
        Severity.ERROR,
    ),
    ({"parsed": parsed(wrong_reads=1)}, "data-wrong", Severity.ERROR),
    ({"output": "put error: No space left on device"}, "no-space", Severity.ERROR),
    ({"database_log": "IO error: No space left on device"}, "no-space", Severity.ERROR),
    ({"parsed": parsed(warnings=("WARNING: x",))}, "db-bench-warning", Severity.INFO),
    ({"parsed": debug_build()}, "assertions-enabled", Severity.INFO),
    (
        {"exit_code": None, "signal": 9, "stalled": True},
        "phase-stalled",
        Severity.ERROR,
    ),
    ({"after": usage(1)}, "gc-never-ran", Severity.WARNING),
    ({"after": usage(None)}, "gc-counter-missing", Severity.INFO),
    ({"conventional": disk(20 * MIB)}, "zoned-share-low", Severity.WARNING),
    ({"conventional": disk(100 * MIB)}, "zoned-share-low", Severity.WARNING),  # exactly half
    ({"conventional": disk(101 * MIB)}, "zoned-share-low", Severity.ERROR),
]


@pytest.mark.parametrize(("changes", "code", "severity"), PHASE_CASES)
def test_phase_rules(
    good: RunFacts, changes: dict[str, Any], code: str, severity: Severity
) -> None:
    assert [(i.code, i.severity) for i in judge(with_phase(good, **changes))] == [(code, severity)]


@pytest.mark.parametrize(
    ("changes", "message", "expected", "actual"),
    [
        ({"exit_code": 3}, "overwrite: ended with exit status 3", 0, None),
        ({"exit_code": None, "signal": 11}, "overwrite: ended by signal 11", 0, None),
        ({"timed_out": True}, "overwrite: killed after 60 s", 0, None),
        ({"parsed": None, "parse_error": "damaged"}, "damaged", None, None),
        ({"parsed": None}, "the output of overwrite could not be parsed", None, None),
        (
            {"parsed": parsed(summary=None, summaries=3)},
            "overwrite printed 3 summary lines, not one",
            1,
            3,
        ),
        ({"parsed": parsed(wrong_reads=7)}, "overwrite: 7 reads returned wrong data", 0, 7),
    ],
)
def test_what_an_issue_of_a_phase_reports(
    good: RunFacts, changes: dict[str, Any], message: str, expected: object, actual: object
) -> None:
    (found,) = judge(with_phase(good, **changes))
    assert (found.message, found.expected, found.actual) == (message, expected, actual)


def test_a_warning_of_two_phases_is_one_issue(good: RunFacts) -> None:
    run = with_phase(good, parsed=parsed(warnings=("WARNING: x", "WARNING: y")))
    found = judge(replace(run, phases=run.phases * 2))
    assert [one.message for one in found] == ["WARNING: x", "WARNING: y"]


LOCKUP = "9.1 watchdog: BUG: soft lockup - CPU#2 stuck for 23s! [kworker/2:1:25629]\n"
HUNG = "9.1 INFO: task kworker/u8:0:5 blocked for more than 120 seconds.\n"
RUN_CASES: list[tuple[dict[str, Any], str, Severity]] = [
    ({"kernel_log": None}, "kernel-log-missing", Severity.WARNING),
    (
        {"kernel_log": "9.1 I/O error, dev nvme0n2, sector 0 op 0x1:(WRITE)\n"},
        "io-errors",
        Severity.ERROR,
    ),
    (
        {"kernel_log": "9.1 nvme0n2: active zones exceeded error\n"},
        "active-zones-exceeded",
        Severity.ERROR,
    ),
    (
        {"kernel_log": "9.1 nvme0n2: open zones exceeded error\n"},
        "open-zones-exceeded",
        Severity.ERROR,
    ),
    ({"kernel_log": "# records lost here: 3\n"}, "kernel-log-lost", Severity.WARNING),
    (
        {"kernel_log": "9.1 device-mapper: zap: (nvme0n2): write failed! bi_status 10\n"},
        "kernel-write-failed",
        Severity.ERROR,
    ),
    ({"kernel_log": "9.1 Oops: 0002 [#1] SMP NOPTI\n"}, "kernel-oops", Severity.ERROR),
    (
        {"kernel_log": "9.1 mce: [Hardware Error]: Machine check events logged\n"},
        "machine-check",
        Severity.WARNING,
    ),
    (
        {"kernel_log": "9.1 EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0\n"},
        "machine-check",
        Severity.ERROR,
    ),
    (
        {"kernel_log": "9.1 CPU0: Core temperature above threshold, cpu clock throttled\n"},
        "cpu-throttled",
        Severity.WARNING,
    ),
    (
        {"utilisation": Utilisation(0.8, 0.02, 0.77, None, 1, 1, 1, 1, 1, 0.9)},
        "utilisation-missed",
        Severity.ERROR,
    ),
    (  # a device that is too full is as wrong as one that is too empty
        {"utilisation": Utilisation(0.8, 0.02, 0.83, None, 1, 1, 1, 1, 1, 0.9)},
        "utilisation-missed",
        Severity.ERROR,
    ),
    ({"clock_jump": -3.0}, "clock-jump", Severity.WARNING),
    ({"tenants": TenantFacts(died="tenant a ended with signal 9")}, "tenant-died", Severity.ERROR),
    ({"tenants": TenantFacts(units=False)}, "tenants-without-units", Severity.WARNING),
    ({"tenants": TenantFacts(spread=1.2)}, "tenants-apart", Severity.WARNING),
]


@pytest.mark.parametrize(("changes", "code", "severity"), RUN_CASES)
def test_run_rules(good: RunFacts, changes: dict[str, Any], code: str, severity: Severity) -> None:
    assert [(i.code, i.severity) for i in judge(replace(good, **changes))] == [(code, severity)]


def test_a_level_that_buffers_by_design_is_warned_of(good: RunFacts) -> None:
    run = replace(with_phase(good, conventional=disk(300 * MIB)), buffers_conventional=True)
    (found,) = judge(run)
    assert (found.code, found.severity) == ("zoned-share-low", Severity.WARNING)


def test_a_levels_caveats_are_recorded_with_the_run(good: RunFacts) -> None:
    caveat = Issue("mapping-volatile", Severity.INFO, "it forgets")
    assert judge(replace(good, caveats=(caveat,))) == (caveat,)


def test_conventional_levels_have_no_zoned_rules(good: RunFacts) -> None:
    run = with_phase(good, zoned=None, conventional=disk(MIB), after=usage(1))
    assert judge(replace(run, uses_zoned=False)) == ()


def test_fill_phases_do_not_count_for_the_share(good: RunFacts) -> None:
    fill = replace(
        good.phases[0],
        spec=phase("overwrite", PhaseRole.FILL),
        zoned=disk(0),
        conventional=disk(1000 * MIB),
    )
    assert judge(replace(good, phases=(fill, *good.phases))) == ()


@pytest.mark.parametrize(
    ("limit", "stored", "warned"),
    [
        (-1, 500, False),
        (110, 99 * 8 + 1, False),
        (109, 99 * 8 + 1, True),
        (0, 8, True),
        (5000, 8, False),
        (10, None, False),
    ],
)
def test_tables_that_cannot_all_be_open(
    good: RunFacts, limit: int, stored: int | None, *, warned: bool
) -> None:
    flags = {"open_files": limit, SIZE: 8}
    run = with_phase(good, spec=replace(good.phases[0].spec, flags=flags))
    assert run.utilisation is not None
    run = replace(run, utilisation=replace(run.utilisation, database_bytes=stored))
    twice = replace(run, phases=run.phases * 2)
    found = [(issue.code, issue.severity) for issue in judge(twice)]  # once is enough
    assert found == ([("open-files-few", Severity.WARNING)] if warned else [])


@pytest.mark.parametrize(("limit", "kept"), [(109, 99), (12, 2), (5, 0)])
def test_the_limit_that_would_keep_all_tables_open_is_reported(
    good: RunFacts, limit: int, kept: int
) -> None:
    flags = {"open_files": limit, SIZE: 8}
    run = with_phase(good, spec=replace(good.phases[0].spec, flags=flags))
    assert run.utilisation is not None
    stored = replace(run.utilisation, database_bytes=800)
    (found,) = judge(replace(run, utilisation=stored))
    assert f"about 100 tables; --open_files={limit} keeps {kept} of them open" in found.message
    assert (found.expected, found.actual) == (110, limit)


@pytest.mark.parametrize("flags", [{"open_files": 1}, {SIZE: 8}, {"open_files": 1, SIZE: 0}])
def test_without_both_sizes_the_open_tables_are_unknown(
    good: RunFacts, flags: dict[str, int]
) -> None:
    run = with_phase(good, spec=replace(good.phases[0].spec, flags=flags))
    assert judge(run) == ()


DIRECT = {"use_direct_reads": True, "use_direct_io_for_flush_and_compaction": True}
READS = 1000 * MIB  # what RocksDB asked its files for


def drive(run: RunFacts, model: str, kind: DeviceKind = DeviceKind.HARDWARE) -> RunFacts:
    device = replace(run.spec.device, kind=kind, model=model)
    return replace(run, spec=replace(run.spec, device=device))


def reading(read: int) -> PhaseFacts:
    """A phase that only reads, of which ``read`` bytes reached the device."""
    spec = phase("readrandom", PhaseRole.MEASURED, user_bytes_per_operation=0, expects_gc=False)
    tickers = dict.fromkeys(READ_TICKERS, READS // 2)
    return replace(
        plain(),
        spec=replace(spec, flags={"statistics": True}),
        parsed=parsed(statistics=Statistics(tickers, {})),
        zoned=DiskCounters(10, read, 0, 0, 0),
        conventional=DiskCounters(0, 0, 0, 0, 0),
    )


def closing(**changes: Any) -> Ledger:
    """A ledger of one interval, in which kernel and device agree by default."""
    closure = Closure("kernel", "device", ClosureState.EXACT, above=9, below=9, low=9, high=9)
    values: dict[str, Any] = dict.fromkeys(LedgerEntry.__slots__)
    values |= {"name": "overwrite", "settled": True, "witness": "", "witness_failed": False}
    values |= {"closures": (closure,)} | changes
    return Ledger("f2fs", (LedgerEntry(**values),))


def modelled(run: RunFacts, media: int | None, model: str | None = "toy") -> RunFacts:
    """A run with a conventional device, and with a model that counts its media."""
    device = replace(run.spec.device, path="/dev/nvme0n1")
    known = MediaModel(model, {}) if model else None
    return replace(
        run,
        spec=replace(run.spec, conventional=device, media_model=known),
        ledger=closing(name="run", media={"nvme0n1": media}, media_source="a gap"),
    )


def test_known_media_and_media_that_nothing_should_count_are_no_issue(observed: RunFacts) -> None:
    assert judge(modelled(observed, media=1)) == ()
    assert judge(modelled(observed, media=None, model=None)) == ()
    (found,) = judge(modelled(observed, media=None))
    assert found.message == "M of nvme0n1 is unknown: a gap"


@pytest.mark.parametrize("missing", ["conventional", "entry", "ledger"])
def test_a_model_without_a_device_or_a_ledger_counts_nothing(good: RunFacts, missing: str) -> None:
    run = modelled(good, media=None)
    changes: dict[str, Any] = {
        "conventional": {"spec": replace(run.spec, conventional=None)},
        "entry": {"ledger": closing()},
        "ledger": {"ledger": None},
    }
    assert judge(replace(run, **changes[missing])) == ()


@pytest.fixture
def observed(good: RunFacts) -> RunFacts:
    """A good, completely observed run on a known drive, so that every rule applies."""
    flags = {"open_files": 100, SIZE: MIB, **DIRECT}
    writing = replace(
        good.phases[0],
        spec=replace(good.phases[0].spec, flags=flags),
        seconds=0.25,
        parsed=parsed(levels=()),
    )
    run = drive(good, "WZS4C8T1TDSP303")
    return replace(
        run,
        phases=(writing, reading(READS)),
        direct_io=DirectIo(reads=True, writes=True, source="a probe"),
        ledger=closing(),
    )


def test_a_good_run_that_was_completely_observed_has_no_issues(observed: RunFacts) -> None:
    assert judge(observed) == ()


def emulated(run: RunFacts) -> RunFacts:
    return drive(run, "QEMU NVMe Ctrl", DeviceKind.EMULATED)


CASES: list[tuple[Callable[[RunFacts], RunFacts], str, Severity]] = [
    (
        lambda run: replace(run, level_facts={"discarded": False}),
        "not-discarded",
        Severity.WARNING,
    ),
    (
        lambda run: replace(run, direct_io=replace(run.direct_io, reads=False)),
        "direct-reads-buffered",
        Severity.WARNING,
    ),
    (
        lambda run: replace(run, direct_io=replace(run.direct_io, writes=False)),
        "direct-writes-buffered",
        Severity.WARNING,
    ),
    (
        lambda run: replace(run, utilisation=replace(run.utilisation, database_bytes=91 * MIB)),
        "open-files-few",
        Severity.WARNING,
    ),
    (
        lambda run: replace(run, phases=(run.phases[0], reading(READS // 2 - MIB))),
        "cache-served",
        Severity.WARNING,
    ),
    # 101 MiB of writes and 1155 MiB/s: 0.087 s of 0.3 s.
    (lambda run: with_phase(run, seconds=0.3), "bandwidth-low", Severity.WARNING),
    (lambda run: drive(run, "a drive nobody measured"), "bandwidth-unknown", Severity.INFO),
    (
        lambda run: replace(run, untraced=Reason("program-missing", "no bpftrace")),
        "not-traced",
        Severity.INFO,
    ),
    (
        lambda run: replace(run, spec=replace(run.spec, tracing=TracingMode.ALL)),
        "every-command-kept",
        Severity.WARNING,
    ),
    (
        lambda run: with_phase(run, traced=replace(SEEN, problems=("lost 3 lines",))),
        "trace-incomplete",
        Severity.ERROR,
    ),
    (lambda run: with_phase(run, traced=SEEN), "closure-driver-commands", Severity.ERROR),
    (lambda run: fio(run, wanted=4001), "fio-ended-early", Severity.ERROR),
    (lambda run: fio(run, short=1), "fio-short", Severity.ERROR),
    (lambda run: fio(run, dropped=1), "fio-short", Severity.ERROR),
    (
        lambda run: fio(run, benchmark="reset", zones=ZoneCounts(1, 0, 0)),
        "zones-leaked",
        Severity.ERROR,
    ),
    (
        lambda run: replace(run, ledger=closing(closures=(BROKEN,))),
        "closure-broken",
        Severity.ERROR,
    ),
    (
        lambda run: replace(run, ledger=closing(settled=False)),
        "barrier-unsettled",
        Severity.WARNING,
    ),
    (
        lambda run: replace(run, ledger=closing(witness="no answer", witness_failed=True)),
        "witness-missing",
        Severity.WARNING,
    ),
    (lambda run: modelled(run, media=None), "media-unknown", Severity.WARNING),
    *(
        (
            lambda run, code=code, severity=severity: replace(
                run, caveats=(Issue(code, severity, "as the level reports"),)
            ),
            code,
            severity,
        )
        for code, severity in (
            ("fsck", Severity.ERROR),
            ("mapping-volatile", Severity.INFO),
            ("own-db-bench", Severity.WARNING),
            ("commands-lost", Severity.ERROR),
            ("clean-up", Severity.ERROR),
            ("active-limit-ignored", Severity.WARNING),
            ("active-limit-ignored", Severity.INFO),
        )
    ),
    *(
        (lambda run, changes=changes: with_phase(run, **changes), code, severity)
        for changes, code, severity in PHASE_CASES
    ),
    *(
        (lambda run, changes=changes: replace(run, **changes), code, severity)
        for changes, code, severity in RUN_CASES
    ),
    *(
        (lambda run, kind=kind, log=log: replace(on(run, kind), kernel_log=log), code, severity)
        for kind, severity in (
            (DeviceKind.HARDWARE, Severity.ERROR),
            (DeviceKind.EMULATED, Severity.WARNING),
        )
        for code, log in (("kernel-lockup", LOCKUP), ("hung-task", HUNG))
    ),
]


@pytest.mark.parametrize(("change", "code", "severity"), CASES)
def test_each_issue_fires_for_its_own_rule(
    observed: RunFacts, change: Callable[[RunFacts], RunFacts], code: str, severity: Severity
) -> None:
    run = change(observed)
    assert (code, severity) in {(issue.code, issue.severity) for issue in judge(run)}
    (rule,) = (rule for rule in RULES if code in {declared.code for declared in rule.issues})
    assert {issue.code for issue in rule(run)} == {code}
    (declared,) = (one for one in rule.issues if one.code == code)
    assert severity in declared.severities


def first(run: RunFacts, *, role: PhaseRole | None = None, **changes: Any) -> RunFacts:
    """Change the spec of the first phase."""
    spec = run.phases[0].spec
    return with_phase(run, spec=replace(spec, role=role or spec.role, **changes))


def then(run: RunFacts, read: int, **changes: Any) -> RunFacts:
    """Let ``read`` bytes of the second phase, which only reads, reach the device."""
    phase = reading(read)
    spec = replace(phase.spec, role=changes.pop("role", phase.spec.role))
    return replace(run, phases=(run.phases[0], replace(phase, spec=spec, **changes)))


def utilised(run: RunFacts, u_ns: float | None) -> RunFacts:
    assert run.utilisation is not None
    return replace(run, utilisation=replace(run.utilisation, u_ns=u_ns))


NO_ISSUE: dict[str, Callable[[RunFacts], RunFacts]] = {
    "utilisation without a target": lambda run: replace(
        utilised(run, 0.1), spec=replace(run.spec, cold=None)
    ),
    "unknown utilisation": lambda run: utilised(run, None),
    "a phase without counters of devices": lambda run: with_phase(
        run, zoned=None, conventional=None, seconds=None
    ),
    "no utilisation": lambda run: replace(run, utilisation=None),
    "nothing written": lambda run: with_phase(
        run, zoned=disk(0), conventional=disk(0), seconds=None
    ),
    "90 % on zones": lambda run: with_phase(run, zoned=disk(90 * MIB), conventional=disk(10 * MIB)),
    "a phase that expects no collection": lambda run: with_phase(
        first(run, expects_gc=False), after=usage(1)
    ),
    "a phase that expects no counter": lambda run: with_phase(
        first(run, expects_gc=False), after=usage(None)
    ),
    "a phase that ends by time": lambda run: with_phase(
        first(run, operations=None),
        parsed=parsed(levels=(), summary=BenchmarkSummary("overwrite", 1, 1, 1, 19_999, None)),
    ),
    "half of the reads from caches": lambda run: then(run, READS // 2),
    "a fill that reads from caches": lambda run: then(run, 0, role=PhaseRole.FILL),
    "a slow phase that only reads": lambda run: then(run, READS, seconds=1000.0),
    "a slow fill": lambda run: with_phase(first(run, role=PhaseRole.FILL), seconds=1000.0),
    "devices busy at the end of the run": lambda run: replace(
        run, ledger=closing(name="run", settled=False)
    ),
    "a drive in files, of which the kernel logs nothing": lambda run: replace(
        drive(run, f"{NATIVE} zones-4m", DeviceKind.MODELLED), kernel_log=None
    ),
    "a utilisation at the edge of its tolerance": lambda run: replace(
        run, utilisation=replace(run.utilisation, target=0.5, tolerance=0.25, u_ns=0.75)
    ),
    "a second of clock jump": lambda run: replace(run, clock_jump=1.0),
    "tenants a second apart": lambda run: replace(run, tenants=TenantFacts(spread=1.0)),
}


@pytest.mark.parametrize("case", NO_ISSUE)
def test_a_rule_that_does_not_apply_is_silent(observed: RunFacts, case: str) -> None:
    assert judge(NO_ISSUE[case](observed)) == ()


def test_the_device_that_takes_no_discard_is_named(good: RunFacts) -> None:
    run = replace(good, level_facts={"discarded": False})
    other = replace(run.spec.device, path="/dev/nvme9n9")
    for device, conventional in ((run.spec.device, None), (other, other)):
        spec = replace(run.spec, conventional=conventional)
        (found,) = judge(replace(run, spec=spec))
        assert found.message.startswith(f"{device.path} takes no discard")


def test_phases_of_fio_that_are_whole_have_no_issue(good: RunFacts) -> None:
    assert list(judge(fio(good, zones=ZoneCounts(1, 0, 0)))) == []  # writes leave zones active
    assert list(judge(fio(good, benchmark="reset", zones=ZoneCounts(0, 0, 0)))) == []
    assert list(judge(fio(good, benchmark="reset", zones=None))) == []  # nothing is known


@pytest.mark.parametrize(
    ("numjobs", "runtime", "ended_early"),
    [(1, 0.138, False), (1, 0.139, True), (2, 0.069, False), (2, 0.07, True), (1, 0, True)],
)
def test_a_job_of_fio_may_end_by_time(
    good: RunFacts, numjobs: int, runtime: float, *, ended_early: bool
) -> None:
    """The clones of the captured job took 0.138 s together."""
    run = fio(good, wanted=4001)
    spec = run.phases[0].spec
    flags = {**spec.flags, "numjobs": numjobs, "runtime": runtime}
    found = [one.code for one in judge(with_phase(run, spec=replace(spec, flags=flags)))]
    assert found == (["fio-ended-early"] if ended_early else [])


def test_short_and_dropped_commands_are_added(good: RunFacts) -> None:
    (short,), (both,) = judge(fio(good, short=1)), judge(fio(good, short=1, dropped=1))
    assert short.actual
    assert both.actual == 2 * short.actual


def test_an_output_of_fio_that_is_damaged_is_one_issue(good: RunFacts) -> None:
    run = with_phase(fio(good), parsed=None, parse_error="damaged")
    assert [one.code for one in judge(run)] == ["output-malformed"]


def test_each_issue_of_the_registry_has_a_case() -> None:
    declared = {
        (declared.code, severity)
        for rule in RULES
        for declared in rule.issues
        for severity in declared.severities
    }
    assert {case[1:] for case in CASES} == declared


def test_every_issue_that_code_can_raise_is_in_the_registry() -> None:
    """Issues raised elsewhere (levels, the runner) are in ``devices.level_caveats``."""
    known = {declared.code for rule in RULES for declared in rule.issues}
    raised = set()
    for file in sorted((ROOT / "harness").rglob("*.py")):
        for text in re.findall(r'\b[iI]ssue\(\s*f?"([^"]+)"', file.read_text()):
            raised.add(re.sub(r"\{\w+\}", "[a-z]+", text))
    assert len(raised) > 20
    for pattern in raised:
        assert any(re.fullmatch(pattern, name) for name in known), f"{pattern}: add it, make docs"


def test_the_rule_on_stalled_phases_names_the_field_of_workloads() -> None:
    issues = (issue for rule in RULES for issue in rule.issues)
    (field,) = (re.search("`(.+)`", one.fires) for one in issues if one.code == "phase-stalled")
    assert field is not None
    assert field[1] in PhaseBase.model_fields


def test_the_page_of_rules_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--format", "md"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/rules.md").read_text(), "run: make docs"
    for form in ("table", "json", "csv"):
        assert main(["rules", "--format", form]) == 0
        assert "closure-broken" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("serial", "expected"), [("fake0", (100 + 1) / 1155 / 0.25), ("another", 100 / 1155 / 0.25)]
)
def test_bandwidth_counts_the_whole_drive(observed: RunFacts, serial: str, expected: float) -> None:
    """Bytes of a sibling namespace belong to the drive; bytes of another drive do not."""
    device = observed.spec.device
    sibling = replace(device, identity=replace(device.identity, serial=serial))
    spec = replace(observed.spec, conventional=sibling)
    assert bandwidth.share(spec, observed.phases[0]) == pytest.approx(expected)
    assert bandwidth.share(emulated(observed).spec, observed.phases[0]) is None
    assert judge(emulated(observed)) == ()


def test_bandwidth_counts_reads_beside_writes(observed: RunFacts) -> None:
    reads = DiskCounters(1, int(zn540.READ_BYTES_PER_SECOND), 0, 0, 0)
    phase_ = replace(observed.phases[0], zoned=reads, seconds=4.0)
    assert bandwidth.share(observed.spec, phase_) == pytest.approx(0.25)
    writes = replace(reads, write_bytes=int(zn540.WRITE_BYTES_PER_SECOND))
    both = bandwidth.share(observed.spec, replace(phase_, zoned=writes))
    assert both == pytest.approx(0.5)


def test_an_unknown_bandwidth_is_one_issue(observed: RunFacts) -> None:
    run = drive(observed, "a drive nobody measured")
    found = judge(replace(run, phases=run.phases * 2))
    assert [one.code for one in found] == ["bandwidth-unknown"]


def test_what_a_phase_did_is_the_difference_of_the_levels_counters() -> None:
    """Garbage collection reads on behalf of the level, not of the database."""
    before = LevelUsage(None, 3, 100, "a counter", gc_seconds=0.5)
    after = LevelUsage(None, 7, 400, "a counter", gc_seconds=2.0)
    zoned, conventional = DiskCounters(1, 1000, 1, 60, 0), DiskCounters(1, 50, 1, 7, 0)
    facts = replace(plain(), before=before, after=after, zoned=zoned, conventional=conventional)
    assert (facts.gc_events, facts.gc_bytes, facts.gc_seconds) == (4, 300, 1.5)
    assert facts.below == Below(67, 750)
    assert replace(facts, conventional=None).below == Below(60, 700)
    assert replace(facts, after=usage(None)).below == Below(67, 1050)
    assert replace(facts, zoned=None, conventional=None).below == Below()


@pytest.mark.parametrize(
    ("name", "phase_name", "where"),
    [("overwrite", "overwrite", "overwrite"), (RUN, None, "the run")],
)
def test_a_broken_closure_names_the_phase_and_its_bounds(
    good: RunFacts, name: str, phase_name: str | None, where: str
) -> None:
    (found,) = judge(replace(good, ledger=closing(name=name, closures=(BROKEN,))))
    assert (found.phase, found.expected, found.actual) == (phase_name, BROKEN.above, BROKEN.below)
    assert found.message.endswith(f" do not agree in {where}")
    wide = replace(BROKEN, low=1, high=2)
    (bounded,) = judge(replace(good, ledger=closing(name=name, closures=(wide,))))
    assert bounded.message.endswith(f"{where}: expected 1 to 2 B")
    commands = replace(wide, unit="1")
    (counted,) = judge(replace(good, ledger=closing(name=name, closures=(commands,))))
    layers = "kernel (9) and device (8) do not agree"
    assert counted.message == f"{layers} in {where}: expected 1 to 2"


def test_counters_that_cannot_be_read_are_one_issue(good: RunFacts) -> None:
    (entry,) = closing(witness="no answer", witness_failed=True).entries
    entries = (replace(entry, witness="", witness_failed=False), entry, entry)
    (found,) = judge(replace(good, ledger=Ledger("f2fs", entries)))
    assert found.message == "F = H was not checked: no answer"


def test_bandwidth_is_that_of_the_conventional_device_if_no_zones_are_used(
    observed: RunFacts,
) -> None:
    device = observed.spec.device
    other = replace(device, identity=replace(device.identity, serial="another"))
    phase_ = replace(observed.phases[0], zoned=None)
    spec = replace(observed.spec, conventional=other)
    assert bandwidth.share(spec, phase_) == pytest.approx(1 / 1155 / 0.25)
    assert bandwidth.share(replace(spec, conventional=None), phase_) is None


@pytest.mark.parametrize("model", [*zn540.MODELS, "WZS4C8T4TDSP303   ", "WUS5EA1A1ESP5E3 ZN540"])
def test_each_model_of_a_known_drive_has_its_bandwidth(observed: RunFacts, model: str) -> None:
    run = drive(observed, model)
    assert bandwidth.share(run.spec, run.phases[0]) is not None
    assert rate_caps.cap_of(run.spec.device) is not None


def test_a_drive_that_only_has_the_name_of_a_known_one_has_no_bandwidth(
    observed: RunFacts,
) -> None:
    named = drive(observed, observed.spec.device.model, DeviceKind.EMULATED)
    assert bandwidth.share(named.spec, named.phases[0]) is None


@pytest.mark.parametrize(("written_bytes", "expected"), [(50 * MIB, 2.02), (0, None)])
def test_level_write_amplification_is_device_bytes_over_rocksdbs(
    good: RunFacts, written_bytes: int, expected: float | None
) -> None:
    facts = replace(
        good.phases[0],
        spec=replace(good.phases[0].spec, flags={"statistics": True}),
        parsed=parsed(statistics=Statistics({"rocksdb.wal.bytes": written_bytes // 2}, {})),
        lsm=Log(TableBytes(written_bytes // 4, written_bytes // 4), dict.fromkeys(CAUSES, 0), ()),
    )
    # 100 MiB to the zoned device and 1 MiB to the conventional one.
    found = {
        name.partition(".")[2]: one.value for name, one in phase_metrics.metrics(facts).items()
    }
    assert found["level_write_amplification"] == expected
    assert found["rocksdb_written"] == written_bytes
    assert (found["wal_bytes"], found["flush_bytes"]) == (written_bytes // 2, written_bytes // 4)
    without = phase_metrics.metrics(replace(facts, lsm=None))
    assert without["overwrite.rocksdb_written"].value is None
    assert without["overwrite.level_write_amplification"].value is None
    assert "overwrite.level_write_amplification" not in phase_metrics.metrics(good.phases[0])


@pytest.mark.parametrize(("instructions", "each"), [(80_000.0, 4.0), (None, None)])
def test_instructions_are_divided_by_the_operations(
    instructions: float | None, each: float | None
) -> None:
    facts = replace(plain(), load_instructions=instructions)
    found = phase_metrics.metrics(facts)["overwrite.instructions_per_operation"]
    assert (found.value, found.unit) == (each, "1")
