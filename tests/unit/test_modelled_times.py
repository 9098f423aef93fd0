"""A time on modelled drives gets a verdict only if nothing but the drive's model decides it."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.judge import claims, family, modelled
from analysis.judge.compare import compare
from analysis.judge.rows import Row
from analysis.judge.side import Side
from analysis.judge.slower_runs import times_unchecked
from analysis.judge.verdicts import Verdict
from analysis.read.load import RunRecord, load, load_pool
from analysis.show import repeat
from analysis.show.drawing import mark_of
from analysis.show.render import render
from harness.cli.main import main
from harness.metrics.catalogue import MetricKind
from harness.observe import zoneblk
from harness.plan import drive_files, model_verdicts
from harness.plan.load import CONFIGS
from harness.plan.model_verdicts import ModelVerdict
from harness.rig import model as rig_model
from harness.store import checksums
from harness.store.ledger import Completions
from harness.store.result import Result, Status
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import Change, with_metric, with_status, write_campaign
from tests.fixtures.ledgers import ZLFS as RECORDED
from tests.fixtures.ledgers import recorded

SERVED = drive_files.served_name(drive_files.load_model("zones-4m"))
RATE = "overwrite.throughput"
TAIL = "overwrite.latency_p99"
EXT4, ZLFS = "conventional-ext4", "zlfs"


def _on_drive(
    model: str = SERVED,
    dilation: int = 8,
    on_time: float | None = 1.0,
    late: float | None = 0.0,
    rate: Callable[[Result], float] = lambda _: 1.0,
    *,
    tail: float | None = 100.0,
    busy: float | None = None,
) -> Change:
    """Return a change: the run is on a modelled drive, with ``busy`` CPUs at work.

    Its rate and its tail, of zlfs 2 * ``tail`` us, are on the model's clock.
    """

    def change(result: Result) -> Result:
        name = f"zoneblk {model} -20000ns x{dilation}"
        result = replace(result, device=replace(result.device, model=name))
        factor = 0.5 if result.level == ZLFS else 1.0
        spread = 1 + 0.001 * (result.repetition - 2) * (result.level == ZLFS)
        value = 1000.0 * factor * spread * rate(result) / dilation
        result = with_metric(result, RATE, value, "ops/s")
        for phase in ("overwrite", "readrandom"):
            result = with_metric(result, f"{phase}.on_time_share", on_time, "1")
            result = with_metric(result, f"{phase}.late_share", late, "1")
            result = with_metric(result, f"{phase}.busy_cpus", busy, "1")
        own = None if tail is None else tail / factor * spread * dilation
        return with_metric(result, TAIL, own, "us")

    return change


def _campaign(folder: Path, change: Change, **options: Any) -> Path:
    return write_campaign(
        folder,
        **{
            "levels": (EXT4, ZLFS),
            "kind": DeviceKind.MODELLED,
            "series": False,
            "change": change,
            **options,
        },
    )


def _row(fast: Path, *slower: Path, metric: str = RATE) -> Row:
    (row,) = compare(load(fast), metrics=[metric], slower=[load(one) for one in slower]).rows
    return row


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    return _campaign(tmp_path / "fast", _on_drive())


def test_the_same_speed_at_twice_the_dilation_gives_a_verdict(fast: Path, tmp_path: Path) -> None:
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1)
    row = _row(fast, slow)
    assert row.verdict is Verdict.LOWER
    assert row.estimate.center == pytest.approx(0.5)
    assert row.estimate.base_mean == pytest.approx(1000)  # on the model's clock


def _with_flags(folder: Path, flags: dict[str, int]) -> Path:
    """Add flags to the measured phases of all runs."""
    for path in folder.glob("hosts/*/runs/*/run.json"):
        spec = json.loads(path.read_text())
        for phase in spec["phases"]:
            phase["flags"] |= flags
        path.write_text(json.dumps(spec))
        checksums.write(path.parent)
    return folder


@pytest.mark.parametrize(
    ("flags", "same"),
    [
        ({"reader.runtime": 256, "writer.rate": 8192, "startdelay": 0, "bs": 4096}, True),
        ({"reader.runtime": 128, "writer.rate": 16385, "startdelay": 0, "bs": 4096}, True),
        ({"reader.runtime": 200, "writer.rate": 8192, "startdelay": 0, "bs": 4096}, False),
        ({"reader.runtime": 256, "writer.rate": 4096, "startdelay": 0, "bs": 4096}, False),
        ({"reader.runtime": 256, "writer.rate": 8192, "startdelay": 0, "bs": 8192}, False),
        ({"reader.runtime": 256, "writer.rate": 8192, "startdelay": 0, "bs": 2048}, False),
    ],
)
def test_jobs_of_fio_are_the_same_with_slowed_times_and_rates(
    fast: Path, tmp_path: Path, flags: dict[str, int], same: bool
) -> None:
    _with_flags(fast, {"reader.runtime": 128, "writer.rate": 16385, "startdelay": 0, "bs": 4096})
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1)
    row = _row(fast, _with_flags(slow, flags))
    assert row.verdict is (Verdict.LOWER if same else Verdict.NOT_A_RESULT)


@pytest.mark.parametrize(
    ("value", "slower"), [("8k", "4k"), (8, "4k"), ("8k", 4), (8192, 4095), (8193, 4095)]
)
def test_a_rate_that_is_not_known_to_be_half_is_another_one(
    fast: Path, tmp_path: Path, value: Any, slower: Any
) -> None:
    _with_flags(fast, {"writer.rate": value})
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1)
    row = _row(fast, _with_flags(slow, {"writer.rate": slower}))
    assert row.verdict is Verdict.NOT_A_RESULT


def test_a_claim_about_a_time_needs_a_slower_campaign(fast: Path, tmp_path: Path) -> None:
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1)
    claim = claims.StatedClaim("rate", RATE, ZLFS, EXT4, claims.Oracle.WORSE)
    (alone,) = claims.judge(load(fast), [claim])
    assert alone.outcome is claims.ClaimOutcome.NOT_SHOWN
    assert "--slower" in alone.why
    (confirmed,) = claims.judge(load(fast), [claim], slower=[load(slow)])
    assert confirmed.outcome is claims.ClaimOutcome.PASS


@pytest.mark.parametrize(("change", "bound"), [(0.051, True), (0.049, False), (-0.05, True)])
def test_another_speed_at_twice_the_dilation_is_the_processor_s(
    fast: Path, tmp_path: Path, change: float, bound: bool
) -> None:
    def rate(result: Result) -> float:
        return 1 / (1 + change) if result.level == ZLFS else 1.0

    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16, rate=rate), repetitions=1)
    row = _row(fast, slow)
    if bound:
        assert row.verdict is Verdict.HOST_BOUND
        assert any(f"{ZLFS}: overwrite runs at" in note for note in row.notes)
    else:
        assert row.verdict is Verdict.LOWER


@pytest.mark.parametrize(("second", "bound"), [(0.0, False), (0.08, True)])
def test_the_mean_over_all_pairs_of_runs_decides(
    fast: Path, tmp_path: Path, second: float, bound: bool
) -> None:
    """One pair differs by 8 %, which is 4 % in the mean of two."""
    change = {1: 0.08, 2: second}

    def rate(result: Result) -> float:
        return 1 / (1 + change[result.repetition]) if result.level == ZLFS else 1.0

    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16, rate=rate), repetitions=2)
    assert _row(fast, slow).verdict is (Verdict.HOST_BOUND if bound else Verdict.LOWER)


@pytest.mark.parametrize(("kind", "judged"), [("modelled", True), ("hardware", False)])
def test_the_drive_beside_the_one_under_test_is_judged_as_well(
    fast: Path, tmp_path: Path, kind: str, judged: bool
) -> None:
    """A conventional level has all of its data there."""
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1)
    campaign = load(fast)
    number = next(i for i, run in enumerate(campaign.runs) if run.result.level == EXT4)
    run = campaign.runs[number]
    named = "zoneblk another-00000000 -20000ns x8"
    identity = replace(run.spec.device.identity, eui64="f" * 16)
    beside = replace(run.spec.device, identity=identity, kind=DeviceKind(kind), model=named)
    runs = list(campaign.runs)
    runs[number] = replace(run, spec=replace(run.spec, conventional=beside))
    campaign = replace(campaign, runs=tuple(runs))
    (row,) = compare(campaign, metrics=[RATE], slower=[load(slow)]).rows
    assert (row.verdict is Verdict.NOT_A_RESULT) is judged
    assert ("core not validated" in modelled.label([campaign])) is judged


@pytest.mark.parametrize(("name", "unit"), [("cpu_seconds", "s"), ("cpu_per_operation", "us")])
def test_a_time_of_the_processor_has_no_verdict(tmp_path: Path, name: str, unit: str) -> None:
    """It is the machine's at every dilation, and no slower campaign makes it the drive's."""

    def on(dilation: int) -> Change:
        def change(result: Result) -> Result:
            value = 100.0 if result.level == EXT4 else 150.0 + result.repetition
            result = _on_drive(dilation=dilation, busy=0.01)(result)
            return with_metric(result, f"overwrite.{name}", value, unit)

        return change

    fast, slow = (_campaign(tmp_path / f"x{k}", on(k)) for k in (8, 16))
    row = _row(fast, slow, metric=f"overwrite.{name}")
    assert row.verdict is Verdict.NOT_A_RESULT
    assert "the processor decides it, and not the drive's model" in row.notes
    assert row.values == pytest.approx((100, 152), rel=1e-3)


def test_the_command_that_repeats_a_report_names_the_slower_campaign(
    fast: Path, tmp_path: Path
) -> None:
    slow = load(_campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1))
    comparison = compare(load(fast), different_code=True, slower=[slow])
    own, other = comparison.campaign.plan.campaign, slow.plan.campaign
    assert repeat.command(comparison, (), "md") == (
        f"zonelab report results/{own} --slower results/{other} --different-code --format md"
    )
    assert repeat.command(compare(load(fast)), ()) == f"zonelab report results/{own}"


def test_without_a_slower_campaign_there_is_no_verdict(fast: Path) -> None:
    row = _row(fast)
    assert row.verdict is Verdict.NOT_A_RESULT
    assert f"{EXT4}: no such run at twice the dilation (--slower)" in row.notes
    assert times_unchecked(fast)


def _busy_in(tmp_path: Path, name: str, busy: Callable[[Result], float | None]) -> Path:
    return _campaign(tmp_path / name, lambda result: _on_drive(busy=busy(result))(result))


def test_idle_processors_give_a_verdict_without_a_slower_campaign(tmp_path: Path) -> None:
    folder = _busy_in(tmp_path, "idle", lambda _: modelled.BUSY)
    row = _row(folder)
    assert (row.verdict, row.estimate.center) == (Verdict.LOWER, pytest.approx(0.5))
    tail = _row(folder, metric=TAIL)  # a few requests can wait for a processor that is mostly idle
    assert tail.verdict is Verdict.NOT_A_RESULT
    assert f"{EXT4}: no such run at twice the dilation (--slower)" in tail.notes


@pytest.mark.parametrize(("level", "busy"), [(EXT4, 0.06), (ZLFS, 0.06), (EXT4, None)])
def test_one_run_with_a_busy_processor_is_enough(
    tmp_path: Path, level: str, busy: float | None
) -> None:
    folder = _busy_in(
        tmp_path, "c", lambda r: busy if (r.level, r.repetition) == (level, 2) else 0.01
    )
    row = _row(folder)
    assert row.verdict is Verdict.NOT_A_RESULT
    why = "" if busy is None else "CPUs work 6.0 % of the time, and "
    assert f"{level}: {why}no such run at twice the dilation (--slower)" in row.notes


def test_runs_at_twice_the_dilation_outrank_an_idle_processor(tmp_path: Path) -> None:
    folder = _busy_in(tmp_path, "idle", lambda _: 0.01)
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16, rate=lambda _: 1.1), repetitions=1)
    assert _row(folder, slow).verdict is Verdict.HOST_BOUND


@pytest.mark.parametrize(("busy", "unchecked"), [(0.01, False), (0.06, True)])
def test_a_campaign_is_checked_if_a_time_of_its_study_needs_it(
    tmp_path: Path, busy: float, *, unchecked: bool
) -> None:
    folder = _busy_in(tmp_path, "c", lambda _: busy)
    plan = json.loads((folder / "plan.json").read_text())
    plan["metrics"] = [RATE, "overwrite.write_amplification"]
    (folder / "plan.json").write_text(json.dumps(plan))
    assert times_unchecked(folder) is unchecked
    plan["metrics"] = ["overwrite.write_amplification"]
    (folder / "plan.json").write_text(json.dumps(plan))
    assert not times_unchecked(folder)


@pytest.mark.parametrize(
    "change",
    [
        _on_drive(dilation=8),
        _on_drive(dilation=24),
        _on_drive("zones-4m-00000000", 16),
        _on_drive("two drives", 16),
    ],
)
def test_only_the_same_model_at_twice_the_dilation_counts(
    fast: Path, tmp_path: Path, change: Change
) -> None:
    row = _row(fast, _campaign(tmp_path / "other", change))
    assert row.verdict is Verdict.NOT_A_RESULT
    assert f"{EXT4}: no such run at twice the dilation (--slower)" in row.notes


def test_only_the_same_work_counts(fast: Path, tmp_path: Path) -> None:
    flags = {name: {"sync": True} for name in (EXT4, ZLFS)}
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), flags=flags)
    assert _row(fast, slow).verdict is Verdict.NOT_A_RESULT


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"cell": "twin", "variant": "twin"}, Verdict.LOWER),
        ({"level_options": {"mount_options": "discard"}}, Verdict.NOT_A_RESULT),
        ({"factors": {"scheduler": "none"}}, Verdict.NOT_A_RESULT),
        ({"level": "other"}, Verdict.NOT_A_RESULT),
    ],
)
def test_cells_with_equal_settings_stand_for_each_other(
    fast: Path, tmp_path: Path, change: dict[str, Any], word: Verdict
) -> None:
    """A twin needs no run of its own at twice the dilation."""
    slow = load(_campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1))
    runs = tuple(replace(run, spec=replace(run.spec, **change)) for run in slow.runs)
    (row,) = compare(load(fast), metrics=[RATE], slower=[replace(slow, runs=runs)]).rows
    assert row.verdict is word


@pytest.mark.parametrize(
    ("change", "status", "bound"),
    [
        ({"variant": "twin"}, Status.OK, False),
        ({"variant": "twin"}, Status.INVALID, True),
        ({"variant": "twin", "level_options": {"mount_options": "discard"}}, Status.OK, True),
        ({"variant": "twin", "factors": {"scheduler": "none"}}, Status.OK, True),
    ],
)
def test_runs_of_a_twin_make_chance_smaller(
    fast: Path, tmp_path: Path, change: dict[str, Any], status: Status, bound: bool
) -> None:
    """A level differs by 8 % from its slower run and its twin by 1 %: 4.4 % in the mean."""
    slow = load(
        _campaign(
            tmp_path / "slow",
            _on_drive(dilation=16, rate=lambda one: 1 / 1.08 if one.level == ZLFS else 1.0),
            repetitions=1,
        )
    )
    campaign = load(fast)

    def twin(run: RunRecord) -> RunRecord:
        value = run.result.metrics[RATE].value
        assert value is not None
        result = with_metric(
            replace(run.result, cell="zlfs-twin", status=status), RATE, value * 1.01 / 1.08, "ops/s"
        )
        return replace(run, spec=replace(run.spec, cell="zlfs-twin", **change), result=result)

    twins = tuple(twin(run) for run in campaign.runs if run.spec.level == ZLFS)
    both = replace(campaign, runs=(*campaign.runs, *twins))
    row = next(r for r in compare(both, metrics=[RATE], slower=[slow]).rows if r.level == ZLFS)
    assert (row.verdict is Verdict.HOST_BOUND) is bound
    alone = compare(campaign, metrics=[RATE], slower=[slow]).rows[0]
    assert alone.verdict is Verdict.HOST_BOUND


def test_twins_of_another_cell_make_no_chance_smaller(fast: Path, tmp_path: Path) -> None:
    """zlfs differs by 8 % from its slower run; six runs of ext4 and its twin do not differ."""
    slow = _campaign(
        tmp_path / "slow",
        _on_drive(dilation=16, rate=lambda one: 1 / 1.08 if one.level == ZLFS else 1.0),
        repetitions=1,
    )
    campaign = load(fast)
    twins = tuple(
        replace(
            run,
            spec=replace(run.spec, cell="ext4-twin", variant="twin"),
            result=replace(run.result, cell="ext4-twin"),
        )
        for run in campaign.runs
        if run.spec.level == EXT4
    )
    both = replace(campaign, runs=(*campaign.runs, *twins))
    rows = compare(both, metrics=[RATE], slower=[load(slow)]).rows
    assert next(row.verdict for row in rows if row.level == ZLFS) is Verdict.HOST_BOUND


@pytest.mark.parametrize(
    ("rates", "seconds", "word", "note"),
    [
        ((), 1.0, Verdict.HIGHER, ""),
        ((), 1.08, Verdict.HOST_BOUND, "readrandom runs at 1.080 of its speed at dilation 16"),
        ((8,), 1.0, Verdict.HIGHER, ""),  # two are needed
        ((16,), 1.0, Verdict.HIGHER, ""),
        ((8, 16), 1.08, Verdict.HIGHER, ""),  # a throughput comes first
        ((), None, Verdict.NOT_A_RESULT, "readrandom has no speed"),
    ],
)
def test_a_phase_without_throughput_is_judged_by_its_seconds(
    tmp_path: Path, rates: tuple[int, ...], seconds: float | None, word: Verdict, note: str
) -> None:
    def change(dilation: int) -> Change:
        def timed(result: Result) -> Result:
            result = _on_drive(dilation=dilation)(result)
            speed = 1000.0 / dilation if dilation in rates else None
            result = with_metric(result, "readrandom.throughput", speed, "ops/s")
            longer = None if seconds is None else 5.0 * dilation * seconds ** (dilation == 16)
            result = with_metric(result, "readrandom.seconds", longer, "s")
            total = {EXT4: 3.0, ZLFS: 6.0}[result.level] + 0.01 * result.repetition
            return with_metric(result, "run.finish_seconds", total, "s")

        return timed

    fast = _campaign(tmp_path / "fast", change(8))
    slow = _campaign(tmp_path / "slow", change(16))
    row = _row(fast, slow, metric="run.finish_seconds")
    assert row.verdict is word
    assert not note or f"{EXT4}: {note}" in row.notes


@pytest.mark.parametrize(
    ("rate", "media", "read", "seconds", "word"),
    [
        # more bytes per operation, by chance: the drive is as fast
        (1.18, 1.0, 0.5, 1.0, Verdict.LOWER),
        (1.18, 1.08, 0.5, 1.08, Verdict.LOWER),
        (1.18, 1.0, None, 1.0, Verdict.LOWER),
        (1.18, 1.0, 1.0, 1.0, Verdict.LOWER),
        # the drive is slower, although operations are not
        (1.0, 1.08, 0.5, 1.0, Verdict.HOST_BOUND),
        (1.0, 1.0, 0.5, 1.08, Verdict.HOST_BOUND),
        # a phase that reads more, or whose medium is unknown
        (1.18, 1.0, 1.2, 1.0, Verdict.HOST_BOUND),
        (1.0, 1.08, 1.2, 1.0, Verdict.LOWER),
        (1.18, None, 0.5, 1.0, Verdict.HOST_BOUND),
        (1.18, 1.0, 0.5, None, Verdict.HOST_BOUND),
    ],
)
def test_a_phase_that_writes_is_judged_by_the_rate_of_its_medium(
    tmp_path: Path,
    rate: float,
    *,
    media: float | None,
    read: float | None,
    seconds: float | None,
    word: Verdict,
) -> None:
    """All but ``read`` are at twice the dilation, as shares; ``read`` is in bytes of the medium."""

    def change(dilation: int) -> Change:
        slow = dilation == 16

        def known(value: float | None, whole: float) -> float | None:
            return None if value is None else whole * value**slow

        def timed(result: Result) -> Result:
            speed = rate if slow else 1.0
            result = _on_drive(dilation=dilation, rate=lambda _: speed)(result)
            result = with_metric(result, "overwrite.media_bytes", known(media, 1e9), "B")
            asked = None if read is None else 1e9 * read
            result = with_metric(result, "overwrite.device_read", asked, "B")
            return with_metric(result, "overwrite.seconds", known(seconds, 5.0 * dilation), "s")

        return timed

    fast, slow = (_campaign(tmp_path / str(k), change(k)) for k in (8, 16))
    assert _row(fast, slow).verdict is word


@pytest.mark.parametrize(
    ("share", "word"),
    [(0.99, Verdict.HIGHER), (0.9899, Verdict.HOST_BOUND), (None, Verdict.NOT_A_RESULT)],
)
def test_a_percentile_needs_requests_on_time(
    tmp_path: Path, share: float | None, word: Verdict
) -> None:
    fast = _campaign(tmp_path / "fast", _on_drive(on_time=share))
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1)
    assert _row(fast, slow, metric=TAIL).verdict is word
    assert _row(fast, slow).verdict is Verdict.LOWER, "few late requests do not change a rate"


@pytest.mark.parametrize(
    ("tail", "word"),
    [
        (100.0, Verdict.HIGHER),
        (67.0, Verdict.HIGHER),  # inside a bucket of the histograms
        (66.0, Verdict.HOST_BOUND),
        (151.0, Verdict.HOST_BOUND),
        (None, Verdict.NOT_A_RESULT),
    ],
)
def test_a_percentile_is_the_same_at_twice_the_dilation(
    fast: Path, tmp_path: Path, tail: float | None, word: Verdict
) -> None:
    """The speed is the same, and every request is on time."""
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16, tail=tail), repetitions=1)
    row = _row(fast, slow, metric=TAIL)
    assert row.verdict is word
    if tail == 66.0:
        assert any("latency_p99 is 1.515 of its value at dilation 16" in note for note in row.notes)
    assert _row(fast, slow).verdict is Verdict.LOWER, "a rate does not depend on percentiles"


@pytest.mark.parametrize("metric", [TAIL, RATE])
def test_a_value_must_be_known_in_every_slower_run(fast: Path, tmp_path: Path, metric: str) -> None:
    def change(result: Result) -> Result:
        slowed = _on_drive(dilation=16)(result)
        if result.repetition == 1:
            return slowed
        slowed = with_metric(slowed, TAIL, None, "us")
        slowed = with_metric(slowed, RATE, None, "ops/s")
        return with_metric(slowed, RATE.replace("throughput", "seconds"), None, "s")

    slow = _campaign(tmp_path / "slow", change, repetitions=2)
    assert _row(fast, slow, metric=metric).verdict is Verdict.NOT_A_RESULT


@pytest.mark.parametrize(
    ("factor", "floor", "word"),
    [
        (1.0, 0.01, Verdict.HIGHER),  # without a change, the usual floor
        (1.2, 0.44, Verdict.HIGHER),
        (1 / 1.2, 0.44, Verdict.HIGHER),
        (1.45, 1.1025, Verdict.NO_DIFFERENCE),  # 2.1 times could come from the processor
    ],
)
def test_a_percentile_must_differ_by_more_than_the_processor_explains(
    fast: Path, tmp_path: Path, factor: float, floor: float, word: Verdict
) -> None:
    """zlfs has twice the percentile of ext4, and at twice the dilation its percentile changes."""

    def change(result: Result) -> Result:
        slowed = _on_drive(dilation=16)(result)
        if result.level == EXT4:
            return slowed
        return with_metric(slowed, TAIL, (slowed.metrics[TAIL].value or 0.0) * factor, "us")

    slow = _campaign(tmp_path / "slow", change)
    row = _row(fast, slow, metric=TAIL)
    assert row.verdict is word
    assert row.floor == pytest.approx(floor, rel=0.01)
    explained = any("the processor can explain a difference of" in note for note in row.notes)
    assert explained == (factor != 1.0)
    assert _row(fast, slow).floor == pytest.approx(0.01), "a rate does not depend on percentiles"


@pytest.mark.parametrize(
    ("late", "word"),
    [(0.02, Verdict.LOWER), (0.0201, Verdict.HOST_BOUND), (None, Verdict.NOT_A_RESULT)],
)
def test_a_rate_needs_requests_as_long_as_in_the_model(
    tmp_path: Path, late: float | None, word: Verdict
) -> None:
    fast = _campaign(tmp_path / "fast", _on_drive(late=late))
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1)
    assert _row(fast, slow).verdict is word
    assert _row(fast, slow, metric=TAIL).verdict is Verdict.HIGHER


def test_every_run_must_count_what_ended_on_time(tmp_path: Path) -> None:
    """One run of six counted nothing."""

    def change(result: Result) -> Result:
        uncounted = (result.level, result.repetition) == (ZLFS, 2)
        return _on_drive(late=None if uncounted else 0.0)(result)

    fast = _campaign(tmp_path / "fast", change)
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1)
    assert _row(fast, slow).verdict is Verdict.NOT_A_RESULT


@pytest.mark.parametrize(
    ("shares", "metric", "text"),
    [
        ({"late": 0.03}, RATE, "requests take 3.0 % longer than in the model"),
        ({"on_time": 0.98}, TAIL, "98.0 % of requests on time"),
    ],
)
def test_one_late_run_is_enough(
    tmp_path: Path, shares: dict[str, float], metric: str, text: str
) -> None:
    def change(result: Result) -> Result:
        late = (result.level, result.repetition) == (ZLFS, 2)
        return _on_drive(**(shares if late else {}))(result)  # type: ignore[arg-type]

    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1)
    row = _row(_campaign(tmp_path / "fast", change), slow, metric=metric)
    assert row.verdict is Verdict.HOST_BOUND
    assert f"{ZLFS}: {text}" in row.notes


def test_a_run_without_measured_phases_has_counted_no_request(fast: Path) -> None:
    pool = load_pool([fast])
    runs = [replace(run, spec=replace(run.spec, phases=())) for run in pool.latest]
    side = Side("all", pool, runs)
    found = modelled.refusal("run.finish_seconds", side, side, [])
    assert found == modelled.NoVerdict(Verdict.NOT_A_RESULT, "all: late requests were not counted")


def test_a_side_without_an_ok_run_is_the_reason(fast: Path) -> None:
    pool = load_pool([fast])
    side, none = Side("all", pool, list(pool.latest)), Side("none", pool, [])
    found = modelled.refusal("overwrite.throughput", none, side, [])
    assert found == modelled.refusal("overwrite.throughput", side, side, [])


def test_times_on_hardware_need_no_model_and_other_kinds_have_none(
    fast: Path, tmp_path: Path
) -> None:
    sides = {}
    for kind in (DeviceKind.HARDWARE, DeviceKind.EMULATED):
        pool = load_pool([_campaign(tmp_path / kind, lambda result: result, kind=kind)])
        sides[kind] = Side(kind, pool, list(pool.latest))
    pool = load_pool([fast])
    model, drive = Side("model", pool, list(pool.latest)), sides[DeviceKind.HARDWARE]
    assert modelled.refusal(RATE, drive, drive, []) is None
    nothing = modelled.NoVerdict(Verdict.NOT_A_RESULT)
    for other in (model, sides[DeviceKind.EMULATED]):
        assert modelled.refusal(RATE, drive, other, []) == nothing
        assert modelled.refusal(RATE, other, drive, []) == nothing
    emulated = sides[DeviceKind.EMULATED]
    assert modelled.refusal(RATE, emulated, emulated, []) == nothing


def test_a_drive_without_the_name_of_a_model_has_no_core(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        return replace(result, device=replace(result.device, model="two drives"))

    folder = _campaign(tmp_path / "c", change)
    row = _row(folder)
    assert row.verdict is Verdict.NOT_A_RESULT
    assert "two drives: its core is not validated" in row.notes
    assert modelled.label([load(folder)]) == "modelled drive"


def test_a_failed_run_at_twice_the_dilation_confirms_nothing(fast: Path, tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        return with_status(_on_drive(dilation=16)(result), Status.INVALID)

    slow = _campaign(tmp_path / "slow", change, repetitions=1)
    assert _row(fast, slow).verdict is Verdict.NOT_A_RESULT


def test_a_metric_of_the_run_needs_all_measured_phases(tmp_path: Path) -> None:
    """The reads are late, so a time of the whole run has no verdict; one of the writes has."""

    def change(dilation: int) -> Change:
        def late(result: Result) -> Result:
            result = _on_drive(dilation=dilation)(result)
            result = with_metric(result, "readrandom.late_share", 0.5, "1")
            result = with_metric(result, "readrandom.throughput", 1000.0 / dilation, "ops/s")
            return with_metric(result, "run.finish_seconds", 3.0 + 0.01 * result.repetition, "s")

        return late

    fast = _campaign(tmp_path / "fast", change(8))
    slow = _campaign(tmp_path / "slow", change(16))
    assert _row(fast, slow).verdict is Verdict.LOWER
    assert _row(fast, slow, metric="run.finish_seconds").verdict is Verdict.HOST_BOUND


@pytest.mark.parametrize("model", ["zones-4m-00000000", "unknown-00000000"])
def test_a_model_without_a_validated_core_gives_no_verdict(tmp_path: Path, model: str) -> None:
    fast = _campaign(tmp_path / "fast", _on_drive(model))
    slow = _campaign(tmp_path / "slow", _on_drive(model, 16))
    row = _row(fast, slow)
    assert row.verdict is Verdict.NOT_A_RESULT
    assert any("its core is not validated" in note for note in row.notes)


@pytest.mark.parametrize(("program", "valid"), [("1685us", True), ("1686us", False)])
def test_a_drive_with_other_flash_than_the_validated_one(
    tmp_path: Path, program: str, *, valid: bool
) -> None:
    shutil.copytree(CONFIGS / "models", tmp_path / "models")
    own = tmp_path / "models" / "p4-s32.yml"
    flash = f'flash:\n  program: {{value: {program}, origin: assumed, source: "a test"}}\n'
    own.write_text(own.read_text().replace("\nzones:\n", f"\n{flash}zones:\n"))
    served = drive_files.served_name(drive_files.load_model("p4-s32", tmp_path))
    assert (model_verdicts.of_drive(served, tmp_path) is not None) is valid


def test_a_failed_core_curve_gives_no_verdict(
    fast: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = _campaign(tmp_path / "slow", _on_drive(dilation=16))
    failed = ModelVerdict("", ("finish mean",), (), 0.02)
    model = drive_files.load_model("zn540-64k")
    monkeypatch.setattr(model_verdicts, "of_drive", lambda _: (model, failed))
    modelled.core_of.cache_clear()
    row = _row(fast, slow)
    label = modelled.label([load(fast)])
    modelled.core_of.cache_clear()
    assert row.verdict is Verdict.NOT_A_RESULT
    assert any("core curves fail: finish mean" in note for note in row.notes)
    assert label.endswith("mean error 2.0 %, 1 core curves fail, dilation 8")


def test_a_validation_without_an_error_is_none(fast: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old files have no error."""
    monkeypatch.setattr(modelled, "core_of", lambda _: ModelVerdict("", ()))
    assert modelled.label([load(fast)]) == "modelled: zones-4m, core not validated, dilation 8"


def test_kinds_never_mix(fast: Path, tmp_path: Path) -> None:
    """A campaign on an emulated device is no slower run, and its own times stay without verdict."""
    other = _campaign(tmp_path / "other", _on_drive(dilation=16), kind=DeviceKind.EMULATED)
    assert _row(fast, other).verdict is Verdict.NOT_A_RESULT
    assert _row(other, other).verdict is Verdict.NOT_A_RESULT


def test_what_the_runs_decided_stays_in_the_family_of_claims() -> None:
    assert Verdict.NOT_A_RESULT in family.KNOWN_BEFORE
    assert Verdict.HOST_BOUND not in family.KNOWN_BEFORE


def test_every_view_names_the_model_its_error_and_the_dilation(fast: Path) -> None:
    comparison = compare(load(fast))
    verdict = model_verdicts.load(drive_files.load_model("zn540-64k"))
    assert verdict is not None
    assert verdict.core_error is not None
    name = f"modelled: zones-4m, mean error {100 * verdict.core_error:.1f} %, dilation 8"
    for form in ("table", "md", "json"):
        assert name in render(comparison, form)
    for kind in MetricKind:
        assert mark_of(comparison, kind) == name


def test_the_commands_take_slower_campaigns(
    fast: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = str(_campaign(tmp_path / "slow", _on_drive(dilation=16), repetitions=1))
    words = ["compare", str(fast), "--metric", RATE, "--format", "csv"]
    found = {}
    for name, more in {"alone": [], "with": ["--slower", slow]}.items():
        assert main([*words, *more]) == 0
        (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
        found[name] = line["verdict"]
    assert found == {"alone": "not a result", "with": "lower"}
    without = "Times are shown without a verdict"
    for more, judged in (([], False), (["--slower", slow], True)):
        assert main(["report", str(fast), "--output", str(tmp_path / "page"), *more]) == 0
        assert (without not in (tmp_path / "page" / "index.html").read_text()) is judged
    assert main([*words, "--slower", str(tmp_path / "none")]) == 2


def test_the_digest_of_a_model_is_fnv() -> None:
    """A published test vector; tests/rig/test_timed.py compares whole names with the server's."""
    assert drive_files.fnv1a(b"a") == 0xAF63DC4C8601EC8C


def test_a_served_name_keeps_the_order_of_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server keeps it too: nlohmann's ordered_json in harness/native/model/fields.h."""
    monkeypatch.setattr(drive_files, "program_input", lambda _: {"name": "x", "b": 1, "a": 2})
    digest = drive_files.fnv1a(b'{"name":"x","b":1,"a":2}') >> 32
    model = drive_files.load_model("zones-4m")
    assert drive_files.served_name(model) == f"zones-4m-{digest:08x}"


def test_a_drive_counts_what_ended_on_time() -> None:
    captured = json.loads(Path("tests/fixtures/zoneblk/status.json").read_text())
    late = captured["lateness"]
    late |= {"late_sum_ns": 90, "latency_sum_ns": 1000}  # the captured server had no sums
    found = zoneblk.completions(captured)
    assert found.count == late["count"] > 0
    assert found.on_time_share == late["on_time_share"]
    assert found.late_share == 0.09
    sums = {"late_sum_ns": 0, "latency_sum_ns": 0}
    none = zoneblk.completions({"lateness": {"count": 0, "on_time_share": None} | sums})
    assert none == Completions(0, 0, 0, 0)
    assert (none.on_time_share, none.late_share) == (None, None)


@pytest.mark.parametrize(
    ("later", "shares"),
    [
        ({"ublkb0": (150, 149, 70, 4000), "ublkb1": (10, 10, 0, 0)}, (0.98, 0.02)),
        ({"ublkb0": (140, 140, 90, 3500), "ublkb1": (20, 19, 10, 500)}, (0.98, 0.03)),
        ({"ublkb0": (100, 100, 10, 1000), "ublkb1": (10, 10, 0, 0)}, (None, None)),
        ({"ublkb0": (150, 149, 70, 4000), "ublkb2": (50, 50, 0, 1)}, None),  # not counted before
        ({}, None),
    ],
)
def test_a_phase_has_the_shares_of_its_own_requests(
    later: dict[str, tuple[int, ...]], shares: tuple[float | None, float | None] | None
) -> None:
    earlier = {"ublkb0": Completions(100, 100, 10, 1000), "ublkb1": Completions(10, 10, 0, 0)}
    before = replace(recorded(RECORDED)[0][0].counters, completions=earlier)
    counts = {name: Completions(*one) for name, one in later.items()}
    found = replace(before, completions=counts).completed_since(before)
    assert (found and (found.on_time_share, found.late_share)) == shares


def test_the_report_shows_what_is_taken_off_and_what_is_left(
    fast: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = rig_model.load("timed").model_copy(
        update={"dilation": 8, "overhead": "20us", "overhead_left_pct": 2.5}
    )
    monkeypatch.setattr(rig_model, "names", lambda: ["timed"])
    monkeypatch.setattr(rig_model, "load", lambda _: timed)
    assert main(["report", str(fast), "--output", str(tmp_path / "page")]) == 0
    text = (tmp_path / "page" / "index.html").read_text()
    assert "zones-4m (k = 8): 2.50 µs are subtracted from each request" in text
    assert "At 4 KiB and above, at most 2.5 % remains." in text
    assert rig_model.overhead_left("zones-4m", 8, 20.0) == 2.5
    for other in (("zones-4m", 16, 20.0), ("zones-4m", 8, 21.0), ("zn540-1tb", 8, 20.0)):
        assert rig_model.overhead_left(*other) is None
