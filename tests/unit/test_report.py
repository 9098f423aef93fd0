"""The report: self-contained, deterministic, complete, with a note for each missing part."""

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from analysis.judge.compare import WATERMARK, compare
from analysis.read.load import load
from analysis.show import sections
from analysis.show.groups import PALETTE, groups_of
from analysis.show.page import dates
from analysis.show.report import write_report
from harness.cli.main import main
from harness.store import checksums
from harness.store.campaign import Campaign
from harness.store.files import dumps
from harness.store.result import Result, Status
from harness.store.spec import DeviceKind, Reason
from tests.fixtures.campaigns import with_status, write_campaign
from tests.fixtures.ledgers import ZLFS, build

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SKIPPED = {"xfs": Reason("kernel-too-old", "the kernel has no <zoned> xfs")}


def report(tmp_path: Path, name: str = "out", **options: object) -> Path:
    folder = tmp_path / "c"
    if not folder.exists():
        write_campaign(folder, **options)  # type: ignore[arg-type]
    return write_report(compare(load(folder)), tmp_path / name)[0].parent


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a campaign of three levels with series; one more level was skipped."""
    return report(tmp_path_factory.mktemp("standard"), skipped=SKIPPED)


def test_same_campaign_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = report(tmp_path, "one", skipped=SKIPPED), report(tmp_path, "two")
    files = sorted(p.relative_to(one) for p in one.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(two) for p in two.rglob("*") if p.is_file())
    assert len(files) > 15
    for name in files:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


def test_page_loads_nothing_and_nests_properly(standard: Path) -> None:
    page = (standard / "index.html").read_text()
    stack: list[str] = []
    loaded: list[str] = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            loaded.extend(
                value or ""
                for name, value in attrs
                if name in ("src", "srcset", "href", "xlink:href")
                and tag != "a"
                and not (value or "").startswith("#")
            )
            if tag not in ("meta", "br", "img"):
                stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert stack.pop() == tag

        def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.handle_starttag(tag, attrs)
            if stack and stack[-1] == tag:
                stack.pop()

    Checker().feed(page)
    assert not stack
    assert not loaded
    assert not re.search(r"url\((?!#|&quot;#)", page)
    assert not re.search(r"\b(fetch|import|XMLHttpRequest)\b\s*\(", page)


def test_every_link_leads_somewhere_and_every_id_is_one(standard: Path) -> None:
    page = (standard / "index.html").read_text()
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    links = set(re.findall(r'<a href="([^"]*)"', page))
    inside = {link[1:] for link in links if link.startswith("#")}
    outside = links - {f"#{name}" for name in inside}
    assert inside
    assert inside <= set(ids)
    assert outside
    for link in outside:
        assert (standard / link).resolve().is_file(), link


def test_from_a_number_to_its_raw_file_and_formula_in_two_clicks(standard: Path) -> None:
    """Verdict → every run's values → file of the run; metric → formula → methods."""
    page = (standard / "index.html").read_text()
    first = re.search(r'<a href="#(values-overwrite\.device_written)">', page)
    assert first
    place = page.index(f'id="{first[1]}"')
    part = page[place : page.index("</details>", place)]
    assert part.count('<a href="../c/hosts/rig/runs/f2fs--r01/result.json">') >= 1
    formula = re.search(r'<a href="#(metric-device_written)">formula</a>', part)
    assert formula
    assert f'<tr id="{formula[1]}"><td>device_written</td>' in page


def test_page_has_the_facts_that_a_reader_must_know(standard: Path) -> None:
    page = (standard / "index.html").read_text()
    assert "emulated device: times are not a result" in page
    assert "the kernel has no &lt;zoned&gt; xfs" in page
    assert "zonelab report results/c" in page
    assert "No ok run wrote to a device during readrandom." in page
    assert "Percentiles" in page
    assert "no difference shown" in page


@pytest.mark.parametrize(
    ("virtual", "shown"),
    [
        ("none", "measured 2026-01-01T00:00:00Z to "),
        ("some", "measured 2026-01-01T00:00:00Z to "),
        ("all", "planned 2026-11-20T07:00:00+00:00"),
    ],
)
def test_a_virtual_clock_gives_no_date(tmp_path: Path, virtual: str, shown: str) -> None:
    def change(result: Result) -> Result:
        counts = virtual == "all" or (virtual == "some" and result.level == "zlfs")
        host = {**result.manifest["host"], "virtual_time": counts}
        began = "1970-01-01T00:00:00+00:00" if counts else result.started
        return replace(result, manifest={**result.manifest, "host": host}, started=began)

    folder = write_campaign(tmp_path / "c", series=False, change=change)
    created = "2026-11-20T07:00:00+00:00"
    record = Campaign("c", "s", "", "", created, (), "")
    (folder / "campaign.json").write_text(dumps(record))
    assert dates(load(folder)).startswith(shown)
    (folder / "campaign.json").unlink()
    assert dates(load(folder)).startswith("" if virtual == "all" else shown)


def test_hardware_has_no_watermark(tmp_path: Path) -> None:
    folder = report(tmp_path, kind=DeviceKind.HARDWARE)
    page = (folder / "index.html").read_text()
    assert WATERMARK not in page
    assert "emulated: not a result" not in page


def test_figures_are_stand_alone_svg_with_every_point(standard: Path) -> None:
    figures = standard / "figures"
    for path in figures.glob("*.svg"):
        root = ElementTree.fromstring(path.read_text())  # noqa: S314 - we wrote it
        assert root.tag.endswith("svg"), path
    svg = (figures / "overwrite-throughput.svg").read_text()
    # One marker per run: nine runs. A <use> draws a marker; axis ticks have none (y) or x only.
    colored = re.findall(r'<use [^>]*style="fill: #(?:0072b2|e69f00|009e73)', svg)
    assert len(colored) == 9
    assert "currentColor" in svg


def test_tables_hold_every_run(tmp_path: Path) -> None:
    tables = report(tmp_path) / "tables"
    assert {p.stem for p in tables.glob("*.csv")} == {
        "bottlenecks",
        "cells",
        "claims",
        "closures",
        "costs",
        "differences",
        "drift",
        "environment",
        "issues",
        "ledger",
        "lsm",
        "metrics",
        "recorded",
        "rounds",
        "runs",
        "scale",
        "skipped",
        "steady",
        "utilisation",
        "verdicts",
    }
    assert len((tables / "runs.csv").read_text().splitlines()) == 1 + 9


def test_without_series_there_is_a_sentence(tmp_path: Path) -> None:
    page = (report(tmp_path, series=False) / "index.html").read_text()
    assert "The runs of f2fs have no time series." in page


@pytest.mark.parametrize("begun", [True, False])
def test_campaign_without_an_ok_run_still_gives_a_page(
    tmp_path: Path, begun: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_campaign(
        tmp_path / "c",
        change=lambda r: with_status(r, Status.FAILED),
        drop=lambda _: not begun,
    )
    assert main(["report", str(folder)]) == 4
    assert capsys.readouterr().out.strip() == str(folder / "report" / "index.html")
    assert "No run of this campaign is ok." in (folder / "report" / "index.html").read_text()


def test_bad_arguments(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", repetitions=1, series=False)
    assert main(["report", str(tmp_path / "none")]) == 2
    (tmp_path / "file").write_text("")
    assert main(["report", str(folder), "--output", str(tmp_path / "file")]) == 2
    assert main(["report", str(folder), "--output", str(tmp_path / "elsewhere")]) == 0
    assert not (folder / "report").exists()


def test_a_second_report_changes_nothing_and_stale_figures_go(tmp_path: Path) -> None:
    folder, out = tmp_path / "c", tmp_path / "out"
    write_campaign(folder)
    comparison = compare(load(folder))
    assert write_report(comparison, out)[1]
    assert not write_report(comparison, out)[1]
    stale = out / "figures/gone.svg"
    stale.write_text("<svg/>")
    page = out / "index.html"
    page.write_text(page.read_text() + '<a href="figures/gone.svg">SVG</a>')
    assert write_report(comparison, out)[1]
    assert not stale.exists()
    assert not write_report(comparison, out)[1]


def test_each_group_has_its_own_figures(tmp_path: Path) -> None:
    """The names of groups differ in a character that a file name does not have."""
    factors = ({"nice": -1}, {"nice": 1})
    out = report(tmp_path, levels=("f2fs", "zlfs"), repetitions=1, factors=factors)
    names = sorted(path.name for path in (out / "figures").glob("series-f2fs-*"))
    assert names == ["series-f2fs-nice-1-04efe068.svg", "series-f2fs-nice-1.svg"]


def test_two_reports_at_once_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one begins and ends before the first one renames its files."""
    comparison = compare(load(write_campaign(tmp_path / "c", repetitions=1, series=False)))
    out = tmp_path / "out"
    killed, writing = out / ".partial-killed", out / ".partial-writing"
    for left in (killed, writing):
        left.mkdir(parents=True)
    os.utime(killed, (0, 0))
    replace_file, begun = Path.replace, []

    def after_another(path: Path, target: Path) -> Path:
        if not begun:
            begun.append(path)
            assert write_report(comparison, out)[1]
        return replace_file(path, target)

    monkeypatch.setattr(Path, "replace", after_another)
    assert write_report(comparison, out)[1]
    assert begun
    names = sorted(path.name for path in out.iterdir())
    assert names == [writing.name, "figures", "index.html", "tables"]
    assert not write_report(comparison, out)[1]


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    own = [out / "figures/photo.png", out / "figures/own.svg", out / "tables/own.csv"]
    for path in own:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    (out / "index.html").write_text('<a href="figures/own.svg">SVG</a>')  # no page of a report
    report(tmp_path)
    (out / "index.html").write_text((out / "index.html").read_text() + "changed")
    report(tmp_path)
    assert [path.read_text() for path in own] == ["mine"] * 3


def test_rocksdbs_levels_are_shown_as_it_printed_them(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", levels=("f2fs",), repetitions=1)
    run = folder / "hosts/rig/runs/f2fs--r01"
    (run / "raw").mkdir()
    captured = ROOT / "tests/fixtures/db_bench/9.10/tree-overwrite.out"
    (run / "raw/overwrite.stdout").write_text(captured.read_text())
    checksums.write(run)
    page, _ = write_report(compare(load(folder)), tmp_path / "out")
    rows = (page.parent / "tables" / "lsm.csv").read_text().splitlines()
    assert rows[2] == "f2fs--r01,overwrite,L1,3,3.64 MiB,0,0,0,0,1.1,0.38,2"
    assert [row.split(",")[2] for row in rows[1:]] == ["L0", "L1", "L2", "Sum"]
    assert 'id="table-lsm"' in page.read_text()


def test_the_ledger_of_a_run_and_its_closures_are_shown(tmp_path: Path) -> None:
    """The ledger comes from a recorded run of zlfs; a broken closure is not folded away."""
    folder = write_campaign(tmp_path / "c", series=False)
    run = folder / "hosts/rig/runs/f2fs--r01"
    ledger = build(ZLFS)
    (run / "ledger.json").write_text(dumps(ledger))
    checksums.write(run)
    out = report(tmp_path)
    rows = (out / "tables/ledger.csv").read_text().splitlines()
    assert len(rows) == 1 + 4
    assert rows[3].startswith("f2fs--r01,overwrite,617 MiB,618 MiB,577 MiB,893 MiB,2.65 GiB,-,")
    closures = (out / "tables/closures.csv").read_text().splitlines()
    exact = "f2fs--r01,overwrite,RocksDB flush,zlfs flush,exact,604580859,604580859,0,,,"
    assert exact in closures
    page = (out / "index.html").read_text()
    row = '<td data-name="upper layer">zlfs space</td><td data-name="lower layer">zone report</td>'
    assert f'{row}<td data-name="state">exact</td>' in page
    assert '<details id="table-closures"><summary>Closures: ' in page
    text = (run / "ledger.json").read_text().replace('"exact"', '"broken"', 1)
    (run / "ledger.json").write_text(text)
    checksums.write(run)
    page = (report(tmp_path, "broken") / "index.html").read_text()
    assert '<details open id="table-closures"><summary>Closures: ' in page
    assert '<td class="bad" data-name="state">broken</td>' in page


def test_without_ledgers_there_is_no_section(standard: Path) -> None:
    assert 'id="ledger"' not in (standard / "index.html").read_text()


def test_levels_that_did_not_run_take_no_colour(tmp_path: Path) -> None:
    """The default study has nine levels and eight colours; all levels that ran look different."""
    broken = [f"level{i}" for i in range(len(PALETTE) - 1)]
    write_campaign(
        tmp_path / "c",
        levels=("conventional-ext4", *broken, "zlfs"),
        repetitions=1,
        series=False,
        change=lambda one: with_status(one, Status.FAILED) if one.level in broken else one,
    )
    groups = groups_of(compare(load(tmp_path / "c")))
    assert [group.label for group in groups] == ["conventional-ext4", "zlfs"]
    assert [group.color for group in groups] == list(PALETTE[:2])


@pytest.mark.parametrize("count", [9, 16])
def test_groups_of_one_colour_have_other_markers(tmp_path: Path, count: int) -> None:
    levels = tuple(f"level{i:02}" for i in range(count))
    write_campaign(tmp_path / "c", levels=levels, repetitions=1, series=False)
    looks = {(group.color, group.marker) for group in groups_of(compare(load(tmp_path / "c")))}
    assert len(looks) == count


TOY_SECTION = """
from analysis.show.parts import Paragraph, ReportData, Section

ORDER = 15


def section(data: ReportData) -> Section:
    return Section("toy", "Toy", [Paragraph(f"{len(data.groups)} groups")])
"""


def test_a_section_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_section.py").write_text(TOY_SECTION)
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(tmp_path)])
    page = (report(tmp_path) / "index.html").read_text()
    assert "<p>3 groups</p>" in page
    assert re.findall(r'<h2 id="([^"]+)"', page)[:2] == ["toy", "verdicts"]
