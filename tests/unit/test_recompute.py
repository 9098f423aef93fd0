"""``zonelab verify`` recomputes the numbers of db_bench and RocksDB from raw files."""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.run import phase_metrics
from harness.store import checksums, overview, rundir
from harness.store.campaign import CampaignPaths
from harness.store.result import Metric
from harness.store.spec import PhaseSpec
from harness.tools import rocksdb_log
from harness.verify import agreement, recompute, stored, unchecked
from harness.workloads.db_bench import DbBench
from harness.workloads.rocksdb import Below
from tests.fixtures.example import unpacked

ROOT = Path(__file__).parents[2]
EXAMPLE = unpacked()
CAPTURED = ROOT / "tests/fixtures/db_bench/9.10"
RUN = "hosts/rig/runs/f2fs--r01"

Change = Callable[[str, float], None]


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """The example, and one of its runs with a phase whose raw files are the captures."""
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder)
    return folder


def change_metric(campaign: Path, key: str, value: float | None) -> None:
    run = campaign / RUN
    result = json.loads((run / "result.json").read_text())
    assert key in result["metrics"]
    result["metrics"][key]["value"] = value
    (run / "result.json").write_text(json.dumps(result))
    checksums.write(run)


def verify(campaign: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = main(["verify", str(campaign)])
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("overwrite.operations", 1),
        ("overwrite.throughput", 1e9),
        ("readrandom.latency_p50", None),
    ],
)
def test_a_number_that_raw_does_not_bear_out_is_named(
    campaign: Path, capsys: pytest.CaptureFixture[str], key: str, value: float | None
) -> None:
    code, lines = verify(campaign, capsys)
    assert (code, lines[0]) == (0, f"{campaign}: whole")
    change_metric(campaign, key, value)
    code, lines = verify(campaign, capsys)
    assert (code, len(lines)) == (4, 2), lines
    assert lines[0].startswith(f"rig: f2fs--r01: {key}: result.json has {value}, raw/ gives ")
    assert lines[1].startswith("bundle.json: root: ")


def overwrite_phase() -> PhaseSpec:
    run = rundir.load_spec(EXAMPLE / RUN)
    return next(phase for phase in run.phases if phase.name == "overwrite")


def captured_metrics() -> dict[str, Metric]:
    spec = overwrite_phase()
    out, err = ((CAPTURED / f"tree-overwrite.{kind}").read_text() for kind in ("out", "err"))
    with (CAPTURED / "tree-overwrite.LOG").open(newline="\n") as lines:
        log = rocksdb_log.parse(lines)
    return phase_metrics.program_metrics(spec, DbBench().parse(spec, out, err), log, Below())


def replace_output(raw: Path) -> None:
    """Replace the raw files of phase overwrite by captured output, without the LOG."""
    for pattern in ("overwrite.LOG.*", "overwrite.stdout*", "overwrite.stderr*"):
        for file in raw.glob(pattern):
            file.unlink()
    for kind, name in (("out", "stdout"), ("err", "stderr")):
        shutil.copyfile(CAPTURED / f"tree-overwrite.{kind}", raw / f"overwrite.{name}")


def test_rocksdbs_numbers_come_from_the_packed_log(campaign: Path) -> None:
    run = campaign / RUN
    raw, expected = run / "raw", captured_metrics()
    replace_output(raw)
    text = (CAPTURED / "tree-overwrite.LOG").read_bytes()
    (raw / "overwrite.LOG.xz").write_bytes(lzma.compress(text))
    before, after = (stored.read_barrier(raw, name, 0) for name in ("fillrandom", "overwrite"))
    facts = stored.read_phase(raw, overwrite_phase(), before, after)
    assert facts.parse_error == ""
    found = phase_metrics.program_metrics(facts.spec, facts.parsed, facts.lsm, Below())
    assert found == expected
    assert expected["flush_bytes"].value
    kept = rundir.load_result(run).metrics["overwrite.flush_bytes"].value
    line = f"result.json has {kept}, raw/ gives {expected['flush_bytes'].value}"
    assert f"overwrite.flush_bytes: {line}" in recompute.of_run(run)


def test_the_end_of_a_long_stderr_is_read(campaign: Path) -> None:
    raw = campaign / RUN / "raw"
    before, after = (stored.read_barrier(raw, name, 0) for name in ("fillrandom", "overwrite"))
    replace_output(raw)
    (raw / "overwrite.stderr").write_text("a line\n" * 800_000 + "No space left on device\n")
    facts = stored.read_phase(raw, overwrite_phase(), before, after)
    assert facts.output.endswith("\nNo space left on device\n")


@pytest.mark.parametrize(
    "content", [b"no xz at all", lzma.compress(b"no LOG\n"), lzma.compress(b"no LOG\n")[:-4]]
)
def test_a_damaged_log_is_named_and_no_traceback(campaign: Path, content: bytes) -> None:
    raw = campaign / RUN / "raw"
    replace_output(raw)
    (raw / "overwrite.LOG.xz").write_bytes(content)
    lines = recompute.of_run(campaign / RUN)
    assert any(line.startswith("raw/ of phase overwrite cannot be read: ") for line in lines)


def test_missing_counters_are_named(campaign: Path) -> None:
    (campaign / RUN / "raw" / "up.counters.json").unlink()
    (line,) = recompute.of_run(campaign / RUN)
    assert "up.counters.json" in line


PACKED = sorted(str(file.relative_to(EXAMPLE / RUN)) for file in (EXAMPLE / RUN).rglob("*.xz"))


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKED)
def test_a_flipped_byte_of_any_packed_file_is_found(
    campaign: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for run in (campaign / RUN).parent.iterdir():
        if run != campaign / RUN:  # reading them takes most of the time
            shutil.rmtree(run)
    file = campaign / RUN / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    code, lines = verify(campaign, capsys)
    assert code == 4
    assert any(name in line for line in lines)  # its checksum, and the code that could not read it
    assert "internal error" not in capsys.readouterr().err


def test_there_are_packed_files_to_damage() -> None:
    assert any(name.endswith(".zones.csv.xz") for name in PACKED)


def test_a_run_without_records_is_left_to_others(tmp_path: Path) -> None:
    assert recompute.of_run(tmp_path) == []


def test_records_that_cannot_be_read_are_listed_and_stop_no_check(campaign: Path) -> None:
    paths = CampaignPaths(campaign)
    (campaign / RUN / "raw/observed.json").write_text('{"schema_version": 1, "rules": 5}')
    (paths.runs("rig") / "notes").mkdir()
    other = campaign / "hosts/rig/runs/zlfs--r01/run.json"
    other.write_text(json.dumps(json.loads(other.read_text()) | {"run": "foo"}))
    lines = overview.problems(paths)
    assert any(line.startswith("'notes' is not a run name") for line in _bare(lines))
    assert any(line.startswith("zlfs--r01: 'foo' is not a run name") for line in _bare(lines))
    assert agreement.problems(paths) == []  # the overview reports the names
    assert any("observed.json" in line for line in recompute.of_run(campaign / RUN))
    assert unchecked.notes(paths)


def test_a_damaged_file_hides_no_problem_that_was_found_before(campaign: Path) -> None:
    run = campaign / RUN
    ledger = json.loads((run / "ledger.json").read_text())
    ledger["entries"][-1]["user"] += 1
    (run / "ledger.json").write_text(json.dumps(ledger))
    (alone,) = recompute.of_run(run)
    assert alone.startswith("ledger.json: ")
    (run / "raw/trace.jsonl.xz").write_bytes(b"no xz")
    first, damage = recompute.of_run(run)
    assert first == alone
    assert "trace.jsonl" in damage


def _bare(lines: list[str]) -> list[str]:
    """Return lines without the host's name."""
    return [line.removeprefix("rig: ") for line in lines]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("overwrite.process.json", "null"),
        ("overwrite.process.json", "[]"),
        ("overwrite.process.json", '{"seconds": "long", "load_seconds": "x", "threads": 1}'),
        ("overwrite.process.json", '{"exit_code": 0, "requests": 5}'),
        ("overwrite.counters.json", "{}"),
        ("overwrite.counters.json", '{"schema_version": 1, "written": {}}'),
        ("overwrite.usage.json", "[]"),
        ("overwrite.zones.csv", "zone,capacity\n1\n"),
        ("traced.zones.csv", "\n"),
        ("zones_traced.csv", "\n"),
        ("zones_traced.csv", "zone,written\nx,y\n"),
    ],
)
def test_a_damaged_raw_file_is_a_problem_and_no_internal_error(
    campaign: Path, name: str, content: str
) -> None:
    (campaign / RUN / "raw" / f"{name}.xz").unlink(missing_ok=True)
    (campaign / RUN / "raw" / name).write_text(content)
    lines = [*recompute.of_run(campaign / RUN), *agreement.problems(CampaignPaths(campaign))]
    assert lines
