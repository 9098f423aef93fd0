"""One campaign on two hosts: each runs its own blocks, one fails, the results merge by host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.judge.compare import compare
from analysis.read.load import load
from harness.cli.main import main
from harness.plan.host_changes import differences
from harness.store import overview
from harness.store.campaign import CampaignPaths
from harness.store.files import dumps
from harness.store.result import Status
from harness.store.spec import HostPlan, Inspection, RunSpec
from tests.runner.conftest import Machine

pytestmark = pytest.mark.slow  # every test starts the runner

HOSTS = ("a", "b")


class Lab:
    """Two machines; block 1 is host a's, block 2 host b's, each of two levels' runs."""

    def __init__(self, root: Path) -> None:
        self.machines = {name: Machine(root / name) for name in HOSTS}
        plan = self.machines["a"].plan
        parts = [self._part(name, block) for block, name in enumerate(HOSTS, start=1)]
        inspections = [(part.host, part.inspection) for part in parts]
        self.plan = replace(plan, hosts=tuple(parts), hosts_differ=differences(inspections))
        for machine in self.machines.values():
            machine.plan = self.plan
            machine.save()
        self.results = CampaignPaths(root / "results" / "c")
        self.results.root.mkdir(parents=True)
        self.results.plan.write_text(dumps(self.plan))

    def _part(self, name: str, block: int) -> HostPlan:
        (only,) = self.machines[name].plan.hosts
        runs: Sequence[RunSpec] = [
            replace(
                run,
                run=f"{cell}--r{block:02d}",
                cell=cell,
                repetition=block,
                block=block,
                variant=cell.partition("-")[2],
                position=position,
            )
            for position, (run, cell) in enumerate(
                zip(only.runs, ("fake", "fake-again"), strict=True), start=1
            )
        ]
        inspection: Inspection = replace(
            only.inspection, host=replace(only.inspection.host, name=name)
        )
        return HostPlan(name, inspection, tuple(runs))

    def run(self, name: str) -> int:
        return self.machines[name].run("--host", name).returncode

    def collect(self, name: str) -> None:
        """Collect results as the role does for each host."""
        into = self.results.host(name)
        assert main(["collect", "--from", str(self.machines[name].runs), "--into", str(into)]) == 0

    def states(self, host: str | None = None) -> dict[str, str | None]:
        return {f"{s.host}/{s.run}": s.status for s in overview.states(self.results, host)}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_each_runs_its_own_blocks_and_results_merge_by_host(lab: Lab) -> None:
    assert [lab.run(name) for name in HOSTS] == [0, 0]
    for name in HOSTS:
        lab.collect(name)
    assert lab.states() == {
        "a/fake--r01": "ok",
        "a/fake-again--r01": "ok",
        "b/fake--r02": "ok",
        "b/fake-again--r02": "ok",
    }
    campaign = load(lab.results.root)
    assert {(run.host, run.result.block) for run in campaign.latest} == {("a", 1), ("b", 2)}
    assert not campaign.missing
    # Nothing of one host's is on the other one.
    for name, block in (("a", "r01"), ("b", "r02")):
        assert {path.name[-3:] for path in lab.machines[name].runs.iterdir()} == {block}


def test_a_host_that_fails_takes_no_other_with_it(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.machines["b"].behave(overwrite="crash")
    assert [lab.run(name) for name in HOSTS] == [0, 4]
    for name in HOSTS:
        lab.collect(name)
    assert set(lab.states("a").values()) == {"ok"}
    assert set(lab.states("b").values()) == {"failed"}
    assert main(["status", str(lab.results.root), "--check"]) == 4
    capsys.readouterr()
    # What is there is compared: host a's block, and the failed ones are counted.
    comparison = compare(load(lab.results.root), contrast="level", metrics=["overwrite.throughput"])
    counts = [cell.counts for cell in comparison.cells]
    assert counts == [{"ok": 1, "failed": 1}, {"ok": 1, "failed": 1}]
    # It comes back: only its own runs are repeated, those of the other stay.
    (lab.machines["b"].root / "behave.json").unlink()
    assert lab.machines["b"].run("--host", "b", "--retry", "failed").returncode == 0
    lab.collect("b")
    assert set(lab.states().values()) == {"ok"}


def test_only_the_blocks_of_a_lost_host_are_missing(lab: Lab) -> None:
    assert lab.run("a") == 0
    lab.collect("a")
    assert lab.states() == {
        "a/fake--r01": "ok",
        "a/fake-again--r01": "ok",
        "b/fake--r02": None,
        "b/fake-again--r02": None,
    }
    campaign = load(lab.results.root)
    assert {run.host for run in campaign.latest if run.result.status is Status.OK} == {"a"}
    assert {missing.host for missing in campaign.missing} == {"b"}
