"""zoneprobe: plan, output, metrics, label (tests/fixtures/zoneprobe)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import levels
from harness.errors import ConfigError, ToolFailed
from harness.levels import LEVELS
from harness.levels.level import LevelUp
from harness.metrics.catalogue import MetricKind, lookup
from harness.observe import signatures
from harness.plan import bare, load
from harness.plan.expand import expand
from harness.plan.reference import RIG, with_zones_of
from harness.plan.workload_models import BareWorkload
from harness.store.spec import Bytes, DeviceKind
from harness.tools import zoneprobe as tool
from harness.workloads import load_program
from harness.workloads.load_program import Invocation
from harness.workloads.zoneprobe import ZoneProbe, Zoneprobe, quantile

FIXTURES = Path(__file__).parents[1] / "fixtures" / "zoneprobe"
STDOUT = (FIXTURES / "probe.stdout").read_text()
REPORT = (FIXTURES / "probe.report.csv").read_text()
# What the captured run was asked for.
CAPTURED: dict[str, Any] = {
    "occupancies": [0, "block", 50, 100],
    "finish_occupancies": [0, 50, "all-but-block"],
    "repeats": 3,
    "first_writes": 4,
    "write_size": 4096,
    "fill_size": 131072,
}
CAPTURED_ZONE = 96 << 10


def made(**changes: Any) -> ZoneProbe:
    made: ZoneProbe = load.build(type(shipped().work), CAPTURED | changes, "test")
    return made


def shipped() -> BareWorkload:
    workload = load.load_study("reset-history")[1]
    assert isinstance(workload, BareWorkload)
    return workload


# --- plan ----------------------------------------------------------------------------------------


def test_the_plan_predicts_the_programs_bytes() -> None:
    device = replace(RIG.device, zone_capacity=Bytes(CAPTURED_ZONE), zones=12)
    work = bare.work(Zoneprobe(), made(), device, 300)
    summary = tool.parse(STDOUT)
    assert summary is not None
    assert work.predicted.bytes_written == summary.bytes_written
    assert work.phases[0].operations == summary.operations
    assert work.sizes["finishes"][0] == sum(len(one.finishes) for one in summary.treatments)


def test_the_program_knows_every_flag_of_a_phase() -> None:
    known = set(re.findall(r"--(\w+)", (FIXTURES / "help.txt").read_text()))
    flags = set(bare.work(Zoneprobe(), shipped().work, RIG.device, 300).phases[0].flags)
    assert flags <= known
    assert known >= Zoneprobe.reserved
    assert not flags & Zoneprobe.reserved


def test_a_drive_takes_as_long_as_its_finishes() -> None:
    drive = replace(
        RIG.device,
        kind=DeviceKind.HARDWARE,
        zones=904,
        zone_size=Bytes(2048 << 20),
        zone_capacity=Bytes(1077 << 20),
    )
    work = bare.work(Zoneprobe(), shipped().work, drive, 300)
    # 20 x (906 + 850 + 793 + 681 + 455 + 4 ms) and 78 zones at half of what it can: 74 s and 145 s.
    assert 225 < work.predicted.seconds < 250
    assert work.phases[0].timeout_seconds > 4 * work.predicted.seconds


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"occupancies": [5, 5]}, "must differ"),
        ({"occupancies": []}, "at least 1"),
        ({"occupancies": [101]}, "occupancies"),
        ({"occupancies": ["half"]}, "occupancies"),
        ({"write_size": "256KiB"}, "write_size"),
        ({"fill_size": 0}, "fill_size"),
        ({"repeats": 30_000}, "too many"),
        ({"repeats": 0}, "repeats"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_impossible_probes_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        made(**changes)


@pytest.mark.parametrize(
    ("device", "code"),
    [
        ({"zones": 4}, "too-few-zones"),
        ({"zone_capacity": Bytes(4 * 4096)}, "does-not-fit"),
        ({"logical_block_size": 8192}, "bad-field"),
    ],
)
def test_devices_on_which_it_cannot_be_done(device: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError) as refused:
        bare.work(Zoneprobe(), made(), replace(RIG.device, **device), 300)
    assert refused.value.code == code
    assert refused.value.hint


def test_levels_and_workloads_must_match() -> None:
    study, workload = load.load_study("reset-history")
    other, database = load.load_study("smoke")
    for wrong, work in ((other, workload), (study, database)):
        with pytest.raises(ConfigError, match="is not for level"):
            expand(wrong, work, [("rig", RIG)], "c")


def test_factors_are_the_probes_numbers() -> None:
    study, workload = load.load_study("reset-history")
    varied = study.model_copy(update={"factors": {"first_writes": (1, 8), "scheduler": ("none",)}})
    runs = expand(varied, workload, [("rig", RIG)], "c").hosts[0].runs
    assert {run.phases[0].flags["first_writes"] for run in runs} == {1, 8}
    unknown = study.model_copy(update={"factors": {"threads": (1,)}})
    with pytest.raises(ConfigError, match="unknown factor 'threads'"):
        expand(unknown, workload, [("rig", RIG)], "c")


def test_zone_sizes_have_devices_of_their_own() -> None:
    study, workload = load.load_study("reset-history")
    host, sizes = with_zones_of([4 << 20, 16 << 20]), ("4MiB", "16MiB")
    varied = study.model_copy(update={"factors": {"zone_size": sizes}})
    runs = expand(varied, workload, [("rig", host)], "c").hosts[0].runs
    assert {run.device.zone_size for run in runs} == {4 << 20, 16 << 20}
    assert len({run.predicted.bytes_written for run in runs}) == 2  # shares of other capacities


# --- output --------------------------------------------------------------------------------------


def test_every_treatment_is_reported() -> None:
    summary = tool.parse(STDOUT)
    assert summary is not None
    assert [one.name for one in summary.treatments] == [
        "fresh",
        "reset-0",
        "reset-block",
        "reset-50",
        "reset-100",
        "finish-0",
        "finish-50",
        "finish-all-but-block",
    ]
    assert [one.occupied for one in summary.treatments[3:6]] == [48 << 10, 96 << 10, 0]
    assert summary.zone_capacity == CAPTURED_ZONE


def spoilt(**changes: Any) -> str:
    return json.dumps(json.loads(STDOUT) | changes)


@pytest.mark.parametrize(
    "text",
    [
        STDOUT[:200],
        spoilt(program="fio"),
        spoilt(schema_version=2),
        spoilt(cycles=1),
        spoilt(bytes_written=1.5),
        spoilt(treatments=[{}]),
        spoilt(treatments=None),
        "[]",
    ],
)
def test_damaged_output_is_no_result(text: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        tool.parse(text)
    assert failed.value.code == "output-malformed"


def damaged(at: int, **changes: Any) -> str:
    """Return the summary with other values in one treatment."""
    summary = json.loads(STDOUT)
    summary["treatments"][at] |= changes
    return json.dumps(summary)


def moved(times: str, source: int, target: int, text: str = STDOUT) -> str:
    """Return a summary with a time in another treatment, so that the totals stay."""
    summary = json.loads(text)
    treatments = summary["treatments"]
    treatments[target][times].append(treatments[source][times].pop())
    return json.dumps(summary)


def with_other_writes(change: Callable[[list[list[list[int]]]], object]) -> str:
    summary = json.loads(STDOUT)
    change([one["write_ns"] for one in summary["treatments"]])
    return json.dumps(summary)


FRESH, FULL, FINISHED = 0, 4, 6
WRITES = json.loads(STDOUT)["treatments"][FULL]["write_ns"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (spoilt(cycles=23), "23 cycles, but 24 in its treatments"),
        (spoilt(finishes=8), "8 finishes, but 9 in its treatments"),
        (spoilt(resets=44), "44 resets, but 45 in its treatments"),
        (damaged(FULL, write_ns=WRITES[:2]), "24 cycles, but 23 in"),
        (damaged(FULL, reset_ns=[1, 2]), "45 resets, but 44 in"),
        (damaged(FINISHED, finish_ns=[1, 2]), "9 finishes, but 8 in"),
        (moved("finish_ns", FINISHED, FULL), "reset-100 has 1 finishes in 3 cycles"),
        (moved("finish_ns", 5, FINISHED), "finish-0 has 2 finishes in 3 cycles"),
        (moved("reset_ns", FULL, FRESH), "fresh has 1 resets in 3 cycles"),
        (moved("reset_ns", FULL, 3), "reset-50 has 4 resets in 3 cycles"),
        (with_other_writes(lambda w: w[FULL][1].pop()), "cycles have different numbers of writes"),
        (
            moved("write_ns", FULL, 3, moved("reset_ns", FULL, 3)),
            "its treatments have different numbers of cycles",
        ),
        (with_other_writes(lambda w: w[FULL].append(w[FRESH].pop())), "has 3 resets in 4 cycles"),
    ],
)
def test_counts_that_contradict_the_times_are_damage(text: str, message: str) -> None:
    with pytest.raises(ToolFailed, match=message):
        tool.parse(text)


def contradictions(tmp_path: Path, report: str, stdout: str = STDOUT) -> list[str]:
    (tmp_path / "probe.report.csv").write_text(report)
    spec = bare.work(Zoneprobe(), made(), RIG.device, 9).phases[0]
    parsed = Zoneprobe().parse(spec, stdout, "")
    phase: Any = SimpleNamespace(spec=SimpleNamespace(name="probe"), parsed=parsed)
    return list(Zoneprobe().contradictions(tmp_path, phase, 1))


def test_a_whole_report_has_the_times_of_the_summary(tmp_path: Path) -> None:
    assert contradictions(tmp_path, REPORT) == []
    assert contradictions(tmp_path, "", stdout="") == []  # an unfinished phase has no summary


LINES = REPORT.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("report", "lines"),
    [
        ("".join(LINES[:-1]), ["has 23 cycles, raw/probe.stdout has 24"]),
        (REPORT[:-1], ["has 23 cycles, raw/probe.stdout has 24"]),  # cut within the last line
        (
            REPORT.replace(",write,1,4096,4537\n", ",write,1,4096,4538\n"),
            ["has other times of write in finish-0 than raw/probe.stdout"],
        ),
        (
            REPORT.replace("finish,0,0,7691", "finish,0,0,7690"),
            ["has other times of finish in finish-0 than raw/probe.stdout"],
        ),
        (
            REPORT.replace("reset,0,0,190", "reset,0,0,191", 1),
            ["has other times of reset in finish-0 than raw/probe.stdout"],
        ),
        (
            REPORT.replace(",write,1,4096,4537", ",write,1,8192,4537"),
            ["has 1282048 B written, raw/probe.stdout has 1277952"],
        ),
        (REPORT + "x\n", ["zoneprobe's output is damaged: the report has 'x'"]),
        ("", ["zoneprobe's output is damaged: the report begins with ''"]),
    ],
)
def test_a_report_with_other_commands_is_named(
    tmp_path: Path, report: str, lines: list[str]
) -> None:
    assert report != REPORT
    found = contradictions(tmp_path, report)
    assert found == [f"raw/probe.report.csv: {line}" for line in lines]


def test_no_output_is_no_summary() -> None:
    assert tool.parse("") is None


def test_a_report_is_longer_than_the_limit_of_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "probe.report.csv").write_text(REPORT)
    monkeypatch.setattr(load_program, "_OUTPUT_LIMIT", len(REPORT) - 100)
    assert len(Zoneprobe().kept_rows(tmp_path, "probe")) == 24


def test_the_report_has_a_row_for_each_cycle() -> None:
    rows = tool.cycles(REPORT)
    assert len(rows) == 24
    assert [t for t, _ in rows] == sorted(t for t, _ in rows)
    assert sum(map(tool.operations_in, REPORT.splitlines())) == 24
    assert tool.operations_in("1.0,2,3") == 0
    with pytest.raises(ToolFailed, match="begins with"):
        tool.cycles("secs\n")


def test_ledgers_add_up() -> None:
    line = '{"bytes_written":10,"finishes":1,"pad_bytes":5,"resets":2}\n'
    own = tool.totals([line, line, line[:20]])
    assert (own.written, own.finishes, own.resets) == (20, 2, 4)
    assert own.given_up == {"explicit": 10}
    with pytest.raises(ToolFailed):
        tool.totals(['{"bytes_written":10}\n'])


# --- metrics -------------------------------------------------------------------------------------


def phase_metrics() -> dict[str, float | int | None]:
    spec = bare.work(
        Zoneprobe(), made(), replace(RIG.device, zone_capacity=Bytes(CAPTURED_ZONE)), 9
    ).phases[0]
    parsed = Zoneprobe().parse(spec, STDOUT, "")
    return {key: metric.value for key, metric in parsed.more.items()}


def test_metrics_are_of_each_treatment() -> None:
    found, summary = phase_metrics(), json.loads(STDOUT)
    (half,) = [one for one in summary["treatments"] if one["name"] == "finish-50"]
    for command in ("reset", "finish"):
        samples = half[f"{command}_ns"]
        key = f"finish-50.{command}_latency"
        assert found[f"{key}_mean"] == pytest.approx(sum(samples) / 3000)
        assert found[f"{key}_p50"] == sorted(samples)[1] / 1000
        assert found[f"{key}_max"] == max(samples) / 1000
        assert found[f"{key}_p99"] is None  # three samples tell nothing of it
    assert found["finish-50.first_write_latency_max"] == max(c[0] for c in half["write_ns"]) / 1000
    later = sorted(latency for cycle in half["write_ns"] for latency in cycle[2:])
    assert found["finish-50.later_write_latency_p50"] == (later[2] + later[3]) / 2000


def test_treatments_that_did_not_run_have_no_metric() -> None:
    found = phase_metrics()
    assert not [key for key in found if key.startswith("fresh.reset")]
    assert not [key for key in found if key.startswith("reset-50.finish")]


def test_all_of_it_is_time() -> None:
    """An emulated device gives no results."""
    assert {lookup(f"probe.{key}").kind for key in phase_metrics()} == {MetricKind.TIME}


def test_a_tail_needs_samples_above_it() -> None:
    samples = list(range(1000, 10_001_000, 1000))
    assert quantile(samples, 0.99, least_above=100) == pytest.approx(9900.01)
    assert quantile(samples[:-1], 0.99, least_above=100) is None
    assert quantile([], 0.5) is None
    assert quantile([3000], 0.5) == 3
    assert quantile([1000, 2000], 0.5) == 1.5


# --- level and argv ------------------------------------------------------------------------------


def up(tmp_path: Path, **changes: Any) -> LevelUp:
    record = tmp_path / "aux" / tool.LEDGER
    one = LevelUp(db=None, fs_uri=None, cold_dir=None, devices=(RIG.device,), records=(record,))
    return replace(one, **changes)


def arguments(up: LevelUp, **flags: Any) -> list[str]:
    spec = bare.work(Zoneprobe(), made(), RIG.device, 9).phases[0]
    spec = replace(spec, flags={**spec.flags, **flags})
    report = Zoneprobe().report(up, Path("/x/report.csv"), Path("/x/stderr"))
    program = Path("/bin/zoneprobe")
    return Zoneprobe().argv(Invocation(spec, up, 7, first=True, program=program, report=report))


def test_the_argument_list(tmp_path: Path) -> None:
    assert arguments(up(tmp_path)) == [
        "/bin/zoneprobe",
        "run",
        "--device=/dev/nvme0n2",
        "--seed=7",
        f"--ledger_file={tmp_path}/aux/zoneprobe.jsonl",
        "--report_file=/x/report.csv",
        "--occupancies=0,block,50,100",
        "--finish_occupancies=0,50,all-but-block",
        "--repeats=3",
        "--first_writes=4",
        "--write_size=4096",
        "--fill_size=131072",
    ]


def test_only_bare_zones_and_no_flag_of_the_runner(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="bare zones"):
        arguments(up(tmp_path, fs_uri="zlfs://dev:nvme0n2"))
    with pytest.raises(ConfigError, match="--device"):
        arguments(up(tmp_path), device="/dev/sda")


def test_the_label_is_recognised() -> None:
    block = b"ZLPROBE1zl-0123abcd" + bytes(4096)
    found = signatures.find(
        lambda offset, length: block[offset : offset + length], 1 << 20, levels.signatures()
    )
    assert found == [signatures.Signature("zoneprobe", "zl-0123abcd")]


def test_the_level_takes_no_database() -> None:
    assert [name for name, level in LEVELS.items() if not level.takes_database] == [
        "raw-conventional",
        "raw-device",
    ]
