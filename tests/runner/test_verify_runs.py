"""``zonelab verify`` computes every number of a run again, and finds each that was changed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.store import checksums, packed
from harness.store.observed import NAME as OBSERVED
from harness.verify import recompute
from tests.runner.conftest import Machine
from tests.runner.zlfs_machine import Zoned

Edit = Callable[[Any], None]


def edit(path: Path, change: Edit) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def put(*keys: str | int, value: object) -> Edit:
    """Set what is below these keys; numbers get ``value`` added."""

    def change(record: Any) -> None:
        *way, last = keys
        for key in way:
            record = record[key]
        old = record[last]
        record[last] = old + value if isinstance(value, int) and isinstance(old, int) else value

    return change


def zlfs_run(root: Path, behave: str) -> Path:
    """Run zlfs on a fake machine; return the run's directory, which verifies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZONELAB_NATIVE", str(root / "native"))
        patch.setenv("PATH", f"{root / 'bin'}:{os.environ['PATH']}")
        zoned = Zoned(root)
        (root / "behave.json").write_text(behave)
        zoned.run()
    assert recompute.of_run(zoned.folder) == []
    return zoned.folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return zlfs_run(tmp_path_factory.mktemp("whole"), "{}")


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of one run, to be changed."""
    return Path(shutil.copytree(whole, tmp_path / whole.name))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["", "crash", "truncate", "no-gc"])
def test_an_unchanged_run_verifies(machine: Machine, mode: str) -> None:
    machine.behave(overwrite=mode)
    machine.run("--only", "fake--r01")
    folder = machine.runs / "fake--r01"
    assert (folder / "ledger.json").exists()
    assert recompute.of_run(folder) == []


@pytest.mark.slow
def test_a_run_with_a_conventional_device_is(machine: Machine) -> None:
    machine.use_conventional()
    machine.run("--only", "fake--r01")
    folder = machine.runs / "fake--r01"
    ledger = json.loads((folder / "ledger.json").read_text())
    assert ledger["entries"][-1]["submitted"] == {"nvme0n2": 2 * 65536 * 512, "nvme0n1": 0}
    assert recompute.of_run(folder) == []


FINDING = {
    "code": "fsck",
    "severity": "error",
    "message": "a block is lost",
    "phase": None,
    "expected": None,
    "actual": None,
}
CHANGES: list[tuple[str, Edit, str]] = [
    (
        "result.json",
        put("metrics", "overwrite.zoned_written", "value", value=1),
        "overwrite.zoned_written: result.json has 33554433, raw/ gives 33554432",
    ),
    (
        "result.json",
        put("metrics", "run.wa_total", "value", value=1.0),
        "run.wa_total: result.json has 1.0, raw/ gives ",
    ),
    (
        "result.json",
        put("metrics", "overwrite.cpu_seconds", "value", value=0.5),
        "overwrite.cpu_seconds: result.json has 0.5, raw/ gives None",
    ),
    (
        "result.json",
        lambda record: record["metrics"].pop("overwrite.zones_full"),
        "overwrite.zones_full: is not in result.json",
    ),
    (
        "result.json",
        put("utilisation", "live_bytes", value=1),
        "utilisation.live_bytes: result.json has ",
    ),
    (
        "result.json",
        lambda record: record["issues"].append(
            {"code": "closure-broken", "severity": "error", "message": "x", "phase": None}
        ),
        "result.json has an issue that raw/ does not give, closure-broken: x",
    ),
    (
        "ledger.json",
        put("entries", 2, "flush", value=1),
        "ledger.json: overwrite.flush: has 1001, raw/ gives 1000",
    ),
    (
        "ledger.json",
        put("entries", 1, "closures", 2, "state", value="closed"),
        "ledger.json: fillrandom.closures: has ",
    ),
    (
        "ledger.json",
        lambda record: record["entries"].pop(),
        "ledger.json: its entries are not cold, fillrandom, overwrite, run",
    ),
    (
        "raw/overwrite.counters.json",
        put("written", "nvme0n2", value=1),
        "ledger.json: overwrite.submitted: has ",
    ),
    (
        "raw/overwrite.usage.json",
        put("own", "payload", "flush", value=1),
        "the last usage.json has payload ",
    ),
    (
        "raw/overwrite.usage.json",
        put("gc_seconds", value=9.0),
        "the last usage.json has gc_seconds 9.0, raw/",
    ),
    (
        "raw/overwrite.process.json",
        put("load_seconds", value=3.0),
        "overwrite.cpu_seconds: result.json has None, raw/ gives 3.0",
    ),
    ("raw/cold.counters.json", lambda record: record.clear(), "schema_version"),
    (
        "raw/observed.json",
        put("kernel_log_lines", value=2),
        "raw/kernel.log: has 1 lines, raw/observed.json has 3",
    ),
    (
        "raw/observed.json",
        put("ended", value="failed"),
        "result.json: status: has ok, raw/ gives failed",
    ),
    (
        "raw/observed.json",
        put("findings", value=[FINDING]),
        "result.json lacks the issue fsck: a block is lost",
    ),
    (
        "raw/observed.json",
        lambda record: record["rules"].remove("closure-broken"),
        "raw/observed.json: rules: are not the codes that this zonelab looks for",
    ),
    (
        "raw/observed.json",
        put("rules", value=[]),
        "raw/observed.json: rules: has none, result.json has the numbers of a run that was judged",
    ),
    (
        "raw/observed.json",
        put("untraced", value=None),
        "result.json has an issue that raw/ does not give, not-traced",
    ),
    (
        "result.json",
        put("reason", value={"code": "hung", "message": "x", "hint": ""}),
        "result.json: reason: has {'code': 'hung', 'message': 'x', 'hint': ''}, raw/observed.json",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "change", "message"), CHANGES)
def test_whatever_was_changed_is_found(run: Path, file: str, change: Edit, message: str) -> None:
    edit(run / file, change)
    found = recompute.of_run(run)
    assert any(message in line for line in found), found


@pytest.mark.slow
def test_a_large_file_of_observations_is_judged_too(run: Path) -> None:
    observed = run / "raw/observed.json"
    edit(observed, put("ended", value="failed"))
    with observed.open("a") as file:
        file.write(" " * packed.LARGE)
    packed.compress_large(observed.parent)
    assert not observed.exists()
    found = recompute.of_run(run)
    assert any("result.json: status: has ok, raw/ gives failed" in line for line in found), found


@pytest.mark.parametrize(
    ("file", "was", "becomes", "message"),
    [
        ("series/overwrite.csv", ",10000", ",10001", "has other values than raw/ gives"),
        ("series/overwrite.csv", "t,operations\n", "t,operations\n9", "has other times than raw/"),
        ("series/overwrite.lsm.csv", ",1,3,7", ",1,3,8", "has other values than raw/ gives"),
        (
            "histograms/overwrite.write.json",
            '"count": 20000',
            '"count": 20001',
            "differs from raw/",
        ),
    ],
)
def test_a_series_that_was_changed_is_found(
    run: Path, file: str, was: str, becomes: str, message: str
) -> None:
    text = (run / file).read_text()
    assert was in text
    (run / file).write_text(text.replace(was, becomes, 1))
    lines = recompute.of_run(run)
    assert any(line.startswith(f"{file}: {message}") for line in lines), lines
    assert all(line.startswith(f"{file}: ") for line in lines), lines


@pytest.mark.parametrize("name", ["system", "level", "zones"])
def test_a_cut_end_of_a_gauge_is_found(run: Path, name: str) -> None:
    file = run / "series" / f"{name}.csv"
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) > 1
    file.write_text("".join(lines[:-1]))
    wanted = f"series/{name}.csv: has {len(lines) - 1} lines, raw/observed.json has {len(lines)}"
    assert wanted in recompute.of_run(run)
    file.unlink()
    assert any(f"series/{name}.csv: has 0 lines" in line for line in recompute.of_run(run))


def test_a_line_of_the_kernel_log_is_compared(run: Path) -> None:
    log = run / "raw/kernel.log"
    log.write_text("x" * log.stat().st_size + "\n")
    found = recompute.of_run(run)
    assert "raw/kernel.log: has other bytes than raw/observed.json recorded" in found


def test_a_message_of_this_codes_run_is_compared(run: Path) -> None:
    edit(run / "result.json", put("issues", 0, "message", value="all is well"))
    found = recompute.of_run(run)
    assert any("all is well" in line for line in found), found


@pytest.mark.slow
def test_a_broken_closure_is_borne_out_and_cannot_be_taken_away(tmp_path: Path) -> None:
    folder = zlfs_run(tmp_path, '{"overwrite": "lost-bytes"}')
    edit(folder / "result.json", put("issues", value=[]))
    lines = recompute.of_run(folder)
    assert lines[0].startswith("result.json lacks the issue closure-broken: RocksDB flush (1000 B)")
    assert "result.json lacks the issue not-traced" in "".join(lines)


def test_a_missing_raw_file_is_named(run: Path) -> None:
    (run / "raw" / "overwrite.zones.csv").write_text("zone\n")
    assert recompute.of_run(run) == ["a zone report begins with 'zone'"]
    (run / "raw" / "fillrandom.usage.json").unlink()
    (line,) = recompute.of_run(run)
    assert line.endswith("fillrandom.usage.json does not exist")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["diskstats", "system"])
def test_each_series_is_bound_to_the_barriers(run: Path, name: str) -> None:
    """Also where the record of the whole run is edited to fit."""
    last = json.loads((run / "raw/overwrite.counters.json").read_text())["series"]
    assert last[name]["samples"] >= 1
    file = run / "series" / f"{name}.csv"
    lines = packed.text(file).splitlines(keepends=True)
    lines[1] = lines[1].rstrip("\n") + "0\n"
    found = packed.find(file)
    assert found is not None
    found.unlink()
    file.write_text("".join(lines))
    digest = checksums.of_text("".join(lines))
    edit(run / OBSERVED, lambda record: record["digests"].update({f"{name}.csv": digest}))
    samples = {
        mark["samples"]
        for counters in run.glob("raw/*.counters.json")
        for mark in [json.loads(counters.read_text())["series"][name]]
    }
    first = min(samples - {0})
    line = f"series/{name}.csv: its first {first} samples are not those that a barrier recorded"
    assert line in recompute.of_run(run)
    later = json.loads((run / "raw/overwrite.counters.json").read_text())["series"]
    assert set(later) >= {"diskstats", "system", "level", "zones"}
