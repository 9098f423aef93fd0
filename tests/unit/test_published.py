"""Published numbers against campaigns: SYNTHETIC campaigns, made to agree or to disagree."""

import dataclasses
from pathlib import Path

import pytest

from analysis.judge import published
from analysis.judge.agreement import Agreement, Relation
from analysis.judge.compare import compare
from analysis.judge.rows import Row
from analysis.judge.select import metric_info
from analysis.judge.stats import Estimate, Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from analysis.show.groups import groups_of
from analysis.show.parts import Paragraph, ReportData
from analysis.show.report import write_report
from analysis.show.sections.published import section
from harness.errors import ConfigError
from harness.store.result import Metric, Result
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import on_model, with_metric, write_campaign

LEVELS = ("conventional-xfs", "f2fs")
HEAD = (
    'title = "T"\nhardware = "H"\ncaveats = "C"\nstudies = ["integration-levels"]\nwithin = 1.5\n'
)


def campaign(
    folder: Path,
    factor: float,
    *,
    metric: str = "overwrite.throughput",
    unit: str = "ops/s",
    kind: DeviceKind = DeviceKind.HARDWARE,
) -> Path:
    """Write a campaign in which f2fs has ``factor`` times the metric of xfs, within 1 %."""

    def change(result: Result) -> Result:
        noise = 1 + 0.005 * (result.repetition - 2)
        value = (
            1000.0 * noise * (factor + 0.002 * result.repetition if result.level == "f2fs" else 1)
        )
        return dataclasses.replace(
            result, metrics=dict(result.metrics) | {metric: Metric(value, unit)}
        )

    return write_campaign(folder, levels=LEVELS, kind=kind, change=change, series=False)


def point(tmp_path: Path, text: str, head: str = HEAD) -> Path:
    folder = tmp_path / "references"
    folder.mkdir(exist_ok=True)
    (folder / "one.toml").write_text(f"{head}\n[[point]]\n{text}")
    return folder


def constant(folder: Path, level: float, base: float = 1e9) -> Path:
    """Write a campaign in which xfs always writes ``base`` bytes, and f2fs ``level`` bytes."""

    def change(result: Result) -> Result:
        written = Metric(level if result.level == "f2fs" else base, "B")
        metrics = dict(result.metrics) | {"overwrite.device_written": written}
        return dataclasses.replace(result, metrics=metrics)

    return write_campaign(
        folder / "c", levels=LEVELS, kind=DeviceKind.HARDWARE, change=change, series=False
    )


METRIC = "overwrite.throughput"
RATIO = (
    'metric = "overwrite.throughput"\nlevel = "f2fs"\nbaseline = "conventional-xfs"\nratio = 1.42\n'
)


@pytest.mark.parametrize(
    ("factor", "outcome", "why"),
    [
        (1.4, Agreement.AGREES, "inside: published 1.42, band 0.95 .. 2.13"),
        (1.05, Agreement.AGREES, "inside"),
        (0.98, Agreement.DISAGREES, "it is less"),
        (3.0, Agreement.DISAGREES, "outside"),
        (0.998, Agreement.NOT_SHOWN, "no difference shown"),
    ],
)
def test_a_ratio_needs_its_direction_and_its_band(
    tmp_path: Path, factor: float, outcome: Agreement, why: str
) -> None:
    folder = campaign(tmp_path / "c", factor)
    (held,), others = published.judge(load(folder), point(tmp_path, RATIO))
    assert (held.agreement, others) == (outcome, 0), held.why
    assert held.why.startswith(why), held.why


def test_the_user_can_accept_different_code(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        code = {"runner": {"source": str(result.repetition) * 64}}
        host = {**result.manifest.get("host", {}), "code": code}
        return dataclasses.replace(result, manifest={**result.manifest, "host": host})

    folder = write_campaign(
        tmp_path / "c", levels=LEVELS, kind=DeviceKind.HARDWARE, series=False, change=change
    )
    where = point(tmp_path, RATIO)
    (refused,), _ = published.judge(load(folder), where)
    assert refused.why.startswith("not comparable")
    (judged,), _ = published.judge(load(folder), where, different_code=True)
    assert not judged.why.startswith("not comparable")


@pytest.mark.parametrize(
    ("ratio", "factor", "outcome", "why"),
    [
        # The bands are 0.33 .. 0.75, 0.67 .. 1.50 and 0.95 .. 2.13.
        (0.5, 0.6, Agreement.AGREES, "inside"),
        (0.5, 1.2, Agreement.DISAGREES, "it is more"),
        (0.5, 0.746, Agreement.NOT_SHOWN, "the direction agrees, the interval reaches over"),
        (0.5, 0.3293, Agreement.NOT_SHOWN, "the direction agrees, the interval reaches over"),
        (0.5, 0.3, Agreement.DISAGREES, "outside"),
        (1.42, 2.126, Agreement.NOT_SHOWN, "the direction agrees, the interval reaches over"),
        (1.0, 0.998, Agreement.AGREES, "inside"),  # equal was published, and nothing is shown
        (1.0, 1.2, Agreement.AGREES, "inside"),
        (1.0, 2.0, Agreement.DISAGREES, "outside"),
    ],
)
def test_both_edges_of_a_band_count(
    tmp_path: Path, ratio: float, factor: float, outcome: Agreement, why: str
) -> None:
    folder = campaign(tmp_path / "c", factor)
    text = RATIO.replace("ratio = 1.42", f"ratio = {ratio}")
    (held,), _ = published.judge(load(folder), point(tmp_path, text))
    assert held.agreement is outcome, held.why
    assert held.why.startswith(why), held.why


@pytest.mark.parametrize("level", [2e9, 0.5e9])
def test_the_edges_belong_to_the_band(tmp_path: Path, level: float) -> None:
    text = RATIO.replace("throughput", "device_written").replace("ratio = 1.42", "ratio = 1.0")
    references = point(tmp_path, text, HEAD.replace("within = 1.5", "within = 2.0"))
    (held,), _ = published.judge(load(constant(tmp_path, level)), references)
    assert (held.agreement, held.why) == (
        Agreement.AGREES,
        "inside: published 1, band 0.50 .. 2.00",
    )


def test_a_ratio_without_a_band_has_a_direction_only(tmp_path: Path) -> None:
    head = HEAD.replace("within = 1.5\n", "")
    (held,), _ = published.judge(load(campaign(tmp_path / "c", 3.0)), point(tmp_path, RATIO, head))
    assert (held.agreement, held.why) == (Agreement.AGREES, "it is more")


@pytest.mark.parametrize(
    ("base", "level", "outcome", "why"),
    [
        (1e9, 1e9, Agreement.AGREES, "it is equal"),
        (1e9, 1.2e9, Agreement.NOT_SHOWN, "it is more"),  # not the opposite of equal
        (1e9, 0.8e9, Agreement.NOT_SHOWN, "it is less"),
        (1e9, 0.0, Agreement.NOT_SHOWN, "it is less"),  # a difference without a ratio
        (0.0, 0.5, Agreement.NOT_SHOWN, "it is more"),
        (0.0, 0.0, Agreement.AGREES, "it is equal"),
    ],
)
def test_equal_can_be_published(
    tmp_path: Path, base: float, level: float, outcome: Agreement, why: str
) -> None:
    folder = constant(tmp_path, level, base)
    text = RATIO.replace("throughput", "device_written")
    equal = text.replace("ratio = 1.42", 'direction = "equal"')
    (held,), _ = published.judge(load(folder), point(tmp_path, equal))
    assert (held.agreement, held.why) == (outcome, why)


def test_a_ratio_to_nothing_is_not_judged(tmp_path: Path) -> None:
    text = RATIO.replace("throughput", "device_written").replace("ratio = 1.42", "ratio = 0.5")
    (held,), _ = published.judge(load(constant(tmp_path, 0.0)), point(tmp_path, text))
    assert (held.agreement, held.why) == (Agreement.NOT_SHOWN, "there is no ratio")


@pytest.mark.parametrize(
    ("direction", "factor", "outcome"),
    [
        ("more", 1.2, Agreement.AGREES),
        ("less", 1.2, Agreement.DISAGREES),
        ("less", 0.8, Agreement.AGREES),
        ("more", 0.998, Agreement.NOT_SHOWN),
    ],
)
def test_a_direction_is_of_the_numbers_whatever_is_better(
    tmp_path: Path, direction: str, factor: float, outcome: Agreement
) -> None:
    folder = campaign(tmp_path / "c", factor, metric="overwrite.device_written", unit="B")
    text = RATIO.replace("throughput", "device_written")
    text = text.replace("ratio = 1.42", f'direction = "{direction}"')
    (held,), _ = published.judge(load(folder), point(tmp_path, text))
    assert held.agreement is outcome, held.why


def test_a_descriptive_metric_shows_a_direction(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", 1.4, metric="overwrite.operations", unit="1")
    text = RATIO.replace("throughput", "operations").replace("ratio = 1.42", 'direction = "more"')
    (held,), _ = published.judge(load(folder), point(tmp_path, text))
    assert (held.agreement, held.why) == (Agreement.AGREES, "it is more")


def test_equal_means_that_vary_show_no_direction() -> None:
    """Only exact values are shown to be equal."""
    found = Estimate(True, 1.0, 0.9, 1.1, 1.0, 3, 3, Method.WELCH, 2.0, 2.0, 0.04, 4.0)
    row = Row("m", metric_info("m"), "", "xfs", "f2fs", found, Verdict.NO_DIFFERENCE, ())
    assert published.shown_direction(row) is None
    exact = dataclasses.replace(row, estimate=dataclasses.replace(found, method=Method.EXACT))
    assert published.shown_direction(exact) is Relation.EQUAL


@pytest.mark.parametrize("metric", ["device_written", "operations"])  # judged, descriptive
def test_a_direction_is_shown_if_the_whole_interval_lies_beyond_the_noise_floor(
    tmp_path: Path, metric: str
) -> None:
    """The ratio is 1.014. Its interval excludes 1 but not the floor of 1 %."""
    folder = campaign(tmp_path / "c", 1.01, metric=f"overwrite.{metric}", unit="B")
    text = RATIO.replace("throughput", metric).replace("ratio = 1.42", 'direction = "more"')
    (row,) = compare(load(folder), metrics=[f"overwrite.{metric}"]).rows
    assert row.verdict in (Verdict.NO_DIFFERENCE, Verdict.DESCRIPTIVE)
    assert row.estimate.low is not None
    assert row.estimate.center is not None
    assert 1 < row.estimate.low < 1.01 < row.estimate.center
    (held,), _ = published.judge(load(folder), point(tmp_path, text))
    assert (held.agreement, held.why) == (Agreement.NOT_SHOWN, "no difference shown")


@pytest.mark.parametrize("direction", ["more", "less"])
def test_equal_bytes_are_not_the_opposite_of_a_direction(tmp_path: Path, direction: str) -> None:
    folder = constant(tmp_path, 1e9)
    text = RATIO.replace("throughput", "device_written")
    text = text.replace("ratio = 1.42", f'direction = "{direction}"')
    (held,), _ = published.judge(load(folder), point(tmp_path, text))
    assert (held.agreement, held.why) == (Agreement.NOT_SHOWN, "it is equal")


def test_on_an_emulated_device_neither_times_nor_f2fs_bytes_are_judged(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", 1.4, kind=DeviceKind.EMULATED)
    (held,), _ = published.judge(load(folder), point(tmp_path, RATIO))
    assert held.agreement is Agreement.NOT_SHOWN
    assert held.why == "a time without a verdict"
    text = RATIO.replace("throughput", "device_written")
    folder = campaign(
        tmp_path / "b", 1.4, metric="overwrite.device_written", unit="B", kind=DeviceKind.EMULATED
    )
    (held,), _ = published.judge(load(folder), point(tmp_path, text))
    assert held.agreement is Agreement.NOT_SHOWN
    assert held.why == "the bytes depend on the guest's speed"
    device = campaign(tmp_path / "d", 1.4, metric="overwrite.device_written", unit="B")
    (held,), _ = published.judge(load(device), point(tmp_path, text))
    assert held.agreement is Agreement.AGREES


def test_a_time_of_a_modelled_drive_has_the_known_reason(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", 1.4, kind=DeviceKind.MODELLED)
    (held,), _ = published.judge(load(folder), point(tmp_path, RATIO))
    assert held.agreement is Agreement.NOT_SHOWN
    assert held.why == "a time without a verdict; Synthetic ZNS: its core is not validated"


def modelled(folder: Path, dilation: int) -> Path:
    """Write a campaign on a modelled drive, in which f2fs has 1.4 times the throughput of xfs."""

    def change(result: Result) -> Result:
        factor = 1.4 + 0.002 * result.repetition if result.level == "f2fs" else 1.0
        return with_metric(on_model(result, dilation), METRIC, 1000.0 * factor / dilation, "ops/s")

    return write_campaign(
        folder, levels=LEVELS, kind=DeviceKind.MODELLED, change=change, series=False
    )


def test_times_of_modelled_drives_are_judged_where_compare_judges_them(tmp_path: Path) -> None:
    fast, slow = (load(modelled(tmp_path / f"x{k}", k)) for k in (8, 16))
    references = point(tmp_path, RATIO)
    (alone,), _ = published.judge(fast, references)
    assert alone.agreement is Agreement.NOT_SHOWN
    assert alone.why.startswith("a time without a verdict; ")
    (confirmed,), _ = published.judge(fast, references, slower=[slow])
    assert confirmed.agreement is Agreement.AGREES, confirmed.why


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (DeviceKind.EMULATED, ": only bytes and counts are judged."),
        (DeviceKind.MODELLED, ": times are judged where they have a verdict."),
    ],
)
def test_the_section_follows_the_comparison(
    tmp_path: Path, kind: DeviceKind, sentence: str
) -> None:
    fast, slow = (load(modelled(tmp_path / f"x{k}", k)) for k in (8, 16))
    if kind is DeviceKind.EMULATED:
        fast = load(campaign(tmp_path / "c", 1.4, kind=kind))
    comparison = compare(fast, slower=[slow])
    found = section(ReportData(comparison, tuple(groups_of(comparison)), {}))
    assert found is not None
    assert any(one.text.endswith(sentence) for one in found.parts if isinstance(one, Paragraph))
    (grid,) = found.grids
    whys = {row[-1] for row in grid.rows if row[1] == METRIC}
    assert any("a time without a verdict" in why for why in whys) is (kind is DeviceKind.EMULATED)


def test_another_workload_and_each_stratum_are_named(tmp_path: Path) -> None:
    """A stratum without the metric has no line."""

    def change(result: Result) -> Result:
        left = {name: one for name, one in result.metrics.items() if name != METRIC}
        return dataclasses.replace(result, metrics=left) if result.factors["x"] == 2 else result

    folder = write_campaign(
        tmp_path / "c",
        levels=LEVELS,
        kind=DeviceKind.HARDWARE,
        factors=({"x": 1}, {"x": 2}, {"x": 3}),
        change=change,
        series=False,
    )
    head = HEAD.replace("integration-levels", "another")
    held, others = published.judge(load(folder), point(tmp_path, RATIO + 'note = "N"\n', head))
    sides = ["f2fs / conventional-xfs (x 1)", "f2fs / conventional-xfs (x 3)"]
    assert ([one.sides for one in held], others) == (sides, 0)
    assert all(one.why.endswith("; N; another workload than published") for one in held)


def test_points_about_other_levels_are_counted_only(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", 1.4)
    held, others = published.judge(load(folder))
    assert {one.sides for one in held} == {"f2fs / conventional-xfs"}
    assert len(held) + others == sum(len(one.point) for one in published.references())


@pytest.mark.parametrize(
    "text",
    [
        RATIO.replace("throughput", "nonsense"),
        RATIO.replace("ratio = 1.42", ""),
        RATIO + 'direction = "more"\n',
        RATIO + 'contrast = "scheduler"\n',
        RATIO.replace('level = "f2fs"\n', ""),
        RATIO + "unknown = 1\n",
        RATIO + "= no toml",
    ],
)
def test_wrong_references_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        published.references(point(tmp_path, text))


def test_shipped_data_states_its_source() -> None:
    shipped = published.references()
    assert len(shipped) >= 2
    for one in shipped:
        assert all((one.title, one.hardware, one.caveats, one.studies))
    points = [p for one in shipped for p in one.point]
    assert {Relation.MORE, Relation.LESS} <= {p.expected for p in points}


@pytest.mark.slow
def test_the_page_has_a_section_where_there_is_something_to_say(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", 1.4)
    page = write_report(compare(load(folder)), tmp_path / "out")[0].read_text()
    assert '<h2 id="published">' in page
    assert "Bjørling et al." in page
    write_campaign(tmp_path / "n", levels=("btrfs", "zlfs"), series=False, repetitions=1)
    page = write_report(compare(load(tmp_path / "n")), tmp_path / "none")[0].read_text()
    assert 'id="published"' not in page


def test_a_published_result_can_be_of_one_stratum(tmp_path: Path) -> None:
    strata = ({"threads": 1}, {"threads": 2})
    folder = write_campaign(tmp_path / "c", levels=LEVELS, factors=strata, series=False)
    text = RATIO.replace("overwrite.throughput", "overwrite.device_written")
    for line, sides in (
        ("", ["f2fs / conventional-xfs (threads 1)", "f2fs / conventional-xfs (threads 2)"]),
        ('stratum = "threads 2"\n', ["f2fs / conventional-xfs (threads 2)"]),
        ('stratum = "threads 3"\n', []),
    ):
        found, others = published.judge(load(folder), point(tmp_path, text + line))
        assert [one.sides for one in found] == sides
        assert others == (not sides)
