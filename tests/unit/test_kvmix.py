"""kvmix: flags, argument lists, strict parsing of its output, and plans of mixes."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, ToolFailed
from harness.levels.level import LevelUp
from harness.plan import load
from harness.plan.derive import derive
from harness.plan.phases import phase_spec
from harness.plan.predict import predict
from harness.plan.workload_models import Workload
from harness.store.codec import decode
from harness.store.spec import (
    Bytes,
    Device,
    DeviceKind,
    Inspection,
    PhaseRole,
    PhaseSpec,
    Scalar,
)
from harness.tools import kvmix as tool
from harness.workloads import PROGRAMS, load_program, rocksdb
from harness.workloads.kvmix import Kvmix, OperationMix
from harness.workloads.load_program import Invocation
from harness.workloads.rocksdb import Below
from tests.fixtures.level_host import ZONED

FIXTURES = Path(__file__).parents[1] / "fixtures"
kvmix = Kvmix()
PROGRAM = Path("/usr/local/lib/zonelab/native/bin/kvmix")
CSV = Path("/run/x/p.report.csv")
FILL = {
    "name": "fill",
    "operation_mix": {"insert": 1},
    "role": "fill",
    "operations": {"keys": 1},
}


def text(name: str) -> str:
    return (FIXTURES / "kvmix" / name).read_text()


def phase(**flags: str | int | float | bool) -> PhaseSpec:
    return PhaseSpec(
        "p",
        "mix",
        PhaseRole.MEASURED,
        flags,
        20_000,
        314,
        expects_gc=False,
        timeout_seconds=60,
        program="kvmix",
    )


def parsed(name: str = "mix") -> load_program.Parsed:
    return kvmix.parse(phase(statistics=True), text(f"{name}.out"), "")


def damaged(change: Any) -> str:
    summary = json.loads(text("mix.out"))
    change(summary)
    return json.dumps(summary)


def test_flags_equal_the_programs() -> None:
    flags = set(re.findall(r"^ +--(\w+)", text("help.txt"), re.MULTILINE))
    assert flags == tool.MIX_FLAGS | tool.DATABASE_FLAGS
    assert flags > kvmix.reserved


def test_argv_on_a_file_system() -> None:
    up = LevelUp(Path("/m/db"), None, None, ())
    report = kvmix.report(up, CSV, Path("/run/x/p.stderr"))
    call = Invocation(
        phase(insert=1.0, sync=True),
        up,
        107,
        first=True,
        program=PROGRAM,
        report=report,
        key_seed=7,
    )
    assert kvmix.argv(call) == [
        str(PROGRAM),
        "run",
        "--db=/m/db",
        "--use_existing_db=false",
        "--seed=107",
        "--key_seed=7",
        "--report_interval_seconds=1",
        f"--report_file={CSV}",
        "--insert=1.0",
        "--sync=true",
    ]


def test_argv_on_zones_reports_past_them() -> None:
    up = LevelUp(None, "zlfs://dev:/dev/nvme0n2?aux=/a", None, ())
    report = kvmix.report(up, CSV, Path("/run/x/p.stderr"))
    argv = kvmix.argv(Invocation(phase(), up, 1, first=False, program=PROGRAM, report=report))
    assert "--fs_uri=zlfs://dev:/dev/nvme0n2?aux=/a" in argv
    assert "--db=db" in argv
    assert "--use_existing_db=true" in argv
    assert f"--report_file={CSV}" in argv


def test_rates_follow_the_clock_of_a_slowed_drive() -> None:
    slow = replace(ZONED, kind=DeviceKind.MODELLED, model="zoneblk zones-4m-0 x128")

    def rates(*devices: Device, **flags: Scalar) -> list[str]:
        up = LevelUp(Path("/m/db"), devices=devices)
        call = Invocation(
            phase(**flags),
            up,
            1,
            first=False,
            program=PROGRAM,
            report=kvmix.report(up, CSV, CSV),
        )
        return [word for word in kvmix.argv(call) if "rate=" in word]

    assert rates(slow, rate=320.0) == ["--rate=2.5", "--delayed_write_rate=131072"]
    assert rates(slow, delayed_write_rate=256) == ["--delayed_write_rate=2"]
    assert rates(ZONED, rate=320.0) == ["--rate=320.0"]


def test_the_runners_flags_are_the_runners() -> None:
    up = LevelUp(Path("/m/db"), None, None, ())
    report = kvmix.report(up, CSV, CSV)
    with pytest.raises(ConfigError, match="--seed"):
        kvmix.argv(Invocation(phase(seed=1), up, 1, first=True, program=PROGRAM, report=report))


def test_a_finished_mix() -> None:
    found = parsed()
    assert found.summary is not None
    assert (found.summaries, found.summary.operations) == (1, 20_000)
    assert set(found.histograms) == {"insert", "update", "delete", "absent_query"}
    assert sum(one["count"] for one in found.histograms.values()) == 20_000
    assert set(found.stored) == {
        f"{kind}{late}" for kind in found.histograms for late in ("", "-intended")
    }
    assert found.wrong_reads == 0
    assert found.levels is not None
    assert found.levels[-1].level == "Sum"
    assert found.user_bytes == json.loads(text("mix.out"))["user_bytes"]


def test_metrics_have_both_latencies() -> None:
    values = {name: one.value for name, one in load_program.metrics(phase(), parsed()).items()}
    assert values["operations"] == 20_000
    assert values["user_bytes"] == 6_242_928
    assert values["throughput"] == pytest.approx(20_000 / 1.333402684)
    kinds = json.loads(text("mix.out"))["kinds"].values()
    for prefix, name in (("", "service"), ("intended_", "intended")):
        total = sum(kind[name]["sum"] for kind in kinds) / 1000
        assert values[f"{prefix}latency_mean"] == pytest.approx(total / 20_000)
        assert values[f"{prefix}latency_max"] == max(kind[name]["max"] for kind in kinds) / 1000
        assert values[f"{prefix}latency_p50"] is not None
        assert values[f"{prefix}latency_p99_99"] is None  # two samples are not a hundred
    assert not any(
        name.startswith("intended") for name in load_program.metrics(phase(), parsed("fill"))
    )


def test_rocksdbs_own_metrics_use_the_bytes_that_were_counted() -> None:
    values = rocksdb.metrics(phase(statistics=True), parsed(), None, Below())
    wal = json.loads(text("mix.out"))["rocksdb"]["tickers"]["rocksdb.wal.bytes"]
    assert values["wal_bytes"] == wal
    assert wal > 6_242_928
    assert load_program.user_bytes(phase(), parsed()) == 6_242_928
    assert load_program.user_bytes(phase(), None) is None


def test_nothing_printed_is_an_unfinished_mix() -> None:
    found = kvmix.parse(phase(statistics=True), "", "kvmix: no room")
    assert (found.summary, found.summaries, found.histograms) == (None, 0, {})
    assert found.wrong_reads is None


@pytest.mark.parametrize(
    "change",
    [
        lambda summary: summary.pop("operations"),
        lambda summary: summary.update(operations=19_999),
        lambda summary: summary.update(operations=True),
        lambda summary: summary.update(schema_version=2),
        lambda summary: summary.update(program="other"),
        lambda summary: summary["kinds"].update(odd=summary["kinds"]["insert"]),
        lambda summary: summary["kinds"]["insert"]["service"]["buckets"].pop(),
        lambda summary: summary["kinds"]["insert"]["service"].update(unit="us"),
        lambda summary: summary["rocksdb"]["tickers"].pop("rocksdb.wal.bytes"),
        lambda summary: summary["rocksdb"].pop("tickers"),
    ],
)
def test_damage_is_no_number(change: Any) -> None:
    with pytest.raises(ToolFailed, match="damaged"):
        kvmix.parse(phase(statistics=True), damaged(change), "")


@pytest.mark.parametrize("cut", [1, 100, 30_000])
def test_a_truncated_summary_is_damage(cut: int) -> None:
    with pytest.raises(ToolFailed, match="damaged"):
        kvmix.parse(phase(), text("mix.out")[:cut], "")


def test_wrong_reads_are_counted() -> None:
    wrong = damaged(lambda summary: summary["verified"].update(wrong=3, whole=False))
    assert kvmix.parse(phase(), wrong, "").wrong_reads == 4


def test_a_report_is_longer_than_the_limit_of_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    csv = text("mix.report.csv")
    (tmp_path / "mix.report.csv").write_text(csv)
    monkeypatch.setattr(load_program, "_OUTPUT_LIMIT", len(csv) - 20)
    assert kvmix.kept_rows(tmp_path, "mix") == tool.intervals(csv)


def test_the_report_becomes_a_series() -> None:
    csv = text("mix.report.csv")
    rows = tool.intervals(csv)
    assert [seconds for seconds, _ in rows] == [1.0, 1.333]
    assert rows[0][1] == "15031,7425,3794,1567,0,0,2245,0"
    assert sum(tool.operations_in(line) for line in csv.splitlines()) == 20_000
    assert tool.intervals(csv + "2.000,17") == rows
    for wrong in ("", "t,operations\n1,2\n", csv + "2.000,17\n"):
        with pytest.raises(ToolFailed, match="report"):
            tool.intervals(wrong)


def test_all_programs_are_found_by_name() -> None:
    assert isinstance(PROGRAMS["kvmix"], Kvmix)


# -- plans ----------------------------------------------------------------------------------------


def workload(**changes: Any) -> Workload:
    data = {
        "name": "w",
        "description": "d",
        "key_size": 16,
        "value_size": 1000,
        "database_share": "10%",
        "fill_share": 1.0,
        "peak_share": 1.2,
        "compaction_debt": "6%",
        "flags": {"compression_type": "none"},
        "phases": [
            FILL,
            {
                "name": "mix",
                "role": "measured",
                "operations": {"keys": 2},
                "operation_mix": {
                    "insert": 50,
                    "update": 25,
                    "delete": 10,
                    "query": 15,
                    "absent_share": "100%",
                },
            },
        ],
    }
    return load.build(Workload, data | changes, "test")


def rig() -> Inspection:
    return decode(Inspection, json.loads((FIXTURES / "plan" / "synthetic-rig.json").read_text()))


def test_phases_agree_on_the_keys() -> None:
    sized = workload()
    derived = derive(sized, rig().device, 0.5, cold=True)
    fill, mix = (phase_spec(sized, one, derived) for one in sized.phases)
    assert fill.program == mix.program == "kvmix"
    assert fill.operations == derived.keys
    assert mix.operations == 2 * derived.keys
    assert (fill.flags["existing"], mix.flags["existing"]) == (0, derived.keys)
    assert fill.flags["key_space"] == mix.flags["key_space"] == 3 * derived.keys
    assert fill.user_bytes_per_operation == 1016
    assert mix.user_bytes_per_operation == round(0.75 * 1016 + 0.1 * 16)
    assert mix.flags["absent_share"] == 1.0
    assert set(mix.flags) <= tool.MIX_FLAGS | tool.DATABASE_FLAGS


def test_room_is_asked_for_the_keys_that_will_be_there() -> None:
    growing, steady = workload(), workload(phases=[*workload_phases(insert=35, delete=35)])
    first = derive(growing, rig().device, 0.3, cold=True)
    second = derive(steady, rig().device, 0.3, cold=True)
    entry, share = 1016, 1.2
    assert first.peak_bytes - second.peak_bytes == pytest.approx(
        0.4 * 2 * first.keys * entry * share, rel=0.001
    )
    with pytest.raises(ConfigError, match="leaves"):
        derive(workload(phases=[*workload_phases(times=40)]), rig().device, 0.3, cold=True)


def workload_phases(insert: float = 50, delete: float = 10, times: float = 2) -> list[Any]:
    mix = {"insert": insert, "update": 25, "delete": delete, "query": 15}
    return [
        dict(FILL),
        {"name": "mix", "operation_mix": mix, "role": "measured", "operations": {"keys": times}},
    ]


def test_predictions_follow_the_mix() -> None:
    sized = workload()
    derived = derive(sized, rig().device, 0.5, cold=True)
    specs = tuple(phase_spec(sized, one, derived) for one in sized.phases)
    predicted, timed, _ = predict(sized, derived, specs, DeviceKind.EMULATED, Bytes(0))
    user = sum((spec.operations or 0) * spec.user_bytes_per_operation for spec in specs)
    assert predicted.bytes_written > derived.cold_bytes + 3 * user
    assert all(spec.timeout_seconds >= 300 for spec in timed)
    mix = sized.phases[1].work
    assert mix is not None
    paced = sized.phases[1].model_copy(update={"operation_mix": replace(mix, rate=10.0)})
    slow = sized.model_copy(update={"phases": (sized.phases[0], paced)})
    slower, _, _ = predict(slow, derived, specs, DeviceKind.EMULATED, Bytes(0))
    assert slower.seconds > (specs[1].operations or 0) / 10


def test_free_space_accounts_for_written_bytes() -> None:
    phases = workload_phases()
    phases[1]["operations"] = {"free_space": 0.1}
    sized = workload(phases=phases)
    derived = derive(sized, rig().device, 0.5, cold=True)
    spec = phase_spec(sized, sized.phases[1], derived)
    assert spec.operations is not None
    payload = (75 * 1016 + 10 * 16) / 100
    assert spec.operations == math.ceil(0.1 * derived.free_bytes / payload)


def test_growth_and_payload_of_a_mix() -> None:
    mix = OperationMix(insert=2, range_delete=1, range_keys=10, scan=1)
    assert mix.growth == pytest.approx((2 - 10) / 4)
    assert mix.payload(10, 90) == pytest.approx((2 * 100 + 20) / 4)
    assert not mix.only_inserts
    assert OperationMix(query=1, update=3).keeps_keys


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ({"operation_mix": {}}, "weight above 0"),
        ({"operation_mix": None}, "needs exactly one of: benchmark"),
        ({"benchmark": "overwrite"}, "needs exactly one of: benchmark"),
        ({"operations": {"duration": "10s"}}, "number of operations"),
        ({"operation_mix": {"insert": -1}}, "insert"),
        ({"operation_mix": {"insert": 1, "theta": 1.0}}, "theta"),
    ],
)
def test_phases_that_make_no_sense(change: dict[str, Any], about: str) -> None:
    phases = workload_phases()
    phases[1] |= change
    with pytest.raises(ConfigError, match=about):
        workload(phases=phases)


def test_fills_insert_and_nothing_else() -> None:
    phases = workload_phases()
    phases[0]["operation_mix"] = {"insert": 1, "update": 1}
    with pytest.raises(ConfigError, match="do nothing else"):
        workload(phases=phases)


def test_a_phase_after_a_mix_with_unknown_keys_is_refused() -> None:
    phases = workload_phases()
    phases.append({**phases[1], "name": "again"})
    with pytest.raises(ConfigError, match="leaves unknown keys"):
        workload(phases=phases)
    phases[1] = {**phases[1], "operation_mix": {"query": 1, "update": 1}}
    assert len(workload(phases=phases).phases) == 3


def queries(**fields: Any) -> dict[str, Any]:
    """Return a phase that queries; ``fields`` are of its mix."""
    mix = {"query": 1} | fields
    return {"name": "q", "operation_mix": mix, "role": "measured", "operations": {"keys": 1}}


def test_values_of_earlier_updates_are_not_verified() -> None:
    update = {**queries(), "name": "u", "operation_mix": {"update": 1}}
    with pytest.raises(ConfigError, match="phase q verifies values that phase u updates"):
        workload(phases=[FILL, update, {**queries(), "name": "between"}, queries(verify=True)])
    workload(phases=[FILL, update, queries()])
    workload(phases=[FILL, queries(verify=True), update])
    workload(phases=[FILL, queries(verify=True, update=1)])


def test_threads_share_the_inserts_of_two_phases_equally() -> None:
    def last(threads: int, *inserts: int) -> PhaseSpec:
        fills = [
            {**FILL, "name": f"fill-{at}", "operations": {"count": count}}
            for at, count in enumerate(inserts)
        ]
        flags = {"compression_type": "none", "threads": threads}
        sized = workload(phases=[*fills, queries()], flags=flags)
        return phase_spec(sized, sized.phases[-1], derive(sized, rig().device, 0.5, cold=True))

    with pytest.raises(ConfigError, match="4 threads do not share equally: phases fill-0, fill-2"):
        last(4, 403, 400, 203)
    assert last(4, 403, 400).flags["existing"] == 803
    assert last(4, 403).flags["existing"] == 403
    assert last(1, 403, 203).flags["existing"] == 606


def test_the_programs_keys_are_not_mixed() -> None:
    phases = workload_phases()
    phases[1] = {
        "name": "o",
        "benchmark": "overwrite",
        "role": "measured",
        "operations": {"keys": 1},
    }
    with pytest.raises(ConfigError, match="not both"):
        workload(phases=phases)


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        ({"num": 5}, "not a flag of kvmix"),
        ({"key_space": 5}, "zonelab sets"),
        ({"seed": 5}, "sets"),
    ],
)
def test_flags_of_a_mix_are_kvmixs(flags: dict[str, int], about: str) -> None:
    sized = workload(flags={"compression_type": "none", **flags})
    derived = derive(sized, rig().device, 0.5, cold=True)
    with pytest.raises(ConfigError, match=about):
        phase_spec(sized, sized.phases[0], derived)


def test_threads_are_set_by_the_workload() -> None:
    phases = workload_phases()
    phases[1]["flags"] = {"threads": 2}
    sized = workload(phases=phases)
    derived = derive(sized, rig().device, 0.5, cold=True)
    with pytest.raises(ConfigError, match="threads"):
        phase_spec(sized, sized.phases[1], derived)


def test_the_shipped_mix_fits_the_rig_without_cold_data() -> None:
    shipped = load._load(Workload, "workloads", "finish-mix", load.CONFIGS, {})
    mix = shipped.phases[1].work
    assert mix is not None
    weights = (mix.insert, mix.update, mix.delete, mix.query, mix.absent_share)
    assert weights == (50, 25, 10, 15, 1.0)  # [S4]
    derived = derive(shipped, rig().device, 0.06, cold=False)
    spec = phase_spec(shipped, shipped.phases[1], derived)
    assert derived.peak_bytes < rig().device.capacity
    assert replace(spec, flags={}).program == "kvmix"
