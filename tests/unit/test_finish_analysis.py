"""Figures and verdicts of finish thresholds and zone sizes; all numbers are synthetic."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from analysis.judge import directions
from analysis.judge.compare import compare
from analysis.judge.directions import (
    PUBLISHED,
    Along,
    Direction,
    DirectionVerdict,
    SettingValue,
    Word,
)
from analysis.judge.verdicts import Verdict
from analysis.numbers import human
from analysis.read.load import load
from analysis.show import drawing, finish_figures
from analysis.show.finish_figures import Axis, Label
from analysis.show.report import write_report
from analysis.show.sections import finish
from harness.metrics.catalogue import MetricKind
from harness.store import checksums, rundir
from harness.store.files import dumps
from harness.store.result import Metric, Result, Status
from harness.store.spec import Bytes, Reason, RunSpec
from tests.fixtures.campaigns import write_campaign

MIB = 2**20
SIZES = (128 * MIB, 64 * MIB, 32 * MIB)
STEPS = (0, 20, 50, 80, 100)
PAD, GARBAGE, PAD_BY_SIZE = PUBLISHED
Value = Callable[[int, float, random.Random], float]


def table(
    metric: str, value: Value, repetitions: int = 2, steps: Sequence[float] = STEPS
) -> list[SettingValue]:
    rng = random.Random(7)  # noqa: S311 - not cryptography
    return [
        SettingValue(size, step, metric, value(size, step, rng), f"h/{block}")
        for block in range(repetitions)
        for size in SIZES
        for step in steps
    ]


def falling(size: int, step: float, rng: random.Random) -> float:
    return size * (101 - step) * rng.uniform(0.98, 1.02)


def whole(points: Sequence[SettingValue], direction: Direction) -> DirectionVerdict:
    """Return the finding over all strata."""
    return directions.judge(points, direction)[0]


def test_falling_and_rising_metrics_are_recognised() -> None:
    pad = table("run.pad_bytes", falling)
    found = whole(pad, PAD)
    assert (found.word, found.blocks) == (Word.HOLDS, 2)  # seeds, not seeds times zone sizes
    assert found.p is not None
    assert found.p < 0.001
    assert whole(pad, PAD_BY_SIZE).word is Word.HOLDS
    assert whole(pad, replace(PAD, rises=True)).word is Word.FAILS
    assert whole(pad, replace(PAD_BY_SIZE, rises=False)).word is Word.FAILS


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (falling, Word.FALLS),
        (lambda size, step, _: size * (100.0 + step), Word.RISES),
        (lambda size, step, _: size * (100.0 + step / 200), Word.NOT_SHOWN),  # below the floor
        (lambda _size, _step, rng: rng.uniform(1, 2), Word.NOT_SHOWN),
    ],
)
def test_without_a_published_direction_the_order_is_named(value: Value, word: Word) -> None:
    order = Direction("t", "mix.throughput", "1/s", Along.THRESHOLD, rises=None)
    assert whole(table("mix.throughput", value), order).word is word


@pytest.mark.parametrize(("blocks", "word"), [(2, Word.NOT_SHOWN), (3, Word.RISES)])
def test_without_a_published_direction_the_test_is_two_sided(blocks: int, word: Word) -> None:
    """Blocks of three settings in order: each has one of six orders, so p is 6 ** -blocks."""
    points = [
        SettingValue(size, step, "run.sa_host", 1 + step / 100, f"h/{block}")
        for size in SIZES[:1]
        for step in (0, 50, 100)
        for block in range(blocks)
    ]
    published, free = whole(points, GARBAGE), whole(points, replace(GARBAGE, rises=None))
    assert (published.p, published.word) == (pytest.approx(6**-blocks), Word.HOLDS)
    assert (free.p, free.word) == (pytest.approx(2 * 6**-blocks), word)


def test_p_values_of_strata_without_a_published_direction_are_two_sided() -> None:
    values = table("mix.throughput", falling, steps=STEPS[:3])
    free = Direction("t", "mix.throughput", "1/s", Along.THRESHOLD, rises=None)
    _, *parts, _ = directions.judge(values, free)
    assert [part.p for part in parts] == pytest.approx([2 * 3 / 36] * 3)  # Holm over three strata


def test_every_stratum_is_judged_and_none_differs() -> None:
    _, *parts, interaction = directions.judge(table("run.pad_bytes", falling), PAD)
    assert [part.where for part in parts] == ["at 32.0 MiB", "at 64.0 MiB", "at 128 MiB"]
    assert {part.word for part in parts} == {Word.HOLDS}
    assert interaction.word is Word.NOT_SHOWN
    assert interaction.p == pytest.approx(1.0)


def reversed_in_large_zones(size: int, step: float, rng: random.Random) -> float:
    step = 100 - step if size == SIZES[0] else step
    return (1 + step / 1000) * rng.uniform(0.9999, 1.0001)


def test_an_order_that_one_stratum_reverses_depends_on_it() -> None:
    """The pooled ranks of two of three strata show the published order; the third reverses it."""
    found, small, middle, large, interaction = directions.judge(
        table("run.sa_host", reversed_in_large_zones), GARBAGE
    )
    assert found.p is not None
    assert found.p < 0.05
    assert found.word is Word.DEPENDS
    assert (small.word, middle.word, large.word) == (Word.HOLDS, Word.HOLDS, Word.FAILS)
    assert interaction.word is Word.DEPENDS
    assert interaction.where == "interaction with zone_size"
    assert interaction.evidence == "32.0 MiB: rises; 64.0 MiB: rises; 128 MiB: falls"


def test_an_interaction_equals_a_worked_example() -> None:
    """Two strata of two blocks with opposite orders of three settings.

    L of Page is 28 or 20, E = 2 * 3 * 16 / 4 = 24 and var = 2 * 9 * 4 * 8 / 144 = 4. So the scores
    are 2 and -2. The squares around their mean add up to 8: chi-square with one degree of freedom.
    """
    values = [
        SettingValue(size, step, "run.sa_host", 1 + sign * step / 1000, f"h/{block}")
        for size, sign in ((SIZES[0], -1), (SIZES[1], 1))
        for step in (0, 50, 100)
        for block in range(2)
    ]
    found = directions.judge(values, GARBAGE)[-1]
    assert (found.word, found.blocks) == (Word.DEPENDS, 2)
    assert found.p == pytest.approx(0.0046777, rel=1e-4)
    one_block = [value for value in values if value.block == "h/0"]
    alone = directions.judge(one_block, GARBAGE)[-1]  # scores of sqrt(2) and -sqrt(2)
    assert (alone.word, alone.blocks) == (Word.NOT_SHOWN, 1)
    assert alone.p == pytest.approx(0.0455003, rel=1e-4)


def test_a_weaker_order_of_one_sign_is_no_interaction() -> None:
    """The largest zones follow the order less strictly, in the same direction."""
    weaker = dict(zip(STEPS, (4, 1, 3, 2, 5), strict=True))

    def value(size: int, step: float, rng: random.Random) -> float:
        rank = weaker[int(step)] if size == SIZES[0] else 1 + STEPS.index(int(step))
        return (1 + rank / 10) * rng.uniform(0.9999, 1.0001)

    found = directions.judge(table("run.sa_host", value, repetitions=8), GARBAGE)
    assert found[-1].p is not None
    assert found[-1].p < 0.05
    assert found[-1].word is Word.NOT_SHOWN
    assert found[0].word is Word.HOLDS


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_stratum_without_an_order_reverses_none(sign: int) -> None:
    """Scores of 0 and sqrt(10) for five blocks: the squares around their mean add up to 5."""
    points = [
        SettingValue(size, step, "run.sa_host", 1 + slope * step / 1000, f"h/{block}")
        for size, slope in ((SIZES[0], 0), (SIZES[1], sign))
        for step in (0, 50, 100)
        for block in range(5)
    ]
    found = directions.judge(points, GARBAGE)[-1]
    assert found.p == pytest.approx(0.0253473, rel=1e-4)
    assert found.word is Word.NOT_SHOWN


def test_repetitions_with_one_seed_are_one_block() -> None:
    pad = table("run.pad_bytes", falling, repetitions=5)
    assert whole(pad, PAD).word is Word.HOLDS
    same = [replace(point, block="7") for point in pad]
    found = whole(same, PAD)
    assert (found.word, found.p, found.blocks) == (Word.NOT_SHOWN, None, 1)


def test_p_values_of_strata_are_corrected_for_their_number() -> None:
    values = table("run.pad_bytes", falling, steps=STEPS[:3])
    _, *parts, _ = directions.judge(values, PAD)
    # Two blocks of three settings in order: p = 1/36 before Holm over three strata.
    assert [part.p for part in parts] == pytest.approx([3 / 36] * 3)
    assert {part.word for part in parts} == {Word.NOT_SHOWN}


def test_interactions_of_noise_are_rare() -> None:
    rng = random.Random(22)  # noqa: S311 - not cryptography
    found = [
        directions.judge(
            [replace(p, value=rng.uniform(1, 2)) for p in table("run.sa_host", falling)], GARBAGE
        )[-1]
        for _ in range(300)
    ]
    assert sum(one.word is Word.DEPENDS for one in found) <= 0.05 * 300 + 8  # 2 standard errors


def test_the_evidence_are_the_means_at_both_ends() -> None:
    pad = table("run.pad_bytes", lambda size, step, _: size if step == 0 else 0.0)
    evidence = whole(pad, PAD).evidence.split("; ")
    assert evidence == [
        "32.0 MiB: 32.0 MiB at 0 %, 0 B at 100 %",
        "64.0 MiB: 64.0 MiB at 0 %, 0 B at 100 %",
        "128 MiB: 128 MiB at 0 %, 0 B at 100 %",
    ]
    by_size = whole(pad, PAD_BY_SIZE).evidence
    assert by_size.startswith("0 %: 32.0 MiB at 32.0 MiB, 128 MiB at 128 MiB; 20 %: 0 B")


@pytest.mark.parametrize(
    "value",
    [
        lambda _size, _step, rng: rng.uniform(1.0, 2.0),  # no order
        lambda _size, _step, _rng: 1.25,  # nothing moves
        lambda _size, step, _rng: 1.25 + step / 1e5,  # in order, by less than the noise floor
        lambda _size, step, _rng: 1000 + step / 50,  # by 2 of 1000
    ],
)
def test_unclear_directions_are_not_shown(value: Value) -> None:
    found = directions.judge(table("run.sa_host", value), GARBAGE)
    assert {one.word for one in found} == {Word.NOT_SHOWN}


def test_too_little_shows_nothing() -> None:
    points = table("run.pad_bytes", falling, steps=(0, 100))
    found = whole(points, PAD)
    assert (found.word, found.p, found.blocks) == (Word.NOT_SHOWN, None, 2)
    one = [p for p in table("run.pad_bytes", falling, repetitions=1) if p.zone_size == SIZES[0]]
    assert whole(one, PAD).p is None
    assert len(directions.judge(one, PAD)) == 1  # one stratum has no interaction
    assert whole([], PAD).blocks == 0


def test_an_order_that_the_means_contradict_is_not_shown() -> None:
    """Seven of eight blocks rise; the eighth falls so far that the mean falls."""

    def judged(fall: float) -> DirectionVerdict:
        rows = [(1.0, 2.0, 3.0)] * 7 + [(fall, fall / 2, 1.0)]
        return whole(
            [
                SettingValue(SIZES[0], step, "run.sa_host", value, f"h/{block}")
                for block, row in enumerate(rows)
                for step, value in zip((0, 50, 100), row, strict=True)
            ],
            GARBAGE,
        )

    assert judged(4.0).word is Word.HOLDS
    against = judged(1000.0)
    assert against.p is not None
    assert against.p < 0.05
    assert against.word is Word.NOT_SHOWN


@pytest.mark.parametrize(("last", "word"), [(101.0, Word.NOT_SHOWN), (101.1, Word.HOLDS)])
def test_ends_that_differ_by_the_noise_floor_show_nothing(last: float, word: Word) -> None:
    points = [
        SettingValue(SIZES[0], step, "run.sa_host", value, f"h/{block}")
        for step, value in ((0, 100.0), (50, 100.5), (100, last))
        for block in range(3)
    ]
    found = whole(points, GARBAGE)
    assert (found.p, found.word) == (pytest.approx(1 / 216), word)


def test_a_rise_from_zero_is_a_rise() -> None:
    rising = table("run.sa_host", lambda _size, step, _rng: step)
    assert whole(rising, GARBAGE).word is Word.HOLDS
    assert whole(rising, replace(GARBAGE, rises=False)).word is Word.FAILS


def test_one_setting_has_no_order() -> None:
    found = directions.judge(table("run.pad_bytes", falling, steps=(50,)), PAD)
    assert {one.word for one in found} == {Word.NOT_SHOWN}
    assert (found[-1].p, found[-1].evidence) == (1.0, "")


def test_settings_that_could_not_hold_the_data_are_left_out() -> None:
    points = [
        p
        for p in table("run.pad_bytes", falling)
        if not (p.occupancy == 0 and p.zone_size != SIZES[2])
    ]
    found = whole(points, PAD)
    assert (found.word, found.blocks) == (Word.HOLDS, 2)  # over the four steps that all have


def test_blocks_without_a_common_setting_are_not_compared() -> None:
    points = [SettingValue(SIZES[0], step, "run.pad_bytes", 1.0, f"h/{step}") for step in STEPS]
    found = directions.judge(points, PAD)
    assert [(one.word, one.blocks) for one in found] == [(Word.NOT_SHOWN, 0)]


def test_a_setting_that_half_of_the_blocks_have_is_compared() -> None:
    """Then the other half of the blocks counts for nothing."""

    def kept(blocks: int, of: int) -> DirectionVerdict:
        return whole(
            [
                point
                for point in table("run.pad_bytes", falling, repetitions=of, steps=STEPS[:4])
                if point.occupancy != STEPS[0] or int(point.block.removeprefix("h/")) < blocks
            ],
            PAD,
        )

    assert kept(2, of=4).blocks == 2
    assert kept(2, of=5).blocks == 5


def test_published_directions_are_about_metrics_that_exist() -> None:
    assert {one.along for one in PUBLISHED} == set(Along)
    assert isinstance(PAD, Direction)


def test_the_front_is_of_settings_that_none_beats() -> None:
    costs = {
        (1, 0.0): (5.0, 1.0),
        (1, 50.0): (3.0, 2.0),
        (1, 80.0): (3.0, 3.0),
        (2, 0.0): (6.0, 6.0),
    }
    assert finish_figures.front(costs) == [(1, 0.0), (1, 50.0)]
    twins = {(1, 0.0): (1.0, 1.0), (2, 0.0): (1.0, 1.0)}
    assert finish_figures.front(twins) == list(twins)


@pytest.mark.slow
def test_figures_show_and_label_both_conventions() -> None:
    points = table("run.pad_bytes", falling) + table("run.sa_host", lambda _s, step, _r: 1 + step)
    for which in ("min", "median", "max"):
        points += table(f"run.wear_{which}", lambda _s, step, _r: 3 + step / 50)
    label = Label("replayed zlfs", mark="counterfactual", mark_of_times="no times")
    pad, sa = Axis("run.pad_bytes", "pad", "B"), Axis("run.sa_host", "sa_host", "1")
    samples = {(size, step): [step, 50.0, 90.0] for size in SIZES for step in STEPS[1:]}
    with drawing.style():
        plots = [
            finish_figures.against_threshold(points, pad, label, {(SIZES[0], 0)}),
            finish_figures.pareto(points, pad, sa, label),
            finish_figures.occupancies(samples, label),
            finish_figures.wear(points, label),
        ]
    assert len({plot.name for plot in plots}) == 4
    for plot in plots:
        assert plot.svg is not None, plot.title
        assert plot.title.startswith("replayed zlfs: ")
        assert "counterfactual" in plot.svg
        for size in ("128 MiB", "64.0 MiB", "32.0 MiB"):
            assert size in plot.svg
    assert "remaining" in (plots[0].svg or "")
    assert "could not hold the data" in plots[0].sentence


@pytest.mark.slow
def test_every_zone_size_is_drawn() -> None:
    sizes = [MIB << number for number in range(10)]
    points = [SettingValue(size, 50, "run.pad_bytes", size, "h/0") for size in sizes]
    with drawing.style():
        plots = [
            finish_figures.against_threshold(
                points, Axis("run.pad_bytes", "pad", "B"), Label("zlfs")
            ),
            finish_figures.occupancies({(size, 50.0): [50.0] for size in sizes}, Label("zlfs")),
        ]
    for plot in plots:
        assert all(human(size, "B") in (plot.svg or "") for size in sizes)
    looks = {look[1:] for look in finish_figures._looks(sizes)}
    assert len(looks) == len(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 1e-3], ids=["spread", "crowded"])
def test_labels_of_settings_cover_neither_each_other_nor_points(spread: float) -> None:
    """Large thresholds cost the same; one setting far away moves the others together."""
    costs = {0: (9, 1), 20: (3, 1.2), 50: (2.1, 1.5), 80: (2.02, 1.51), 90: (2.01, 1.51)}
    points = [
        SettingValue(size, step, metric, 1 + (costs[step][which] - 1) * scale, "h/0")
        for which, metric in enumerate(("run.pad_bytes", "run.sa_host"))
        for size in SIZES
        for step in costs
        for scale in [1.0 if (size, step) == (SIZES[0], 0) else spread * size / SIZES[0]]
    ]
    axis = Axis("run.pad_bytes", "pad", "B"), Axis("run.sa_host", "sa_host", "1")
    with drawing.style(), drawing.keeping_figures():
        figure = finish_figures.pareto(points, *axis, Label("zlfs", mark="replayed")).figure
        assert figure is not None
        figure.draw_without_rendering()
        (axes,) = figure.axes
        labels = [text.get_window_extent() for text in axes.texts if text.get_text()]
    assert len(labels) == len(SIZES) * len(costs)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(labels, 2))
    assert all(axes.get_window_extent().padded(1).containsx(box.x0) for box in labels)
    marks = {
        tuple(place)
        for line in axes.lines
        for place in axes.transData.transform(np.asarray(line.get_xydata()))
    }
    assert not any(box.contains(*mark) for box in labels for mark in marks)


def test_figures_without_numbers_say_so() -> None:
    label = Label("zlfs")
    pad = Axis("run.pad_bytes", "pad", "B")
    for plot in (
        finish_figures.against_threshold([], pad, label),
        finish_figures.pareto([], pad, pad, label),
        finish_figures.occupancies({SIZES: []}, label),  # type: ignore[dict-item]
        finish_figures.wear([], label),
    ):
        assert plot.svg is None
        assert plot.sentence


# --- the report's section ------------------------------------------------------------------


def device_of(spec: RunSpec) -> RunSpec:
    size = int(str(spec.factors["zone_size"]).removesuffix("MiB")) * MIB
    device = replace(
        spec.device, zone_size=Bytes(size), zone_capacity=Bytes(size), zones=4096 * MIB // size
    )
    return replace(spec, device=device)


def measured(result: Result) -> Result:
    occupancy = int(result.factors["finish_occupancy_pct"])
    size = int(str(result.factors["zone_size"]).removesuffix("MiB"))
    jitter = 1 + result.repetition / 1000
    numbers = {
        "run.pad_bytes": (size * (100 - occupancy) * MIB * jitter, "B"),
        "run.sa_host": (1 + occupancy / 200 * jitter, "1"),
        "run.wear_min": (1, "1"),
        "run.wear_median": (2, "1"),
        "run.wear_max": (4, "1"),
        "run.modelled_finish_seconds": (2.5, "s"),
        "run.modelled_reset_seconds": (0.5, "s"),
        "run.modelled_cost_share": (0.125, "1"),
    }
    return replace(
        result, metrics={**result.metrics, **{k: Metric(*v) for k, v in numbers.items()}}
    )


def campaign(folder: Path) -> Path:
    """A campaign of 3 x 3 settings; the largest zones cannot hold the data at threshold 0."""
    factors = tuple(
        {"finish_occupancy_pct": occupancy, "zone_size": f"{size}MiB"}
        for occupancy in (0, 50, 100)
        for size in (128, 64, 32)
    )
    full = Reason("infeasible", "zlfs has no room left: 3 MiB of 4 MiB", "")

    def change(result: Result) -> Result:
        if (result.factors["finish_occupancy_pct"], result.factors["zone_size"]) == (0, "128MiB"):
            return replace(result, status=Status.SKIPPED, reason=full, metrics={}, phases=())
        return measured(result)

    write_campaign(
        folder, levels=("f2fs",), factors=factors, change=change, series=False, repetitions=2
    )
    for run in folder.glob("hosts/*/runs/*"):
        spec, result = load_one(run)
        placed = device_of(spec)
        (run / "run.json").write_text(dumps(placed))
        (run / "result.json").write_text(dumps(replace(result, device=placed.device)))
        rows = "\n".join(
            [
                "t,device,zone,action,latency_us,status,by,written,unwritten",
                f"1.0,d,3,finish,10,0,x,{3 * MIB},{MIB}",
                f"2.0,d,3,reset,10,0,x,{3 * MIB},",
            ]
        )
        (run / "series").mkdir(exist_ok=True)
        (run / "series" / "zone_commands.csv").write_text(rows + "\n")
        checksums.write(run)
    return folder


def load_one(run: Path) -> tuple[RunSpec, Result]:
    return rundir.load_spec(run), rundir.load_result(run)


@pytest.mark.slow
def test_the_report_has_a_section_for_such_a_study(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c")
    comparison = compare(load(folder), contrast="finish_occupancy_pct", baseline="100")
    page, _ = write_report(comparison, folder / "report")
    text = page.read_text()
    assert 'id="finish"' in text
    section = text[text.index('id="finish"') : text.index('id="throughput"')]
    assert ">holds</td>" in section
    assert "no room left" in section
    assert section.count("<svg") >= 6
    # Times of an emulated device are marked as none, bytes as of an emulated device.
    assert "emulated: not a result" in section
    rows = (folder / "report/tables/directions.csv").read_text().splitlines()
    assert sum("interaction with zone_size" in row for row in rows) == 2
    assert sum(": at 64.0 MiB," in row for row in rows) == 2
    assert [row for row in rows if "overwrite: operations per second" in row] == [
        f"f2fs,overwrite: operations per second over the {factor},not a result,-,-,"
        for factor in ("finish occupancy", "zone size")
    ]
    costs = (folder / "report/tables/finish_costs.csv").read_text()
    assert re.search(r"f2fs,64.0 MiB,0,100,.*2.50 s,0.500 s,12.5 %", costs)
    assert "infeasible" not in (folder / "report/tables/finish_costs.csv").read_text()
    assert (folder / "report/tables/infeasible.csv").read_text().count("no room left") == 1


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ([Verdict.NO_DIFFERENCE, Verdict.LOWER, Verdict.TOO_FEW], {}),
        ([Verdict.LOWER, Verdict.HOST_BOUND], {"zone_size 64MiB": "host-bound"}),
        (
            [Verdict.NOT_A_RESULT, Verdict.HOST_BOUND],
            {"zone_size 64MiB": "host-bound, not a result"},
        ),
    ],
)
def test_an_order_of_times_needs_a_verdict_in_every_row_of_a_stratum(
    words: list[Verdict], refused: dict[str, str]
) -> None:
    def row(metric: str, word: Verdict, kind: MetricKind = MetricKind.TIME) -> Any:
        info = SimpleNamespace(kind=kind)
        return SimpleNamespace(metric=metric, stratum="zone_size 64MiB", verdict=word, info=info)

    rows = [row("mix.throughput", word) for word in words]
    rows += [row("mix.latency_p99", Verdict.NOT_COMPARABLE)]
    rows += [row("run.pad_bytes", Verdict.NOT_COMPARABLE, MetricKind.BYTES)]
    comparison: Any = SimpleNamespace(rows=rows)
    assert finish._refusals(comparison, "mix.throughput") == refused
    assert finish._refusals(comparison, "run.pad_bytes") == {}


def test_an_order_of_times_is_tested_in_the_other_strata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compare(load(campaign(tmp_path / "c")), contrast="finish_occupancy_pct")
    names = list(dict.fromkeys(row.stratum for row in comparison.rows))
    refused = {names[0]: "host-bound"}
    times = {"overwrite.throughput", "overwrite.latency_p99"}
    monkeypatch.setattr(finish, "_refusals", lambda _, name: refused if name in times else {})
    runs = [run for run in comparison.runs if run.ok]
    rows = list(finish._test(comparison, "f2fs", runs))
    over = "overwrite: operations per second over the finish occupancy"
    tested = next(row for row in rows if row[1] == over)
    assert tested[2] != "host-bound"
    assert tested[5].endswith(f"; without {names[0]} (host-bound)")
    # A stratum of another level's runs is none of these.
    refused["f2fs, zone_size 1MiB"] = refused.pop(names[0])
    assert not any("without" in row[5] for row in finish._test(comparison, "f2fs", runs))


@pytest.mark.slow
def test_other_studies_have_no_such_section(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", repetitions=1, series=False)
    comparison = compare(load(folder))
    page, _ = write_report(comparison, folder / "report")
    assert 'id="finish"' not in page.read_text()
