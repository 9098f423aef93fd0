"""Folders of zonelab on the machine under test (docs/architecture.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

# One per machine, not per state folder. Only root can enter its folder (machine/lock.py).
LOCK = Path("/run/zonelab-lock/machine")
# The usual folders of a runner, as the playbooks use them.
STATE = Path("/var/lib/zonelab")
RUNTIME = Path("/run/zonelab")


def native_lock(state: Path) -> Path:
    """Return the lock of studies on modelled drives in files. ``state`` is the runner's folder."""
    return state / "lock" / "study"


@dataclass(frozen=True, slots=True)
class Paths:
    """Folders: ``state`` survives a reboot, ``runtime`` does not."""

    state: Path
    runtime: Path
    # The runner's lock. It does not depend on the folders, unless a campaign uses no device here.
    lock: Path = field(default_factory=lambda: LOCK)

    @property
    def journal(self) -> Path:
        """The ownership journal."""
        return self.state / "journal.jsonl"

    @property
    def schedulers(self) -> Path:
        """Schedulers to restore after a kill."""
        return self.state / "schedulers.json"

    def campaign(self, name: str) -> Path:
        """The folder of a campaign."""
        return self.state / "campaigns" / name

    def progress(self, campaign: str) -> Path:
        """The progress file of a campaign."""
        return self.campaign(campaign) / "progress.json"

    def runs(self, campaign: str) -> Path:
        """The run directories of a campaign."""
        return self.campaign(campaign) / "runs"
