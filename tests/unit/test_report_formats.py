"""The report for a pull request and for a paper."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.show import latex
from harness.cli.main import main
from harness.store.spec import DeviceKind, Reason
from tests.fixtures.campaigns import write_campaign
from tests.fixtures.example import unpacked

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
\begin{document}
\input{tables}
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


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
@pytest.mark.parametrize("real", [True, False], ids=["example", "synthetic"])
def test_a_paper_compiles_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], real: bool
) -> None:
    folder = unpacked() if real else write_campaign(tmp_path / "c", skipped=SKIPPED)
    (tmp_path / "tables.tex").write_text(printed(folder, "tex", capsys))
    (tmp_path / "paper.tex").write_text(PAPER)
    compiler = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(compiler, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    assert "too large" not in done.stdout
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")


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
