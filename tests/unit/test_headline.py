"""The five sentences, the footnotes and the forest plot of a comparison."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.judge import wording
from analysis.judge.compare import Comparison, compare, repeated_groups
from analysis.judge.family import NO_TWINS
from analysis.judge.rows import Row
from analysis.judge.stats import Estimate, Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from analysis.read.steady import PhaseSteady, Steady, SteadyLabel
from analysis.show import compare_columns, drawing
from analysis.show.footnotes import Footnotes
from analysis.show.forest_figure import MOST_ROWS, forest
from analysis.show.groups import groups_of
from analysis.show.headline import answers
from analysis.show.render import to_json, to_table
from analysis.show.report import write_report
from harness.metrics.catalogue import CATALOGUE, Better
from harness.store.result import Result
from harness.store.spec import Claim, DeviceKind, Reason
from tests.fixtures.campaigns import with_metric, write_campaign, write_on_demand
from tests.fixtures.twins import WRITTEN, as_variants, twins

BYTES = CATALOGUE["write_amplification"]
SPEED = CATALOGUE["throughput"]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A synthetic campaign on hardware; one more level was skipped."""
    folder = tmp_path_factory.mktemp("answers") / "c"
    skipped = {"xfs": Reason("kernel-too-old", "the kernel has no zoned xfs")}
    write_campaign(folder, kind=DeviceKind.HARDWARE, skipped=skipped, series=False)
    return compare(load(folder))


def made(
    level: str,
    ratio: float,
    verdict: Verdict,
    metric: str = "overwrite.write_amplification",
    claim: str | None = None,
) -> Row:
    """Return a row with a ratio and an interval of one per cent."""
    low, high = ratio / 1.01, ratio * 1.01
    estimate = Estimate(True, ratio, low, high, 0.01, 3, 3, Method.PAIRED, 2.0, 2.0 * ratio)
    info = SPEED if metric.endswith("throughput") else BYTES
    assert info.better is (Better.HIGHER if info is SPEED else Better.LOWER)
    return Row(metric, info, "", "ext4", level, estimate, verdict, (), claim=claim, floor=0.01)


def text(comparison: Comparison, *rows: Row) -> dict[str, str]:
    return {item.topic: item.text for item in answers(replace(comparison, rows=rows))}


def test_the_best_level_is_named_with_its_ratio_and_its_cost(comparison: Comparison) -> None:
    found = text(
        comparison,
        made("f2fs", 1.2, Verdict.WORSE),
        made("zlfs", 0.8, Verdict.BETTER),
        made("zenfs", 0.9, Verdict.BETTER),
        made("zlfs", 0.7, Verdict.WORSE, "overwrite.throughput"),
        made("f2fs", 0.6, Verdict.WORSE, "overwrite.throughput"),
    )
    assert found["Which"].startswith("At 80 % utilisation, zlfs has the lowest")
    assert "write amplification in overwrite: 1.60, against 2.00 of ext4." in found["Which"]
    assert found["How much"] == (
        "Ratios to ext4 (95 % interval): zlfs 0.800 (0.792 to 0.808), zenfs 0.900 "
        "(0.891 to 0.909), f2fs 1.200 (1.188 to 1.212), from 3 runs a side. "
        "Differences up to 1 % get no verdict."
    )
    assert found["What it costs"] == "zlfs is worse in throughput in overwrite (0.700)."


def test_the_metric_decides_whether_higher_is_better(comparison: Comparison) -> None:
    rows = [
        made("f2fs", 1.2, Verdict.BETTER, "overwrite.throughput"),
        made("zlfs", 0.8, Verdict.WORSE, "overwrite.throughput"),
    ]
    assert text(comparison, *rows)["Which"].startswith(
        "At 80 % utilisation, f2fs has the highest mean of throughput"
    )


def test_a_claim_leads(comparison: Comparison) -> None:
    rows = [
        made("f2fs", 0.5, Verdict.BETTER),
        made("zlfs", 1.3, Verdict.BETTER, "fill.throughput", claim="fast"),
    ]
    assert "throughput in fill" in text(comparison, *rows)["Which"]


def test_a_larger_difference_without_a_verdict_hides_none_that_is_shown(
    comparison: Comparison,
) -> None:
    rows = [made("f2fs", 0.7, Verdict.NO_DIFFERENCE), made("zlfs", 0.8, Verdict.BETTER)]
    found = text(comparison, *rows)
    assert found["Which"] == (
        "At 80 % utilisation, zlfs has lower write amplification in overwrite: 1.60, "
        "against 2.00 of ext4. Its order with f2fs is not shown."
    )
    assert found["What it costs"].startswith("zlfs is worse in none")


def test_the_best_level_is_the_best_of_its_stratum(comparison: Comparison) -> None:
    """Another stratum has its own baseline, so its values can be lower."""
    rows = [
        replace(made("zlfs", 0.8, Verdict.BETTER), stratum="size 4"),
        replace(made("zlfs", 0.9, Verdict.BETTER), stratum="size 8"),
    ]
    found = text(comparison, *rows)["Which"]
    assert found.startswith(
        "With size 4, at 80 % utilisation, zlfs has the lowest write amplification in overwrite"
    )


def test_a_difference_of_means_is_compared_with_ratios_by_its_share(
    comparison: Comparison,
) -> None:
    """Bytes are large numbers: a difference of 10 % is less than a ratio of 0.5."""
    estimate = Estimate(False, -1e8, -1.1e8, -0.9e8, 0.01, 3, 3, Method.PAIRED, 1e9, 0.9e9)
    less = replace(made("f2fs", 0.9, Verdict.BETTER), estimate=estimate)
    found = text(comparison, less, made("zlfs", 0.5, Verdict.BETTER))
    assert "zlfs has the lowest" in found["Which"]
    assert found["How much"].startswith("Differences from ext4 (95 % interval): zlfs 0.500 (0.495")


def test_each_noise_floor_is_named(comparison: Comparison) -> None:
    rows = [
        made("zlfs", 0.9, Verdict.BETTER),
        replace(made("f2fs", 0.95, Verdict.NO_DIFFERENCE), floor=0.2),
    ]
    assert text(comparison, *rows)["How much"].endswith(
        "Differences up to 1 % or 20 % get no verdict."
    )


def test_gaps_name_times_that_are_no_result(comparison: Comparison) -> None:
    rows = [made("zlfs", 0.8, Verdict.NOT_A_RESULT, "overwrite.throughput")]
    gaps = text(comparison, *rows)["What it does not show"]
    assert gaps.startswith("Not a result (1 row): throughput in overwrite; ")


@pytest.mark.parametrize(
    ("ratio", "verdict", "sentence"),
    [
        (
            1.2,
            Verdict.WORSE,
            "No level is shown to be better than ext4 in write amplification in overwrite.",
        ),
        (
            0.7,
            Verdict.NO_DIFFERENCE,
            "No level is shown to differ from ext4 in write amplification",
        ),
        (0.7, Verdict.NOT_COMPARABLE, "No level has a verdict."),
        (0.7, Verdict.NOT_A_RESULT, "No level has a verdict."),
        (0.7, Verdict.TOO_FEW, "No level has a verdict."),
    ],
)
def test_without_a_verdict_no_level_is_praised(
    comparison: Comparison, ratio: float, verdict: Verdict, sentence: str
) -> None:
    found = text(comparison, made("zlfs", ratio, verdict))
    assert found["Which"].startswith(sentence)
    assert "zlfs is worse" not in found.get("What it costs", "")


def test_gaps_name_what_has_no_verdict(comparison: Comparison) -> None:
    rows = [made("zlfs", 0.8, Verdict.BETTER), made("f2fs", 0.7, Verdict.NOT_COMPARABLE)]
    gaps = text(comparison, *rows)["What it does not show"]
    assert "Not comparable (1 row): write amplification in overwrite; " in gaps
    assert "ot compared: xfs (the kernel has no zoned xfs)" in gaps


def test_gaps_name_what_the_baseline_does_not_count(comparison: Comparison) -> None:
    nothing = Estimate(True, None, None, None, None, 0, 3, Method.NONE, None, 1e6)
    row = made("zlfs", 0.8, Verdict.TOO_FEW, "overwrite.gc_bytes")
    rows = [replace(row, estimate=nothing), made("f2fs", 0.8, Verdict.TOO_FEW)]
    gaps = text(comparison, *rows)["What it does not show"]
    assert gaps.startswith(
        "Not counted on ext4 (1 row): gc bytes in overwrite; "
        "too few values (1 row): write amplification in overwrite; "
    )


STEADY, NOT_STEADY, TOO_SHORT = SteadyLabel.STEADY, SteadyLabel.NOT_STEADY, SteadyLabel.TOO_SHORT


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (
            [STEADY] * 2,
            "Every metric with a direction has a verdict, and all measured phases are steady.",
        ),
        ([], "Every metric with a direction has a verdict."),
        ([STEADY, NOT_STEADY], "1 of 2 measured phases is not steady."),
        ([NOT_STEADY] * 2, "2 of 2 measured phases are not steady."),
        (
            [STEADY, TOO_SHORT, TOO_SHORT],
            "2 of 3 measured phases are too short to show a steady state.",
        ),
        (
            [TOO_SHORT, NOT_STEADY, STEADY],
            "1 of 3 measured phases is not steady, 1 is too short to show a steady state.",
        ),
        ([STEADY, None], "Steady state not known in 1 phase without a series: overwrite."),
        (
            [None, TOO_SHORT, None],
            "1 of 1 measured phases is too short to show a steady state; "
            "steady state not known in 2 phases without a series: overwrite.",
        ),
    ],
)
def test_gaps_name_each_label_of_a_phase(
    comparison: Comparison, labels: list[SteadyLabel | None], sentence: str
) -> None:
    """None stands for a phase without a series, which has the label ``too short``."""
    steady = tuple(
        PhaseSteady(
            "zlfs",
            "",
            "overwrite",
            comparison.runs[:1] if one else (),
            Steady(one or TOO_SHORT, None, None, 0, ""),
        )
        for one in labels
    )
    runs = tuple(run for run in comparison.runs if run.ok)
    whole = replace(comparison, steady=steady, skipped={}, unmeasured=(), runs=runs)
    assert text(whole, made("zlfs", 0.8, Verdict.BETTER))["What it does not show"] == sentence


def test_gaps_name_runs_and_metrics_that_are_missing(tmp_path: Path) -> None:
    missing = ("f2fs--r02", "f2fs--r03", "btrfs--r01")

    def gaps(*names: str) -> str:
        folder = write_campaign(
            tmp_path / str(len(names)),
            kind=DeviceKind.HARDWARE,
            drop=lambda spec: spec.run in names,
            metrics=(WRITTEN, "overwrite.latency_p99_99"),
            series=False,
        )
        return answers(compare(load(folder)))[-1].text

    nulls = "ot measured in any ok run: latency p99 99 in overwrite; "
    assert nulls in gaps()
    assert "missing" not in gaps()
    assert gaps(*missing[:1]).endswith("; 1 run is missing.")
    assert gaps(*missing).endswith("; 3 runs are missing.")


def test_gaps_say_when_a_claim_has_no_twins(tmp_path: Path) -> None:
    """Cells can differ by chance (layout, boot), and only equal cells show by how much."""
    claim = Claim("C1", WRITTEN, "zenfs", "conventional-ext4", "worse")
    folder = write_on_demand(
        tmp_path / "without", series=False, claims=(claim,), kind=DeviceKind.HARDWARE
    )
    without = compare(load(folder))
    with_twins = twins(tmp_path, 0.0001, (replace(claim, baseline="zlfs"),))
    for found, known in ((without, False), (with_twins, True)):
        (row,) = (row for row in found.rows if row.claim == "C1")
        assert row.verdict is Verdict.WORSE
        assert (NO_TWINS in row.notes) is not known
        assert ("no twins" in answers(found)[-1].text) is not known


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0123, "1.2 %"),
        (0.12, "12 %"),
        (0.999, "100 %"),
        (1.0, "x2"),
        (47.0, "x48"),
        (120.0, "x121"),
        (math.inf, "∞"),
    ],
)
def test_a_share_has_no_exponent(value: float, shown: str) -> None:
    assert wording.share(value) == shown


def test_a_shared_note_is_printed_once(comparison: Comparison) -> None:
    note = "f2fs: not steady x3"
    rows = [replace(made("f2fs", 1.2, Verdict.WORSE), notes=(note, f"{n}")) for n in range(3)]
    table = to_table(replace(comparison, rows=tuple(rows)))
    assert table.count(note) == 1
    assert table.count("[1]") == 1 + len(rows)
    footnotes = Footnotes(rows)
    assert [footnotes.texts[number - 1] for number in footnotes.numbers(rows[2])] == [note, "2"]


@pytest.mark.parametrize(
    ("ratio", "shown", "interval"),
    [
        (0.5, "0.500", "0.495 .. 0.505"),
        (0.002, "0.00200", "0.00198 .. 0.00202"),
        (0.0002, "0.0002", "0.0002 .. 0.0002"),
    ],
)
def test_a_small_ratio_is_not_zero(ratio: float, shown: str, interval: str) -> None:
    row = made("f2fs", ratio, Verdict.BETTER)
    assert (wording.ratio(row), wording.interval(row)) == (shown, interval)


def test_no_result_shows_values_and_no_ratio() -> None:
    row = made("f2fs", 1.2, Verdict.NOT_A_RESULT)
    cells = {column.name: column.cell(row) for column in compare_columns.shown()}
    assert (cells["center"], cells["low"]) == ("-", "-")
    assert (cells["baseline_mean"], cells["level_mean"]) == ("2.00", "2.40")
    record = compare_columns.record(row)
    assert [record[name] for name in ("center", "low", "high", "p_value")] == [None] * 4
    assert (record["baseline_mean"], record["level_mean"]) == (2.0, 2.4)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_json_has_a_ratio_exactly_where_the_table_has_one(
    comparison: Comparison, verdict: Verdict
) -> None:
    row = made("f2fs", 1.2, verdict)
    whole = replace(comparison, rows=(row,), claims=(row,))
    document = json.loads(to_json(whole))
    cells = {column.name: column.cell(row) for column in compare_columns.shown()}
    compared = [one for one in document["rows"] if one["metric"]]
    for record in (*compared, *document["claims"]):
        assert (record["center"] is None) == (cells["center"] == "-")
        assert (record["low"] is None) == (cells["low"] == "-") == (record["high"] is None)
        assert (record["p_value"] is None) == (not verdict.is_judged)


def test_the_forest_has_one_line_per_judged_row(comparison: Comparison) -> None:
    rows = [
        made("f2fs", 1.2, Verdict.WORSE),
        made("zlfs", 0.8, Verdict.NOT_A_RESULT),
        made("btrfs", 0.9, Verdict.NO_DIFFERENCE),
    ]
    with drawing.style():
        svg = forest(replace(comparison, rows=tuple(rows))).svg or ""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert "btrfs" in texts
    assert texts[texts.index("overwrite.write_amplification") + 1] == "f2fs"
    assert not any("zlfs" in label for label in texts)


def test_a_crowded_forest_keeps_the_claims(comparison: Comparison) -> None:
    rows = [made("f2fs", 1.2 + n / 100, Verdict.WORSE) for n in range(MOST_ROWS + 5)]
    rows.append(made("btrfs", 0.8, Verdict.BETTER, claim="bytes"))
    with drawing.style():
        plot = forest(replace(comparison, rows=tuple(rows)))
    assert "btrfs" in (plot.svg or "")
    assert plot.sentence.endswith("6 more rows are in the table.")


def test_the_forest_has_the_colours_of_the_other_figures(tmp_path: Path) -> None:
    """The baseline is not the first level of the plan."""
    folder = write_on_demand(tmp_path / "c", series=False, kind=DeviceKind.HARDWARE)
    found = compare(load(folder), baseline="zlfs", metrics=[WRITTEN])
    with drawing.style():
        svg = forest(found).svg or ""
    drawn = {group.value: group.color.lower() for group in groups_of(found)}
    for level in ("conventional-ext4", "zenfs"):
        assert drawn[level] in svg
    assert drawn["zlfs"] not in svg


def test_a_forest_without_rows_gives_the_reason(comparison: Comparison) -> None:
    assert forest(replace(comparison, rows=())).sentence == "No row has a ratio with an interval."


def test_the_page_links_each_sentence_to_its_row(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", series=False, kind=DeviceKind.HARDWARE)
    page, _ = write_report(compare(load(folder)), tmp_path / "out")
    html = page.read_text()
    targets = re.findall(r'<li><b><a href="#(row-[^"]+)">', html)
    assert len(targets) >= 3
    for target in targets:
        assert f'id="{target}"' in html
    for number in re.findall(r'href="#note-(\d+)"', html):
        assert f'id="note-{number}"' in html


def test_a_twin_with_other_factors_is_in_no_sentence_either(tmp_path: Path) -> None:
    """With factors, a cell has another name than its level."""

    def change(result: Result) -> Result:
        factor = {"zlfs-again": 0.8, "zenfs": 0.9}.get(result.level, 1.0)
        wobble = 1e5 * (7 * result.repetition % len(result.level))
        return with_metric(result, WRITTEN, factor * (1e9 + wobble))

    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        levels=("zlfs", "zlfs-again", "zenfs"),
        factors=({"size": 4}, {"size": 8}),
        change=change,
        metrics=(WRITTEN,),
        kind=DeviceKind.HARDWARE,
    )
    as_variants(folder)
    by_level = compare(load(folder))
    assert repeated_groups(by_level) == {("zlfs-again", "size 4"), ("zlfs-again", "size 8")}
    by_size = compare(load(folder), contrast="size", baseline="4")
    assert repeated_groups(by_size) == {("4", "zlfs-again"), ("8", "zlfs-again")}
    for found in (by_level, by_size):
        assert "zlfs-again" not in " ".join(item.text for item in answers(found)[:-1])


def test_a_twin_is_in_no_sentence(comparison: Comparison) -> None:
    """A cell that repeats another one is no choice for a reader."""
    runs = tuple(
        replace(run, spec=replace(run.spec, level="f2fs", variant=variant, level_options={}))
        if (variant := {"f2fs": "", "btrfs": "again"}.get(run.cell)) is not None
        else run
        for run in comparison.runs
    )
    rows = (
        made("f2fs-again", 0.8, Verdict.BETTER, claim="c"),
        made("f2fs", 0.9, Verdict.BETTER),
    )
    found = {item.topic: item.text for item in answers(replace(comparison, rows=rows, runs=runs))}
    assert "f2fs" in found["How much"]
    assert "f2fs-again" not in " ".join(found.values())
