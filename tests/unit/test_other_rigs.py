"""The report's levels on other rigs (``--also``): each campaign against its own baseline."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.judge import stats
from analysis.judge.compare import compare
from analysis.judge.other_campaigns import OtherCampaign, compare_alone
from analysis.read.load import load
from analysis.show import other_rigs, pull_request
from analysis.show.report import write_report
from harness.cli.main import main
from harness.store import checksums
from harness.store.campaign import CampaignPaths
from harness.store.result import Result, Status
from harness.store.root import root_hash
from harness.store.spec import Bytes, Claim, DeviceKind, Reason
from tests.fixtures.campaigns import (
    MIB,
    Part,
    with_metric,
    with_status,
    write_on_demand,
    write_rigs,
)
from tests.fixtures.example import RESULTS, unpacked
from tests.fixtures.latex import compiled
from tests.fixtures.tenants import write_tenants
from tests.unit.conftest import Refused, tree

EXT4 = "conventional-ext4"
MEDIA = "overwrite.wa_total"
CLAIM = Claim("zlfs", MEDIA, "zlfs", EXT4, "better")
DM_ZONED = {"zone_size": Bytes(6 * MIB), "max_active_zones": 0}
SKIPPED = {"xfs": Reason("kernel-too-old", "the kernel has no <zoned> xfs | yet")}
PARTS = {
    "rig-nvme": Part("nvme", (EXT4, "zlfs", "f2fs", "btrfs")),
    "rig-dm": Part("dm-zoned", ("zenfs",), DM_ZONED, SKIPPED),
}


def with_media(result: Result, without: tuple[str, ...] = ()) -> Result:
    """Return the result with media bytes, which the conventional drive makes more of."""
    device = result.metrics["overwrite.write_amplification"].value
    media = None if device is None else device * (1.7 if result.level == EXT4 else 1.0)
    return with_metric(result, MEDIA, None if result.level in without else media, "1")


def write_other(folder: Path) -> Path:
    """Write a campaign of two rigs with emulated drives; btrfs fails, and xfs is skipped."""

    def change(result: Result) -> Result:
        found = with_media(result)
        return with_status(found, Status.FAILED) if result.level == "btrfs" else found

    metrics = ("overwrite.throughput", MEDIA)
    return write_rigs(folder, PARTS, change=change, claims=(CLAIM,), metrics=metrics)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_other(tmp_path_factory.mktemp("other") / "levels")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return write_on_demand(tmp_path / "c", kind=DeviceKind.HARDWARE, series=False)


def texts(folder: Path) -> Mapping[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def alone(folder: Path) -> OtherCampaign:
    return compare_alone(load(folder))


def test_a_level_is_compared_with_the_baseline_of_its_own_campaign(other: Path) -> None:
    found = alone(other)
    assert found.metric == MEDIA
    whole = {(row.metric, row.level): row for row in compare(load(other)).rows}
    assert {row.level for row in found.rows} == {"zlfs", "f2fs", "zenfs"}
    for row in found.rows:
        assert row == whole[MEDIA, row.level]
    header, rows = other_rigs.table(found)
    first = ("level", "verdict", "ratio", "95 % interval", "value", "baseline")
    assert header[: len(first)] == first
    assert header[-2:] == ("ok runs", "rig")
    cells = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert cells["zlfs"]["verdict"] == "better"
    assert (cells["zlfs"]["ok runs"], cells["zlfs"]["rig"]) == ("3", "nvme")
    assert (cells["zenfs"]["verdict"], cells["zenfs"]["rig"]) == ("lower", "dm-zoned")
    assert (cells["f2fs"]["verdict"], cells["f2fs"]["ratio"]) == ("timing-dependent", "-")
    assert other_rigs.gaps(found) == [
        "skipped: btrfs: no ok run (3 failed)",
        f"skipped: xfs: {SKIPPED['xfs'].message}",
    ]


def test_the_page_has_the_section_and_loads_nothing(own: Path, other: Path) -> None:
    assert main(["report", str(own), "--also", str(other), "--also", str(unpacked())]) == 0
    page = (own / "report/index.html").read_text()
    begin = page.index('<h2 id="other-rigs">Levels on other rigs</h2>')
    section = page[begin : page.index("</section>", begin)]
    assert "Numbers of different kinds of device are not compared with each other." in section
    assert "The other sections show the campaign c. Kind of device: hardware. Host: rig." in section
    assert "Kind of device: emulated. Rigs: nvme, dm-zoned. Emulated device: times" in section
    assert "12 of 18 runs are ok, 3 were skipped. Every level against conv" in section
    assert "Media bytes per user byte in overwrite (overwrite.wa_total); lower is bett" in section
    assert "<p>skipped: xfs: the kernel has no &lt;zoned&gt; xfs | yet</p>" in section
    assert "the bytes of f2fs depend on the guest&#39;s speed" in section
    assert root_hash(CampaignPaths(other)) in section
    assert re.findall(r'<h3 id="other-rigs-\d">(.*?)</h3>', section) == ["levels", "example"]
    assert (
        "<pre>zonelab report results/c --also results/levels --also results/example</pre>" in page
    )
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    links = re.findall(r'<a href="([^"]*)"', section)
    assert {link[1:] for link in links if link[0] == "#"} <= set(ids)
    for link in links:
        assert link[0] == "#" or (own / "report" / link).is_file(), link
    assert not re.search(r'(src|srcset)="|url\((?!#|&quot;#)', page)
    with (own / "report/tables/other-rigs-1.csv").open() as file:
        assert [row["level"] for row in csv.DictReader(file)] == ["zlfs", "f2fs", "zenfs"]


def test_the_same_campaigns_give_the_same_bytes(
    own: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = shutil.copytree(other, tmp_path / "elsewhere")
    for name, folder in (("one", other), ("two", moved)):
        words = ["report", str(own), "--also", str(folder), "--output", str(tmp_path / name)]
        assert main(words) == 0
    assert texts(tmp_path / "one") == texts(tmp_path / "two")
    capsys.readouterr()
    assert main(words) == 0
    assert capsys.readouterr().err == "unchanged\n"


def test_without_the_option_nothing_changes_and_stale_tables_go(own: Path, other: Path) -> None:
    before = write_report(compare(load(own)), own / "report")[0].parent
    plain = texts(before)
    assert not any("other-rigs" in name or "other-rigs" in text for name, text in plain.items())
    assert main(["report", str(own), "--also", str(other)]) == 0
    assert texts(own / "report") != plain
    assert main(["report", str(own)]) == 0
    assert texts(own / "report") == plain


def test_its_numbers_enter_neither_the_comparison_nor_the_family(
    tmp_path: Path, other: Path
) -> None:
    """Both campaigns claim the same; each corrects its own claims only."""
    claims = (CLAIM, replace(CLAIM, id="zenfs", level="zenfs"))
    own = write_on_demand(
        tmp_path / "c", kind=DeviceKind.HARDWARE, claims=claims, change=with_media, series=False
    )
    words = ["report", str(own), "--output"]
    assert main([*words, str(tmp_path / "alone")]) == 0
    assert main([*words, str(tmp_path / "with"), "--also", str(other)]) == 0
    one, two = texts(tmp_path / "alone"), texts(tmp_path / "with")
    added = two.keys() - one.keys()
    assert {name.partition("-")[0] for name in added} == {"tables/other"}
    assert [name for name in one if one[name] != two[name]] == ["index.html"]
    section = re.compile(r'<section>\n<h2 id="other-rigs">.*?</section>\n', re.DOTALL)
    rest = section.sub("", two["index.html"], count=1)
    rest = rest.replace('<a href="#other-rigs">Levels on other rigs</a>', "")
    assert rest.replace(" --also results/levels", "") == one["index.html"]
    (row,) = (row for row in alone(other).rows if row.claim)
    assert row.p_holm == stats.p_beyond(row.estimate, row.floor)  # a family of one


def test_device_writes_replace_media_bytes_that_one_level_lacks(tmp_path: Path) -> None:
    folder = write_on_demand(
        tmp_path / "c", series=False, change=lambda one: with_media(one, without=("zenfs",))
    )
    found = alone(folder)
    assert (found.metric, found.media_unknown) == ("overwrite.write_amplification", ("zenfs",))
    assert {row.level for row in found.rows} == {"zlfs", "zenfs"}
    assert other_rigs.metric(found) == (
        "Device writes per user byte in overwrite (overwrite.write_amplification); "
        "lower is better. Media bytes are unknown for zenfs."
    )


def test_different_code_is_allowed_in_all_campaigns(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(result: Result) -> Result:
        code = {"runner": {"source": str(result.repetition) * 64}, "programs": {}}
        host = {**result.manifest["host"], "code": code}
        return replace(result, manifest={**result.manifest, "host": host})

    folder = write_on_demand(tmp_path / "mixed", series=False, change=change)
    words = ["report", str(own), "--also", str(folder), "--format", "md"]
    for more, refused in (([], True), (["--different-code"], False)):
        assert main([*words, *more]) == 0
        assert ("not comparable" in capsys.readouterr().out) is refused


def test_the_phase_is_that_of_the_claims(tmp_path: Path) -> None:
    claim = replace(CLAIM, metric="fillrandom.device_written")
    folder = write_on_demand(tmp_path / "c", claims=(claim,), series=False)
    assert alone(folder).metric == "fillrandom.write_amplification"


def test_proportional_metrics_do_not_hide_the_shown_one(tmp_path: Path) -> None:
    """In the whole comparison, media bytes share the row of device_written."""
    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        metrics=("overwrite.device_written", MEDIA),
        change=lambda one: with_metric(
            one, MEDIA, 2 * (one.metrics["overwrite.write_amplification"].value or 0), "1"
        ),
    )
    assert MEDIA not in {row.metric for row in compare(load(folder)).rows}
    assert {row.metric for row in alone(folder).rows} == {MEDIA}


def test_a_campaign_without_an_ok_run_has_a_sentence(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_on_demand(
        tmp_path / "bad", series=False, change=lambda one: with_status(one, Status.FAILED)
    )
    for form in ("md", "tex"):
        assert main(["report", str(own), "--also", str(folder), "--format", form]) == 0
    text = capsys.readouterr().out
    assert "No ok run has bytes per user byte." in text
    assert "- skipped: zlfs: no ok run (3 failed)" in text
    assert "other-rigs-1" not in text


def test_a_rig_that_is_not_measured_yet_is_named(other: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(other, tmp_path / "part")
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(plan | {"rigs": [*plan["rigs"], "xfs"]}))
    assert other_rigs.gaps(alone(folder))[-1] == "not measured yet: the part of rig xfs"


def test_markdown_has_the_section_and_whole_tables(own: Path, other: Path) -> None:
    comparison = compare(load(own))
    plain, text = (pull_request.markdown(comparison, one) for one in ((), [alone(other)]))
    head, _, _ = plain.rpartition("\n\nCampaign `c`")
    assert text.startswith(head)
    section = text[len(head) :]
    assert "### Levels on other rigs\n" in section
    assert "#### levels\n" in section
    assert "| zenfs | lower |" in section
    assert "- skipped: xfs: the kernel has no &lt;zoned> xfs \\| yet" in section
    assert section.endswith("`zonelab report results/c --also results/levels --format md`.\n")
    (table,) = re.findall(r"(?:^\|.*\n?)+", section, flags=re.MULTILINE)
    assert len({line.count("|") for line in table.splitlines()}) == 1


PAPER = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx,siunitx}
\begin{document}
\input{tables}
\end{document}
"""


def test_latex_has_a_table_with_the_kind_of_device(
    own: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", str(own), "--format", "tex"]
    assert main(words) == 0
    plain = capsys.readouterr().out
    assert main([*words, "--also", str(other)]) == 0
    text = capsys.readouterr().out
    first, _, rest = text.partition("\n")
    assert first == "% zonelab report results/c --also results/levels --format tex"
    assert rest.startswith(plain.partition("\n")[2])
    added = rest[len(plain.partition("\n")[2]) :]
    assert "every level of levels against conventional-ext4 of the same campaign." in added
    assert "Kind of device: emulated. Rigs: nvme, dm-zoned." in added
    assert "Skipped: xfs: the kernel has no" in added
    assert r"\label{tab:levels-other-rigs-1}" in added
    assert main([*words, "--also", str(other), "--output", str(tmp_path / "paper")]) == 0
    assert (tmp_path / "paper/tables.tex").read_text() == text


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_a_paper_compiles_with_it(
    own: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--also", str(other), "--also", str(unpacked()), "--format", "tex"]
    assert main(["report", str(own), *words]) == 0
    (tmp_path / "tables.tex").write_text(capsys.readouterr().out)
    output = compiled(tmp_path, PAPER)
    assert "multiply defined" not in output
    assert "Overfull" not in output


def test_an_archive_is_a_campaign_too(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = RESULTS / "example.tar.xz"
    assert main(["report", str(own), "--also", str(archive), "--format", "md"]) == 0
    text = capsys.readouterr().out
    rows = compare(load(unpacked("example", RESULTS))).rows
    shown = next(row for row in rows if (row.metric, row.level) == (MEDIA, "zlfs"))
    assert shown.verdict.is_judged
    assert shown.estimate.center is not None
    assert f"| zlfs | {shown.verdict} | {shown.estimate.center:.3f} | " in text
    assert "Kind of device: modelled. Hosts: rig-timed-1, rig-timed-2. Modelled: " in text


@pytest.mark.parametrize("form", ["html", "md", "tex"])
def test_the_campaign_itself_and_a_copy_are_refused(
    own: Path, other: Path, refused: Refused, tmp_path: Path, form: str
) -> None:
    words = ["report", own, "--format", form, "--also"]
    assert "a campaign is named twice" in refused(2, *words, own)
    assert "a campaign is named twice" in refused(2, *words, other, "--also", f"{other}/.")
    copy = shutil.copytree(own, tmp_path / "copy")
    shutil.rmtree(next(copy.glob("hosts/*/runs/*--r01")))
    assert f"{own} and {copy} share the run" in refused(2, *words, copy)
    archive = RESULTS / "example.tar.xz"
    words = ["report", archive, "--output", tmp_path / "out", "--also", archive]
    assert "share the run" in refused(2, *words)


def test_what_is_no_campaign_is_refused(own: Path, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("not an archive")
    for name, problem in {
        "none": "no campaign",
        "empty": "no campaign",
        "text": "is not a tar archive",
    }.items():
        assert problem in refused(2, "report", own, "--also", tmp_path / name)


@pytest.mark.parametrize("name", ["plan.json", "hosts/rig/runs/zlfs--r01/run.json"])
def test_a_campaign_of_an_older_schema_is_refused(
    own: Path, refused: Refused, tmp_path: Path, name: str
) -> None:
    old = write_on_demand(tmp_path / "old", series=False)
    path = old / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 0}))
    if "runs" in name:
        checksums.write(path.parent)
    assert "has schema_version 0" in refused(2, "report", own, "--also", old)
    assert not (own / "report").exists()


def test_a_campaign_of_tenants_has_no_levels(own: Path, refused: Refused, tmp_path: Path) -> None:
    tenants = write_tenants(tmp_path / "tenants")
    line = refused(2, "report", own, "--also", tenants)
    assert line == f"zonelab: --also {tenants}: its study compares tenants, not levels"


def test_a_full_report_stays_if_the_other_campaign_is_bad(own: Path, refused: Refused) -> None:
    assert main(["report", str(own)]) == 0
    before = tree(own / "report")
    refused(2, "report", own, "--also", own / "none")
    assert tree(own / "report") == before
