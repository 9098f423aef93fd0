"""Guards of a verdict, each of which a single wrong word in the code would remove. Synthetic."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from analysis.judge.compare import Comparison, compare
from analysis.judge.over_campaigns import compare_over
from analysis.judge.rows import Row
from analysis.judge.verdicts import Verdict
from analysis.read.load import load, load_pool
from analysis.show import drawing, series_figure
from analysis.show.groups import groups_of
from analysis.show.report import write_report
from harness.store import checksums
from harness.store.result import Issue, Result, Severity
from harness.store.spec import Claim, DeviceKind
from tests.fixtures.campaigns import CAPACITY, with_metric, write_campaign, write_on_demand

WRITTEN = "overwrite.device_written"
EXT4 = "conventional-ext4"


def _row(comparison: Comparison, level: str) -> Row:
    return next(row for row in comparison.rows if (row.metric, row.level) == (WRITTEN, level))


def _declare(folder: Path, turnover: float) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    plan["definition"] = {"study": {"turnover": turnover}, "workload": {}}
    (folder / "plan.json").write_text(json.dumps(plan))


def test_one_run_below_the_declared_turnover_is_enough(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        short = result.level == "zlfs" and result.repetition == 2
        return with_metric(result, "run.device_written", (1 if short else 5) * CAPACITY)

    folder = write_on_demand(tmp_path / "c", series=False, change=change)
    _declare(folder, 4.0)
    found = _row(compare(load(folder)), "zlfs")
    assert found.verdict is Verdict.NOTHING
    assert "zlfs: wrote 1.00 times the capacity, the study declares 4" in found.notes
    assert _row(compare(load(folder)), "zenfs").verdict is Verdict.HIGHER


def test_settings_of_one_level_need_the_declared_turnover_too(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        own = 5 if result.level == "zlfs" else 1
        return with_metric(result, "run.device_written", own * CAPACITY)

    levels = ("zlfs", "zlfs-discard")
    folder = write_campaign(tmp_path / "c", series=False, levels=levels, change=change)
    for path in folder.glob("hosts/*/runs/zlfs-discard*/run.json"):
        spec = json.loads(path.read_text())
        path.write_text(json.dumps(spec | {"level": "zlfs", "variant": "discard"}))
        checksums.write(path.parent)
    _declare(folder, 4.0)
    found = _row(compare(load(folder)), "zlfs-discard")
    assert found.verdict is Verdict.NOTHING
    assert "zlfs-discard: wrote 1.00 times the capacity, the study declares 4" in found.notes


@pytest.mark.parametrize(("turnover", "word"), [(0.9, Verdict.NOTHING), (1.1, Verdict.HIGHER)])
def test_a_level_without_a_counter_of_collections_has_no_silent_verdict(
    tmp_path: Path, turnover: float, word: Verdict
) -> None:
    issue = Issue("gc-counter-missing", Severity.INFO, "zenfs counts none", "overwrite")

    def change(result: Result) -> Result:
        result = with_metric(result, "run.device_written", turnover * CAPACITY)
        return dataclasses.replace(result, issues=(issue,)) if result.level == "zenfs" else result

    comparison = compare(load(write_on_demand(tmp_path / "c", series=False, change=change)))
    found = _row(comparison, "zenfs")
    assert found.verdict is word
    assert any("zenfs: nothing counts its garbage collection" in note for note in found.notes)
    other = _row(comparison, "zlfs")
    assert other.verdict is Verdict.HIGHER
    assert not any("nothing counts" in note for note in other.notes)


def test_a_claim_without_a_row_in_any_campaign_counts_in_the_family(tmp_path: Path) -> None:
    """Holm: of two claims, of which one has no row, the other's p is doubled."""

    def p_of(name: str, *claims: Claim) -> float:
        folders = [
            write_on_demand(tmp_path / name / str(index), series=False, claims=claims)
            for index in range(2)
        ]
        rows = compare_over(compare(load_pool(folders), contrast="level", metrics=[WRITTEN])).rows
        (found,) = (row.p_holm for row in rows if row.claim == "C1")
        assert found is not None
        return found

    one = Claim("C1", WRITTEN, "zlfs", EXT4, "worse")
    absent = Claim("C2", "overwrite.pad_bytes", "zlfs", EXT4, "worse")
    alone = p_of("alone", one)
    assert p_of("both", one, absent) == pytest.approx(min(1.0, 2 * alone))


def test_only_words_of_victory_have_a_colour(tmp_path: Path) -> None:
    claim = Claim("C1", WRITTEN, "zlfs", EXT4, "worse")
    folder = write_on_demand(
        tmp_path / "c", kind=DeviceKind.HARDWARE, series=False, claims=(claim,)
    )
    page, _ = write_report(compare(load(folder)), tmp_path / "out")
    cells = re.findall(r'<td class="verdict ([a-z]+)">([^<]+)</td>', page.read_text())
    assert {word for _, word in cells} >= {"worse", "lower", "higher"}
    for css, word in cells:
        assert css == (word if word in ("better", "worse") else "none"), word


def test_every_second_phase_is_shaded_in_both_panels(tmp_path: Path) -> None:
    def apart(result: Result) -> Result:
        phases = tuple(
            dataclasses.replace(phase, started=f"2026-01-01T00:00:{20 * index:02d}Z")
            for index, phase in enumerate(result.phases)
        )
        return dataclasses.replace(result, phases=phases)

    folder = write_campaign(tmp_path / "c", repetitions=1, change=apart)
    comparison = compare(load(folder))
    group = groups_of(comparison)[0]
    lines = series_figure.Lines.of(group)
    with drawing.style():
        plot = series_figure.series(comparison, group, lines, series_figure.AxisEnds.of([lines]))
    shades = re.findall(r'style="fill: var\(--grid, #dddddd\)[^"]*"', plot.svg or "")
    assert len(shades) == 2 * len(group.runs[0].result.phases)
    assert len({re.sub(r".*opacity: ([\d.]+).*", r"\1", shade) for shade in shades}) == 2
