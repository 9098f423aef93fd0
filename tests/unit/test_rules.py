"""Each validity rule fires on what it is for, and on nothing else (facts are synthetic)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.levels.base import LevelUsage
from harness.observe.diskstats import DiskCounters
from harness.rules import RULES, PhaseFacts, RunFacts, judge
from harness.run import phases
from harness.store.result import Issue, Severity, Utilisation
from harness.store.spec import PhaseRole
from harness.tools import db_bench
from harness.tools.rocksdb_log import CAUSES, Log, TableBytes
from harness.tools.rocksdb_stats import Statistics
from harness.workloads.db_bench import Parsed, Summary
from tests.runner.conftest import Machine
from tests.runner.fakes import phase

MIB = 1 << 20
FIXTURES = Path(__file__).parents[1] / "fixtures" / "db_bench"


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


@pytest.fixture
def good(tmp_path: Path) -> RunFacts:
    facts = PhaseFacts(
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
    return RunFacts(
        spec=Machine(tmp_path).plan.hosts[0].runs[0],
        uses_zoned=True,
        phases=(facts,),
        kernel_log="1.0 nvme0n2: ready\n",
        utilisation=Utilisation(0.8, 0.02, 0.81, None, 1, 1, 1, 1, 1, 0.9),
        idle_written={"nvme0n2": 0},
        clock_jump=0.01,
    )


def with_phase(run: RunFacts, **changes: Any) -> RunFacts:
    return replace(run, phases=(replace(run.phases[0], **changes),))


def test_a_good_run_has_no_issues(good: RunFacts) -> None:
    assert judge(good) == ()


@pytest.mark.parametrize(
    ("changes", "code", "severity"),
    [
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
        ({"after": usage(1)}, "gc-never-ran", Severity.WARNING),
        ({"after": usage(None)}, "gc-counter-missing", Severity.INFO),
        ({"conventional": disk(20 * MIB)}, "zoned-share-low", Severity.WARNING),
        ({"conventional": disk(101 * MIB)}, "zoned-share-low", Severity.ERROR),
    ],
)
def test_phase_rules(
    good: RunFacts, changes: dict[str, Any], code: str, severity: Severity
) -> None:
    assert [(i.code, i.severity) for i in judge(with_phase(good, **changes))] == [(code, severity)]


@pytest.mark.parametrize(
    ("changes", "code", "severity"),
    [
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
    ],
)
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


def test_every_rule_is_covered_here() -> None:
    # Add a case above (or in test_direct_io, test_ledger) when adding a rule.
    assert len(RULES) == 20


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
