"""Jobs of the model's job language as phases of fio."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError
from harness.plan import bare, load
from harness.plan.reference import RIG
from harness.rules.facts import RunFacts
from harness.rules.fio import whole
from harness.store.spec import Bytes, Device, DeviceKind, PhaseSpec
from harness.tools import fio
from harness.workloads.fio import FioProgram, FioSummary
from harness.workloads.load_program import BareCounts
from tests.fixtures.fio_plans import (
    CLIENTS,
    CONVENTIONAL_DEVICE,
    FIXTURES,
    content_of,
    made,
    planned,
    printed,
    shipped,
)

ZONES = RIG.device
SIZE, CAPACITY = ZONES.zone_size or 0, ZONES.zone_capacity or 0
READER = {"name": "reader", "mix": {"read": 1}, "size": "4KiB", "zones": [0, 2]}
WRITER = {
    "name": "writer",
    "mix": {"write": 1},
    "size": "16KiB",
    "zones": [2, 6],
    "depth": 4,
    "bytes": "8MiB",
}
PAIR: dict[str, Any] = {
    "schema_version": 1,
    "name": "pair",
    "duration": "2s",
    "warmup": "200ms",
    "prepare": [{"zones": [0, 2], "fill_pct": 100}],
    "clients": [READER, WRITER],
}


def phases(job: dict[str, Any], device: Device = ZONES, **changes: Any) -> dict[str, PhaseSpec]:
    """Return the phases of a workload with this job alone."""
    return planned(made(jobs=[content_of(job)], **changes), device)


def client(job: dict[str, Any], name: str, device: Device = ZONES) -> dict[str, Any]:
    """Return fio's options of a client."""
    found = phases(job, device)[f"job-{job['name']}"]
    return fio.sections(found.name, found.flags)[name]


def changed(**changes: Any) -> dict[str, Any]:
    """Return PAIR with another writer."""
    return PAIR | {"clients": [READER, WRITER | changes]}


def test_clients_are_sections_of_one_fio_behind_the_label() -> None:
    found = phases(PAIR)
    assert list(found) == ["job-pair-reset-1", "job-pair-fill-2", "job-pair"]
    reset, fill = found["job-pair-reset-1"].flags, found["job-pair-fill-2"].flags
    assert (reset["offset"], reset["size"], reset["rw"]) == (SIZE, 6 * SIZE, "trim")
    assert (fill["offset"], fill["size"], fill["io_size"]) == (SIZE, 2 * SIZE, 2 * CAPACITY)
    argv = fio.argv(Path("fio"), "job-pair", found["job-pair"].flags)
    assert [one for one in argv if one.startswith("--name")] == ["--name=reader", "--name=writer"]
    assert argv.count("--new_group=1") == 2  # or fio adds up their numbers


def test_every_reset_covers_the_zones_of_all_phases() -> None:
    """A zone that another phase left partly written would count as active."""
    found = planned(made({"zones": [8]}, jobs=[content_of(PAIR)]))
    resets = [phase.flags["size"] for phase in found.values() if phase.benchmark == "reset"]
    assert resets == [8 * SIZE] * 2
    longer = PAIR | {"clients": [READER, WRITER | {"zones": [2, 22]}]}
    found = planned(made({"zones": [8]}, jobs=[content_of(longer)]))
    resets = [phase.flags["size"] for phase in found.values() if phase.benchmark == "reset"]
    assert resets == [22 * SIZE] * 2


def test_a_reader_loops_until_its_time_and_a_writer_has_a_clone_for_each_zone() -> None:
    reader, writer = client(PAIR, "reader"), client(PAIR, "writer")
    assert (reader["rw"], reader["runtime"], reader["time_based"]) == ("randread", 2, 1)
    assert (reader["offset"], reader["size"]) == (SIZE, 2 * SIZE)
    assert (writer["numjobs"], writer["iodepth"], writer["ioengine"]) == (4, 1, "psync")
    assert (writer["offset"], writer["size"], writer["offset_increment"]) == (3 * SIZE, SIZE, SIZE)
    assert writer["io_size"] == 2 << 20
    assert "time_based" not in writer  # it would reset zones


def test_one_zone_at_a_time_keeps_its_depth() -> None:
    writer = client(changed(active=1, rate="2MiB/s"), "writer")
    assert "numjobs" not in writer
    assert (writer["iodepth"], writer["ioengine"], writer["size"]) == (4, "libaio", 4 * SIZE)
    assert writer["rate"] == 2 << 20
    assert client(changed(rate="400/s"), "writer")["rate_iops"] == 100  # of each clone


def test_a_warm_up_is_a_phase_where_no_zone_is_written() -> None:
    alone = PAIR | {"clients": [READER | {"bytes": "1MiB"}]}
    ramp = phases(alone)["job-pair-ramp"]
    assert ramp.benchmark == "ramp"
    assert ramp.flags["reader.runtime"] == 2  # fio's first second is no warm-up
    assert "reader.io_size" not in ramp.flags
    assert "job-pair-ramp" not in phases(PAIR)


def test_zones_are_filled_by_a_share() -> None:
    states = [{"zones": [0, 3], "fill_pct": 50}, {"zones": [3, 4], "written": "8KiB"}]
    found = phases(PAIR | {"prepare": states})
    fill = found["job-pair-fill-2"].flags
    assert (fill["numjobs"], fill["io_size"], fill["offset_increment"]) == (3, CAPACITY // 2, SIZE)
    assert found["job-pair-fill-3"].flags["io_size"] == 8192


def test_a_conventional_job_is_what_the_captured_fio_ran() -> None:
    found = phases(CLIENTS, CONVENTIONAL_DEVICE)["job-clients"]
    options = {"filename": "/dev/loop0", "randseed": 7, **found.flags}
    argv = fio.argv(Path("fio"), found.name, options)
    assert " ".join(argv) == (FIXTURES / "clients.cmd").read_text().strip()


def test_a_conventional_device_is_overwritten_as_often_as_the_job_has_it() -> None:
    states = [{"conventional": "sequential"}, {"conventional": "random", "times": 4}]
    found = phases(CLIENTS | {"prepare": states}, CONVENTIONAL_DEVICE, region="48MiB")
    assert [name for name in found if name != "job-clients"] == [
        "job-clients-discard-1",
        "job-clients-fill-2",
        "job-clients-overwrite-3",
    ]
    assert found["job-clients-fill-2"].flags["io_size"] == 48 << 20
    assert found["job-clients-overwrite-3"].flags["io_size"] == 4 * (48 << 20)


def test_numbers_are_of_all_clients(good: RunFacts) -> None:
    spec = phases(CLIENTS, CONVENTIONAL_DEVICE)["job-clients"]
    read = FioProgram().parse(spec, printed("clients"), "")
    assert read.counts == BareCounts(50_593_792, 576, 786_432, 192, 0)
    assert read.histograms["write"]["count"] == 576
    assert early(good, spec, printed("clients")) == []


def early(good: RunFacts, spec: PhaseSpec, text: str) -> list[str]:
    read = FioProgram().parse(spec, text, "")
    assert isinstance(read.summary, FioSummary)
    phase = replace(good.phases[0], spec=spec, parsed=read)
    return [issue.message for issue in whole(replace(good, phases=(phase,)))]


def half(document: Any) -> None:
    extents = document["jobs"][1]["write"]
    extents |= {"io_bytes": 8 << 20, "total_ios": 128}
    for kind in ("slat_ns", "clat_ns", "lat_ns"):
        extents[kind] |= {"N": 128, "bins": {"44800": 128}}


def gone(document: Any) -> None:
    del document["jobs"][2]


def test_time_ends_a_client_also_between_two_commands(good: RunFacts) -> None:
    """The last command of a slow client ends before its runtime does."""
    spec = phases(CLIENTS, CONVENTIONAL_DEVICE)["job-clients"]
    spec = replace(spec, flags={**spec.flags, "mixed.io_size": 64 << 20, "mixed.time_based": 0})
    document = json.loads(printed("clients"))
    for way in ("read", "write"):
        document["jobs"][2][way]["runtime"] = 990
    assert early(good, spec, json.dumps(document)) == []
    document["jobs"][2]["job_runtime"] = 990
    assert ["mixed moved" in text for text in early(good, spec, json.dumps(document))] == [True]


@pytest.mark.parametrize(
    ("change", "words"), [(half, "extents moved 8388608 of 16777216 B"), (gone, "mixed moved 0 of")]
)
def test_a_client_that_ends_early_is_named(
    good: RunFacts, change: Callable[[Any], None], words: str
) -> None:
    spec = phases(CLIENTS, CONVENTIONAL_DEVICE)["job-clients"]
    document = json.loads(printed("clients"))
    change(document)
    (message,) = early(good, spec, json.dumps(document))
    assert words in message


def test_times_and_rates_are_of_the_model_on_a_modelled_drive() -> None:
    model = replace(ZONES, kind=DeviceKind.MODELLED, model="zones-4m-12345678 x128")
    assert model.dilation == 128
    reader, writer = (client(changed(rate="2MiB/s"), name, model) for name in ("reader", "writer"))
    assert reader["runtime"] == 256
    assert writer["rate"] == (2 << 20) // 128 // 4


@pytest.mark.parametrize("rate", [100, 1000, 1_000_000])
def test_rates_in_commands_are_exact_on_a_modelled_drive(rate: int) -> None:
    model = replace(ZONES, kind=DeviceKind.MODELLED, model="zones-4m-12345678 x256")
    readers = PAIR | {"clients": [READER | {"rate": f"{rate}/s"}, WRITER | {"rate": f"{rate}/s"}]}
    reader, writer = client(readers, "reader", model), client(readers, "writer", model)
    assert "rate_iops" not in {**reader, **writer}
    assert reader["rate"] == rate * 4096 // 256
    assert writer["rate"] == rate * 16384 // 256 // 4


def test_flags_have_the_same_names_at_each_dilation() -> None:
    """Times at twice the dilation confirm only runs with equal flags."""
    job = PAIR | {"clients": [READER | {"rate": "1000/s"}, WRITER]}
    names = [
        set(
            client(
                job, "reader", replace(ZONES, kind=DeviceKind.MODELLED, model=f"zones-4m-1234 x{k}")
            )
        )
        for k in (1, 2)
    ]
    assert names[0] == names[1]


def test_each_direction_of_a_mix_has_its_rate() -> None:
    mixed = CLIENTS["clients"][2]

    def rate(text: str, **changes: Any) -> Any:
        job = CLIENTS | {"clients": [mixed | {"rate": text} | changes]}
        return client(job, "mixed", CONVENTIONAL_DEVICE)["rate_iops"]

    assert rate("400/s") == "300,100"
    assert rate("400/s", mix={"read": 1}) == 400
    with pytest.raises(ConfigError, match="rounds to 0"):
        rate("1/s")


def job_limits(**changes: Any) -> tuple[float, int]:
    """Return the predicted seconds and the time limit of PAIR's only phase with a writer."""
    job = PAIR | {"prepare": [], "clients": [WRITER | {"bytes": "16MiB"} | changes]}
    job = {key: value for key, value in job.items() if key != "duration"}
    work = bare.work(FioProgram(), made(jobs=[content_of(job)]), ZONES, 300)
    (phase,) = (one for one in work.phases if one.name == "job-pair")
    return work.predicted.seconds, phase.timeout_seconds


def test_a_rate_sets_how_long_bytes_take() -> None:
    fast, limit = job_limits()
    assert limit == 300
    seconds, limit = job_limits(rate="4/s")  # 64 KiB of 16 MiB: 256 s
    assert seconds - fast == pytest.approx(256, abs=2)
    assert limit > 5 * 256
    started, limit = job_limits(rate="4/s", start="100s")
    assert started - seconds == pytest.approx(100)
    _, limit = job_limits(rate="4/s", duration="400s")
    assert limit > 5 * 400
    assert limit < 5 * 410


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (changed(mix={"append": 1}), "commands besides read and write"),
        (changed(mix={"read": 1, "write": 1}), "make it two clients"),
        (changed(mix=None, sequence=["write", "finish"]), "commands besides read and write"),
        (changed(mix={"write": 1}, bytes=None), "client writer has no end"),
        (changed(namespace="conventional", zones=None), "two namespaces"),
        (PAIR | {"prepare": [{"zones": [0, 2], "state": "finished"}]}, "prepare has a state"),
    ],
)
def test_what_fio_cannot_do_is_refused(job: dict[str, Any], words: str) -> None:
    kept = [{k: v for k, v in one.items() if v is not None} for one in job["clients"]]
    with pytest.raises(ConfigError, match=words) as refused:
        phases(job | {"clients": kept})
    assert refused.value.code == "fio-job"


@pytest.mark.parametrize(
    ("job", "device", "words"),
    [
        (changed(zones=[383, 384]), ZONES, "needs 385 zones"),
        (changed(bytes="17MiB"), ZONES, "writes more than its zones hold"),
        (
            changed(zones=[2, 8]),
            ZONES,
            r"writes 4 zones at a time, so its number of zones \(6\) must be a multiple of 4",
        ),
        (changed(depth=6, active=4), ZONES, r"so its depth \(6\) must be a multiple of 4"),
        (
            changed(size="12KiB"),
            ZONES,
            r"size 12\.0 KiB does not divide the zone capacity 4096\.0 KiB",
        ),
        (changed(rate="3/s"), ZONES, "client writer of job pair has a rate that rounds to 0"),
        (changed(rate="0/s"), ZONES, "rate that rounds to 0"),
        (changed(zones=[2, 17], depth=15, bytes="15MiB"), ZONES, "writes to 15 zones .* allows 14"),
        (PAIR | {"prepare": [{"zones": [0, 15], "fill_pct": 50}]}, ZONES, "writes to 15 zones"),
        (CLIENTS, replace(CONVENTIONAL_DEVICE, size=Bytes(32 << 20)), "needs a region of"),
    ],
)
def test_what_does_not_fit_is_refused(job: dict[str, Any], device: Device, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        phases(job, device)


def test_the_shipped_workload_has_the_content_of_its_jobs() -> None:
    jobs = shipped("block-jobs").work.drive_jobs
    assert [job.name for job in jobs] == [
        "randread-4k",
        "read-under-write",
        "overwrite-conventional",
        "overwrite-four-times",
    ]
    with pytest.raises(ConfigError, match="fio cannot play job write-finish-reset"):
        load.load_study("block-jobs", settings={"workload.fio": {"jobs": ["write-finish-reset"]}})
    with pytest.raises(ConfigError, match="there is no job 'randread'"):
        load.load_study("block-jobs", settings={"workload.fio": {"jobs": ["randread"]}})
