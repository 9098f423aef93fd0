"""A sceptic edits a run with tenants and its checksums; ``zonelab verify`` names the edit.

``tests/fixtures/verify/tenants.tar.xz`` has two runs of a rig: a whole one, and one in which the
aggressor was killed from outside. Fields and metrics that the runner stores since then were
computed from raw files; the bound of 120 s for gaps in series is synthetic.
"""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.store import checksums, packed, rundir
from harness.verify import agreement, recompute
from tests.fixtures.forged import Edit, both, column, put, rows, swap, text

ARCHIVE = Path(__file__).parents[1] / "fixtures/verify/tenants.tar.xz"
WHOLE, KILLED = "small_mix-shared--r01", "small_mix-shared--r02"
OBSERVED, RESULT = "raw/observed.json", "result.json"
LOG = "raw/kernel.log"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tenants")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def copy(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs, tmp_path / "runs"))


def recorded(run: Path) -> None:
    """Record the digest of the kernel log again."""
    digest = checksums.of_text(packed.text(run / LOG))
    put(OBSERVED, "kernel_log_digest", value=digest)(run)


def cut(name: str, keep: slice) -> Edit:
    """Keep some samples of a series, and record it again; samples are 40 s apart at most."""

    def change(run: Path) -> None:
        text(f"series/{name}", rows(keep))(run)
        content = packed.text(run / "series" / name)
        put(OBSERVED, "samples", name, value=content.count("\n"))(run)
        put(OBSERVED, "digests", name, value=checksums.of_text(content))(run)
        put(OBSERVED, "longest_gap", value=40.0)(run)

    return change


def metric(name: str, factor: float = 1.5) -> Edit:
    """Multiply a metric of result.json."""
    return put(RESULT, "metrics", name, "value", value=lambda value: value * factor)


def issue(code: str, **more: Any) -> Callable[[list[Any]], list[Any]]:
    """Add an issue to a list."""
    made = {"severity": "error", "message": "x", "phase": None, "expected": None, "actual": None}
    return lambda issues: [*issues, {"code": code, **made, **more}]


def without(code: str) -> Callable[[list[Any]], list[Any]]:
    return lambda issues: [one for one in issues if one["code"] != code]


def tolerance(name: str, *, value: float) -> Edit:
    """Narrow the tolerance of a tenant's utilisation in all records, so that it was missed."""
    index = {"victim": 0, "aggressor": 1}[name]
    return both(
        put("run.json", "tenants", index, "cold", "tolerance", value=value),
        put(OBSERVED, "tenants", name, "utilisation", "tolerance", value=value),
    )


def gauge(file: str, name: str) -> Edit:
    """Change the last value of a column; a column with empty cells is changed by hand."""

    def change(content: str) -> str:
        header, *lines = content.splitlines()
        at = header.split(",").index(name)
        cells = lines[-1].split(",")
        cells[at] = str(float(cells[at] or 0) + 1)
        return "\n".join([header, *lines[:-1], ",".join(cells)]) + "\n"

    return text(file, change)


def more(step: int) -> Callable[[list[int]], list[int]]:
    """Change a value in the middle."""

    def change(values: list[int]) -> list[int]:
        middle = len(values) // 2
        return [*values[:middle], values[middle] + step, *values[middle + 1 :]]

    return change


def moved(columns: tuple[str, str], count: int) -> Edit:
    """Take zones from a state and add them to another, in the last sample."""
    taken, given = columns
    file = "series/victim.zones.csv"
    return both(
        text(file, column(taken, lambda values: [*values[:-1], values[-1] - count])),
        text(file, column(given, lambda values: [*values[:-1], values[-1] + count])),
    )


# Name, run, edit, and part of a line that verify prints.
TABLE: list[tuple[str, str, Edit, str]] = [
    # --- issues and status -----------------------------------------------------------------------
    (
        "an issue of a tenant removed",
        WHOLE,
        tolerance("victim", value=1e-6),
        "result.json lacks the issue utilisation-missed: victim: utilisation is",
    ),
    (
        "an issue of a tenant becomes another tenant's",
        WHOLE,
        both(
            tolerance("aggressor", value=1e-6),
            put(RESULT, "issues", value=issue("utilisation-missed", message="victim: it is")),
        ),
        "result.json lacks the issue utilisation-missed: aggressor: utilisation is",
    ),
    (
        "an issue of a tenant invented",
        WHOLE,
        put(RESULT, "issues", value=issue("gc-never-ran", phase="victim.mix")),
        "result.json has an issue that raw/ does not give, gc-never-ran",
    ),
    (
        "the death of a tenant removed",
        KILLED,
        put(RESULT, "issues", value=without("tenant-died")),
        "result.json lacks the issue tenant-died: tenant aggressor ended with signal 9",
    ),
    (
        "the death of a tenant removed everywhere",
        KILLED,
        both(
            put(RESULT, "issues", value=without("tenant-died")),
            put(RESULT, "status", value="ok"),
            put(OBSERVED, "together", "died", value=""),
        ),
        "raw/observed.json: tenants were stopped, and none died: victim",
    ),
    (
        "the stopped tenant, too",
        KILLED,
        both(
            put(OBSERVED, "together", "died", value=""),
            put(OBSERVED, "tenants", "victim", "stopped", value=False),
        ),
        "raw/observed.json: no tenant died, raw/ has aggressor",
    ),
    (
        "another tenant died",
        KILLED,
        put(OBSERVED, "together", "died", value=lambda died: died.replace("aggressor", "victim")),
        "raw/observed.json: died: has 'tenant victim ended with signal 9",
    ),
    (
        "status invalid becomes ok",
        KILLED,
        put(RESULT, "status", value="ok"),
        "result.json: status: has ok, raw/ gives invalid, for the issue tenant-died",
    ),
    (
        "status ok becomes invalid",
        WHOLE,
        put(RESULT, "status", value="invalid"),
        "result.json: status: has invalid, raw/ gives ok",
    ),
    # --- numbers ---------------------------------------------------------------------------------
    (
        "throughput",
        WHOLE,
        metric("victim.mix.throughput"),
        "victim.mix.throughput: result.json has ",
    ),
    (
        "bytes of the ledger",
        WHOLE,
        put("aggressor.ledger.json", "entries", 1, "user", value=lambda user: user + 1),
        "aggressor.ledger.json: aggressor.fill.user: has ",
    ),
    (
        "seconds of active zones",
        WHOLE,
        metric("aggressor.mix.active_zone_seconds"),
        "aggressor.mix.active_zone_seconds: result.json has ",
    ),
    (
        "resets",
        WHOLE,
        put(RESULT, "metrics", "aggressor.mix.zone_resets", "value", value=99),
        "aggressor.mix.zone_resets: result.json has 99",
    ),
    (
        "utilisation",
        WHOLE,
        metric("victim.mix.utilisation"),
        "victim.mix.utilisation: result.json has ",
    ),
    (
        "utilisation, as observed",
        WHOLE,
        put(OBSERVED, "tenants", "victim", "utilisation", "u_ns", value=0.15),
        "raw/observed.json: tenant victim: utilisation: u_ns: has 0.15, raw/ gives ",
    ),
    (
        "share of the harness",
        WHOLE,
        metric("run.harness_cpu_share", 0.1),
        "run.harness_cpu_share: result.json has ",
    ),
    (
        "a metric invented",
        WHOLE,
        put(RESULT, "metrics", "victim.mix.denied_opens", "value", value=3),
        "victim.mix.denied_opens: result.json has 3, raw/ gives None",
    ),
    (
        "a metric of no phase",
        WHOLE,
        put(
            RESULT,
            "metrics",
            value=lambda metrics: {
                **metrics,
                "ghost.mix.throughput": {"value": 9, "unit": "ops/s"},
            },
        ),
        "ghost.mix.throughput: result.json has 9, raw/ gives no such metric",
    ),
    (
        "operations in the raw output",
        WHOLE,
        text("raw/victim.mix.report.csv", column("update", more(1))),
        "raw/victim.mix.report.csv: has ",
    ),
    (
        "the level's own bytes at a barrier",
        WHOLE,
        put("raw/aggressor.mix.usage.json", "own", "resets", value=lambda resets: resets + 1),
        "the last usage.json has resets ",
    ),
    # --- series ----------------------------------------------------------------------------------
    (
        "a value of operations per second",
        WHOLE,
        text("series/victim.mix.csv", column("operations", more(1))),
        "series/victim.mix.csv: has other values than raw/ gives",
    ),
    (
        "a value of the tree",
        WHOLE,
        text("series/aggressor.mix.lsm.csv", column("files", more(1))),
        "series/aggressor.mix.lsm.csv: has other values than raw/ gives",
    ),
    (
        "bytes of a slice",
        WHOLE,
        text(
            "series/diskstats.csv", column("dm-1.write_bytes", lambda v: [*v[:-1], v[-1] + 2**30])
        ),
        "series/diskstats.csv: dm-1.write_bytes: has ",
    ),
    (
        "bytes of a slice that are no blocks",
        WHOLE,
        text("series/diskstats.csv", column("dm-0.write_bytes", more(512))),
        "series/diskstats.csv: dm-0.write_bytes: has ",
    ),
    (
        "full zones become empty ones",
        WHOLE,
        moved(("full", "empty"), 6),
        "series/diskstats.csv: dm-0.write_bytes: has ",
    ),
    (
        "a zone too many",
        WHOLE,
        text("series/victim.zones.csv", column("empty", lambda values: [v + 1 for v in values])),
        "series/victim.zones.csv: has 97 zones at ",
    ),
    (
        "a gauge of the level",
        WHOLE,
        gauge("series/victim.level.csv", "collected_zones"),
        "series/victim.level.csv: has other bytes than raw/observed.json recorded",
    ),
    (
        "a gauge of the machine",
        WHOLE,
        gauge("series/system.csv", "available"),
        "series/system.csv: has other bytes than raw/observed.json recorded",
    ),
    (
        "the end of a tenant's zones cut",
        WHOLE,
        text("series/victim.zones.csv", rows(slice(0, -1))),
        "series/victim.zones.csv: has ",
    ),
    (
        "the end of a level's series cut, and its lines recorded again",
        WHOLE,
        both(
            text("series/aggressor.level.csv", rows(slice(0, -1))),
            put(OBSERVED, "samples", "aggressor.level.csv", value=lambda lines: lines - 1),
        ),
        "series/aggressor.level.csv: has other bytes than raw/observed.json recorded",
    ),
    (
        "the beginning of a tenant's zones cut",
        WHOLE,
        text("series/aggressor.zones.csv", rows(slice(1, None))),
        "series/aggressor.zones.csv: does not begin with series/diskstats.csv",
    ),
    (
        "the end of a tenant's zones cut, and recorded again",
        WHOLE,
        cut("aggressor.zones.csv", slice(0, 1)),
        "series/aggressor.zones.csv: has no sample from 64.9 s to 165.9 s, they are 40 s apart",
    ),
    (
        "a hole in the series of a level, recorded again",
        WHOLE,
        cut("aggressor.level.csv", slice(0, None, 9)),
        "series/aggressor.level.csv: has no sample from 64.9 s to 111.5 s, they are 40 s apart",
    ),
    (
        "operations per second cut",
        WHOLE,
        text("series/aggressor.mix.csv", rows(slice(0, 2))),
        "series/aggressor.mix.csv: has other values than raw/ gives",
    ),
    (
        "operations per second cut in series and raw",
        WHOLE,
        both(
            text("series/aggressor.mix.csv", rows(slice(0, -1))),
            text("raw/aggressor.mix.report.csv", rows(slice(0, -1))),
        ),
        "raw/aggressor.mix.report.csv: ends at ",
    ),
    (
        "diskstats cut",
        WHOLE,
        text("series/diskstats.csv", rows(slice(0, 3))),
        "series/diskstats.csv: has ",
    ),
    # --- the kernel log --------------------------------------------------------------------------
    (
        "a line of the kernel log",
        WHOLE,
        text(LOG, swap("dm-1 zone resource limits", "dm-1 zone resource limit ")),
        "raw/kernel.log: has other bytes than raw/observed.json recorded",
    ),
    (
        "the devices whose errors count, and the digest",
        WHOLE,
        both(
            text(LOG, lambda log: re.sub(r"(?<=# devices of the run: ).*", "sdz", log)),
            recorded,
        ),
        "raw/kernel.log: its last line does not name nvme0n2, a device of the run",
    ),
    # --- the trace -------------------------------------------------------------------------------
    (
        "zone commands cut",
        WHOLE,
        text("series/zone_commands.csv", rows(slice(0, 60))),
        "series/zone_commands.csv: has other values than raw/ gives",
    ),
    (
        "a zone command of another zone",
        WHOLE,
        text("series/zone_commands.csv", swap(",3,first-write,", ",5,first-write,")),
        "series/zone_commands.csv: has other values than raw/ gives",
    ),
    (
        "bytes of traced zones",
        WHOLE,
        text("raw/nvme0n2.zones_traced.csv", column("written", more(4096))),
        "raw/nvme0n2.zones_traced.csv: differs from raw/trace.jsonl",
    ),
    (
        "the trace at a barrier",
        WHOLE,
        put("raw/victim.mix.counters.json", "trace", "finishes", value=lambda count: count + 1),
        "trace: a barrier has finishes ",
    ),
    # --- the common time -------------------------------------------------------------------------
    (
        "the end of the common time",
        WHOLE,
        put("raw/tenants.json", "ended", value=lambda ended: ended - 2),
        "raw/tenants.json: ended: has ",
    ),
    (
        "the beginning of the common time",
        WHOLE,
        put("raw/tenants.json", "began", value=lambda began: began + 2),
        "manifest.level.victim.released: is before raw/tenants.json: began",
    ),
    (
        "the end of a tenant",
        WHOLE,
        put(RESULT, "manifest", "level", "aggressor", "ended", value=lambda ended: ended + 1),
        "result.json: manifest.level.aggressor: lasted ",
    ),
    (
        "the time between the ends",
        WHOLE,
        put(OBSERVED, "together", "spread", value=0.0),
        "raw/observed.json: spread: has 0.0, the manifest gives ",
    ),
    (
        "the weight of a tenant",
        WHOLE,
        put("raw/tenants.json", "tenants", 0, "weight", value=9.0),
        "raw/tenants.json: victim: weight: has 9.0, run.json has 1.0",
    ),
    (
        "the zones of a tenant",
        WHOLE,
        put("raw/tenants.json", "tenants", 1, "zones", value=[0, 96]),
        "raw/tenants.json: aggressor: zones: [0]: has 0, run.json has 96",
    ),
    (
        "the slice of a tenant",
        WHOLE,
        put(OBSERVED, "tenants", "victim", "device", "zones", value=97),
        "raw/observed.json: tenant victim: device: zones: has 97, run.json has 96",
    ),
    (
        "a tenant that was not observed",
        WHOLE,
        put(
            OBSERVED,
            "tenants",
            value=lambda known: {k: one for k, one in known.items() if k == "victim"},
        ),
        "raw/observed.json: tenant aggressor: is missing, raw/ has its barriers",
    ),
]


@pytest.mark.parametrize("run", [WHOLE, KILLED])
def test_the_runs_are_whole(runs: Path, run: str) -> None:
    assert recompute.of_run(runs / run) == []


@pytest.mark.parametrize(
    ("run", "edit", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_verify_names_the_edit(copy: Path, run: str, edit: Edit, expected: str) -> None:
    edit(copy / run)
    found = recompute.of_run(copy / run)
    assert any(expected in problem for problem in found), found


def contradictions(folder: Path) -> list[str]:
    return list(agreement.of_run(folder, rundir.load_spec(folder), rundir.load_result(folder)))


@pytest.mark.parametrize(
    ("old", "new"), [("--rate=50.0", "--rate=5.0"), ("--seed=80321", "--seed=1")]
)
def test_the_arguments_of_every_program_follow_from_the_plan(
    copy: Path, old: str, new: str
) -> None:
    folder = copy / WHOLE
    assert contradictions(folder) == []
    put(RESULT, "phases", "*", "argv", "*", value=lambda has: new if has == old else has)(folder)
    assert contradictions(folder) == [
        f"result.json: phases: victim.mix: argv: has {new}, run.json gives {old}"
    ]


def test_names_of_edits_differ() -> None:
    assert len({row[0] for row in TABLE}) == len(TABLE)


def test_a_series_without_holes_is_whole(copy: Path) -> None:
    """Two series of the fixture have a longer gap than this."""
    put(OBSERVED, "longest_gap", value=60.0)(copy / WHOLE)
    assert [line.partition(":")[0] for line in recompute.of_run(copy / WHOLE)] == [
        "series/victim.zones.csv",
        "series/system.csv",
    ]
