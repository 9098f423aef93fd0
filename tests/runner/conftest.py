"""A fresh fake machine and a plan of two runs on it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.machine.manifest import host_facts
from harness.plan.host_changes import host_digest
from harness.store.campaign import Campaign, CampaignPaths
from harness.store.files import dumps, load_record
from harness.store.ledger import Ledger, LedgerEntry
from harness.store.result import Result
from harness.store.rundir import load_result
from harness.store.spec import (
    ColdSpec,
    HostPlan,
    Inspection,
    PhaseRole,
    Plan,
    Prediction,
    RunSpec,
)
from tests.fixtures.waiting import until
from tests.runner import fakes

ROOT = Path(__file__).parents[2]
CAPACITY = fakes.ZONES * fakes.ZONE_CAPACITY
DATABASE = 20 * fakes.MIB
COLD = int(CAPACITY * 0.8) - DATABASE


def consent_in(text: str) -> str:
    """Return the consent that the hint of a refusal asks for."""
    (consent,) = re.findall(r"--erase (eui\.[0-9a-f]{16}@[0-9a-f]{8})", text)
    return str(consent)


class Machine:
    """A fake machine, the plan for it, and commands that run the plan."""

    def __init__(self, root: Path) -> None:
        self.root = root
        fakes.make_machine(root)
        (root / "database-bytes").write_text(str(DATABASE))
        self.host = fakes.FakeHost(root)
        self.plan = self._plan()
        self.save()

    @property
    def runs(self) -> Path:
        return self.root / "state" / "campaigns" / "c" / "runs"

    @property
    def folder(self) -> Path:
        """The directory of the first run."""
        return self.runs / self.plan.hosts[0].runs[0].run

    @property
    def result(self) -> Result:
        return load_result(self.folder)

    def codes(self) -> set[str]:
        return {issue.code for issue in self.result.issues}

    def entry(self, name: str) -> LedgerEntry:
        found = load_record(Ledger, self.folder / "ledger.json").entry(name)
        assert found is not None
        return found

    def behave(self, **modes: str) -> None:
        """Let the program of a phase go wrong."""
        (self.root / "behave.json").write_text(json.dumps(modes))

    def save(self) -> None:
        (self.root / "plan.json").write_text(dumps(self.plan))

    def change_runs(self, **changes: Any) -> None:
        """Replace fields of every run of the plan."""
        host = self.plan.hosts[0]
        runs = tuple(replace(run, **changes) for run in host.runs)
        self.plan = replace(self.plan, hosts=(replace(host, runs=runs),))
        self.save()

    def keep_first_run(self) -> None:
        host = self.plan.hosts[0]
        self.change_plan(hosts=(replace(host, runs=host.runs[:1]),))

    def change_phases(self, **changes: Any) -> None:
        phases = self.plan.hosts[0].runs[0].phases
        self.change_runs(phases=tuple(replace(phase, **changes) for phase in phases))

    def change_cold(self, **changes: Any) -> None:
        cold = self.plan.hosts[0].runs[0].cold
        assert cold is not None
        self.change_runs(cold=replace(cold, **changes))

    def change_plan(self, **changes: Any) -> None:
        self.plan = replace(self.plan, **changes)
        self.save()

    def use_conventional(self) -> None:
        """Plan the other namespace as the conventional device, which the level then requires."""
        companion = self.host.device("nvme0n1")
        host = self.plan.hosts[0]
        host = replace(host, inspection=replace(host.inspection, conventional=companion))
        self.change_plan(hosts=(host,))
        self.change_runs(conventional=companion)
        (self.root / "needs-conventional").touch()

    def campaign_folder(self) -> Path:
        """Write the campaign's folder as ``zonelab plan`` does."""
        folder = self.root / "results" / "c"
        paths = CampaignPaths(folder)
        paths.host("h").mkdir(parents=True)
        hosts = [(host.host, host.inspection) for host in self.plan.hosts]
        digest = host_digest(hosts)
        record = Campaign("c", "s", self.plan.study_digest, digest, "now", (), "0")
        paths.record.write_text(dumps(record))
        paths.plan.write_text(dumps(self.plan))
        (paths.host("h") / "host.json").write_text(dumps(self.plan.hosts[0].inspection))
        return folder

    def command(self, *options: str) -> list[str]:
        module = ["-m", "tests.runner.program"]
        return [sys.executable, *module, str(self.root), str(self.root / "plan.json"), *options]

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*options),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_in_overwrite(self) -> None:
        """Start the runner and kill it with SIGKILL during the overwrite."""
        behave = self.root / "behave.json"
        behave.write_text('{"overwrite": "hang"}')
        child = self.start()
        # One line for each phase that began; the fill is the first.
        started = self.root / "started"
        until(
            lambda: started.exists() and "\noverwrite " in started.read_text(),
            "the overwrite begins",
            seconds=120,
        )
        child.kill()
        child.communicate(timeout=30)
        behave.unlink()

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*options),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )

    def _plan(self) -> Plan:
        device = self.host.device("nvme0n2")
        run = RunSpec(
            campaign="c",
            study="s",
            run="fake--r01",
            cell="fake",
            level="fake",
            factors={"level": "fake"},
            level_options={},
            repetition=1,
            attempt=1,
            block=1,
            position=1,
            seed=7,
            device=device,
            conventional=None,
            scheduler="mq-deadline",
            cold=ColdSpec(0.8, 0.02, COLD),  # type: ignore[arg-type]
            phases=(
                fakes.phase("fillrandom", PhaseRole.FILL),
                fakes.phase("overwrite", PhaseRole.MEASURED),
            ),
            predicted=Prediction(1, 1, 10.0),  # type: ignore[arg-type]
            timeout_seconds=120,
        )
        second = replace(run, run="fake--r02", repetition=2, block=2, seed=8)
        facts = replace(host_facts(self.host, "h", None), rocksdb="9.10")
        inspection = Inspection(facts, device, None, None, None, (), ())
        return Plan(
            campaign="c",
            study="s",
            question="q",
            study_digest="d",
            baseline="fake",
            contrast="level",
            claims=(),
            metrics=(),
            hosts=(HostPlan("h", inspection, (run, second)),),
            zonelab_version="0",
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
