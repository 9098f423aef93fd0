"""Each validity rule fires on what it is for, and on nothing else (facts are synthetic)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.levels.base import DirectIo, LevelUsage
from harness.observe.diskstats import DiskCounters
from harness.observe.zone_trace import Traced
from harness.rules import RULES, PhaseFacts, RunFacts, bandwidth, judge
from harness.rules.facts import TenantFacts
from harness.run import phases
from harness.store.ledger import Closure, Entry, Ledger, State
from harness.store.result import Issue, Severity, Utilisation
from harness.store.spec import DeviceKind, PhaseRole, Reason, Tracing
from harness.tools import db_bench
from harness.tools.rocksdb_log import CAUSES, Log, TableBytes
from harness.tools.rocksdb_stats import Statistics
from harness.workloads.db_bench import READ_TICKERS, Parsed, Summary
from tests.runner.conftest import Machine
from tests.runner.fakes import phase

MIB = 1 << 20
ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "db_bench"
BROKEN = Closure("kernel", "device", State.BROKEN, above=9, below=8, low=9, high=9)


# One write too few: the kernel counts ten (``disk``).
SEEN = Traced(
    zoned="nvme0n2", conventional=None, commands={("nvme0n2", "write", 0): 9}, bytes={},
    finishes=0, pad={}, problems=(), kernel_seconds=None,
)  # fmt: skip


def disk(written: int) -> DiskCounters:
    return DiskCounters(0, 0, 10, written, 0)


def parsed(**changes: Any) -> Parsed:
    summary = Summary("overwrite", 10.0, 100_000, 0.2, 20_000, 1.0)
    values: dict[str, Any] = {
        "summary": summary,
        "summaries": 1,
        "histograms": {},
        "warnings": (),
        "skipped": False,
        "assertions": False,
    }
    return Parsed(**(values | changes))


def debug_build() -> Parsed:
    """What Debian's db_bench 9.10 printed: one warning, about its assertions."""
    file = FIXTURES / "9.10" / "overwrite.out"
    output = db_bench.parse(file.read_text(), "")
    assert len(output.warnings) == 1
    return parsed(warnings=output.warnings, assertions=output.assertions)


def usage(events: int | None) -> LevelUsage:
    return LevelUsage(1, events, None, "a counter")


def plain() -> PhaseFacts:
    return PhaseFacts(
        spec=phase("overwrite", PhaseRole.MEASURED),
        parsed=parsed(),
        parse_error="",
        exit_code=0,
        signal=None,
        timed_out=False,
        stalled=False,
        output="",
        database_log="",
        zoned=disk(100 * MIB),
        conventional=disk(MIB),
        before=usage(1),
        after=usage(4),
        zones=None,
        load_seconds=1.0,
        harness_seconds=0.01,
    )


@pytest.fixture
def good(tmp_path: Path) -> RunFacts:
    return RunFacts(
        spec=Machine(tmp_path).plan.hosts[0].runs[0],
        uses_zoned=True,
        phases=(plain(),),
        kernel_log="1.0 nvme0n2: ready\n",
        utilisation=Utilisation(0.8, 0.02, 0.81, None, 1, 1, 1, 1, 1, 0.9),
        idle_written={"nvme0n2": 0},
        clock_jump=0.01,
    )


def with_phase(run: RunFacts, **changes: Any) -> RunFacts:
    return replace(run, phases=(replace(run.phases[0], **changes), *run.phases[1:]))


def test_a_good_run_has_no_issues(good: RunFacts) -> None:
    assert judge(good) == ()


PHASE_CASES: list[tuple[dict[str, Any], str, Severity]] = [
    ({"exit_code": 1}, "exit-status", Severity.ERROR),
    ({"exit_code": None, "signal": 11}, "exit-status", Severity.ERROR),
    ({"exit_code": None, "signal": 15, "timed_out": True}, "phase-timeout", Severity.ERROR),
    ({"parsed": parsed(summary=None, summaries=0)}, "summary-count", Severity.ERROR),
    ({"parsed": parsed(summary=None, summaries=2)}, "summary-count", Severity.ERROR),
    ({"parsed": None, "parse_error": "damaged"}, "output-malformed", Severity.ERROR),
    (
        {"parsed": parsed(summary=None, summaries=0, skipped=True)},
        "benchmark-skipped",
        Severity.ERROR,
    ),
    (
        {"parsed": parsed(summary=Summary("overwrite", 1, 1, 1, 19_999, None))},
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
    ({"conventional": disk(101 * MIB)}, "zoned-share-low", Severity.ERROR),
]


@pytest.mark.parametrize(("changes", "code", "severity"), PHASE_CASES)
def test_phase_rules(
    good: RunFacts, changes: dict[str, Any], code: str, severity: Severity
) -> None:
    assert [(i.code, i.severity) for i in judge(with_phase(good, **changes))] == [(code, severity)]


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
    (
        {"utilisation": Utilisation(0.8, 0.02, 0.77, None, 1, 1, 1, 1, 1, 0.9)},
        "utilisation-missed",
        Severity.ERROR,
    ),
    ({"clock_jump": -3.0}, "clock-jump", Severity.WARNING),
    ({"idle_written": {"nvme0n2": 4096}}, "other-io", Severity.ERROR),
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


def test_what_a_level_says_of_itself_travels_with_the_run(good: RunFacts) -> None:
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
        conventional=disk(MIB),
    )
    assert judge(replace(good, phases=(fill, *good.phases))) == ()


@pytest.mark.parametrize(
    ("limit", "stored", "warned"),
    [(-1, 500, False), (110, 99 * 8 + 1, False), (109, 99 * 8 + 1, True), (0, 8, True),
     (5000, 8, False), (10, None, False)],
)  # fmt: skip
def test_tables_that_cannot_all_be_open(
    good: RunFacts, limit: int, stored: int | None, *, warned: bool
) -> None:
    flags = {"open_files": limit, "target_file_size_base": 8}
    run = with_phase(good, spec=replace(good.phases[0].spec, flags=flags))
    assert run.utilisation is not None
    run = replace(run, utilisation=replace(run.utilisation, database_bytes=stored))
    twice = replace(run, phases=run.phases * 2)
    found = [(issue.code, issue.severity) for issue in judge(twice)]  # once is enough
    assert found == ([("open-files-few", Severity.WARNING)] if warned else [])


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
    """A ledger of one interval, in which kernel and device agree unless told otherwise."""
    closure = Closure("kernel", "device", State.EXACT, above=9, below=9, low=9, high=9)
    values: dict[str, Any] = dict.fromkeys(Entry.__slots__)
    values |= {"name": "overwrite", "settled": True, "witness": "", "witness_failed": False}
    values |= {"closures": (closure,)} | changes
    return Ledger("f2fs", (Entry(**values),))


@pytest.fixture
def observed(good: RunFacts) -> RunFacts:
    """A good run on a known drive of which everything was observed, so that every rule looks."""
    flags = {"open_files": 100, "target_file_size_base": MIB, **DIRECT}
    writing = replace(
        good.phases[0], spec=replace(good.phases[0].spec, flags=flags), seconds=0.25,
        parsed=parsed(levels=()),
    )  # fmt: skip
    run = drive(good, "WZS4C8T1TDSP303")
    return replace(
        run,
        phases=(writing, reading(READS)),
        direct_io=DirectIo(reads=True, writes=True, source="a probe"),
        ledger=closing(),
    )


def test_a_good_run_that_was_wholly_observed_has_no_issues(observed: RunFacts) -> None:
    assert judge(observed) == ()


def emulated(run: RunFacts) -> RunFacts:
    return drive(run, "QEMU NVMe Ctrl", DeviceKind.EMULATED)


CASES: list[tuple[Callable[[RunFacts], RunFacts], str, Severity]] = [
        (lambda run: replace(run, direct_io=replace(run.direct_io, reads=False)),
         "direct-reads-buffered", Severity.WARNING),
        (lambda run: replace(run, direct_io=replace(run.direct_io, writes=False)),
         "direct-writes-buffered", Severity.WARNING),
        (lambda run: replace(run, utilisation=replace(run.utilisation, database_bytes=91 * MIB)),
         "open-files-few", Severity.WARNING),
        (lambda run: replace(run, phases=(run.phases[0], reading(READS // 2 - MIB))),
         "cache-served", Severity.WARNING),
        # 101 MiB of writes and 1155 MiB/s: 0.087 s of 0.3 s.
        (lambda run: with_phase(run, seconds=0.3), "bandwidth-low", Severity.WARNING),
        (lambda run: drive(run, "a drive nobody measured"), "bandwidth-unknown", Severity.INFO),
        (lambda run: replace(run, untraced=Reason("program-missing", "no bpftrace")),
         "not-traced", Severity.INFO),
        (lambda run: replace(run, spec=replace(run.spec, tracing=Tracing.ALL)),
         "every-command-kept", Severity.WARNING),
        (lambda run: with_phase(run, traced=replace(SEEN, problems=("lost 3 lines",))),
         "trace-incomplete", Severity.ERROR),
        (lambda run: with_phase(run, traced=SEEN), "closure-driver-commands", Severity.ERROR),
        (lambda run: replace(run, ledger=closing(closures=(BROKEN,))),
         "closure-broken", Severity.ERROR),
        (lambda run: replace(run, ledger=closing(settled=False)),
         "barrier-unsettled", Severity.WARNING),
        (lambda run: replace(run, ledger=closing(witness="no answer", witness_failed=True)),
         "witness-missing", Severity.WARNING),
        *((lambda run, code=code, severity=severity: replace(
            run, caveats=(Issue(code, severity, "as the level says"),)), code, severity)
          for code, severity in (
              ("fsck", Severity.ERROR), ("mapping-volatile", Severity.INFO),
              ("own-db-bench", Severity.WARNING), ("commands-lost", Severity.ERROR),
               ("active-limit-ignored", Severity.WARNING),
              ("active-limit-ignored", Severity.INFO))),
        *((lambda run, changes=changes: with_phase(run, **changes), code, severity)
          for changes, code, severity in PHASE_CASES),
        *((lambda run, changes=changes: replace(run, **changes), code, severity)
          for changes, code, severity in RUN_CASES),
    ]  # fmt: skip


@pytest.mark.parametrize(("change", "code", "severity"), CASES)
def test_each_issue_fires_for_its_own_rule(
    observed: RunFacts, change: Callable[[RunFacts], RunFacts], code: str, severity: Severity
) -> None:
    run = change(observed)
    assert (code, severity) in {(issue.code, issue.severity) for issue in judge(run)}
    (rule,) = (rule for rule, codes in RULES.items() if code in {one.name for one in codes})
    assert {issue.code for issue in rule(run)} == {code}
    (declared,) = (one for one in RULES[rule] if one.name == code)
    assert severity in declared.severities


def test_each_issue_of_the_registry_has_a_case() -> None:
    declared = {
        (code.name, severity)
        for codes in RULES.values()
        for code in codes
        for severity in code.severities
    }
    assert {case[1:] for case in CASES} == declared


def test_every_issue_that_code_can_raise_is_in_the_registry() -> None:
    """What is raised elsewhere (levels, the runner) travels with ``devices.level_caveats``."""
    known = {code.name for codes in RULES.values() for code in codes}
    raised = set()
    for file in sorted((ROOT / "harness").rglob("*.py")):
        for text in re.findall(r'\b[iI]ssue\(\s*f?"([^"]+)"', file.read_text()):
            raised.add(re.sub(r"\{\w+\}", "[a-z]+", text))
    assert len(raised) > 20
    for pattern in raised:
        assert any(re.fullmatch(pattern, name) for name in known), f"{pattern}: add it, make docs"


def test_the_page_of_rules_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--format", "md"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/rules.md").read_text(), "run: make docs"
    for form in ("table", "json", "csv"):
        assert main(["rules", "--format", form]) == 0
        assert "closure-broken" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("serial", "expected"), [("fake0", (100 + 1) / 1155 / 0.25), ("another", 100 / 1155 / 0.25)]
)
def test_bandwidth_is_that_of_the_drive(observed: RunFacts, serial: str, expected: float) -> None:
    """A sibling's bytes are the same drive's; another drive's are not."""
    device = observed.spec.device
    sibling = replace(device, identity=replace(device.identity, serial=serial))
    spec = replace(observed.spec, conventional=sibling)
    assert bandwidth.share(spec, observed.phases[0]) == pytest.approx(expected)
    assert bandwidth.share(emulated(observed).spec, observed.phases[0]) is None
    assert judge(emulated(observed)) == ()


@pytest.mark.parametrize(("told", "expected"), [(50 * MIB, 2.02), (0, None)])
def test_level_write_amplification_is_device_bytes_over_rocksdbs(
    good: RunFacts, told: int, expected: float | None
) -> None:
    facts = replace(
        good.phases[0],
        spec=replace(good.phases[0].spec, flags={"statistics": True}),
        parsed=parsed(statistics=Statistics({"rocksdb.wal.bytes": told // 2}, {})),
        lsm=Log(TableBytes(told // 4, told // 4), dict.fromkeys(CAUSES, 0), ()),
    )
    # 100 MiB to the zoned device and 1 MiB to the conventional one.
    found = {name.partition(".")[2]: one.value for name, one in phases.metrics(facts).items()}
    assert found["level_write_amplification"] == expected
    assert found["rocksdb_written"] == told
    assert (found["wal_bytes"], found["flush_bytes"]) == (told // 2, told // 4)
    without = phases.metrics(replace(facts, lsm=None))
    assert without["overwrite.rocksdb_written"].value is None
    assert without["overwrite.level_write_amplification"].value is None
    assert "overwrite.level_write_amplification" not in phases.metrics(good.phases[0])
