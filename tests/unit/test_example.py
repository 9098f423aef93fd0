"""The recorded campaigns are complete and small, and the README's excerpts match them."""

from pathlib import Path

import pytest

from analysis import numbers
from analysis.judge import columns
from analysis.judge.compare import compare
from analysis.read.load import load
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


def test_the_readme_shows_what_compare_prints() -> None:
    rows = compare(load(unpacked()), metrics=["overwrite.write_amplification"]).rows
    readme = (ROOT / "README.md").read_text()
    assert len(rows) >= 2
    for row in rows:
        base, value = (f"{float(number or 0):.2f}" for number in row.values)
        shown = columns.ratio(row)
        if shown != numbers.DASH:
            shown += f" ({columns.interval(row).replace(' .. ', ' to ')})"
        line = f"| {row.level} | {base} | {value} | {shown} | {row.verdict} |"
        assert line in readme, line


def test_the_readmes_links_lead_somewhere() -> None:
    readme = (ROOT / "README.md").read_text()
    targets = [part.partition(")")[0] for part in readme.split("](")[1:]]
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target
