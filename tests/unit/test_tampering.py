"""A sceptic edits a campaign and its checksums; ``zonelab verify`` names the edit.

The campaign is the first block of tests/fixtures/recorded/example.tar.xz, measured on the rig. It
is planned again by this release, so that the plan holds its study.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.machine import code
from harness.plan import derived_again
from harness.run.tenant import tenants_of
from harness.store import checksums, overview, packed, rundir
from harness.store.campaign import CampaignPaths, load_plan
from harness.store.files import dumps
from harness.verify import agreement, recompute, unchecked
from tests.fixtures.forged import (
    EXT4,
    F2FS,
    HOST,
    ZLFS,
    Edit,
    both,
    campaign,
    column,
    put,
    rows,
    seal,
    swap,
    text,
)

ROOT_RUNS = ("hosts", 0, "runs")
OUT, LOG, DISKS = (
    f"{F2FS}/{name}"
    for name in ("raw/overwrite.stdout", "raw/overwrite.LOG", "series/diskstats.csv")
)
ZONED = "nvme0n2.write_bytes"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return campaign(tmp_path_factory.mktemp("forged") / "example")


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "example"))


def index_of(root: Path, run: str) -> int:
    names = [one.run for one in load_plan(root / "plan.json").hosts[0].runs]
    return names.index(Path(run).name)


def planned(run: str, *keys: str | int, value: Any) -> Edit:
    """Set a value of a run in plan.json."""

    def change(root: Path) -> None:
        put("plan.json", *ROOT_RUNS, index_of(root, run), *keys, value=value)(root)

    return change


def everywhere(run: str, *keys: str | int, value: Any) -> Edit:
    """Set a value of a run in plan.json and run.json."""
    return both(planned(run, *keys, value=value), put(f"{run}/run.json", *keys, value=value))


def argv(run: str, old: str, new: str) -> Edit:
    """Replace an argument in the command lines of result.json."""
    return put(
        f"{run}/result.json",
        "phases",
        "*",
        "argv",
        "*",
        value=lambda argument: new if argument == old else argument,
    )


def without_run(run: str) -> Edit:
    def change(root: Path) -> None:
        put(
            "plan.json",
            *ROOT_RUNS,
            value=lambda runs: [one for one in runs if one["run"] != Path(run).name],
        )(root)
        shutil.rmtree(root / run)

    return change


def metrics_again(run: str) -> Edit:
    """Write metrics and ledger again from the edited raw files, as the runner computes them."""

    def change(root: Path) -> None:
        folder = root / run
        result, spec = rundir.load_result(folder), rundir.load_spec(folder)
        again = recompute.numbers(folder, spec, result, tenants_of(spec)[0])
        assert again is not None
        record = json.loads((folder / "result.json").read_text())
        record["metrics"] |= json.loads(dumps(again.metrics))
        (folder / "result.json").write_text(dumps(record))
        (folder / "ledger.json").write_text(dumps(again.ledger))

    return change


def is_hardware(file: str, *ways: tuple[str | int, ...]) -> Edit:
    return both(*(put(file, *way, "kind", value="hardware") for way in ways))


def digest_again(root: Path) -> None:
    """Write the digest of an edited study into plan and campaign record."""
    digest = derived_again.study_digest(load_plan(root / "plan.json"))
    put("plan.json", "study_digest", value=digest)(root)
    put("campaign.json", "study_digest", value=digest)(root)


def by_other_code(root: Path) -> None:
    """Write the digest of another planner."""
    put("plan.json", "hosts", 0, "source", value="0" * 64)(root)


def average(values: list[int]) -> list[int]:
    """Smooth a column: the mean of five samples, in blocks of 4 KiB."""
    last = len(values) - 1
    smooth = [
        sum(values[max(i - 2, 0) : i + 3]) // len(values[max(i - 2, 0) : i + 3]) // 4096 * 4096
        for i in range(last)
    ]
    return [values[0], *smooth[1:], values[last]]


def line(values: list[int]) -> list[int]:
    """Replace a column by a straight line."""
    step = (values[-1] - values[0]) / (len(values) - 1)
    middle = [int(values[0] + step * i) // 4096 * 4096 for i in range(1, len(values) - 1)]
    return [values[0], *middle, values[-1]]


def swapped_values(one: int, other: int) -> Callable[[str], str]:
    """Exchange the values of two rows; their times stay."""

    def edit(content: str) -> str:
        lines = [row.split(",", 1) for row in content.splitlines()]
        lines[one][1], lines[other][1] = lines[other][1], lines[one][1]
        return "".join(f"{t},{values}\n" for t, values in lines)

    return edit


def added(file: str, like: str) -> Edit:
    """Add a copy of another file."""

    def change(root: Path) -> None:
        shutil.copyfile(root / like, root / file)

    return change


def fewer(code: str) -> Callable[[list[Any]], list[Any]]:
    return lambda issues: [issue for issue in issues if issue["code"] != code]


RESULT, RUN = f"{F2FS}/result.json", f"{F2FS}/run.json"
BY_THIS_CODE = {"runner": {"source": code.runner()["source"]}}
REASON = {"code": "db-bench-failed", "message": "ended", "hint": ""}
# Name, edit, and part of a line that verify prints.
TABLE: list[tuple[str, Edit, str]] = [
    # --- raw output ------------------------------------------------------------------------------
    (
        "micros/op",
        text(OUT, swap("558.507 micros/op", "458.507 micros/op")),
        "f2fs--r01: raw/overwrite.stdout: has 458.507 micros/op, seconds and operations give 558.",
    ),
    (
        "ops/sec",
        text(OUT, swap("1790 ops/sec", "1990 ops/sec")),
        "raw/overwrite.stdout: has 1990 ops/sec, seconds and operations give 1790",
    ),
    (
        "MB/s",
        text(OUT, swap("13.7 MB/s", "23.7 MB/s")),
        "raw/overwrite.stdout: has 23.7 MB/s, seconds and operations give 13.7",
    ),
    (
        "seconds, and the metrics that follow",
        both(text(OUT, swap("45.106 seconds", "25.106 seconds")), metrics_again(F2FS)),
        "raw/overwrite.stdout: has 1790 ops/sec, seconds and operations give 3217",
    ),
    (
        "the whole summary line, and the metrics that follow",
        both(
            text(
                OUT,
                lambda out: re.sub(
                    r"558\.507 micros/op 1790 ops/sec 45\.106 (.*)  13\.7 MB/s",
                    r"279.253 micros/op 3580 ops/sec 22.553 \1  27.4 MB/s",
                    out,
                ),
            ),
            metrics_again(F2FS),
        ),
        "raw/overwrite.report.csv: reaches 44 s, raw/overwrite.stdout has 22.553 s",
    ),
    (
        "operations, and the metrics that follow",
        both(
            text(OUT, swap("80757 operations", "80700 operations")),
            metrics_again(F2FS),
        ),
        "has 80700 operations, its histogram of write 80757",
    ),
    (
        "total_output_size is smaller",
        text(LOG, swap('"total_output_size": 42353263', '"total_output_size": 32353263')),
        "raw/overwrite.LOG: job 6: total_output_size is 32353263, its 11 files have 42353263 B",
    ),
    (
        "total_output_size is larger, and the metrics that follow",
        both(
            text(LOG, swap('"total_output_size": 42353263', '"total_output_size": 52353263')),
            metrics_again(F2FS),
        ),
        "raw/overwrite.LOG: job 6: total_output_size is 52353263, its 11 files have 42353263 B",
    ),
    (
        "a latency in the histogram",
        text(OUT, swap("Max: 3016025", "Max: 1016025")),
        "histograms/overwrite.write.json: differs from raw/overwrite.stdout",
    ),
    (
        "a histogram that the benchmark did not print",
        added(f"{F2FS}/histograms/overwrite.zz.json", f"{F2FS}/histograms/overwrite.write.json"),
        "f2fs--r01: histograms/overwrite.zz.json: raw/ gives no such histogram",
    ),
    (
        "exit status",
        put(f"{F2FS}/raw/overwrite.process.json", "exit_code", value=1),
        "result.json: phases: overwrite: exit_code: has 0, raw/overwrite.process.json has 1",
    ),
    # --- series ----------------------------------------------------------------------------------
    (
        "diskstats smoothed by a mean of five",
        text(DISKS, column(ZONED, average)),
        f"series/diskstats.csv: {ZONED}: has ",
    ),
    (
        "diskstats as a straight line",
        text(DISKS, column(ZONED, line)),
        f"series/diskstats.csv: {ZONED}: has ",
    ),
    (
        "diskstats smoothed within one phase",
        text(
            DISKS, column(ZONED, lambda values: [*values[:25], *line(values[25:60]), *values[60:]])
        ),
        "series/zones.csv and series/zone_commands.csv give ",
    ),
    (
        "diskstats of a conventional device as a straight line",
        text(f"{EXT4}/series/diskstats.csv", column("nvme0n1.write_bytes", line)),
        "conventional-ext4--r01: series/diskstats.csv: nvme0n1.write_bytes: has ",
    ),
    (
        "one value of diskstats",
        text(DISKS, column(ZONED, lambda values: [*values[:30], values[30] + 5, *values[31:]])),
        f"series/diskstats.csv: {ZONED}: has ",
    ),
    (
        "diskstats cut at its end",
        text(DISKS, rows(slice(0, 40))),
        "series/diskstats.csv: has no sample from ",
    ),
    (
        "diskstats cut in the middle",
        text(
            DISKS,
            lambda csv: rows(slice(45, None))(csv).replace(
                "\n", "\n" + rows(slice(0, 25))(csv).partition("\n")[2], 1
            ),
        ),
        "series/diskstats.csv: has no sample from ",
    ),
    (
        "operations per second cut in series and raw",
        both(
            text(f"{F2FS}/series/overwrite.csv", rows(slice(0, 20))),
            text(f"{F2FS}/raw/overwrite.report.csv", rows(slice(0, 20))),
        ),
        "raw/overwrite.report.csv: ends at 20 s, raw/overwrite.stdout has 45.106 s",
    ),
    (
        "operations per second cut in the series",
        text(f"{F2FS}/series/overwrite.csv", rows(slice(0, 20))),
        "series/overwrite.csv: has other values than raw/ gives",
    ),
    (
        "a series that the runner did not sample",
        added(f"{F2FS}/series/media.csv", f"{F2FS}/series/system.csv"),
        "f2fs--r01: series/media.csv: raw/observed.json has no such series",
    ),
    (
        "system.csv emptied",
        text(f"{F2FS}/series/system.csv", rows(slice(0, 0))),
        "series/system.csv: has no samples",
    ),
    (
        "diskstats.csv: the last number cut",
        text(f"{F2FS}/series/diskstats.csv", lambda content: content[:-2]),
        "series/diskstats.csv: is damaged: it ends within a line",
    ),
    (
        "zones.csv: a zone too many",
        text(f"{F2FS}/series/zones.csv", column("empty", lambda values: [v + 1 for v in values])),
        "series/zones.csv: has 385 zones at 9.473 s, the device has 384",
    ),
    (
        "zones.csv: full zones become empty ones",
        both(
            text(f"{F2FS}/series/zones.csv", column("full", lambda v: [*v[:-1], v[-1] - 9])),
            text(f"{F2FS}/series/zones.csv", column("empty", lambda v: [*v[:-1], v[-1] + 9])),
        ),
        f"series/diskstats.csv: {ZONED}: has ",
    ),
    (
        "a counter of f2fs smoothed",
        text(f"{F2FS}/series/level.csv", column("moved_blocks_foreground", line)),
        "series/level.csv: moved_blocks_foreground: has ",
    ),
    (
        "a counter of f2fs above its last barrier",
        text(
            f"{F2FS}/series/level.csv",
            column("gc_background_calls", lambda values: [*values[:-1], values[-1] + 1]),
        ),
        "series/level.csv: gc_background_calls: has 31 at 83.789 s, the barriers give 30 to 30",
    ),
    (
        "a gauge of zlfs that its ledger does not have",
        text(f"{ZLFS}/series/level.csv", swap(",84,0\n", ",85,0\n")),
        "series/level.csv: has values at 16.062 s that no line of raw/ledger.jsonl gives in this ",
    ),
    (
        "gauges of zlfs in another order",
        text(f"{ZLFS}/series/level.csv", swapped_values(-1, -2)),
        "series/level.csv: has values at 65.484 s that no line of raw/ledger.jsonl gives in this ",
    ),
    (
        "the CPU time of db_bench",
        text(
            f"{F2FS}/series/system.csv",
            column("load_user_us", lambda values: [*values[:-2], values[-2] + 10**8, values[-1]]),
        ),
        "series/system.csv: load_user_us+load_system_us: ",
    ),
    (
        "zone commands cut",
        text(f"{F2FS}/series/zone_commands.csv", rows(slice(0, 500))),
        "series/zone_commands.csv: has other values than raw/ gives",
    ),
    # --- kernel log ------------------------------------------------------------------------------
    (
        "kernel.log emptied",
        text(f"{F2FS}/raw/kernel.log", lambda _: ""),
        "raw/kernel.log: has no line 'F2FS-fs .*Mounted with checkpoint'",
    ),
    (
        "kernel.log cut",
        text(f"{EXT4}/raw/kernel.log", lambda log: log.splitlines(keepends=True)[0]),
        "raw/kernel.log: has no line 'EXT4-fs .*mounted filesystem'",
    ),
    (
        "an error of the kernel log without its issue",
        text(f"{F2FS}/raw/kernel.log", lambda log: log + "268.1 nvme0n2: I/O error, dev\n"),
        "result.json lacks the issue io-errors: the kernel reported errors: 268.1 nvme0n2",
    ),
    (
        "kernel.log of another run",
        text(f"{F2FS}/raw/kernel.log", lambda log: log + "968.1 usb 1-1: new device\n"),
        "raw/kernel.log: spans 705 s, the run took 87 s",
    ),
    # --- status and issues -----------------------------------------------------------------------
    (
        "status ok becomes invalid",
        put(RESULT, "status", value="invalid"),
        "f2fs--r01: result.json: status: has invalid, raw/ gives ok",
    ),
    (
        "status ok becomes failed, with a reason",
        both(put(RESULT, "status", value="failed"), put(RESULT, "reason", value=REASON)),
        "f2fs--r01: result.json: status: has failed, raw/ gives ok",
    ),
    (
        "status ok becomes skipped, without issues",
        both(
            put(RESULT, "status", value="skipped"),
            put(RESULT, "reason", value=REASON),
            put(RESULT, "issues", value=[]),
        ),
        "f2fs--r01: result.json: status: has skipped, raw/ gives ok",
    ),
    (
        "an issue removed",
        put(RESULT, "issues", value=fewer("assertions-enabled")),
        "f2fs--r01: result.json lacks the issue assertions-enabled",
    ),
    (
        "a warning removed",
        put(f"{ZLFS}/result.json", "issues", value=fewer("gc-never-ran")),
        "zlfs--r01: result.json lacks the issue gc-never-ran",
    ),
    (
        "the severity of an issue",
        put(RESULT, "issues", 0, "severity", value="info"),
        "result.json lacks the issue direct-writes-buffered",
    ),
    (
        "the message of an issue, in a run of this code",
        both(
            put(RESULT, "manifest", "host", "code", value=BY_THIS_CODE),
            put(RESULT, "issues", 0, "message", value="all is well"),
        ),
        "has an issue that raw/ does not give, direct-writes-buffered: all is well",
    ),
    (
        "an issue invented",
        put(RESULT, "issues", value=lambda issues: [*issues, {**issues[0], "code": "no-space"}]),
        "result.json has an issue that raw/ does not give, no-space",
    ),
    # --- what was measured -----------------------------------------------------------------------
    (
        "device.kind in result.json",
        is_hardware(RESULT, ("device",)),
        "f2fs--r01: result.json: device: kind: has 'hardware', run.json has 'emulated'",
    ),
    (
        "device.kind in run.json and result.json",
        both(is_hardware(RESULT, ("device",)), is_hardware(RUN, ("device",))),
        "f2fs--r01: run.json: device.kind: has 'hardware', plan.json has 'emulated'",
    ),
    (
        "device.kind everywhere",
        both(
            is_hardware(RESULT, ("device",), ("manifest", "host", "devices", 0)),
            is_hardware(RUN, ("device",)),
            is_hardware("plan.json", ("hosts", 0, "inspection", "device")),
            is_hardware(f"hosts/{HOST}/host.json", ("device",)),
            planned(F2FS, "device", "kind", value="hardware"),
        ),
        "/dev/nvme0n2 has hardware, its model 'QEMU NVMe Ctrl' means emulated",
    ),
    (
        "the capacity in host.json",
        put(f"hosts/{HOST}/host.json", "device", "zones", value=900),
        "rig: host.json: device.zones: has 900, plan.json has 384",
    ),
    (
        "the kernel in the manifest",
        put(RESULT, "manifest", "host", "kernel", value="6.12.0"),
        "result.json: manifest.host.kernel: has '6.12.0', host.json has '7.3.4+deb13-amd64'",
    ),
    (
        "the target utilisation in result.json",
        put(RESULT, "utilisation", "target", value=0.5),
        "result.json: utilisation.target: has 0.5, run.json has 0.8",
    ),
    (
        "the size of the database in result.json",
        put(RESULT, "utilisation", "database_bytes", value=1),
        "utilisation.database_bytes: result.json has 1, raw/ gives 37113883",
    ),
    (
        "the duration of the run",
        put(RESULT, "seconds", value=46.672),
        "result.json: seconds: has 46.672, its phases took 55.242",
    ),
    (
        "the time of the run",
        put(RESULT, "started", value="2026-11-23T12:14:07+00:00"),
        "result.json: seconds: has 86.672, started and finished give 3687",
    ),
    (
        "a phase removed",
        put(RESULT, "phases", value=lambda phases: phases[:2]),
        "f2fs--r01: ledger.json: its entries are not cold, fillrandom, overwrite, run",
    ),
    (
        "the repetition of a result",
        put(RESULT, "repetition", value=2),
        "result.json: repetition: has 2, run.json has 1",
    ),
    # --- plan ------------------------------------------------------------------------------------
    (
        "a flag in run.json",
        put(RUN, "phases", 1, "flags", "threads", value=2),
        "f2fs--r01: run.json: phases[1].flags.threads: has 2, plan.json has 1",
    ),
    (
        "a flag in run.json and plan.json",
        everywhere(F2FS, "phases", 1, "flags", "threads", value=2),
        "plan.json: rig: f2fs--r01: phases[1].flags.threads: has 2, the study gives 1",
    ),
    (
        "a flag everywhere but in RocksDB's LOG",
        both(
            everywhere(F2FS, "phases", "*", "flags", "write_buffer_size", value=23887872),
            argv(F2FS, "--write_buffer_size=11943936", "--write_buffer_size=23887872"),
        ),
        "raw/overwrite.LOG: has write_buffer_size 11943936, run.json has 23887872",
    ),
    (
        "a flag everywhere but in db_bench's output",
        both(
            everywhere(F2FS, "phases", "*", "flags", "value_size", value=4000),
            argv(F2FS, "--value_size=8000", "--value_size=4000"),
        ),
        "raw/overwrite.stdout: has Values 8000, run.json has value_size 4000",
    ),
    (
        "the seed in run.json",
        put(RUN, "seed", value=7),
        "f2fs--r01: run.json: seed: has 7, plan.json has 30221",
    ),
    (
        "the seed in run.json, result.json and plan.json",
        both(everywhere(F2FS, "seed", value=7), put(RESULT, "seed", value=7)),
        "plan.json: rig: f2fs--r01: seed: has 7, the study gives 30221",
    ),
    (
        "the seed in the command line",
        argv(F2FS, "--seed=30321", "--seed=7"),
        "result.json: phases: overwrite: argv: has --seed=7, run.json gives --seed=30321",
    ),
    (
        "the seed of the study, of plan, runs and command lines",
        both(
            put("plan.json", "definition", "study", "seed", value=20222),
            *(
                both(
                    everywhere(run, "seed", value=30222),
                    put(f"{run}/result.json", "seed", value=30222),
                    argv(run, "--seed=30221", "--seed=30222"),
                    argv(run, "--seed=30321", "--seed=30322"),
                    argv(run, "--seed=30421", "--seed=30422"),
                )
                for run in (F2FS, EXT4, ZLFS)
            ),
            digest_again,
        ),
        "raw/overwrite.stdout: has seed 30321, run.json gives 30322",
    ),
    (
        "a claim",
        put("plan.json", "claims", 0, "expect", value="different"),
        "plan.json: claims: [0].expect: has 'different', the study gives 'better'",
    ),
    (
        "a claim removed",
        put("plan.json", "claims", value=lambda claims: claims[1:]),
        "plan.json: claims: has ",
    ),
    (
        "a claim in plan and study",
        both(
            put("plan.json", "claims", 0, "expect", value="different"),
            put("plan.json", "definition", "study", "claims", 0, "expect", value="different"),
        ),
        "plan.json: study_digest: has ",
    ),
    (
        "the baseline",
        put("plan.json", "baseline", value="f2fs"),
        "plan.json: baseline: has 'f2fs', the study gives 'conventional-ext4'",
    ),
    (
        "a size that other code could have derived, with the digest of this code",
        everywhere(F2FS, "cold", "bytes", value=1 << 30),
        "plan.json: rig: f2fs--r01: cold.bytes: has 1073741824, the study gives 1249902592",
    ),
    (
        "the level of a run, with the digest of other code",
        both(by_other_code, everywhere(F2FS, "level", value="btrfs")),
        "f2fs--r01: level: has 'btrfs', the study gives 'f2fs'",
    ),
    (
        "the digest in plan.json and campaign.json",
        both(
            put("plan.json", "study_digest", value="0" * 64),
            put("campaign.json", "study_digest", value="0" * 64),
        ),
        "plan.json: study_digest: has '0000",
    ),
    (
        "the digest of the host",
        put("campaign.json", "host_digest", value="0" * 64),
        "campaign.json: host_digest: has '0000",
    ),
    (
        "a run deleted from plan and disk",
        without_run(ZLFS),
        "plan.json: rig: zlfs--r01: the study has this run, the plan does not",
    ),
    (
        "runs in another order",
        put("plan.json", *ROOT_RUNS, value=lambda runs: runs[::-1]),
        "plan.json: rig: the order of its runs is not the order that the study gives",
    ),
    (
        "the first attempt of a run removed",
        lambda root: _second_attempt(root / F2FS),
        "rig: f2fs--r01: is missing, a later attempt is there",
    ),
]


def _second_attempt(folder: Path) -> None:
    second = folder.rename(folder.with_name("f2fs--r01.a2"))
    for name in ("run.json", "result.json"):
        both(put(name, "run", value=second.name), put(name, "attempt", value=2))(second)


def problems(root: Path, whole: Path) -> list[str]:
    """Return what verify prints. Runs with the checksums of the whole campaign are not repeated."""
    paths = CampaignPaths(root)
    lines = [*overview.problems(paths), *agreement.problems(paths), *derived_again.problems(paths)]
    for run in rundir.completed(paths.runs(HOST)):
        before = whole / run.relative_to(root) / checksums.NAME
        if not before.exists() or before.read_bytes() != (run / checksums.NAME).read_bytes():
            lines += [f"{HOST}: {run.name}: {line}" for line in recompute.of_run(run)]
    return lines


@pytest.mark.parametrize(
    ("edit", "expected"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_verify_names_the_edit(whole: Path, copy: Path, edit: Edit, expected: str) -> None:
    edit(copy)
    seal(copy)
    found = problems(copy, whole)
    assert any(expected in problem for problem in found), found


def cell(name: str, value: str) -> Callable[[str], str]:
    """Put text into the last row of a column."""

    def edit(content: str) -> str:
        header, *lines = content.splitlines()
        row = lines[-1].split(",")
        row[header.split(",").index(name)] = value
        return "\n".join([header, *lines[:-1], ",".join(row), ""])

    return edit


def broken(file: str) -> Edit:
    """Cut a compressed file."""

    def edit(root: Path) -> None:
        stored = root / f"{file}{packed.SUFFIX}"
        stored.write_bytes(stored.read_bytes()[:-20])

    return edit


SERIES = f"{F2FS}/series"
# Each file is damaged; the other checks still name the edits of CSV columns, status and metric.
DAMAGES = {
    "diskstats: an end within a line": (
        text(f"{SERIES}/diskstats.csv", lambda content: content[:-2]),
        "series/diskstats.csv: is damaged: it ends within a line",
    ),
    "diskstats: no number": (
        text(f"{SERIES}/diskstats.csv", cell(ZONED, "x")),
        "series/diskstats.csv: nvme0n2: is damaged: ValueError",
    ),
    "diskstats: no time": (
        text(f"{SERIES}/diskstats.csv", cell("t", "nan")),
        "series/diskstats.csv: is damaged: a time is no number",
    ),
    "diskstats: cut in the middle": (
        broken(f"{SERIES}/diskstats.csv"),
        "series/diskstats.csv.xz cannot be read",
    ),
    "level: no number": (
        text(f"{SERIES}/level.csv", cell("moved_blocks_background", "x")),
        "series/level.csv: is damaged: ValueError",
    ),
    "level: a cell too many": (
        text(f"{SERIES}/level.csv", lambda content: content[:-1] + ",1\n"),
        "series/level.csv: is damaged: ValueError",
    ),
    "zones: no number": (
        text(f"{SERIES}/zones.csv", cell("empty", "x")),
        "series/zones.csv: is damaged: ValueError",
    ),
    "a phase: no time": (
        text(f"{SERIES}/fillrandom.csv", swap("t,operations\n", "t,operations\nx")),
        "series/fillrandom.csv: has other times than raw/ gives",
    ),
    "commands of zones: no number": (
        text(f"{SERIES}/zone_commands.csv", cell("zone", "x")),
        "series/zone_commands.csv is not a timeline of zones",
    ),
}


@pytest.mark.parametrize(("damage", "expected"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_ends_only_its_own_checks(
    whole: Path, copy: Path, damage: Edit, expected: str
) -> None:
    text(f"{SERIES}/system.csv", column("load_user_us", lambda values: values[::-1]))(copy)
    put(RESULT, "status", value="invalid")(copy)
    put(RESULT, "metrics", "overwrite.operations", "value", value=1)(copy)
    damage(copy)
    seal(copy)
    found = "\n".join(problems(copy, whole))
    for one in (expected, "load_user_us+", "status: has invalid", "overwrite.operations: result"):
        assert one in found, (one, found)
    assert len(found.splitlines()) == len(set(found.splitlines()))


def test_a_message_can_change_between_releases(whole: Path, copy: Path) -> None:
    put(RESULT, "issues", 0, "message", value="in other words")(copy)
    seal(copy)
    assert problems(copy, whole) == []
    assert "3 runs by other code than this zonelab: the wording of issues" in unchecked.notes(
        CampaignPaths(copy)
    )


def test_other_code_derives_other_sizes(whole: Path, copy: Path) -> None:
    """A note names the first of them. The same edit without another digest is a problem."""
    edit = everywhere(F2FS, "timeout_seconds", value=lambda seconds: seconds + 1)
    edit(copy)
    assert any("timeout_seconds" in line for line in problems(copy, whole))
    assert derived_again.notes(load_plan(copy / "plan.json")) == []
    by_other_code(copy)
    seal(copy)
    assert problems(copy, whole) == []
    (note,) = derived_again.notes(load_plan(copy / "plan.json"))
    assert note.startswith("rig was planned by other code (zonelab ")
    assert "1 derived values differ. The first: plan.json: rig: f2fs--r01: timeout_" in note


def test_names_of_edits_differ() -> None:
    assert len({row[0] for row in TABLE}) == len(TABLE)


@pytest.mark.slow
def test_verify_exits_with_4_and_prints_the_edit_alone(
    whole: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(whole)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{whole}: whole"
    put(RESULT, "status", value="invalid")(copy)
    seal(copy)
    assert main(["verify", str(copy)]) == 4
    out = capsys.readouterr().out
    assert out == f"{HOST}: f2fs--r01: result.json: status: has invalid, raw/ gives ok\n"
