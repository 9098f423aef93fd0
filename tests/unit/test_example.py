"""The example campaign: whole, small, from a real rig, and what the README shows of it is true."""

from pathlib import Path

import pytest

from harness.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "results/example"


def test_the_example_is_whole_and_small() -> None:
    assert main(["verify", str(EXAMPLE)]) == 0
    assert sum(f.stat().st_size for f in EXAMPLE.rglob("*") if f.is_file()) <= 2_000_000


def test_the_readme_shows_the_examples_table(capsys: pytest.CaptureFixture[str]) -> None:
    metric = "overwrite.write_amplification"
    assert main(["compare", str(EXAMPLE), "--metric", metric, "--format", "md"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) >= 3
    readme = (ROOT / "README.md").read_text()
    for row in rows:
        assert row in readme, row


def test_the_readmes_links_lead_somewhere() -> None:
    readme = (ROOT / "README.md").read_text()
    targets = [part.partition(")")[0] for part in readme.split("](")[1:]]
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target
