"""The rules about tracing: each fires on its own difference only (facts are synthetic)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.levels.level import LevelUsage
from harness.observe.diskstats import DiskCounters
from harness.observe.tracing.zone_history import Traced
from harness.rules import tracing
from harness.rules.facts import RunFacts
from harness.store.result import Severity
from harness.store.spec import PhaseRole, Reason, TracingMode
from tests.fixtures.run_facts import phase_facts
from tests.runner.conftest import Machine
from tests.runner.fakes import phase

ZONED, OTHER = "nvme0n2", "nvme0n1"
RULES = (
    tracing.traced,
    tracing.every_command,
    tracing.driver_commands,
)
SEEN = Traced(
    zoned=ZONED,
    conventional=OTHER,
    commands={
        (ZONED, "write", 0): 90,
        (ZONED, "append", 0): 4,
        (ZONED, "write", 15): 1,
        (ZONED, "finish", 0): 2,
        (ZONED, "reset", 0): 3,
        (ZONED, "flush", 0): 5,
        (OTHER, "write-zeroes", 0): 1,
        (OTHER, "dataset-management", 0): 9,
    },
    bytes={
        (ZONED, "write", 0): 900_000,
        (ZONED, "append", 0): 40_000,
        (ZONED, "write", 15): 4096,
        (OTHER, "write-zeroes", 0): 8192,
    },
    finishes=2,
    pad={"unknown": 5},
    problems=(),
    kernel_seconds=None,
)


def disk(writes: int, written: int) -> DiskCounters:
    return DiskCounters(0, 0, writes, written, 0, 0)


IDLE = LevelUsage(1, 0, 0, "", {})


@pytest.fixture
def good(tmp_path: Path) -> RunFacts:
    spec = replace(Machine(tmp_path).plan.hosts[0].runs[0], level="zlfs")
    facts = replace(
        phase_facts(phase("overwrite", PhaseRole.MEASURED), None, None),
        zoned=disk(103, 944_096),  # 100 commands, and three of the five flushes were alone
        conventional=disk(1, 8192),
        before=IDLE,
        after=IDLE,
        traced=SEEN,
    )
    return RunFacts(spec, "", 0.0, uses_zoned=True, phases=(facts,))


def codes(run: RunFacts) -> list[tuple[str, Severity]]:
    return [(issue.code, issue.severity) for rule in RULES for issue in rule(run)]


def with_phase(run: RunFacts, **changes: Any) -> RunFacts:
    return replace(run, phases=(replace(run.phases[0], **changes),))


def test_layers_that_agree(good: RunFacts) -> None:
    assert codes(good) == []
    assert codes(with_phase(good, zoned=disk(100, 944_096))) == []
    assert codes(with_phase(good, zoned=disk(105, 944_096))) == []


@pytest.mark.parametrize("writes", [99, 106])
def test_a_command_that_was_overlooked(good: RunFacts, writes: int) -> None:
    found = codes(with_phase(good, zoned=disk(writes, 944_096)))
    assert found == [("closure-driver-commands", Severity.ERROR)]


@pytest.mark.parametrize(
    "changes", [{"conventional": None}, {"traced": replace(SEEN, conventional=None)}]
)
def test_a_device_with_one_count_is_not_compared(good: RunFacts, changes: dict[str, Any]) -> None:
    assert codes(with_phase(good, **changes)) == []


def test_numbers_with_a_loss_are_compared_with_nothing(good: RunFacts) -> None:
    lost = replace(SEEN, problems=("bpftrace lost 3 lines",))
    run = with_phase(good, traced=lost, zoned=disk(1, 1))
    assert codes(run) == [("trace-incomplete", Severity.ERROR)]


def test_an_untraced_run_has_an_info_issue(good: RunFacts) -> None:
    run = replace(with_phase(good, traced=None), untraced=Reason("program-missing", "no bpftrace"))
    assert codes(run) == [("not-traced", Severity.INFO)]


def test_runs_that_keep_every_command_have_a_warning(good: RunFacts) -> None:
    run = replace(good, spec=replace(good.spec, tracing=TracingMode.ALL))
    assert codes(run) == [("every-command-kept", Severity.WARNING)]
