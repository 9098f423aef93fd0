"""The recorded campaigns are complete and small, and the README's excerpts match them."""

import csv
import io
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.store.files import read_json
from tests.fixtures.example import RESULTS, unpacked

ROOT = Path(__file__).parents[2]
BUNDLES = sorted(RESULTS.glob("*.tar.xz"))


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_a_bundle_is_whole_and_small(bundle: Path) -> None:
    assert bundle.stat().st_size <= 1_048_576
    assert main(["verify", str(bundle)]) == 0
    name = bundle.name.removesuffix(".tar.xz")
    command = read_json(unpacked(name) / "campaign.json")["command"]
    assert command[0] == "zonelab"  # not a path of the machine that made it


def test_campaigns_in_results_are_not_committed() -> None:
    """.gitignore excludes a user's own campaigns."""
    assert {path.name for path in BUNDLES} >= {"example.tar.xz", "example-thresholds.tar.xz"}
    assert (ROOT / ".gitignore").read_text().count("!results/") == 1


def test_the_readme_shows_the_examples_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    metric = "overwrite.write_amplification"
    assert main(["compare", str(unpacked()), "--metric", metric, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    readme = (ROOT / "README.md").read_text()
    assert len(rows) >= 2
    for row in rows:
        ratio, low, high = (float(row[name]) for name in ("center", "low", "high"))
        values = f"{float(row['baseline_mean']):.2f} | {float(row['level_mean']):.2f}"
        line = f"| {row['level']} | {values} | {ratio:.3f} ({low:.3f} to {high:.3f}) |"
        assert f"{line} {row['verdict']} |" in readme, line


def test_the_readmes_links_lead_somewhere() -> None:
    readme = (ROOT / "README.md").read_text()
    targets = [part.partition(")")[0] for part in readme.split("](")[1:]]
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target
