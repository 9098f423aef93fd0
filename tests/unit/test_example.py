"""The example campaign: whole, small, from a real rig, and what the README shows of it is true."""

import csv
import json
import tarfile
from pathlib import Path

import pytest

from harness.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "results/example"


@pytest.mark.parametrize("name", ["example", "example-thresholds"])
def test_the_examples_are_whole_and_small(name: str) -> None:
    folder = EXAMPLE.with_name(name)
    assert main(["verify", str(folder)]) == 0
    command = json.loads((folder / "campaign.json").read_text())["command"]
    assert command[0] == "zonelab"  # nobody's path to it
    assert sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) <= 2_000_000


def test_the_thresholds_that_were_run_hold_the_published_directions(tmp_path: Path) -> None:
    """A bundle, as others would send it: whole, and its verdicts computed from it here."""
    bundle = EXAMPLE.with_name("finish-thresholds-small.tar.xz")
    assert main(["verify", str(bundle)]) == 0
    assert bundle.stat().st_size <= 3_500_000
    with tarfile.open(bundle) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    assert main(["report", str(folder)]) == 0
    with (folder / "report/tables/directions.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    assert [row["verdict"] for row in rows] == ["holds"] * 3
    assert never_used_again(folder) <= 1  # of 2,180
    readme = (ROOT / "README.md").read_text()
    for row in rows:
        assert f"| {row['published direction']} | {row['verdict']} | {row['p']} |" in readme


def never_used_again(campaign: Path) -> int:
    """Return how many zones of all runs were filled with data, and not reset afterwards."""
    count = seen = 0
    for run in campaign.glob("hosts/*/runs/zlfs_*"):
        capacity = json.loads((run / "run.json").read_text())["device"]["zone_capacity"]
        with (run / "raw/zones_traced.csv").open(newline="") as table:
            zones = list(csv.DictReader(table))[2:]  # behind those of the metadata
        seen += len(zones)
        count += sum(z["resets"] == "0" and int(z["written"]) >= capacity for z in zones)
    assert seen == 2180
    return count


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
