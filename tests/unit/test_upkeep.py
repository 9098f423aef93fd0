"""The Makefile's own commands: help, lint and docs (tests/upkeep.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import upkeep

MAKEFILE = (upkeep.ROOT / "Makefile").read_text()


def test_help_lists_sections_and_documented_targets() -> None:
    makefile = (
        "##@ One\n\nfirst: other ## Does it: A=b\n\t@run ## not this\nhidden: first\n##@ Two\n"
    )
    assert upkeep.help_text(makefile).splitlines() == [
        "",
        "One",
        "  first              Does it: A=b",
        "",
        "Two",
    ]
    assert "\n  check " in upkeep.help_text(MAKEFILE)


def test_every_command_is_phony() -> None:
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)
    assert phony
    commands = re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE)
    assert phony[1].replace("\\\n", " ").split() == commands


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(upkeep, "ROOT", tmp_path)
    monkeypatch.setattr(upkeep, "OF_FILES", {})
    return tmp_path


def test_lint_runs_all_checks_and_names_the_one_that_failed(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(upkeep, "CHECKS", [["false"], ["touch", "checked"]])
    assert upkeep.main("lint") == 1
    assert (root / "checked").exists()
    assert capfd.readouterr().err == "lint: failed: false\n"
    monkeypatch.setattr(upkeep, "CHECKS", [["true"]])
    assert upkeep.main("lint") == 0


def test_docs_keeps_a_file_whose_command_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "b").write_text("old")
    monkeypatch.setattr(upkeep, "GENERATED", {"a": ["echo", "new"], "b": ["false"]})
    with pytest.raises(upkeep.subprocess.CalledProcessError):
        upkeep.main("docs")
    assert [(root / name).read_text() for name in "ab"] == ["new\n", "old"]


def test_an_excerpt_shows_the_chosen_values_of_each_stratum() -> None:
    excerpt = upkeep.Excerpt(
        "page.md",
        "numbers.csv",
        {"run.wa_total": ("bytes", "{:.1f}")},
        keys=("zone size", "threshold"),
        values=("0",),
    )
    fields = "metric,baseline,stratum,level,baseline_mean,level_mean,center,low,high,verdict"
    numbers = f"""{fields}
run.wa_total,100,zone_size 8MiB,0,2.04,3.06,1.5,1.2,1.8,higher
run.wa_total,100,zone_size 8MiB,50,2.04,2.04,1,,,descriptive
,,,,,,,,,
run.wa_total,100,zone_size 4MiB,0,2.04,3,,,,host-bound
"""
    rows = excerpt.rows(numbers)
    assert excerpt.table("run.wa_total", rows)[:4] == [
        "| zone size | threshold | bytes, 100 | this row | ratio (95 % interval) | verdict |",
        "|---|---|---|---|---|---|",
        "| 8MiB | 0 | 2.0 | 3.1 | 1.50 (1.20 to 1.80) | higher |",
        "| 4MiB | 0 | 2.0 | 3.0 | - | host-bound |",
    ]
