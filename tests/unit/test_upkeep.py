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
