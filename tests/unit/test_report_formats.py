"""The report for a pull request and for a paper."""

import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.judge.compare import compare
from analysis.read.load import load
from analysis.show import drawing, latex, paper
from analysis.show.report import write_report
from harness.cli.main import main
from harness.store.spec import DeviceKind, Reason
from tests.fixtures.campaigns import write_campaign
from tests.fixtures.example import unpacked
from tests.fixtures.latex import compiled
from tests.fixtures.tenants import write_tenants

SKIPPED = {"xfs": Reason("kernel-too-old", "the kernel has no <zoned> xfs | yet")}


def printed(folder: Path, form: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["report", str(folder), "--format", form]) == 0
    assert not (folder / "report").exists()
    return capsys.readouterr().out


# Two columns of together 506 pt, as in the ACM's template.
PAPER = r"""\documentclass[twocolumn]{article}
\usepackage[textwidth=506pt,textheight=660pt]{geometry}
\usepackage[T1]{fontenc}
\usepackage{booktabs,graphicx,siunitx}
\graphicspath{{made/}}
\begin{document}
\input{made/tables}
\input{made/figures}
\end{document}
"""


def test_markdown_has_the_answer_first_and_whole_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_campaign(tmp_path / "c", skipped=SKIPPED)
    text = printed(folder, "md", capsys)
    assert text.startswith("## Which integration level writes least")
    assert text.index("- **Which.** ") < text.index("| level |")
    assert "> **emulated device: times are not a result**" in text
    assert "the kernel has no &lt;zoned> xfs \\| yet" in text
    for table in re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE):
        lines = table.strip().splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, lines[0]
    assert text.count("<details>") == text.count("</details>") > 2


def test_tenants_are_compared_with_themselves_alone_as_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The solo run of a tenant lacks the metrics of the others, so a table of mixes has no use."""
    folder = write_tenants(tmp_path / "c")
    text, tex = printed(folder, "md", capsys), printed(folder, "tex", capsys)
    assert main(["compare", str(folder), "--format", "md"]) == 0
    compared = capsys.readouterr().out
    for one in (text, compared):
        assert "- victim loses most: alone, its throughput is 2.548 times as high" in one
        assert "| victim | throughput | 2.548 | 2.282 | 2.845 | 3 | higher |" in one
        assert "| solo-victim |" not in one
    numbers = r"\num{2.548} & \num{2.282} & \num{2.845} & \num{3}"
    assert f"victim & throughput & {numbers} & higher" in tex
    assert "Every mix against" not in tex


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
@pytest.mark.parametrize("real", [True, False], ids=["example", "synthetic"])
def test_a_paper_compiles_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], real: bool
) -> None:
    folder = unpacked() if real else write_campaign(tmp_path / "c", skipped=SKIPPED)
    made = tmp_path / "made"
    assert main(["report", str(folder), "--format", "tex", "--output", str(made)]) == 0
    assert capsys.readouterr().out == f"{made}/tables.tex\n{made}/figures.tex\n"
    assert (made / "tables.tex").read_text() == printed(folder, "tex", capsys)
    output = compiled(tmp_path, PAPER)
    assert "Overfull" not in output
    assert "too large" not in output
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")
    included = set(re.findall(r"<(?:\./)?made/+([a-z0-9-]+)\.pdf", output.replace("\n", "")))
    assert included == {path.stem for path in made.glob("*.pdf")} >= {"series-f2fs"}


def drawn(pdf: bytes) -> str:
    """Return the drawing commands of a PDF."""
    streams = re.findall(rb"/FlateDecode >>\s*stream\n(.*?)\nendstream", pdf, re.DOTALL)
    return "\n".join(zlib.decompress(stream).decode("latin-1") for stream in streams)


@pytest.mark.slow
def test_figures_of_a_paper_are_those_of_the_page_in_print_colours(tmp_path: Path) -> None:
    comparison = compare(load(unpacked()))
    _, why_not = paper.write_paper(comparison, tmp_path / "one")
    page, _ = write_report(comparison, tmp_path / "page")
    names = {path.stem for path in (tmp_path / "one").glob("*.pdf")}
    assert names >= {"forest", "amplification", "user-to-media", "series-f2fs"}
    assert names <= {path.stem for path in page.parent.glob("figures/*.svg")}
    for name in names:
        content = (tmp_path / "one" / f"{name}.pdf").read_bytes()
        assert b"/Type3" not in content  # publishers refuse them
        assert "0.8666666667 G" in drawn(content), name  # the grid, grey
        assert not re.search(r"0\.0039\d* 0\.0078|0\.0078\d* 0\.0117", drawn(content)), name
    assert {path.stem for path in (tmp_path / "one").glob("*.pgf")} == (set() if why_not else names)
    for plot in paper.figures_of(comparison):
        again = paper.pdf(plot.figure or Figure())
        assert again == (tmp_path / "one" / f"{plot.name}.pdf").read_bytes(), plot.name


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_texts_of_pgf_files_are_escaped(tmp_path: Path) -> None:
    write_campaign(tmp_path / "c", kind=DeviceKind.HARDWARE, series=False)
    assert paper.write_paper(compare(load(tmp_path / "c")), tmp_path / "made")[1] is None
    text = (tmp_path / "made/forest.pgf").read_text()
    assert r"overwrite.device\_written" in text
    assert "0.866667" in text  # the grid
    commands = re.sub(r"^%.*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"(?<!\\)_|0\.00392|0\.00784", commands)


def has_pgf() -> bool:
    found = shutil.which("kpsewhich") and subprocess.run(["kpsewhich", "pgf.sty"], check=False)
    return bool(found and found.returncode == 0)


@pytest.mark.slow
@pytest.mark.skipif(not has_pgf(), reason="LaTeX's package pgf is not installed")
def test_a_paper_compiles_with_pgf(tmp_path: Path) -> None:
    write_campaign(tmp_path / "c", kind=DeviceKind.HARDWARE, series=False)
    paper.write_paper(compare(load(tmp_path / "c")), tmp_path)
    text = (tmp_path / "figures.tex").read_text()
    drawn = re.sub(r"  \\includegraphics.*\n  % or: ", "", text)
    assert r"\resizebox{\columnwidth}{!}{\input{forest.pgf}}" in drawn
    head, _, _ = PAPER.partition(r"\input")
    source = f"{head.replace('graphicx', 'graphicx,pgf')}{drawn}\\end{{document}}\n"
    assert "Overfull" not in compiled(tmp_path, source)


@pytest.mark.slow
def test_hatched_bars_of_a_paper_have_an_edge() -> None:
    """Chromium draws no hatch in a shape with a transparent edge."""
    plots = {plot.name: plot for plot in paper.figures_of(compare(load(unpacked())))}
    figure = plots["user-to-media"].figure
    assert figure is not None
    with drawing.on_paper(figure):
        hatched = [one for one in figure.findobj(Patch) if isinstance(one, Patch)]
        edges = [one.get_edgecolor() for one in hatched if one.get_hatch()]
    assert edges
    assert set(edges) == {(0, 0, 0, 1)}


@pytest.mark.slow
def test_without_pdflatex_the_other_files_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_campaign(tmp_path / "c", kind=DeviceKind.HARDWARE, series=False)
    monkeypatch.setitem(paper._FORMATS, "pgf.preamble", r"\usepackage{no-such-package}")
    (tmp_path / "made").mkdir()
    (tmp_path / "made/forest.bib").write_text("of the author")
    command = ["report", str(folder), "--format", "tex", "--output", str(tmp_path / "made")]
    assert main(command) == 0
    message = capsys.readouterr().err
    assert message.startswith("zonelab: no pgf files: they need pdflatex")
    assert "\nhint: include the PDF files" in message
    names = sorted(path.name for path in (tmp_path / "made").iterdir())
    assert names == ["figures.tex", "forest.bib", "forest.pdf", "tables.tex"]


def test_latex_is_balanced_and_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_campaign(tmp_path / "c", skipped=SKIPPED)
    text = printed(folder, "tex", capsys)
    begun = re.findall(r"\\begin\{([\w*]+)\}", text)
    assert sorted(begun) == sorted(re.findall(r"\\end\{([\w*]+)\}", text))
    assert begun.count("table*") >= 3
    assert text.count("times are not a result") == begun.count("table*")
    for table in text.split(r"\begin{tabular}{")[1:]:
        columns, _, body = table.partition("}")
        for line in body.split(r"\end{tabular}")[0].splitlines():
            if line.endswith(r"\\"):
                assert len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1, line
    assert r"overwrite.device\_written" in text
    assert "tab:c-verdicts" in text
    uncommented = re.sub(r"^% .*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"(?<!\\)[%#_$](?!\\)", uncommented.replace("$-$", ""))


def test_tables_of_a_drive_have_no_watermark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_campaign(tmp_path / "c", kind=DeviceKind.HARDWARE)
    for form in ("md", "tex"):
        assert "not a result" not in printed(folder, form, capsys)


def test_every_special_character_is_escaped() -> None:
    assert latex.escape(r"50 % of a_b & {c} \ µs") == (
        r"50 \% of a\_b \& \{c\} \textbackslash{} \textmu{}s"
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1.033", r"\num{1.033}"),
        ("8.22 MiB", r"\qty{8.22}{\mebi\byte}"),
        ("12.5 GiB/s", r"\qty{12.5}{\gibi\byte\per\second}"),
        ("9.31 Kops/s", r"\qty{9.31}{Kops/s}"),
        ("-3 %", r"\qty{-3}{\percent}"),
        ("4.20 µs", r"\qty{4.20}{\micro\second}"),
        ("1.027 .. 1.039", r"\numrange{1.027}{1.039}"),
        ("1 ms .. 2 ms", r"\qtyrange{1}{2}{\milli\second}"),
        ("1 ms .. 2 s", r"1 ms .. 2 s"),
        ("1,234,567", r"\num{1234567}"),
        ("x1.2", "x1.2"),
        ("3/5", "3/5"),
        ("0.8 .. ∞", r"0.8 .. $\infty$"),
        ("-", "-"),
        ("exact", "exact"),
        ("f2fs", "f2fs"),
        ("6.12.0-1", "6.12.0-1"),
        ("9.10.0", "9.10.0"),
        ("12,34", "12,34"),
    ],
)
def test_numbers_and_units_are_typeset_by_siunitx(text: str, wanted: str) -> None:
    assert latex.cell(text) == wanted


def test_output_is_an_option_of_the_page(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", repetitions=1, series=False)
    assert main(["report", str(folder), "--format", "md", "--output", str(tmp_path / "x")]) == 2
