"""A campaign's folder: its record, its plan, and where everything lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.store.codec import SCHEMA_VERSION, check_version, decode
from harness.store.files import read_json
from harness.store.spec import Inspection, Plan


@dataclass(frozen=True, slots=True)
class Campaign:
    """``campaign.json``. ``host_digest`` is the SHA-256 over the hosts' facts and devices."""

    campaign: str
    study: str
    study_digest: str
    host_digest: str
    created: str
    command: tuple[str, ...]
    zonelab_version: str
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CampaignPaths:
    """Paths inside ``results/<campaign>``."""

    root: Path

    @property
    def record(self) -> Path:
        """``campaign.json``."""
        return self.root / "campaign.json"

    @property
    def plan(self) -> Path:
        """``plan.json``."""
        return self.root / "plan.json"

    @property
    def report(self) -> Path:
        """The folder of derived files."""
        return self.root / "report"

    def host(self, name: str) -> Path:
        """The folder of a host."""
        return self.root / "hosts" / name

    def runs(self, host: str) -> Path:
        """The run directories of a host."""
        return self.host(host) / "runs"

    def hosts(self) -> Sequence[str]:
        """Names of the hosts that have a folder."""
        folder = self.root / "hosts"
        return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


def load_campaign(path: Path) -> Campaign:
    """Read ``campaign.json``; ConfigError when missing, damaged or of another version."""
    data = read_json(path)
    check_version(data, str(path))
    return decode(Campaign, data, str(path))


def load_plan(path: Path) -> Plan:
    """Read ``plan.json``; ConfigError when missing, damaged or of another version."""
    data = read_json(path)
    check_version(data, str(path))
    return decode(Plan, data, str(path))


def load_inspection(path: Path) -> Inspection:
    """Read ``host.json``; ConfigError when missing, damaged or of another version."""
    data = read_json(path)
    check_version(data, str(path))
    return decode(Inspection, data, str(path))


def require_campaign(root: Path) -> CampaignPaths:
    """Return the paths of an existing campaign.

    Raises:
        UsageError: there is no campaign in that folder.
    """
    paths = CampaignPaths(root)
    if not paths.plan.is_file():
        raise UsageError(
            f"{root} is no campaign: it has no plan.json",
            hint="name a folder below results/",
            code="no-campaign",
        )
    return paths
