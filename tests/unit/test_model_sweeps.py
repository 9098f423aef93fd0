"""Sweeps of fio as jobs of the model. tests/native/test_model.py plays them with the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from analysis.model import sweeps
from analysis.model.sweeps import SweptModel
from harness.cli.main import main
from harness.errors import ConfigError, ExitCode
from harness.plan.drive_files import load_model
from harness.tools import zonemodel
from harness.tools.zonemodel import Played
from harness.workloads.fio_sweeps import Fio, Sweep

MIB = 2**20
SCHEDULERS = ("none", "mq-deadline")


def zoned(**changes: Any) -> Sweep:
    """Return writes of 4 KiB to a zone."""
    common: dict[str, Any] = {
        "name": "point",
        "device": "zoned",
        "rw": "write",
        "bs": (4096,),
        "prepare": ("reset",),
    }
    return Sweep(**(common | changes))


def conventional(**changes: Any) -> Sweep:
    """Return writes of 4 KiB to a conventional device."""
    return zoned(**({"device": "conventional", "prepare": ("discard",)} | changes))


class Program:
    """Takes the place of ``zonemodel``: keeps jobs, and gives the n-th client n x 1,000 IOPS."""

    def __init__(self, errors: Mapping[str, int]) -> None:
        self.errors = errors
        self.model: dict[str, Any] = {}
        self.jobs: list[dict[str, Any]] = []

    def run(self, model: Any, jobs: Sequence[dict[str, Any]], threads: int) -> list[Played]:
        assert threads == 2
        self.model, self.jobs = model, [*self.jobs, *jobs]
        return [self._played(job) for job in jobs]

    def _played(self, job: dict[str, Any]) -> Played:
        clients = {
            one["name"]: {
                next(iter(one["mix"])): {
                    "errors": self.errors,
                    "per_second": 1000.0 * index,
                    "p50_ns": 10_000 * index,
                    "p95_ns": None if index > 1 else 20_000,
                }
            }
            for index, one in enumerate(job["clients"], 1)
        }
        return Played(job["name"], "zn540-1tb", clients, {}, {})


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Program:
    made = Program(getattr(request, "param", {}))
    monkeypatch.setattr(zonemodel, "run", made.run)
    return made


def swept(
    *every: Sweep, model: str = "zn540-1tb", schedulers: Sequence[str] = ("none",), region: int = 0
) -> SweptModel:
    work = Fio(bytes=4 * MIB, region=region, sweeps=every)
    return sweeps.sweep(load_model(model), work, schedulers, repetitions=1, threads=2)


def test_each_job_of_fio_is_a_client_with_a_zone_of_its_own(program: Program) -> None:
    (point,) = swept(zoned(zones=(2,))).points
    (job,) = program.jobs
    whole = 1077 * MIB
    assert [one["zones"] for one in job["clients"]] == [[1, 2], [2, 3]]  # zone 0 has the label
    assert [(one["mix"], one["depth"], one["bytes"]) for one in job["clients"]] == [
        ({"write": 1}, 1, f"{whole}B")
    ] * 2
    assert job["prepare"] == []
    assert (point.iops, point.p50, point.p95) == (3000.0, 15.0, None)
    assert (point.jobs, point.zoned, point.overwrites) == (2, True, False)
    assert (point.row, point.model) == ("zn540-1tb", "zn540-1tb")


def test_a_write_stops_at_the_last_whole_block_of_its_zone(program: Program) -> None:
    swept(zoned(bs=(96 * 1024,)))
    assert program.jobs[0]["clients"][0]["bytes"] == f"{1077 * MIB // 98304 * 98304}B"


@pytest.mark.parametrize(("rw", "pattern"), [("read", "sequential"), ("randread", "random")])
def test_reads_find_full_zones(program: Program, rw: str, pattern: str) -> None:
    swept(zoned(rw=rw, zones=(3,), iodepth=(8,), prepare=("reset", "fill")))
    (job,) = program.jobs
    assert job["prepare"] == [{"zones": [1, 4], "fill_pct": 100.0}]
    assert {(one["pattern"], one["depth"]) for one in job["clients"]} == {(pattern, 8)}
    assert all("bytes" not in one for one in job["clients"])


def test_jobs_share_the_region_of_a_conventional_drive(program: Program) -> None:
    (point,) = swept(
        conventional(rw="randwrite", numjobs=(2,), rate=(MIB,), prepare=("fill",)),
        model="conventional-7op",
        region=64 * MIB,
    ).points
    (job,) = program.jobs
    assert [one["range"] for one in job["clients"]] == [
        ["0B", f"{32 * MIB}B"],
        [f"{32 * MIB}B", f"{64 * MIB}B"],
    ]
    assert {(one["pattern"], one["rate"]) for one in job["clients"]} == {
        ("random", "1.000000000MiB/s")
    }
    assert job["prepare"] == [{"conventional": "sequential"}]
    assert program.model["ftl"]["capacity"]["value"] == f"{64 * MIB}B"
    assert point.overwrites


def test_an_overwritten_drive_is_prepared_so(program: Program) -> None:
    prepared = conventional(prepare=("fill", "overwrite"))
    swept(prepared, model="conventional-7op", region=MIB)
    assert program.jobs[0]["prepare"] == [
        {"conventional": "sequential"},
        {"conventional": "random"},
    ]


def test_writes_of_a_zone_that_wait_for_each_other_are_left_out(program: Program) -> None:
    found = swept(zoned(iodepth=(1, 4)), schedulers=SCHEDULERS)
    played = [(one.scheduler, one.iodepth) for one in found.points]
    assert played == [("none", 1), ("mq-deadline", 1), ("mq-deadline", 4)]
    assert found.left_out == ("point-4k-qd4-z1-none",)
    assert {one["clients"][0]["stack"] for one in program.jobs} == {
        "io_uring-none",
        "io_uring-mq-deadline",
    }


def test_repetitions_differ_by_their_seed(program: Program) -> None:
    work = Fio(bytes=MIB, sweeps=(zoned(),))
    points = sweeps.sweep(load_model("zn540-1tb"), work, ["none"], repetitions=3, threads=2).points
    assert [one["seed"] for one in program.jobs] == [1, 2, 3]
    assert [one.block for one in points] == ["1", "2", "3"]


@pytest.mark.parametrize("program", [{"0x01bd": 2}], indirect=True)
def test_a_refused_command_is_no_result(program: Program) -> None:
    with pytest.raises(ConfigError, match=r"zn540-1tb refuses 2 commands of point-4k-qd1-z1"):
        swept(zoned(zones=(1,)))


def test_what_the_model_lacks_is_named(program: Program) -> None:
    with pytest.raises(ConfigError, match="has no stack io_uring-bfq") as error:
        swept(zoned(), schedulers=["bfq"])
    assert "known: mq-deadline, none" in str(error.value.hint)
    with pytest.raises(ConfigError, match="no sweep for model conventional-7op"):
        swept(zoned(), model="conventional-7op")
    assert not program.jobs


def test_the_command_prints_a_line_for_each_guideline(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "guidelines", "zn540-1tb", "--threads", "2"]) == ExitCode.OK
    done = capsys.readouterr()
    rows = [line.split("  ")[0] for line in done.out.splitlines()]
    assert {"guideline", "one-zone-p95", "other-drives"} <= {*rows}
    assert "zn540-1tb: core passes" in done.err
    assert "left out: write-depth-4k-qd2-z1-none, write-depth-4k-qd4-z1-none" in done.err
    assert len(program.jobs) == 3 * 62
    assert main(["model", "guidelines", "zn540-1tb", "--threads", "2", "--each"]) == ExitCode.OK
    assert len(capsys.readouterr().out.splitlines()) == 1 + 3 * 62


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["zn540-1tb", "--study", "smoke"], "study smoke has no workload of fio"),
        (["zn540-1tb", "zn540-1tb"], "a model is named twice"),
        (["zn540"], "zn540"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "guidelines", *words]) == ExitCode.USAGE
    first, *hints = capsys.readouterr().err.splitlines()
    assert message in first
    assert len(hints) <= 1
