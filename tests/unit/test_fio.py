"""fio: output, options, plan and metrics (tests/fixtures/fio)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.read.block import device_words
from harness import zn540
from harness.errors import ConfigError, GuardRefused, HostError, ToolFailed
from harness.levels.level import LevelUsage
from harness.plan import bare, drive_files, load, rate_caps
from harness.plan.expand import expand
from harness.plan.fields import Flag
from harness.plan.host_changes import changed as changed_hosts
from harness.plan.reference import RIG
from harness.plan.workload_models import BareWorkload
from harness.run import ledger
from harness.run.ledger import BarrierSnapshot
from harness.store.ledger import ClosureState, Commands, Requests, Snapshot, Trace, Witness
from harness.store.spec import (
    Bytes,
    Device,
    DeviceKind,
    Inspection,
    OtherDevice,
    Prediction,
    Reason,
    RunSpec,
)
from harness.tools import fio as tool
from harness.tools import histogram
from harness.workloads.fio import FioProgram
from harness.workloads.fio_sweeps import Fio
from harness.workloads.load_program import BareCounts
from harness.workloads.planning import BarePhase, BareWork, DerivedPhase
from tests.fixtures.barriers import counters
from tests.fixtures.fio_plans import (
    CONVENTIONAL_DEVICE,
    FIXTURES,
    SWEEP,
    content_of,
    made,
    planned,
    printed,
)
from tests.fixtures.run_facts import phase_facts

WHOLE = ("depth", "group", "killed", "plain", "randread", "randwrite", "two")


def parsed(text: str) -> tool.FioOutput:
    output = tool.parse(text)
    assert output is not None
    return output


def changed(name: str, change: Callable[[Any], object]) -> str:
    document = json.loads(printed(name))
    change(document)
    return json.dumps(document)


# --- output --------------------------------------------------------------------------------------


def test_a_job_is_read_as_fio_counted_it() -> None:
    output = parsed(printed("randwrite"))
    (job,) = output.jobs
    assert (output.version, output.epoch, output.notes) == ("fio-3.33", 1795603862, ())
    assert (job.name, job.options["iodepth"]) == ("randwrite", "8")
    assert set(job.directions) == {"write"}
    done = job.directions["write"]
    assert (done.bytes, done.commands, done.short, done.dropped) == (4000 * 4096, 4000, 0, 0)
    assert done.seconds == 0.139
    assert set(done.latencies) == {"slat", "clat", "lat"}
    assert done.latencies["lat"].mean > done.latencies["clat"].mean > 0


@pytest.mark.parametrize("name", WHOLE)
def test_percentiles_of_our_histogram_are_in_the_bucket_that_fio_prints(name: str) -> None:
    kinds = [
        latency
        for job in parsed(printed(name)).jobs
        for done in job.directions.values()
        for latency in done.latencies.values()
        if latency.histogram is not None
    ]
    compared = 0
    for latency in kinds:
        kept = latency.histogram
        assert kept is not None
        assert kept["count"] == sum(count for _, _, count in kept["buckets"]) == latency.count
        assert histogram.mean(kept) == pytest.approx(latency.mean)
        edges = [bucket[:2] for bucket in kept["buckets"]]
        assert all(low < high for low, high in edges)
        assert all(high <= low for (_, high), (low, _) in itertools.pairwise(edges))
        for percent, value in latency.percentiles.items():
            ours = histogram.quantile(kept, round(percent * 100))
            if ours is None:
                continue
            compared += 1
            low, high = next((low, high) for low, high in edges if low <= value <= high)
            assert low <= ours <= high or ours in (kept["min"], kept["max"])
    assert compared or name == "plain"  # json without + has no buckets


def test_a_bucket_holds_the_nanoseconds_that_fio_counts_in_it() -> None:
    # stat.c: 0 to 127 ns are counted one by one, 128 to 255 in pairs, 256 to 511 in fours.
    found = tool.buckets({0: 1, 127: 2, 129: 3, 258: 4})
    assert found == [[0, 0, 1], [0.126, 0.127, 2], [0.127, 0.129, 3], [0.255, 0.259, 4]]


def test_jobs_of_two_kinds_without_a_group_are_two_jobs() -> None:
    output = parsed(printed("two"))
    assert [(job.name, [*job.directions]) for job in output.jobs] == [
        ("reader", ["read"]),
        ("writer", ["write"]),
    ]
    assert tool.total(output.jobs, "read") == (500 * 4096, 500)
    assert tool.total(output.jobs, "write") == (300 * 16384, 300)
    assert tool.total(output.jobs, "trim") == (0, 0)


def test_a_group_of_clones_is_one_job() -> None:
    (job,) = parsed(printed("group")).jobs
    assert job.options["numjobs"] == "3"
    assert job.options["group_reporting"] == "1"
    assert job.directions["read"].commands == 1500
    assert (job.seconds, job.clone_seconds) == (0.047, 0.131)
    parsed_phase = FioProgram().parse(planned(made({}))["s-4k-qd1-z1"], printed("zbd-randread"), "")
    assert parsed_phase.summary is not None
    assert parsed_phase.summary.operations / parsed_phase.summary.seconds == pytest.approx(
        1262.638718  # fio's own rate over two clones
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [("mixed", "also has the job writer"), ("mixed-sizes", "also has the job large")],
)
def test_a_group_of_different_jobs_is_refused(name: str, words: str) -> None:
    with pytest.raises(ToolFailed, match=words) as failed:
        tool.parse(printed(name))
    assert failed.value.code == "fio-mixed"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda job: job["write"].update(total_ios=1), "has a write"),
        (lambda job: job["read"].update(io_bytes=4096), "3000 reads of 4096 B are not 4096 B"),
    ],
)
def test_numbers_of_another_kind_are_refused(change: Callable[[Any], object], words: str) -> None:
    text = changed("randread", lambda document: change(document["jobs"][0]))
    with pytest.raises(ToolFailed, match=words) as failed:
        tool.parse(text)
    assert failed.value.code == "fio-mixed"


def test_short_commands_may_move_less_than_their_size() -> None:
    def change(document: Any) -> None:
        document["jobs"][0]["read"].update(io_bytes=4096 * 2999 + 512, short_ios=1)

    (job,) = parsed(changed("randread", change)).jobs
    assert job.directions["read"].short == 1


def test_an_error_of_a_job_is_named() -> None:
    with pytest.raises(ToolFailed, match=r"job full ended with error 28 \(No space") as failed:
        tool.parse(printed("full"))
    assert failed.value.code == "fio-error"


def test_lines_around_the_json_are_kept() -> None:
    (note,) = parsed(printed("depth")).notes
    assert note.startswith("note: both iodepth >= 1 and synchronous I/O engine")
    assert parsed(printed("killed")).notes[0].strip() == "fio: terminating on signal 15"


def test_without_json_there_is_no_output() -> None:
    assert tool.parse("") is None
    assert tool.parse((FIXTURES / "option.err").read_text()) is None


@pytest.mark.parametrize("kept", [1, 500, 9_000, 10_771])
def test_a_cut_output_is_incomplete(kept: int) -> None:
    with pytest.raises(ToolFailed, match="incomplete") as failed:
        tool.parse(printed("randread")[:kept])
    assert failed.value.code == "fio-incomplete"


def test_several_outputs_are_refused() -> None:
    with pytest.raises(ToolFailed, match="several outputs") as failed:
        tool.parse(printed("randread") + printed("randread"))
    assert failed.value.code == "fio-incomplete"


def test_an_old_fio_is_refused() -> None:
    tool.check_version("fio-3.30")
    tool.check_version("fio-4.0-dirty")
    for old in ("fio-3.29", "fio-2.99"):
        text = printed("randread").replace("fio-3.33", old)
        with pytest.raises(ToolFailed, match="too old") as failed:
            tool.parse(text)
        assert failed.value.code == "fio-version"


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("jobs"),
        lambda document: document.update({"fio version": "kvmix"}),
        lambda document: document["jobs"][0].pop("error"),
        lambda document: document["jobs"][0]["read"].pop("total_ios"),
        lambda document: document["jobs"][0]["read"].update(io_bytes="1"),
        lambda document: document["jobs"][0]["read"]["lat_ns"]["bins"].update({"44800": 10**6}),
    ],
)
def test_damaged_output_is_refused(change: Callable[[Any], object]) -> None:
    with pytest.raises(ToolFailed, match="damaged") as failed:
        tool.parse(changed("randread", change))
    assert failed.value.code == "output-malformed"


# --- command -------------------------------------------------------------------------------------


def test_flags_have_a_value_so_that_fio_records_them() -> None:
    argv = tool.argv(Path("fio"), "reads", {"rw": "randread", "direct": True, "iodepth": 4})
    assert argv == [
        "fio",
        "--output-format=json+",
        "--name=reads",
        "--rw=randread",
        "--direct=1",
        "--iodepth=4",
    ]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("4k", 4096),
        ("4Ki", 4096),  # tests/fixtures/fio_others
        ("4kB", 4096),
        ("4KiB", 4000),
        ("1M", 1 << 20),
        ("1MiB", 10**6),
        ("2g", 2 << 30),
        ("8b", 8),
    ],
)
def test_sizes_are_read_as_fio_reads_them(text: str, size: int) -> None:
    """KiB has another base than k and Ki, because kb_base is 1024 (parse.c of fio)."""
    assert tool.size(text) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("4k", 4000), ("4Ki", 4000), ("4KiB", 4096), ("1MB", 10**6), ("8b", 8)],
)
def test_sizes_with_kb_base_1000_have_the_units_of_si(text: str, size: int) -> None:
    assert tool.size(text, "1000") == size


@pytest.mark.parametrize(("size", "base"), [("4k", "1024"), ("4KiB", "1000")])
def test_a_group_is_checked_with_its_kb_base(size: str, base: str) -> None:
    """The captured commands have 4096 bytes."""

    def printed_with(kb_base: str) -> str:
        options = {"bs": size, "kb_base": kb_base}
        return changed("randread", lambda one: one["jobs"][0]["job options"].update(options))

    assert parsed(printed_with(base)).jobs
    with pytest.raises(ToolFailed, match="of 4000 B are not"):
        tool.parse(printed_with("1000" if base == "1024" else "1024"))


@pytest.mark.parametrize("text", ["", "4k-16k", "4k,8k", "k", "4x"])
def test_other_texts_are_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        tool.size(text)


def test_an_old_fio_on_the_host_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "fio"
    for release in ("3.29", "3.33"):
        program.write_text(f"#!/bin/sh\necho fio-{release}\n")
        program.chmod(0o755)
        if release == "3.33":
            assert tool.version(program) == "fio-3.33"
            continue
        with pytest.raises(HostError, match="too old"):
            tool.version(program)


# --- plan ----------------------------------------------------------------------------------------

READS = SWEEP | {"rw": "read", "prepare": ["reset", "fill"]}
CONVENTIONAL = {"device": "conventional", "prepare": ["discard"]}


def test_every_combination_is_a_phase_behind_its_reset() -> None:
    work = made({"bs": ["4KiB", "16KiB"], "iodepth": [1, 4]}, {"name": "z", "zones": [1, 3]})
    names = list(planned(work))
    points = ["s-4k-qd1-z1", "s-4k-qd4-z1", "s-16k-qd1-z1", "s-16k-qd4-z1"]
    points += ["z-4k-qd1-z1", "z-4k-qd1-z3"]
    assert names == [name for point in points for name in (f"{point}-reset", point)]


def test_each_job_has_zones_of_its_own_that_it_never_fills_twice() -> None:
    flags = planned(made({"zones": [3]}, bytes="6MiB"))["s-4k-qd1-z3"].flags
    size = RIG.device.zone_size
    assert size is not None
    # 6 MiB need two zones of 4 MiB; zone 0 has the label.
    assert flags["offset"] == size
    assert flags["size"] == flags["offset_increment"] == 2 * size
    assert (flags["io_size"], flags["numjobs"], flags["zonemode"]) == (6 << 20, 3, "zbd")
    reset = planned(made({"zones": [3]}, bytes="6MiB"))["s-4k-qd1-z3-reset"].flags
    assert (reset["rw"], reset["bs"], reset["size"]) == ("trim", size, 6 * size)


def test_small_devices_end_phases_earlier() -> None:
    flags = planned(made({"zones": [14]}, bytes="1GiB"))["s-4k-qd1-z14"].flags
    # 383 zones behind the label: 27 for each job, of 4 MiB.
    assert flags["io_size"] == 27 * (4 << 20)
    assert flags["offset_increment"] == 27 * (RIG.device.zone_size or 0)
    flags = planned(made(CONVENTIONAL, region="1GiB"), CONVENTIONAL_DEVICE)["s-4k-qd1"].flags
    assert (flags["size"], flags["io_size"]) == (63 << 20, 1 << 20)


def test_depth_1_is_synchronous_and_every_command_direct() -> None:
    phases = planned(made({"iodepth": [1, 8]}, ioengine="io_uring"))
    assert phases["s-4k-qd1-z1"].flags["ioengine"] == "psync"
    assert phases["s-4k-qd8-z1"].flags["ioengine"] == "io_uring"
    assert all(phase.flags["direct"] == 1 for phase in phases.values())


def test_reads_are_prepared_once_and_ramps_are_phases() -> None:
    names = list(planned(made(READS | {"iodepth": [1, 2]}, ramp=2)))
    points = ["s-4k-qd1-z1-ramp", "s-4k-qd1-z1", "s-4k-qd2-z1-ramp", "s-4k-qd2-z1"]
    assert names == ["s-reset", "s-fill", *points]
    assert "s-4k-qd1-z1-ramp" not in planned(made({}, ramp=2))  # it would use up zones


def test_the_prediction_has_all_bytes() -> None:
    work = bare.work(FioProgram(), made({"zones": [2]}, READS | {"name": "r"}), RIG.device, 300)
    assert RIG.device.zone_capacity is not None
    assert work.predicted.bytes_written == (2 << 20) + RIG.device.zone_capacity
    assert (work.sizes["points"][0], work.sizes["read_bytes"][0]) == (2, 1 << 20)


def test_a_runtime_limits_the_predicted_time() -> None:
    long = bare.work(FioProgram(), made({}, bytes="1GiB", runtime=5), RIG.device, 300)
    unlimited = bare.work(FioProgram(), made({}, bytes="1GiB"), RIG.device, 300)
    assert long.predicted.seconds < unlimited.predicted.seconds
    point = next(phase for phase in long.phases if phase.benchmark == "s")
    assert (point.operations, point.flags["runtime"]) == (None, 5)


def test_a_rate_sets_how_long_bytes_take() -> None:
    slow = {"rate": ["1MiB"]}
    device = replace(RIG.device, kind=DeviceKind.HARDWARE)
    (_, unlimited) = bare.work(FioProgram(), made(slow, bytes="1GiB"), device, 300).phases
    # 383 zones of 4 MiB hold a GiB.
    assert 5 * 1024 < unlimited.timeout_seconds < 5 * 1034
    timed = bare.work(FioProgram(), made(slow, bytes="1GiB", runtime=600), device, 300)
    assert 5 * 600 < timed.phases[1].timeout_seconds < 5 * 610
    assert timed.predicted.seconds > 600


class Sized(FioProgram):
    """Plans phases of known sizes."""

    def plan_bare(self, work: Any, device: Device) -> BareWork:
        del work, device
        derived = DerivedPhase("s", {}, None, 0)
        # At 160 MiB/s 2 s of writes, and 10,000 writes of 300 us that wait for each other.
        phase = BarePhase("a", derived, 320 << 20, 10_000, command_seconds=3.0)
        phases = (phase, replace(phase, most_seconds=1.0), replace(phase, most_seconds=100.0))
        return BareWork(planned_sizes(), phases)


def planned_sizes() -> Any:
    return FioProgram().plan_bare(made({}), RIG.device).numbers


def test_each_phase_has_a_predicted_time_and_a_limit() -> None:
    """A phase takes 2 s more, and the setup 6 s; the limits are five times that, or more.

    A phase that ends itself has at least 20 s more.
    """
    work = bare.work(Sized(), None, RIG.device, 20)
    assert work.predicted == Prediction(Bytes(3 * (320 << 20)), Bytes(0), 6 + 10 + 3 + 10)
    assert [phase.timeout_seconds for phase in work.phases] == [50, 21, 120]
    assert not any(phase.expects_gc for phase in work.phases)
    assert work.timeout_seconds == 300 + 50 + 21 + 120


def test_factors_change_the_work_and_unknown_ones_are_refused() -> None:
    study, workload = load.load_study("block-smoke")
    of_study: dict[str, Flag] = {"scheduler": "none", "zone_size": "4MiB"}
    assert bare.with_factors(study, workload, of_study) == workload.work
    assert bare.with_factors(study, workload, {**of_study, "bytes": "2MiB"}).bytes == 2 << 20
    with pytest.raises(ConfigError, match="varies an unknown factor 'byte'") as caught:
        bare.with_factors(study, workload, {"byte": "2MiB"})
    assert caught.value.code == "unknown-factor"
    assert "bytes" in caught.value.hint


def test_a_level_measures_the_zoned_device_or_the_conventional_one() -> None:
    both = replace(RIG, conventional=CONVENTIONAL_DEVICE)
    assert bare.device_of("raw-device", both) is RIG.device
    assert bare.device_of("raw-conventional", both) is CONVENTIONAL_DEVICE
    assert bare.device_of("raw-conventional", replace(RIG, conventional=None)) is RIG.device


def test_a_conventional_device_keeps_its_label() -> None:
    phases = planned(made(CONVENTIONAL | {"numjobs": [2]}, region="32MiB"), CONVENTIONAL_DEVICE)
    flags = phases["s-4k-qd1-j2"].flags
    assert (flags["offset"], flags["size"], flags["offset_increment"]) == (
        1 << 20,
        16 << 20,
        16 << 20,
    )
    assert phases["s-4k-qd1-j2-discard"].flags["offset"] == 1 << 20


def test_levels_run_the_sweeps_of_their_device() -> None:
    work = made({}, CONVENTIONAL | {"name": "c"})
    assert [name for name in planned(work) if not name.endswith("reset")] == ["s-4k-qd1-z1"]
    names = planned(work, CONVENTIONAL_DEVICE)
    assert [name for name in names if not name.endswith("discard")] == ["c-4k-qd1"]
    with pytest.raises(ConfigError, match="no sweep or job for /dev/nvme0n1"):
        planned(made({}), CONVENTIONAL_DEVICE)


def test_phases_are_shuffled_behind_what_prepares_them() -> None:
    work = made({"iodepth": [1, 2, 4, 8]}, READS | {"name": "r", "iodepth": [1, 2, 4, 8]}, ramp=2)
    phases = bare.work(FioProgram(), work, RIG.device, 300).phases
    orders = [FioProgram().ordered(phases, seed) for seed in range(5)]
    assert len({tuple(phase.name for phase in order) for order in orders}) == 5
    assert FioProgram().ordered(phases, 3) == FioProgram().ordered(phases, 3)
    for order in orders:
        names = [phase.name for phase in order]
        assert sorted(names) == sorted(phase.name for phase in phases)
        for at, name in enumerate(names):
            if name.startswith("s-") and not name.endswith("reset"):
                assert names[at - 1] == f"{name}-reset"
            if name.startswith("r-4k") and not name.endswith("ramp"):
                assert names[at - 1] == f"{name}-ramp"
        reads = [at for at, name in enumerate(names) if name.startswith("r-")]
        assert reads == list(range(reads[0], reads[0] + 10))
        assert names[reads[0] : reads[0] + 2] == ["r-reset", "r-fill"]


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ({"bs": ["256KiB"]}, "at most 128.0 KiB"),
        ({"bs": ["4KiB", "4KiB"]}, "two values of bs are equal"),
        ({"bs": ["24KiB"]}, "no multiple of bs"),
        ({"rate": [0]}, "rate must be above 0"),
        ({"numjobs": [2]}, "numjobs does not apply"),
        (CONVENTIONAL | {"zones": [2]}, "zones does not apply"),
        ({"rw": "randwrite"}, "no random writes"),
        ({"prepare": []}, r"need prepare: \[reset\]"),
        ({"prepare": ["discard"]}, "discard does not apply"),
        ({"rw": "read"}, "reads need data"),
        ({"name": "fill"}, "names of sweeps must differ"),
        ({"name": "a.b"}, "names are of"),
        ({"direct": 0}, "direct"),
        ({"iodepth": [0]}, "greater than or equal to 1"),
    ],
)
def test_sweeps_that_make_no_sense_are_refused(sweep: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        made(sweep)


def test_the_hint_for_a_mistyped_option_is_one_option() -> None:
    with pytest.raises(ConfigError, match=r"unknown field 'sweeps\.0\.iodeph'") as refused:
        made({"iodeph": [1]})
    assert refused.value.hint == "did you mean iodepth?"
    with pytest.raises(ConfigError) as refused:
        made({"qqqq": [1]})
    assert "numjobs" in refused.value.hint


@pytest.mark.parametrize(
    ("work", "device", "words"),
    [
        # 12 KiB divide 6 MiB, and not the 4 MiB of a zone.
        (made({"bs": ["12KiB"]}, bytes="6MiB"), RIG.device, "does not divide the zone capacity"),
        (made({"zones": [15]}), RIG.device, "writes to 15 zones at once, .* allows 14"),
        (made(READS | {"zones": [384]}), RIG.device, "need 385 zones"),
        (made({"bs": [512]}), RIG.device, "not a multiple of the 4096 B blocks"),
    ],
)
def test_devices_that_do_not_suit_are_refused(work: Fio, device: Device, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        planned(work, device)


def drive(model: str) -> Device:
    return replace(RIG.device, kind=DeviceKind.HARDWARE, model=model)


def modelled(served: str = "") -> Device:
    """Return the reference device as a drive of zn540-1tb, eight times slower."""
    served = served or drive_files.served_name(drive_files.load_model("zn540-1tb"))
    return replace(RIG.device, kind=DeviceKind.MODELLED, model=f"zoneblk {served} -35000ns x8")


def rated_job(rate: str) -> dict[str, Any]:
    """Return a job of one client that writes 64 KiB to a zone with a rate."""
    client = {"name": "writer", "mix": {"write": 1}, "size": "64KiB", "rate": rate}
    job = {"schema_version": 1, "name": "rated", "duration": "2s"}
    return content_of(job | {"clients": [client | {"zones": [1, 2], "bytes": "1MiB"}]})


SMALL, LARGE = zn540.MODELS
# 32 dies of 96 KiB programs in 2,528 us, and the link of 2,734 MiB/s.
MODEL_WRITES = "1186.7 MiB/s"


@pytest.mark.parametrize("device", [drive(SMALL), drive(f"{LARGE}   ")])
def test_rates_above_the_published_bandwidth_are_refused(device: Device) -> None:
    words = r"rate of sweep s: 4 x 300.0 MiB/s is above the 1155.0 MiB/s of /dev/nvme0n2"
    with pytest.raises(ConfigError, match=words):
        planned(made({"rate": ["300MiB"], "zones": [4]}), device)
    planned(made({"rate": ["288MiB"], "zones": [4]}), device)
    planned(made(READS | {"rate": ["626MiB"], "zones": [4]}), device)
    with pytest.raises(ConfigError, match=r"above the 2507\.0 MiB/s"):
        planned(made(READS | {"rate": ["627MiB"], "zones": [4]}), device)
    with pytest.raises(
        ConfigError, match=r"client writer of job rated: 1200\.0 MiB/s is above the"
    ):
        planned(made(jobs=[rated_job("1200MiB/s")]), device)
    with pytest.raises(ConfigError, match="client writer of job rated"):
        planned(made(jobs=[rated_job("20000/s")]), device)  # of 64 KiB: 1,250 MiB/s
    planned(made(jobs=[rated_job("1150MiB/s")]), device)


def test_caps_of_modelled_drives_are_of_their_model() -> None:
    device = modelled()
    with pytest.raises(ConfigError, match=f"4 x 300.0 MiB/s is above the {MODEL_WRITES}"):
        planned(made({"rate": ["300MiB"], "zones": [4]}), device)
    # The rate is on the model's clock, so the dilation changes nothing.
    flags = planned(made({"rate": ["290MiB"], "zones": [4]}), device)["s-4k-qd1-z4-r290m"].flags
    assert flags["rate"] == 290 * 2**20 // 8
    with pytest.raises(ConfigError, match=f"1200.0 MiB/s is above the {MODEL_WRITES}"):
        planned(made(jobs=[rated_job("1200MiB/s")]), device)
    planned(made(jobs=[rated_job("1180MiB/s")]), device)


@pytest.mark.parametrize(
    "device",
    [
        drive("INTEL SSDPE21D280GA"),
        replace(RIG.device, model=SMALL),  # emulated
        modelled("zn540-1tb-00000000"),  # other values
        modelled("mine-00000000"),
    ],
)
def test_drives_of_unknown_bandwidth_take_every_rate(device: Device) -> None:
    assert rate_caps.cap_of(device) is None
    planned(made({"rate": ["3000MiB"]}, jobs=[rated_job("3000MiB/s")]), device)


def test_the_ramp_is_longer_than_fios_first_second() -> None:
    with pytest.raises(ConfigError, match="ramp must be at least 2 s"):
        made({}, ramp=1)


def test_the_drives_study_fits_a_zn540_and_its_limits() -> None:
    zones = replace(
        RIG.device,
        kind=DeviceKind.HARDWARE,
        zone_size=Bytes(2 << 30),
        zone_capacity=Bytes(1077 << 20),
        zones=904,
        size=Bytes(904 * (2 << 30)),
    )
    disk = replace(CONVENTIONAL_DEVICE, kind=DeviceKind.HARDWARE, size=Bytes(1 << 40))
    study, workload = load.load_study("block-level")
    found = expand(study, workload, [("h", replace(RIG, device=zones, conventional=disk))], "c")
    runs = found.hosts[0].runs
    assert {run.level for run in runs} == {"raw-device", "raw-conventional"}
    assert 3600 < sum(run.predicted.seconds for run in runs) < 12 * 3600
    assert sum(run.predicted.bytes_written for run in runs) > 1 << 40


def side_by_side(**changes: Any) -> Inspection:
    """Return a host with two conventional devices; the second has another size."""
    second = replace(
        CONVENTIONAL_DEVICE,
        path="/dev/sdb",
        identity=replace(CONVENTIONAL_DEVICE.identity, serial="second"),
        size=Bytes(256 << 20),
    )
    other = replace(OtherDevice(second, (), RIG.levels), **changes)
    return replace(RIG, conventional=CONVENTIONAL_DEVICE, more_conventional=(other,))


def test_conventional_devices_run_side_by_side() -> None:
    study, workload = load.load_study("block-smoke")
    runs = expand(study, workload, [("h", side_by_side())], "c").hosts[0].runs
    found = {(run.row, run.conventional.path if run.conventional else "") for run in runs}
    assert found == {
        ("raw-device", "/dev/nvme0n1"),
        ("raw-conventional", "/dev/nvme0n1"),
        ("raw-conventional-2", "/dev/sdb"),
    }
    assert len(runs) == 3 * 2  # each with both schedulers
    assert len({run.cell for run in runs}) == len(runs)


@pytest.mark.parametrize(
    ("kind", "model", "shown"),
    [
        (DeviceKind.MODELLED, "zoneblk conventional-4m-544d90cb -35000ns x128", "conventional-4m"),
        (DeviceKind.HARDWARE, "KIOXIA KCD6 X1", "KIOXIA KCD6 X1"),
    ],
)
def test_people_read_the_name_of_a_drive(kind: DeviceKind, model: str, shown: str) -> None:
    study, workload = load.load_study("block-smoke")
    disk = replace(CONVENTIONAL_DEVICE, kind=kind, model=model)
    runs = expand(study, workload, [("h", replace(RIG, conventional=disk))], "c").hosts[0].runs
    found = {run.level: device_words(run) for run in runs}
    assert found == {"raw-device": (), "raw-conventional": (shown,)}


def old_kernel(*levels: str, sweeps: Collection[str] = ()) -> tuple[RunSpec, ...]:
    """Return the runs of block-smoke on Linux 6.1, with some of its sweeps."""
    study, workload = load.load_study("block-smoke")
    assert isinstance(workload, BareWorkload)
    if sweeps:
        kept = tuple(one for one in workload.work.sweeps if one.name in sweeps)
        work = workload.work.model_copy(update={"sweeps": kept, "jobs": ()})
        workload = workload.model_copy(update={"fio": work})
    host = replace(RIG.host, kernel="6.1.0-25-amd64")
    inspection = replace(RIG, host=host, conventional=CONVENTIONAL_DEVICE)
    narrow = load.narrow(study, levels) if levels else study
    return expand(narrow, workload, [("h", inspection)], "c").hosts[0].runs


def test_old_kernels_reorder_only_writes_to_zones_by_depth() -> None:
    words = "scheduler none reorders the writes of sweep write-depth at iodepth 4 on Linux 6.1"
    with pytest.raises(ConfigError, match=words):
        old_kernel()
    both = {"none", "mq-deadline"}
    # A conventional device has no order to keep, though the host also has zones.
    assert {run.scheduler for run in old_kernel("raw-conventional")} == both
    runs = old_kernel("raw-device", sweeps=("zone-read", "write-zones"))
    assert {run.scheduler for run in runs} == both


def test_a_refused_second_device_stops_the_plan() -> None:
    study, workload = load.load_study("block-smoke")
    refused = side_by_side(refusals=(Reason("mounted", "/dev/sdb is mounted", "umount"),))
    with pytest.raises(GuardRefused, match="/dev/sdb is mounted"):
        expand(study, workload, [("h", refused)], "c")
    alone = load.narrow(study, ["raw-device"])
    assert len(expand(alone, workload, [("h", refused)], "c").hosts[0].runs) == 2


def test_a_changed_second_device_is_another_host() -> None:
    before = side_by_side()
    smaller = replace(before.more_conventional[0].device, size=Bytes(1 << 20))
    after = side_by_side(device=smaller)
    (line,) = changed_hosts({"h": before}, {"h": after})
    assert line == "h: conventional2.size 268435456 -> 1048576"


# --- zones ---------------------------------------------------------------------------------------


def test_resets_are_fios_trims_of_zones() -> None:
    work = planned(made({}))
    phase = work["s-4k-qd1-z1-reset"]
    parsed_reset = FioProgram().parse(phase, printed("zbd-reset"), "")
    assert parsed_reset.counts == BareCounts(0, 0, 0, 0, resets=4)
    written = FioProgram().parse(work["s-4k-qd1-z1"], printed("zbd-write"), "")
    assert written.counts == BareCounts(2 << 20, 512, 0, 0, 0)
    assert set(written.histograms) == {"write"}
    discarded = planned(made(CONVENTIONAL, region="32MiB"), CONVENTIONAL_DEVICE)["s-4k-qd1-discard"]
    found = FioProgram().parse(discarded, printed("zbd-reset"), "").counts
    assert found is not None
    assert found.resets == 0  # a discard is no zone command


def test_total_latency_is_never_taken_from_the_completion() -> None:
    with pytest.raises(ToolFailed, match="no histogram of lat for its reads"):
        FioProgram().parse(planned(made({}))["s-4k-qd1-z1"], printed("group"), "")


# --- ledger --------------------------------------------------------------------------------------

NOTHING = LevelUsage(None, None, None, "none")


def counted(**changes: Any) -> Snapshot:
    """Return a barrier's counters; the witness counts what the kernel read."""
    values: dict[str, Any] = {
        "zoned": "z",
        "written": {"z": 0},
        "read": {"z": 0},
        "busy_ms": {"z": 0},
        "witness": Witness("w", 0, {"z": 0}, {"z": ("z",)}, {"z": 0}),
        "requests": {"z": Requests(0, 0, 0, 0)},
        "trace": traced(resets=0),
    }
    return counters(**(values | changes))


def traced(*, resets: int) -> Trace:
    commands = (Commands("z", "reset", 0, resets, 0),) if resets else ()
    return Trace(("z",), commands, 0, {}, 0, (), None, 0)


def closures_of_reset(after: Snapshot, held: tuple[int, ...]) -> dict[str, ClosureState]:
    """Return the closures of the captured reset of four zones, which held these bytes before."""
    spec = planned(made({}))["s-4k-qd1-z1-reset"]
    phase = phase_facts(spec, FioProgram().parse(spec, printed("zbd-reset"), ""), None)
    up = BarrierSnapshot(counted(), NOTHING, (9, 0, 0, 0, 0))
    cold = BarrierSnapshot(counted(), NOTHING, (9, *held))
    end = BarrierSnapshot(after, NOTHING, (9, 0, 0, 0, 0))
    entry = ledger.build("raw-device", [up, cold, end], [phase]).entry(spec.name)
    assert entry is not None
    return {one.upper: one.state for one in entry.closures}


def test_only_zones_with_data_are_reset_by_a_command() -> None:
    one = {"requests": {"z": Requests(0, 0, 1, 0)}, "trace": traced(resets=1)}
    found = closures_of_reset(counted(**one), (4096, 0, 0, 0))
    assert set(found.values()) == {ClosureState.EXACT}
    assert {"fio resets", "fio write commands", "kernel write requests", "kernel reads z"} <= set(
        found
    )
    for held in ((0, 0, 0, 0), (4096, 4096, 0, 0)):
        found = closures_of_reset(counted(**one), held)
        assert found["fio resets"] is ClosureState.BROKEN
        assert found["fio write commands"] is ClosureState.BROKEN


def test_reads_that_the_device_does_not_know_break_the_closure() -> None:
    changed = counted(requests={"z": Requests(0, 0, 1, 0)}, trace=traced(resets=1), read={"z": 512})
    assert closures_of_reset(changed, (4096, 0, 0, 0))["kernel reads z"] is ClosureState.BROKEN
