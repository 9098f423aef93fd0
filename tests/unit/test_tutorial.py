"""The pages: the studies that they show can be planned, and their links lead somewhere."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "patches/README.md")),
        ROOT / "harness/native/README.md",
        *(ROOT / "docs").glob("*.md"),
    ]
)
INSPECTION = "rig=tests/fixtures/plan/synthetic-rig.json"
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def study_of(page: str) -> str:
    """The first YAML block of a page."""
    block = re.search(r"^```yaml\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert block, page
    return block[1]


@pytest.mark.parametrize("page", ["docs/tutorial.md", "docs/studies.md"])
def test_the_study_of_a_page_can_be_planned(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    text = study_of(page)
    name = re.search(r"^name: ([\w-]+)", text, re.MULTILINE)
    assert name
    configs = shutil.copytree(ROOT / "configs", tmp_path / "configs")
    (configs / "studies" / f"{name[1]}.yml").write_text(text)
    command = ["plan", name[1], "--inspection", INSPECTION, "--check", "--configs", str(configs)]
    assert main(command) == 0, capsys.readouterr().err
    assert " runs, " in capsys.readouterr().out


def test_the_tutorial_plans_its_study_with_the_command_that_is_tested() -> None:
    tutorial = (ROOT / "docs/tutorial.md").read_text()
    assert f"zonelab plan how-full --inspection {INSPECTION} --check" in tutorial
    assert "\nname: how-full\n" in tutorial


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def broken_links(page: Path) -> list[str]:
    """Links to files or headings that do not exist."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text())):
        if link.startswith(("https:", "http:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Two words\n[a](#two-words) [b](#three) [c](none.md) [d](page.md#two-words)\n"
    )
    assert broken_links(page) == ["#three", "none.md"]


FOLDERS = "analysis|ansible|configs|docs|harness|patches|roles|tests"
PATH = re.compile(rf"(?<![\w./])((?:{FOLDERS})/[\w./-]*[\w/])")
MADE = "configs/studies/how-full.yml"  # the tutorial's reader makes it
# Sources that a page names without their folder. Names of data files can be of a run's folder.
BARE = re.compile(r"`([\w-]+\.(?:py|cc|h|sh|j2))`")
SOURCES = {
    path.name
    for folder in FOLDERS.split("|")
    for path in (ROOT / folder).rglob("*.*")
    if path.suffix in {".py", ".cc", ".h", ".sh", ".j2"}
}


def missing_files(text: str) -> list[str]:
    """Return the files that a page names and that do not exist."""
    text = re.sub(r"\w+://\S+", "", text).replace(MADE, "")
    return [name for name in PATH.findall(text) if not (ROOT / name).exists()] + [
        name for name in BARE.findall(text) if name not in SOURCES
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    assert missing_files(page.read_text()) == []


def test_a_missing_file_is_found() -> None:
    text = "`harness/none.py`, docs/none.md, `ledger_metrics.py`, `run_metrics.py`, docs/runner.md."
    assert missing_files(text) == ["harness/none.py", "docs/none.md", "ledger_metrics.py"]
