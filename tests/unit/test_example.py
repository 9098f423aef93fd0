"""The recorded campaigns are complete and small, and the README's excerpts match them."""

from pathlib import Path
from typing import Any

import pytest

from analysis.judge.compare import compare
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from harness.cli.main import main
from harness.plan.expand import expand
from harness.plan.load import CONFIGS, load_study, narrow
from harness.plan.yaml_files import parse_yaml
from harness.store import numbers_version
from harness.store.campaign import load_plan
from harness.store.files import read_json
from tests import excerpts, record_examples
from tests.fixtures.example import RESULTS, unpacked

ROOT = Path(__file__).parents[2]
BUNDLES = sorted(RESULTS.glob("*.tar.xz"))


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_a_bundle_is_whole_and_small(bundle: Path) -> None:
    assert bundle.stat().st_size <= 1_000_000
    assert main(["verify", str(bundle)]) == 0
    name = bundle.name.removesuffix(".tar.xz")
    command = read_json(unpacked(name, RESULTS) / "campaign.json")["command"]
    assert command[0] == "zonelab"  # not a path of the machine that made it


def test_the_example_shows_a_difference_and_none_between_identical_cells() -> None:
    """A reader of the example sees both kinds of rows.

    Bytes are no such example: with one pair of twins, their intervals can have a single degree of
    freedom.
    """
    words = {
        row.level: row.verdict
        for row in compare(load(unpacked("example", RESULTS))).rows
        if row.metric == "overwrite.throughput"
    }
    assert words == {
        "conventional-ext4-twin": Verdict.NO_DIFFERENCE,
        "zlfs": Verdict.HIGHER,
    }


def test_campaigns_in_results_are_not_committed() -> None:
    """.gitignore excludes a user's own campaigns."""
    names = {f"{name}.tar.xz" for name in record_examples.BUNDLES}
    assert {path.name for path in BUNDLES} == names
    assert (ROOT / ".gitignore").read_text().count("!results/") == 1


def _recorded(name: str) -> set[int]:
    """Return the versions of numbers that the runs of an example recorded; 0 where none did."""
    manifests = [run.result.manifest for run in load(unpacked(name, RESULTS)).runs]
    parts = [one.get("host") or one.get("replay") or {} for one in manifests]
    return {int(part.get(numbers_version.KEY, 0)) for part in parts}


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_an_example_contains_every_change_that_affects_numbers(bundle: Path) -> None:
    """If this fails: record the examples again; see harness/store/numbers_version.py."""
    assert _recorded(bundle.name.removesuffix(".tar.xz")) == {numbers_version.NUMBERS}


def test_the_examples_are_of_the_studies_as_they_are() -> None:
    """If this fails: a study or workload has changed since; `make example-bundles`."""
    for name in record_examples.STUDIES.keys() & record_examples.BUNDLES:
        example = record_examples.STUDIES[name]
        settings: dict[str, Any] = {"repetitions": example.repetitions}
        for field, value in example.settings.items():
            settings[field] = parse_yaml(value, field)
        study, workload = load_study(example.study, CONFIGS, settings)
        stored = load_plan(unpacked(name, RESULTS) / "plan.json")
        hosts = [(host.host, host.inspection) for host in stored.hosts]
        plan = expand(narrow(study, example.levels), workload, hosts, stored.campaign)
        assert plan.study_digest == stored.study_digest
        assert [host.runs for host in plan.hosts] == [host.runs for host in stored.hosts]


def test_every_change_that_affects_numbers_raises_their_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    section = changelog.split("### Changes that affect numbers\n")[1].split("\n### ")[0]
    assert sum(line.startswith("- ") for line in section.splitlines()) == numbers_version.CHANGES


@pytest.mark.parametrize("study", excerpts.EXCERPTS)
def test_a_page_shows_what_compare_printed(study: str) -> None:
    """The tables of a study; its runs are too large for this repository."""
    excerpt = excerpts.EXCERPTS[study]
    rows = excerpt.rows((ROOT / "docs/figures" / excerpt.numbers).read_text())
    page = (ROOT / excerpt.page).read_text()
    own = page.partition(excerpts.BEGIN.format(study))[2].partition(excerpts.END)[0]
    assert len(rows) >= 3
    for row in rows:
        assert excerpt.row(row) in own
