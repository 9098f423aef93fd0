"""``zonelab verify`` computes what db_bench and RocksDB told again from raw files."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.run import phases, recompute
from harness.store import checksums, rundir
from harness.store.codec import encode
from harness.store.result import Metric
from harness.tools import rocksdb_log
from harness.workloads import db_bench
from harness.workloads.rocksdb import Below

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "results" / "example"
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
    assert verify(campaign, capsys) == (0, [f"{campaign}: whole"])
    change_metric(campaign, key, value)
    code, lines = verify(campaign, capsys)
    assert (code, len(lines)) == (4, 1)
    assert lines[0].startswith(f"rig: f2fs--r01: {key}: result.json has {value}, raw/ gives ")


def captured_metrics() -> dict[str, Metric]:
    run = rundir.load_spec(EXAMPLE / RUN)
    spec = next(phase for phase in run.phases if phase.name == "overwrite")
    out, err = ((CAPTURED / f"tree-overwrite.{kind}").read_text() for kind in ("out", "err"))
    with (CAPTURED / "tree-overwrite.LOG").open(newline="\n") as lines:
        log = rocksdb_log.parse(lines)
    return phases.recomputable(spec, db_bench.parse(spec, out, err), log, Below())


def of_before_there_was_a_ledger(run: Path) -> None:
    """Make it a run of the first releases, without counters; what overwrite told is gone."""
    for pattern in ("*.counters.json", "overwrite.LOG.*", "overwrite.stdout*", "overwrite.stderr*"):
        for file in (run / "raw").glob(pattern):
            file.unlink()
    result = json.loads((run / "result.json").read_text())
    for key in [key for key in result["metrics"] if key.endswith("cache_served_share")]:
        del result["metrics"][key]
    (run / "result.json").write_text(json.dumps(result))


@pytest.mark.parametrize("suffix", ["xz", "gz"])
def test_rocksdbs_numbers_come_from_the_packed_log(campaign: Path, suffix: str) -> None:
    run = campaign / RUN
    raw, found = run / "raw", captured_metrics()
    of_before_there_was_a_ledger(run)
    for kind, name in (("out", "stdout"), ("err", "stderr")):
        shutil.copyfile(CAPTURED / f"tree-overwrite.{kind}", raw / f"overwrite.{name}")
    text = (CAPTURED / "tree-overwrite.LOG").read_bytes()
    packed = lzma.compress(text) if suffix == "xz" else gzip.compress(text)
    (raw / f"overwrite.LOG.{suffix}").write_bytes(packed)
    result = json.loads((run / "result.json").read_text())
    result["metrics"] |= {f"overwrite.{name}": encode(one) for name, one in found.items()}
    result["metrics"]["overwrite.device_written"]["value"] = None
    (run / "result.json").write_text(json.dumps(result))
    assert found["flush_bytes"].value
    assert recompute.of_run(run) == []
    result["metrics"]["overwrite.flush_bytes"]["value"] += 1
    (run / "result.json").write_text(json.dumps(result))
    (line,) = recompute.of_run(run)
    assert line.startswith("overwrite.flush_bytes: result.json has ")


@pytest.mark.parametrize(
    "content", [b"no xz at all", lzma.compress(b"no LOG\n"), lzma.compress(b"no LOG\n")[:-4]]
)
def test_a_damaged_log_is_named_and_no_traceback(campaign: Path, content: bytes) -> None:
    raw = campaign / RUN / "raw"
    of_before_there_was_a_ledger(campaign / RUN)
    (raw / "overwrite.LOG.xz").write_bytes(content)
    (line,) = recompute.of_run(campaign / RUN)
    assert line.startswith("raw/ of phase overwrite cannot be read: ")


PACKED = sorted(str(file.relative_to(EXAMPLE / RUN)) for file in (EXAMPLE / RUN).rglob("*.xz"))


@pytest.mark.parametrize("name", PACKED)
def test_a_flipped_byte_of_any_packed_file_is_told(
    campaign: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = campaign / RUN / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    code, lines = verify(campaign, capsys)
    assert code == 4
    assert any(name in line for line in lines)  # its checksum, and who could not read it
    assert "internal error" not in capsys.readouterr().err


def test_there_are_packed_files_to_damage() -> None:
    assert any(name.endswith(".zones.csv.xz") for name in PACKED)


def test_a_run_without_records_is_left_to_others(tmp_path: Path) -> None:
    assert recompute.of_run(tmp_path) == []
