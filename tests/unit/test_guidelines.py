"""Guidelines of block-level studies on SYNTHETIC points; the published numbers are real."""

from __future__ import annotations

import dataclasses
import math
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from analysis.judge import block_level, knee
from analysis.judge.agreement import Agreement, Relation
from analysis.judge.block_level import GuidelineEvidence, GuidelineOutcome
from analysis.judge.block_model import ModelRules
from analysis.judge.guideline import GuidelineTest
from analysis.judge.published import references
from analysis.read.block import BlockPoint
from analysis.read.load import CampaignData
from analysis.read.load import load as load_campaign
from harness.errors import ConfigError
from harness.plan import load
from harness.plan.workload_models import BareWorkload
from harness.store import checksums, rundir
from harness.store.files import dumps
from harness.store.result import Result
from harness.store.spec import DeviceKind, PhaseRole, PhaseSpec, Scalar
from harness.tools import fio, histogram
from harness.workloads import fio_phases
from tests.fixtures.block_points import DEEP, SIZES, conventional, equal_campaign, guideline, point
from tests.fixtures.campaigns import on_model, with_metric, write_campaign

CAMPAIGNS, KNEES = 1000, 400
# Small differences between repetitions, so that an interval exists.
JITTER = {"1": 0.998, "2": 1.001, "3": 1.002}
# As the controllers of both capacities report themselves.
ZN540, LARGE = "WZS4C8T1TDSP303", "WZS4C8T4TDSP303                         "
OTHER = "INTEL SSDPE21D280GA"


def drive(points: Sequence[BlockPoint]) -> GuidelineEvidence:
    """Return points of a drive."""
    return GuidelineEvidence(points, [DeviceKind.HARDWARE])


def judged(
    name: str,
    points: Sequence[BlockPoint],
    kinds: Collection[DeviceKind] = (DeviceKind.HARDWARE,),
) -> GuidelineOutcome:
    """Return the only outcome."""
    (found,) = block_level.outcomes(guideline(name), GuidelineEvidence(points, kinds))
    return found


def sides(factor: float, *, depth: int = 14) -> list[BlockPoint]:
    """Return sequential reads with both schedulers; none has ``factor`` times the latency."""
    return [
        point(scheduler=scheduler, iodepth=depth, block=block, p50=10 * jitter * times, p95=20.0)
        for block, jitter in JITTER.items()
        for scheduler, times in (("none", factor * jitter), ("mq-deadline", 1.0))
    ]


@pytest.mark.parametrize(
    ("factor", "agreement", "why"),
    [
        (0.90, Agreement.AGREES, "it is less"),
        (1.10, Agreement.DISAGREES, "it is more"),
        (0.992, Agreement.NOT_SHOWN, "no difference shown"),  # below the noise floor
        (1.0, Agreement.NOT_SHOWN, "no difference shown"),
    ],
)
def test_a_direction_needs_an_interval_beyond_the_noise_floor(
    factor: float, agreement: Agreement, why: str
) -> None:
    found = judged("none-for-reads-median", sides(factor))
    assert (found.agreement, found.why, found.runs) == (agreement, why, 3)


def test_found_and_interval_are_changes_of_the_ratio() -> None:
    found = judged("none-for-reads-median", sides(0.9))
    assert found.found == "-9.97 %"
    low, high = (float(text.removesuffix(" %")) for text in found.interval.split(" .. "))
    assert -11 < low < -9.97 < high < -9


@pytest.mark.parametrize("kind", [DeviceKind.EMULATED, DeviceKind.REPLAYED])
def test_on_emulated_devices_a_guideline_has_values_and_no_verdict(kind: DeviceKind) -> None:
    found = judged("none-for-reads-median", sides(0.9), [kind])
    assert (found.agreement, found.found) == (Agreement.NOT_SHOWN, "-9.97 %")
    assert found.why == "a time, on an emulated device"
    # Kinds are never mixed: one emulated device takes the verdict from all.
    found = judged("none-for-reads-median", sides(0.9), [DeviceKind.HARDWARE, kind])
    assert found.agreement is Agreement.NOT_SHOWN


def test_models_without_runs_are_judged_as_results_of_the_model() -> None:
    found = judged("none-for-reads-median", sides(0.9), [DeviceKind.MODELLED])
    assert found.agreement is Agreement.AGREES


def phase(name: str, rw: str, bs: str, *, depth: int = 1, jobs: int = 1) -> PhaseSpec:
    """Return a phase of fio."""
    flags: dict[str, Scalar] = {"rw": rw, "bs": bs, "iodepth": depth, "numjobs": jobs}
    return PhaseSpec(
        name,
        name,
        PhaseRole.MEASURED,
        flags,
        operations=1,
        user_bytes_per_operation=0,
        expects_gc=False,
        timeout_seconds=300,
        program=fio.PROGRAM,
    )


DEEP_READ = phase("read-4k-qd14", "read", "4k", depth=14)
LARGE_READ = phase("read-128k", "read", "128k")
WRITE = phase("write-z4", "write", "4k", jobs=4)
PHASES = (DEEP_READ, phase("read-4k", "read", "4k"), LARGE_READ, WRITE)
MEDIANS = {DEEP_READ.name: {"none": 9.0}, WRITE.name: {"none": 10.0}}  # 10 us with mq-deadline


def on_modelled_drive(
    folder: Path,
    dilation: int = 8,
    *,
    medians: Mapping[str, Mapping[str, float]] = MEDIANS,
    metrics: Mapping[str, float] = MappingProxyType({}),
) -> CampaignData:
    """Write a campaign of both schedulers. ``medians`` are by phase and scheduler."""

    def change(result: Result) -> Result:
        begun = tuple(dataclasses.replace(result.phases[0], name=one.name) for one in PHASES)
        result = on_model(dataclasses.replace(result, phases=begun), dilation)
        for one in PHASES:
            rate = 1e5 / dilation * jitter(result, one)
            result = with_metric(result, f"{one.name}.throughput", rate, "ops/s")
            p50 = median(result, one)
            result = with_metric(result, f"{one.name}.latency_p50", p50, "us")
            result = with_metric(result, f"{one.name}.busy_cpus", 0.01, "1")
        for key, value in metrics.items():
            result = with_metric(result, key, value, "1")
        return result

    def jitter(result: Result, one: PhaseSpec) -> float:
        own = JITTER[str(result.repetition)]
        return (own if result.factors["scheduler"] == "none" else 1) * (
            own if one is LARGE_READ else 1
        )

    def median(result: Result, one: PhaseSpec) -> float:
        known = medians.get(one.name, {}).get(str(result.factors["scheduler"]), 10.0)
        return known * jitter(result, one) * dilation

    write_campaign(
        folder,
        levels=("raw-device",),
        factors=({"scheduler": "none"}, {"scheduler": "mq-deadline"}),
        kind=DeviceKind.MODELLED,
        change=change,
        series=False,
    )
    for run in rundir.completed(folder / "hosts" / "rig" / "runs"):
        spec, result = rundir.load_spec(run), rundir.load_result(run)
        (run / "run.json").write_text(dumps(dataclasses.replace(spec, phases=PHASES)))
        (run / "histograms").mkdir()
        for one in PHASES:
            p50 = median(result, one)
            whole = histogram.make(10_000, 1e4 * p50, 0, 2 * p50, [[0, 2 * p50, 10_000]])
            (run / "histograms" / f"{one.name}.all.json").write_text(dumps(whole))
        checksums.write(run)
    return load_campaign(folder)


def in_campaign(name: str, campaign: CampaignData, *slower: CampaignData) -> tuple[Agreement, str]:
    """Return the outcome of a guideline and its reason."""
    lines = block_level.judge(campaign, slower)
    (found,) = [one.outcome for one in lines if one.guideline.id == name]
    assert found.found != "-"
    return found.agreement, found.why


@pytest.mark.parametrize("name", ["none-for-reads-median", "none-for-reads-p95"])
def test_a_percentile_on_a_modelled_drive_needs_what_compare_needs(
    tmp_path: Path, name: str
) -> None:
    fast, slow = (on_modelled_drive(tmp_path / f"x{k}", k) for k in (8, 16))
    assert in_campaign(name, fast, slow) == (Agreement.AGREES, "it is less")
    cell = "raw-device-scheduler-none, read-4k-qd14"
    why = f"{cell}: no such run at twice the dilation (--slower)"
    assert in_campaign(name, fast) == (Agreement.NOT_SHOWN, why)
    late = on_modelled_drive(tmp_path / "late", metrics={"read-4k-qd14.on_time_share": 0.98})
    why = f"{cell}: 98.0 % of requests on time"
    assert in_campaign(name, late, slow) == (Agreement.NOT_SHOWN, why)
    medians = {DEEP_READ.name: {"none": 9.0, "mq-deadline": 16.0}}
    other = on_modelled_drive(tmp_path / "other", 16, medians=medians)
    agreement, why = in_campaign(name, fast, other)
    assert agreement is Agreement.NOT_SHOWN
    assert why.endswith("is 0.625 of its value at dilation 16")


@pytest.mark.parametrize(
    ("name", "metric", "value", "why"),
    [
        ("zone-read-size", "read-128k.late_share", 0.03, "requests take 3.0 % longer"),
        ("zone-read-size", "read-128k.busy_cpus", 0.06, "CPUs work 6.0 % of the time"),
        ("zone-read-size", "write-z4.busy_cpus", 0.06, "it is more"),  # of another phase
        ("zone-read-size", "read-128k.on_time_share", 0.5, "it is more"),  # of percentiles
        ("writes-below-reads", "write-z4.late_share", 0.03, "requests take 3.0 % longer"),
        ("writes-below-reads", "read-128k.late_share", 0.03, "no difference shown"),
    ],
)
def test_a_rate_on_a_modelled_drive_needs_what_compare_needs(
    tmp_path: Path, name: str, metric: str, value: float, why: str
) -> None:
    found = in_campaign(name, on_modelled_drive(tmp_path / "c", metrics={metric: value}))
    assert why in found[1]
    assert found[0] is (Agreement.AGREES if why == "it is more" else Agreement.NOT_SHOWN)


@pytest.mark.parametrize(
    ("name", "medians", "why"),
    [
        ("none-for-reads-median", {"none": 9.9}, "no difference shown"),
        ("none-for-reads-median", {"none": 9.9, "mq-deadline": 11.0}, "it is less"),
        ("alike-over-zones-median", {"none": 10.1}, "within 5 %"),
        ("alike-over-zones-median", {"none": 11.0}, "the interval reaches over 5 %"),
    ],
)
def test_a_difference_that_the_processor_can_explain_is_not_shown(
    tmp_path: Path, name: str, medians: dict[str, float], why: str
) -> None:
    """The schedulers differ by 10 %, or not at all. At twice the dilation, medians change."""
    changed = dict.fromkeys((DEEP_READ.name, WRITE.name), medians)
    slow = on_modelled_drive(tmp_path / "slow", 16, medians=changed)
    assert in_campaign(name, on_modelled_drive(tmp_path / "fast"), slow)[1] == why


@pytest.mark.parametrize("name", ["depth-random", "peak"])
def test_knees_and_peaks_on_a_modelled_drive_have_its_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(ModelRules, "refusal", lambda _, used, metric: f"{metric} {len(used)}")
    rules = ModelRules(on_modelled_drive(tmp_path / "c"), ())
    reads = curve((0.02, 0.1, 0.2, 0.5, 1.0, 1.0))
    points = [dataclasses.replace(one, model=ZN540) for one in reads]
    evidence = GuidelineEvidence(points, [DeviceKind.MODELLED], rules=rules)
    (found,) = block_level.outcomes(guideline(name), evidence)
    assert (found.agreement, found.why) == (Agreement.NOT_SHOWN, f"iops {len(points)}")


def test_repetitions_that_do_not_vary_are_a_verdict_on_a_program_only() -> None:
    """A model gives equal numbers where its seed decides nothing; a drive does not."""
    alike = [
        point(scheduler=scheduler, iodepth=14, block=block, p50=p50)
        for block in JITTER
        for scheduler, p50 in (("none", 9.0), ("mq-deadline", 10.0))
    ]
    one = guideline("none-for-reads-median")
    for exact, agreement, interval in (
        (False, Agreement.NOT_SHOWN, "-"),
        (True, Agreement.AGREES, "-10.00 %"),
    ):
        (found,) = block_level.outcomes(
            one, GuidelineEvidence(alike, [DeviceKind.MODELLED], exact=exact)
        )
        assert (found.agreement, found.interval) == (agreement, interval)


def test_one_repetition_has_no_verdict() -> None:
    found = judged("none-for-reads-median", [one for one in sides(0.5) if one.block == "1"])
    assert (found.agreement, found.why) == (Agreement.NOT_SHOWN, "one repetition")
    assert found.found != "-"


def test_a_campaign_without_a_side_does_not_ask() -> None:
    one_side = [one for one in sides(0.9) if one.scheduler == "none"]
    found = judged("none-for-reads-median", one_side)
    assert found.agreement is Agreement.NOT_ASKED
    assert found.why == "one of the two sides was not measured"
    found = judged("none-for-reads-median", sides(0.9, depth=8))  # asked at 14 only
    assert (found.agreement, found.why) == (Agreement.NOT_ASKED, "no such phase was measured")


def test_only_equal_sizes_and_depths_are_compared() -> None:
    """Reads are twice as fast at each size; larger sizes are always faster."""
    points = [
        conventional(rw=rw, bs=size, iodepth=4, block=block, iops=factor * 1e5)
        for block, jitter in JITTER.items()
        for rw, factor, sizes in (("read", 2 * jitter, SIZES), ("write", 1.0, SIZES[:4]))
        for size in sizes
    ]
    found = judged("read-over-write", points)
    assert (found.agreement, found.found) == (Agreement.AGREES, "+100.07 %")
    # Without the published sizes there is nothing to compare, though both sides exist below.
    small = [one for one in points if one.bs < 16384]
    assert judged("read-over-write", small).agreement is Agreement.NOT_ASKED
    apart = [one for one in points if (one.rw == "read") == (one.bs == 32768)]
    found = judged("read-over-write", apart)
    assert found.why == "the two sides have no point in common"


def over_zones(factor: float, zones: Sequence[int] = (2, 14)) -> list[BlockPoint]:
    return [
        point(rw="write", scheduler=scheduler, jobs=jobs, block=block, p50=10 * times)
        for block, jitter in JITTER.items()
        for jobs in zones
        for scheduler, times in (("none", factor * jitter), ("mq-deadline", 1.0))
    ]


@pytest.mark.parametrize(
    ("factor", "agreement"),
    [
        (1.0, Agreement.AGREES),
        (1.03, Agreement.AGREES),
        (1.05, Agreement.NOT_SHOWN),
        (1.08, Agreement.DISAGREES),
        (0.92, Agreement.DISAGREES),
    ],
)
def test_alike_means_that_the_whole_interval_is_within_the_band(
    factor: float, agreement: Agreement
) -> None:
    assert judged("alike-over-zones-median", over_zones(factor)).agreement is agreement


def test_zones_are_compared_at_equal_numbers() -> None:
    points = [one for one in over_zones(1.0) if (one.scheduler == "none") == (one.jobs == 2)]
    found = judged("alike-over-zones-median", points)
    assert found.why == "the two sides have no point in common"


def test_one_zone_by_depth_is_compared_with_several_by_jobs() -> None:
    """14 commands in one zone against one command in each of 14."""
    points = [
        one
        for block, jitter in JITTER.items()
        for one in (
            point(rw="write", scheduler="mq-deadline", iodepth=14, block=block, p50=3.0),
            point(rw="write", scheduler="none", jobs=14, block=block, p50=11 * jitter),
            # These belong to neither side.
            point(rw="write", scheduler="mq-deadline", jobs=14, block=block, p50=90.0),
            point(rw="write", scheduler="none", iodepth=14, block=block, p50=1.0),
            point(rw="write", scheduler="none", iodepth=7, jobs=2, block=block, p50=1.0),
        )
    ]
    found = judged("one-zone-median", points)
    assert (found.agreement, found.found) == (Agreement.AGREES, "-72.74 %")


def test_random_reads_are_compared_at_equal_depths_up_to_4() -> None:
    def reads(depth: int, none: float, other: float) -> list[BlockPoint]:
        return [
            point(rw="randread", scheduler=scheduler, iodepth=depth, block=block, p50=p50)
            for block, jitter in JITTER.items()
            for scheduler, p50 in (("none", none * jitter), ("mq-deadline", other))
        ]

    shallow = [*reads(1, 70.0, 72.0), *reads(4, 74.0, 77.0)]
    found = judged("none-for-random-reads", shallow)
    assert (found.agreement, found.found) == (Agreement.AGREES, "-3.31 %")
    # Deeper ones do not count, however large their difference is.
    assert judged("none-for-random-reads", [*shallow, *reads(8, 200.0, 80.0)]) == found
    apart = [one for one in shallow if (one.scheduler == "none") == (one.iodepth == 1)]
    found = judged("none-for-random-reads", apart)
    assert found.why == "the two sides have no point in common"


def test_peaks_may_lie_at_different_depths() -> None:
    points = [
        one
        for block, jitter in JITTER.items()
        for one in (
            conventional(rw="randread", iodepth=64, block=block, iops=296e3),
            conventional(rw="randread", iodepth=1, block=block, iops=14e3),
            conventional(rw="randwrite", iodepth=4, block=block, iops=56e3 * jitter),
        )
    ]
    found = judged("writes-below-reads", points)
    assert (found.agreement, found.found) == (Agreement.AGREES, "-81.07 %")
    # The sides are compared on one device only.
    other = [dataclasses.replace(one, row="b") if one.reads else one for one in points]
    assert judged("writes-below-reads", other).agreement is Agreement.NOT_ASKED


def curve(shares: Sequence[float], depths: Sequence[int] = DEEP) -> list[BlockPoint]:
    return [
        conventional(rw="randread", iodepth=depth, block=block, iops=3e5 * share * jitter)
        for block, jitter in JITTER.items()
        for depth, share in zip(depths, shares, strict=True)
    ]


@pytest.mark.parametrize(
    ("shares", "agreement", "found"),
    [
        ((0.02, 0.1, 0.2, 0.5, 1.0, 1.0), Agreement.AGREES, "64"),
        ((0.02, 0.1, 0.2, 0.5, 0.97, 1.0), Agreement.AGREES, "64"),
        ((0.02, 0.1, 0.2, 0.5, 0.9, 1.0), Agreement.DISAGREES, "256"),
        ((0.02, 0.1, 0.2, 0.97, 1.0, 1.0), Agreement.DISAGREES, "16"),
    ],
)
def test_the_knee_is_the_smallest_depth_at_95_percent_of_the_peak(
    shares: Sequence[float], agreement: Agreement, found: str
) -> None:
    outcome = judged("depth-random", curve(shares))
    assert (outcome.agreement, outcome.found, outcome.interval) == (agreement, found, found)


def test_a_knee_that_noise_hides_is_not_shown() -> None:
    noisy = [
        dataclasses.replace(one, iops=(one.iops or 0) * (1.08 if one.block == "1" else 1.0))
        if one.iodepth == 16
        else one
        for one in curve((0.02, 0.1, 0.2, 0.92, 1.0, 1.0))
    ]
    found = judged("depth-random", noisy)
    assert (found.agreement, found.interval) == (Agreement.NOT_SHOWN, "16 .. 64")


def test_a_knee_found_elsewhere_is_not_shown_where_the_interval_holds_the_published_one() -> None:
    noisy = [
        dataclasses.replace(one, iops=(one.iops or 0) * (0.95 if one.block == "1" else 1.01))
        if one.iodepth == 16
        else one
        for one in curve((0.02, 0.1, 0.2, 0.97, 1.0, 1.0))
    ]
    found = judged("depth-random", noisy)
    assert (found.agreement, found.found, found.interval) == (
        Agreement.NOT_SHOWN,
        "16",
        "16 .. 64",
    )


def test_a_knee_needs_the_published_depth_and_a_sweep() -> None:
    found = judged("depth-random", curve((0.02, 0.5, 1.0), (1, 8, 32)))
    assert (found.agreement, found.why) == (Agreement.NOT_ASKED, "64 was not measured")
    found = judged("depth-random", curve((1.0,), (64,)))
    assert (found.agreement, found.why) == (Agreement.NOT_ASKED, "no sweep over depth")


def test_each_curve_has_its_line() -> None:
    reads = curve((0.02, 0.1, 0.2, 0.5, 1.0, 1.0))
    writes = [dataclasses.replace(one, rw="randwrite", iops=3e5) for one in reads]
    again = [dataclasses.replace(one, overwrites=True) for one in writes]
    found = block_level.outcomes(guideline("depth-random"), drive([*reads, *writes, *again]))
    assert {one.where.split(", ")[1]: one.found for one in found} == {
        "randread": "64",
        "randwrite": "1",
        "overrandwrite": "1",
    }


@pytest.mark.parametrize(
    ("iops", "model", "agreement"),
    [
        (3.1e5, ZN540, Agreement.AGREES),
        (3.1e5, LARGE, Agreement.AGREES),
        (3.1e5, "zoneblk zn540-1tb x8", Agreement.AGREES),
        (3.1e5, "zn540-64k", Agreement.AGREES),
        (3.1e5, "ZN540 3.8T", Agreement.AGREES),  # as people name the drive of adopted files
        (5e5, ZN540, Agreement.DISAGREES),
        (3.75e5, ZN540, Agreement.NOT_SHOWN),
        (3.1e5, OTHER, Agreement.NOT_ASKED),
        (3.1e5, "zoneblk conventional-4m x8", Agreement.NOT_ASKED),
        (3.1e5, "", Agreement.NOT_ASKED),
    ],
)
def test_a_number_of_one_drive_is_asked_of_this_drive(
    iops: float, model: str, agreement: Agreement
) -> None:
    points = [
        point(block=block, iops=iops * jitter, model=model) for block, jitter in JITTER.items()
    ]
    found = judged("peak", points)
    assert found.agreement is agreement
    assert found.found == f"{iops / 1e3:.0f} Kops/s"


@pytest.mark.parametrize("name", ["peak", "peak-reads"])
def test_a_faster_drive_beside_the_published_one_does_not_count(name: str) -> None:
    points = [
        one
        for block, jitter in JITTER.items()
        for one in (
            point(block=block, iops=3.0e5 * jitter, model=ZN540),
            conventional(block=block, iops=3.1e5 * jitter, model=ZN540),
            conventional(block=block, iops=9e5 * jitter, model=OTHER, others=(OTHER,)),
        )
    ]
    found = judged(name, points)
    assert (found.agreement, found.found) == (Agreement.AGREES, "310 Kops/s")
    alone = [one for one in points if one.model == OTHER]
    found = judged(name, alone)
    assert (found.agreement, found.found) == (Agreement.NOT_ASKED, "900 Kops/s")


def beside(first: float, second: float) -> list[BlockPoint]:
    """Return reads and writes of two devices; their reads have these factors of their writes."""
    return [
        dataclasses.replace(
            conventional(rw=rw, bs=16384, iodepth=4, block=block, iops=1e5 * times), row=row
        )
        for block, jitter in JITTER.items()
        for row, factor in (("raw-conventional", first), ("raw-conventional-2", second))
        for rw, times in (("read", factor * jitter), ("write", 1.0))
    ]


@pytest.mark.parametrize(
    ("name", "agreements"),
    [
        ("read-over-write", (Agreement.AGREES, Agreement.DISAGREES)),
        ("writes-below-reads", (Agreement.AGREES, Agreement.DISAGREES)),
    ],
)
def test_devices_side_by_side_are_judged_one_by_one(
    name: str, agreements: tuple[Agreement, ...]
) -> None:
    points = beside(2.0, 0.5)
    if name == "writes-below-reads":
        points = [dataclasses.replace(one, bs=4096) for one in points]
    found = block_level.outcomes(guideline(name), drive(points))
    assert tuple(one.agreement for one in found) == agreements
    assert [one.where for one in found] == ["raw-conventional", "raw-conventional-2"]
    words = [dataclasses.replace(one, row="raw-conventional", others=(one.row,)) for one in points]
    found = block_level.outcomes(guideline(name), drive(words))
    assert tuple(one.agreement for one in found) == agreements
    assert found[1].where == "raw-conventional, raw-conventional-2"


def test_devices_side_by_side_share_the_level() -> None:
    """At two degrees of freedom an interval of 97.5 % is t(0.9875) / t(0.975) as wide: 1.442."""
    points = beside(1.2, 1.2)
    lines = block_level.outcomes(guideline("read-over-write"), drive(points))
    alone = judged("read-over-write", [one for one in points if one.row == "raw-conventional"])

    def width(found: GuidelineOutcome) -> float:
        low, high = (
            math.log1p(float(text.removesuffix(" %")) / 100)
            for text in found.interval.split(" .. ")
        )
        return high - low

    assert [width(one) / width(alone) for one in lines] == pytest.approx([1.442] * 2, rel=0.02)
    assert alone.where == ""
    # Enough alone: with 95 % its interval is beyond the noise floor, with 97.5 % not.
    points = beside(1.0161, 1.0161)
    alone = judged("read-over-write", [one for one in points if one.row == "raw-conventional"])
    assert alone.agreement is Agreement.AGREES
    lines = block_level.outcomes(guideline("read-over-write"), drive(points))
    assert {one.agreement for one in lines} == {Agreement.NOT_SHOWN}


def test_every_line_of_the_study_has_what_its_test_needs() -> None:
    (study,) = [one for one in references() if one.guideline]
    assert study.studies == ("block-level",)
    names = Counter(one.id for one in study.guideline)
    assert max(names.values()) == 1
    for one in study.guideline:
        one.check("here")
        if one.test is not GuidelineTest.NONE:
            with pytest.raises(ConfigError, match=one.id):
                dataclasses.replace(
                    one, side=None, expected=None, at=None, value=None, drive="", why=""
                ).check("here")
        if one.test in (GuidelineTest.CONTRAST, GuidelineTest.PEAKS):
            assert (one.expected is None) is bool(one.why)
            with pytest.raises(ConfigError, match=f"{one.id} .* has no expected"):
                dataclasses.replace(one, expected=None, why="").check("here")


@pytest.mark.parametrize(("name", "rw"), [("zone-write-size", "write"), ("zone-read-size", "read")])
def test_larger_requests_to_zones_are_compared_with_small_ones(name: str, rw: str) -> None:
    points = [
        one
        for block, jitter in JITTER.items()
        for one in (
            point(rw=rw, bs=131072, block=block, iops=6250 * jitter),
            point(rw=rw, block=block, iops=1e5),
            # These belong to neither side.
            point(rw=rw, iodepth=14, block=block, iops=9e5),
            conventional(rw=rw, block=block, iops=9e5),
            point(rw=rw, bs=65536, block=block, iops=1.0),
        )
    ]
    found = judged(name, points)
    assert (found.agreement, found.found) == (Agreement.AGREES, "+100.07 %")
    found = judged(name, [dataclasses.replace(one, iops=1e5) for one in points if one.bs == 4096])
    assert found.why == "one of the two sides was not measured"


@pytest.mark.parametrize(
    ("name", "side", "base"),
    [
        (
            "random-read-over-write",
            {"zoned": False, "rw": "randread", "bs": 16384, "iodepth": 4},
            {"zoned": False, "rw": "randwrite", "bs": 16384, "iodepth": 4},
        ),
        ("random-reads-over-zones", {"rw": "randread", "iodepth": 14}, {"jobs": 14}),
        ("none-by-depth", {"rw": "write", "iodepth": 14}, {"scheduler": "mq-deadline"}),
        ("none-by-depth-over-zones", {"rw": "write", "iodepth": 14}, {"jobs": 14}),
    ],
)
def test_what_is_not_published_is_measured_without_a_verdict(
    name: str, side: dict[str, Any], base: dict[str, Any]
) -> None:
    base = {**side, "iodepth": 1, **base} if "jobs" in base else {**side, **base}
    points = [
        point(block=block, iops=1e5 * times, p50=10 * times, **own)
        for block, jitter in JITTER.items()
        for own, times in ((side, 2 * jitter), (base, 1.0))
    ]
    found = judged(name, points)
    assert (found.agreement, found.found) == (Agreement.NOT_ASKED, "+100.07 %")
    assert found.why == guideline(name).why
    assert found.interval != "-"
    assert judged(name, points[:1]).why == "one of the two sides was not measured"


@pytest.mark.parametrize("study", ["block-level", "block-level-timed"])
def test_the_studies_measure_both_sides_of_every_line(study: str) -> None:
    """No guideline lacks phases, so each has a verdict or a reason of its own."""
    workload = load.load_study(study)[1]
    assert isinstance(workload, BareWorkload)
    points = [
        point(
            zoned=sweep.zoned,
            row=sweep.device,
            scheduler=scheduler,
            rw=sweep.rw,
            bs=each.bs,
            iodepth=each.iodepth,
            jobs=each.jobs,
            block=block,
            iops=1e5 * jitter,
            overwrites=sweep.writes and "fill" in sweep.prepare,
            model=ZN540,
        )
        for block, jitter in JITTER.items()
        for sweep in workload.work.sweeps
        for each in fio_phases.points(sweep)
        for scheduler in ("none", "mq-deadline")
    ]
    for reference in references():
        for one in reference.guideline:
            for found in block_level.outcomes(one, drive(points)):
                asked = found.agreement is not Agreement.NOT_ASKED
                assert asked or found.why == one.why, (one.id, found)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('test = "none"\nwhy = "w"\nwhere = {depth = 1}\n', "unknown field 'depth'"),
        ('test = "none"\n', "guideline a of test none has no why"),
    ],
)
def test_a_reference_with_an_unknown_or_a_missing_condition_is_refused(
    tmp_path: Path, fields: str, message: str
) -> None:
    text = (
        'title = "T"\nhardware = "H"\ncaveats = "C"\nstudies = []\n[[guideline]]\nid = "a"\n'
        f'text = "t"\npublished = "p"\n{fields}'
    )
    (tmp_path / "one.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        references(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_false_verdicts_on_equal_sides_are_rare(devices: int) -> None:
    """At most 5 % of the campaigns have one in any device's line of a contrast."""
    lines = [
        one
        for ref in references()
        for one in ref.guideline
        if one.test in (GuidelineTest.CONTRAST, GuidelineTest.PEAKS) and one.expected
    ]
    rng = random.Random(26)  # noqa: S311 - not cryptography
    false: Counter[str] = Counter()
    for _ in range(CAMPAIGNS):
        points = [
            dataclasses.replace(one, row=f"{one.row}-{device}" if device else one.row)
            for device in range(devices)
            for one in equal_campaign(rng)
        ]
        for one in lines:
            found = block_level.outcomes(one, drive(points))
            assert {outcome.runs for outcome in found} == {3}
            assert len(found) % devices == 0
            right = Agreement.AGREES if one.expected is Relation.EQUAL else Agreement.NOT_SHOWN
            false[one.id] += any(
                outcome.agreement not in (right, Agreement.NOT_SHOWN) for outcome in found
            )
    assert {name: count for name, count in false.items() if count > 0.05 * CAMPAIGNS} == {}


@pytest.mark.parametrize("blocks", [2, 3, 5])
@pytest.mark.parametrize(
    "shares",
    [
        (0.3, 0.96, 0.98, 1, 1, 1),
        (0.3, 0.94, 1, 1, 1, 1),
        (1, 1, 1, 1, 1, 1),
        (0.96, *[1] * 14),
    ],
)
def test_the_interval_of_a_knee_holds_the_true_one(shares: Sequence[float], blocks: int) -> None:
    """Shares next to the edge and a long plateau are the hardest."""
    missed = 0
    for seed in range(KNEES):
        found = knee.find(noisy_curve(shares, blocks, random.Random(seed)))  # noqa: S311
        truth = next(place for place, share in enumerate(shares) if share >= knee.SHARE)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= truth <= found.high
    assert missed <= 0.05 * KNEES


def noisy_curve(shares: Sequence[float], blocks: int, rng: random.Random) -> knee.SweepCurve:
    return {
        place: {str(block): share * rng.lognormvariate(0, 0.02) for block in range(blocks)}
        for place, share in enumerate(shares)
    }
