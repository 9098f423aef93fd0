"""What every run of a campaign shares: the machine, the levels, the folders, who listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.levels.base import Level
from harness.run.cgroups import Cgroups
from harness.run.guard import Guard
from harness.run.host import Host
from harness.run.journal import Journal
from harness.run.kept_tracer import KeptTracer
from harness.run.progress import Progress
from harness.run.signals import Stop


@dataclass(frozen=True, slots=True)
class Paths:
    """Folders on the system under test (docs/architecture.md)."""

    state: Path
    runtime: Path

    @property
    def journal(self) -> Path:
        """Who wrote what."""
        return self.state / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """One run at a time."""
        return self.state / "lock"

    @property
    def schedulers(self) -> Path:
        """Schedulers to put back after a kill."""
        return self.state / "schedulers.json"

    def campaign(self, name: str) -> Path:
        """The folder of a campaign."""
        return self.state / "campaigns" / name

    def progress(self, campaign: str) -> Path:
        """How far a campaign is."""
        return self.campaign(campaign) / "progress.json"

    def runs(self, campaign: str) -> Path:
        """The run directories of a campaign."""
        return self.campaign(campaign) / "runs"


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything a run needs beyond its specification."""

    host: Host
    levels: Mapping[str, Level]
    program: Path
    paths: Paths
    journal: Journal
    guard: Guard
    stop: Stop
    progress: Progress
    cgroups: Cgroups
    tracer: KeptTracer
    conventional_named: bool
    say: Callable[[str], None]
