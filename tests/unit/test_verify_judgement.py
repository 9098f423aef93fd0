"""What ``zonelab verify`` decides of a stored run: issues, status, records, kernel log, counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import ConfigError
from harness.levels import LEVELS
from harness.observe import kmsg
from harness.rules import RULES
from harness.run import judging
from harness.store import checksums
from harness.store.files import dumps
from harness.store.observed import NAME, ObservedRun, TenantFacts
from harness.store.result import Issue, Metric, Severity, Status
from harness.store.spec import Reason
from harness.tools.direct_io import DirectIo
from harness.verify import judged, kernel_log, stored_numbers

OK, FAILED, INVALID = Status.OK, Status.FAILED, Status.INVALID
SKIPPED, ABORTED = Status.SKIPPED, Status.ABORTED
WARNING = Issue("clock-jump", Severity.WARNING, "the clock jumped")
ERROR = Issue("closure-broken", Severity.ERROR, "they do not agree", "p")
WHY = Reason("x", "why")
CODES = tuple(sorted({info.code for rule in RULES for info in rule.issues}))


def spec(*names: str) -> Any:
    return SimpleNamespace(tenants=tuple(SimpleNamespace(name=name) for name in names))


def result(status: Status = OK, *codes: int | None, issues: Any = (), **more: Any) -> Any:
    phases = [SimpleNamespace(name=f"p{n}", exit_code=code) for n, code in enumerate(codes)]
    values = {"reason": None, "metrics": {}, "seconds": 100.0, "level": "f2fs", "manifest": {}}
    return SimpleNamespace(status=status, phases=phases, issues=issues, **(values | more))


def observed(ended: Status = OK, **changes: Any) -> ObservedRun:
    plain = ObservedRun(ended, None, CODES, 0, 0.0, None, (), 30.0, {}, {}, checksums.of_text(""))
    return replace(plain, **changes)


# --- status ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended", "again", "stored", "status", "reason", "wanted"),
    [
        (OK, (), (), OK, None, ""),
        (OK, (WARNING,), (WARNING,), OK, None, ""),
        (OK, (ERROR,), (), INVALID, None, ""),
        (OK, (), (ERROR,), INVALID, None, ""),
        (OK, (WARNING, ERROR), (), OK, None, "has ok, raw/ gives invalid, for the issue closure-"),
        (OK, (), (), INVALID, None, "has invalid, raw/ gives ok"),
        (FAILED, (ERROR,), (ERROR,), FAILED, WHY, ""),
        (FAILED, (), (), OK, WHY, "has ok, raw/ gives failed"),
        (FAILED, (), (), FAILED, None, "has None, which does not fit status failed"),
        (OK, (), (), OK, WHY, "has x, which does not fit status ok"),
        (OK, (ERROR,), (), INVALID, WHY, "has x, which does not fit status invalid"),
        (SKIPPED, (), (), SKIPPED, WHY, ""),
        (ABORTED, (), (), ABORTED, None, "does not fit status aborted"),
    ],
)
def test_the_status_follows_from_the_end_and_the_issues(
    *,
    ended: Status,
    again: tuple[Issue, ...],
    stored: tuple[Issue, ...],
    status: Status,
    reason: Reason | None,
    wanted: str,
) -> None:
    of_run = result(status, issues=stored, reason=reason)
    found = list(judged._status(of_run, again, observed(ended)))
    assert len(found) == bool(wanted)
    assert wanted in "".join(found)


# --- issues ---------------------------------------------------------------------------------------


def compared(stored: Any, again: Any, *, worded: bool = True, names: Any = ()) -> list[str]:
    checked = frozenset({"closure-broken", "clock-jump"})
    return list(judged._issues(spec(*names), stored, again, checked, worded=worded))


UNLOOKED = Issue("cache-served", Severity.WARNING, "caches served it")
REWORDED = replace(ERROR, message="they differ")
LACKS, HAS = "result.json lacks the issue", "result.json has an issue that raw/ does not give"


@pytest.mark.parametrize(
    ("stored", "again", "lines"),
    [
        ((), (), []),
        ((ERROR, WARNING), (WARNING, ERROR), []),
        ((), (ERROR,), [f"{LACKS} closure-broken: they do not agree"]),
        ((ERROR,), (), [f"{HAS}, closure-broken: they do not agree"]),
        ((ERROR,), (ERROR, ERROR), [f"{LACKS} closure-broken: they do not agree"]),
        (
            (ERROR, ERROR),
            (ERROR,),
            ["result.json has the issue closure-broken more often than raw/ gives"],
        ),
        (
            (REWORDED,),
            (ERROR,),
            [
                f"{LACKS} closure-broken: they do not agree",
                f"{HAS}, closure-broken: they differ",
            ],
        ),
        ((UNLOOKED,), (), []),  # its inputs are not stored
        (
            (Issue("made-up", Severity.WARNING, "x"),),
            (),
            ["result.json has an issue that no rule raises, made-up: x"],
        ),
    ],
)
def test_issues_are_compared_by_number(stored: Any, again: Any, lines: list[str]) -> None:
    assert compared(stored, again) == lines


@pytest.mark.parametrize(
    ("message", "same"),
    [("a: other words", True), ("b: they do not agree", False), ("they do not agree", False)],
)
def test_other_code_words_issues_differently_but_names_the_same_tenant(
    message: str, same: bool
) -> None:
    stored = replace(ERROR, message="a: they do not agree")
    lines = compared((replace(ERROR, message=message),), (stored,), worded=False, names=("a", "b"))
    assert (lines == []) is same
    assert len(compared((REWORDED,), (ERROR,))) == 2
    assert compared((REWORDED,), (ERROR,), worded=False) == []


@pytest.mark.parametrize(
    ("rules", "worded", "stored", "text"),
    [
        (CODES, True, result(), ""),
        (CODES[1:], True, result(), "rules: are not the codes"),
        ((*CODES, "made-up"), True, result(), "rules: are not the codes"),
        (CODES[1:], False, result(), ""),  # another release can have others
        ((), True, result(FAILED), ""),
        ((), False, result(FAILED, 0), "rules: has none"),
        ((), True, result(FAILED, metrics={"a": 1}), "rules: has none"),
        ((), True, result(OK), "rules: has none"),
        ((), True, result(INVALID), "rules: has none"),
    ],
)
def test_a_runner_looks_for_all_codes_or_stores_no_number(
    rules: tuple[str, ...], worded: bool, stored: Any, text: str
) -> None:
    found = list(judged._rules(stored, observed(rules=rules), worded=worded))
    assert len(found) == bool(text)
    assert text in "".join(found)


def test_the_facts_of_a_run_as_a_whole() -> None:
    plain: Any = spec()
    together = TenantFacts(died="a died")
    seen = observed(
        kernel_log_lines=None,
        clock_jump=3.0,
        findings=(WARNING, ERROR),
        untraced=WHY,
        together=together,
    )
    own: Any = SimpleNamespace(observed=SimpleNamespace(findings=(WARNING,)))
    facts = judging._whole(plain, "a line\n", seen, (own,))
    assert (facts.kernel_log, facts.clock_jump, facts.caveats) == (None, 3.0, (ERROR,))
    assert (facts.untraced, facts.tenants) == (WHY, together)
    known = judging._whole(plain, "a line\n", observed(kernel_log_lines=1), (own,))
    assert known.kernel_log == "a line\n"


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        (None, None),
        ([], None),
        ({}, None),
        ({"direct_io": None}, None),
        ({"direct_io": {"effective": {"reads": None, "writes": None}}}, None),
        (
            {"direct_io": {"effective": {"reads": True, "writes": False}, "source": "it"}},
            DirectIo(True, False, "it"),
        ),
    ],
)
def test_direct_io_of_a_manifest(manifest: Any, found: DirectIo | None) -> None:
    assert judged.direct_io(manifest) == found


OF_RUN = Issue("closure-broken", Severity.ERROR, "they do not agree")
LACK, WRONG = f"{LACKS} closure-broken", "status: has ok, raw/ gives invalid"


@pytest.mark.parametrize(
    ("tenants", "stored", "seen", "lines"),
    [
        (1, result(), observed(), [LACK, WRONG]),
        (1, result(INVALID, issues=(OF_RUN,)), observed(), []),
        # The runner did not look for it.
        (1, result(), observed(rules=("clock-jump",)), ["are not the codes"]),
        (1, result(SKIPPED, reason=WHY), observed(SKIPPED, reason=WHY), []),
        # No tenant began.
        (0, result(), observed(together=TenantFacts()), [LACK, WRONG]),
        (0, result(INVALID, issues=(OF_RUN,)), observed(together=TenantFacts()), []),
        # This zonelab lacks the level.
        (None, result(), observed(), []),
        (None, result(), observed(kernel_log_lines=2), ["raw/kernel.log: has 0 lines"]),
        # It lacks the level of a tenant. Issues of the run as a whole need none.
        (None, result(), observed(together=TenantFacts()), [LACK, WRONG]),
        (
            None,
            result(INVALID, issues=(OF_RUN, ERROR, replace(OF_RUN, message="a: its own"))),
            observed(together=TenantFacts()),
            [],
        ),
        # The levels found some of these.
        (None, result(), observed(together=TenantFacts(), findings=(OF_RUN,)), []),
    ],
)
def test_what_is_judged_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    tenants: int | None,
    stored: Any,
    seen: ObservedRun,
    lines: list[str],
) -> None:
    monkeypatch.setattr(judged.judging, "issues", lambda *_: (OF_RUN,))
    monkeypatch.setattr(judged.code, "recorded", lambda _: judged.code.runner()["source"])
    run = spec("a", "b") if seen.together else spec()
    run.level = stored.level = "conventional-ext4"
    monkeypatch.setattr(kernel_log, "differences", lambda *_: iter(()))
    own: Any = None
    every = None if tenants is None else [own] * tenants
    found = list(judged.differences(tmp_path, run, stored, seen, every))
    assert len(found) == len(lines), found
    for line, wanted in zip(found, lines, strict=True):
        assert wanted in line


@pytest.mark.parametrize(("same", "lines"), [(True, 2), (False, 0)])
def test_only_the_same_code_words_issues_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, same: bool, lines: int
) -> None:
    source = judged.code.runner()["source"] if same else "0"
    monkeypatch.setattr(judged.code, "recorded", lambda _: source)
    monkeypatch.setattr(judged.judging, "issues", lambda *_: (OF_RUN,))
    monkeypatch.setattr(kernel_log, "differences", lambda *_: iter(()))
    run = spec()
    own: Any = None
    run.level = "conventional-ext4"
    stored = result(INVALID, issues=(replace(OF_RUN, message="they differ"),))
    assert len(list(judged.differences(tmp_path, run, stored, observed(), [own]))) == lines


def test_a_run_must_have_its_observations(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"raw/observed\.json does not exist"):
        judged.load_observed(tmp_path)
    (tmp_path / NAME).parent.mkdir()
    record = json.loads(dumps(observed(clock_jump=2.5)))
    (tmp_path / NAME).write_text(dumps(record))
    assert judged.load_observed(tmp_path).clock_jump == 2.5
    del record["longest_gap"]
    (tmp_path / NAME).write_text(dumps(record))
    with pytest.raises(ConfigError, match="missing field 'longest_gap'") as refused:
        judged.load_observed(tmp_path)
    assert refused.value.hint.startswith("another zonelab release wrote the file")


# --- records --------------------------------------------------------------------------------------

LOG = "1.0 a\n2.0 b\n"
DISKS = "t,a\n1,2\n"
RECORDED: dict[str, Any] = {
    "kernel_log_lines": 2,
    "kernel_log_digest": checksums.of_text(LOG),
    "samples": {"diskstats.csv": 2},
    "digests": {"diskstats.csv": checksums.of_text(DISKS)},
}


@pytest.mark.parametrize(
    ("changes", "stored", "line"),
    [
        ({}, result(), ""),
        ({"kernel_log_lines": 3}, result(), f"raw/kernel.log: has 2 lines, {NAME} has 3"),
        (
            {"kernel_log_lines": None, "kernel_log_digest": None},
            result(),
            f"raw/kernel.log: has 2 lines, {NAME} has None",
        ),
        ({"kernel_log_digest": "0"}, result(), f"raw/kernel.log: has other bytes than {NAME}"),
        ({"kernel_log_digest": None}, result(), f"raw/kernel.log: has other bytes than {NAME}"),
        ({"samples": {"diskstats.csv": 3}}, result(), "series/diskstats.csv: has 2 lines, raw/"),
        ({"samples": None, "digests": None}, result(), f"{NAME}: has no digests of series/"),
        ({"samples": None, "digests": None, "rules": ()}, result(), ""),
        ({"digests": {"diskstats.csv": "0"}}, result(), "series/diskstats.csv: has other bytes"),
        ({"samples": {"diskstats.csv": 2, "gone.csv": 1}}, result(), "series/gone.csv: has 0 lin"),
        ({"reason": WHY}, result(), "result.json: reason: has None, raw/observed.json has"),
        ({"reason": WHY}, result(reason=WHY), ""),
    ],
)
def test_what_the_runner_recorded_of_its_files(
    tmp_path: Path, changes: dict[str, Any], stored: Any, line: str
) -> None:
    for name, text in ((kernel_log.FILE, LOG), ("series/diskstats.csv", DISKS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = list(judged._observed(tmp_path, stored, observed(**(RECORDED | changes))))
    assert len(found) == bool(line)
    assert line in "".join(found)


def test_no_kernel_log_has_no_lines(tmp_path: Path) -> None:
    unread = observed(kernel_log_lines=None, kernel_log_digest=None)
    assert list(judged._observed(tmp_path, result(), unread)) == []
    assert list(judged._observed(tmp_path, result(), observed(kernel_log_lines=0))) == []


# --- kernel log -----------------------------------------------------------------------------------

MOUNT = "F2FS-fs (dm-0): Mounted with checkpoint version = 1"
MISSING = Issue("kernel-log-missing", Severity.WARNING, "x")


@pytest.mark.parametrize(
    ("times", "stored", "line"),
    [
        ((1.0, 111.0), result(), ""),  # 10 s more than the run
        ((1.0, 111.1), result(), "raw/kernel.log: spans 110 s, the run took 100 s"),
        ((5.0, 4.0), result(), ""),  # messages of two processors
        ((5.0, 3.9), result(), "raw/kernel.log: its times fall"),
        ((5.0, 3.9), result(issues=(MISSING,)), ""),
        ((5.0, 3.9), result(issues=(WARNING, MISSING)), ""),
        ((), result(), ""),
    ],
)
def test_times_of_the_kernel_log(times: tuple[float, ...], stored: Any, line: str) -> None:
    log = "".join(f"{t:12.6f} {MOUNT}\n" for t in times) or MOUNT
    found = list(kernel_log.differences(log, LEVELS["f2fs"], stored))
    assert found == ([line] if line else [])


@pytest.mark.parametrize(
    ("level", "status", "log", "missing"),
    [
        ("f2fs", OK, MOUNT, False),
        ("f2fs", OK, "", True),
        ("f2fs", INVALID, "", True),
        ("f2fs", FAILED, "", False),  # it may never have come up
        ("zlfs", OK, "", False),  # without the kernel
        (None, OK, "", False),
    ],
)
def test_a_mount_is_in_the_kernel_log(
    level: str | None, status: Status, log: str, missing: bool
) -> None:
    found = list(kernel_log.differences(log, LEVELS[level] if level else None, result(status)))
    assert bool(found) is missing


def devices_line(*names: str) -> str:
    return f"{kmsg._DEVICES}{' '.join(names)}\n"


def test_the_last_line_names_the_devices_of_the_run() -> None:
    devices = [{"path": "/dev/nvme0n2", "queue": {"nvme0c0n2": {}}}, {"path": "/dev/nvme0n1"}]
    stored = result(FAILED, manifest={"host": {"devices": devices}})
    text = devices_line("nvme0n1", "nvme0n2", "nvme0c0n2")
    assert list(kernel_log.differences(text, None, stored)) == []
    found = list(kernel_log.differences(devices_line("nvme0n2"), None, stored))
    lacks = "raw/kernel.log: its last line does not name {}, a device of the run"
    assert found == [lacks.format("nvme0c0n2"), lacks.format("nvme0n1")]
    assert list(kernel_log.differences("", None, stored)) == []


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "again", "line"),
    [
        ({"a": Metric(1, "B")}, {"a": Metric(1, "B")}, ""),
        ({"a": Metric(1, "B")}, {"a": Metric(2, "B")}, "a: result.json has 1, raw/ gives 2"),
        ({"a": Metric(1, "B")}, {"a": Metric(1, "s")}, "a: result.json has 1, raw/ gives 1"),
        ({}, {"a": Metric(2, "B")}, "a: is not in result.json"),
        ({}, {"a": Metric(None, "B")}, ""),
    ],
)
def test_metrics_are_compared(
    stored: dict[str, Metric], again: dict[str, Metric], line: str
) -> None:
    assert list(stored_numbers.metrics(stored, again)) == ([line] if line else [])


@pytest.mark.parametrize(
    ("stored", "lines"),
    [
        ({"a": Metric(1, "B")}, []),
        ({"b": Metric(1, "B")}, ["b: result.json has 1, raw/ gives no such metric"]),
        ({"b": Metric(None, "B")}, []),
        ({"p.zone_resets": Metric(1, "1")}, []),
        ({"run.harness_memory_peak": Metric(1, "B")}, []),
    ],
)
def test_a_metric_that_raw_files_do_not_give(stored: dict[str, Metric], lines: list[str]) -> None:
    assert list(stored_numbers.invented(stored, {"a": Metric(1, "B")})) == lines


@pytest.mark.parametrize(
    ("part", "whole", "fits"),
    [
        (1, 1, True),
        (2, 1, False),
        (None, 1, False),
        (1, None, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, True),
        ({"a": 1, "b": 4}, {"a": 1, "b": 3}, False),
        ({"a": 1, "c": 1}, {"a": 1}, False),
        ({"a": 1, "c": 0}, {"a": 1}, True),
    ],
)
def test_earlier_counts_are_at_most_the_later_ones(part: Any, whole: Any, fits: bool) -> None:
    assert stored_numbers._is_part(part, whole) is fits
