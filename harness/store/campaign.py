"""The folder of a campaign: its paths, its record and its plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError, UsageError
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import load_record
from harness.store.spec import Inspection, Plan

RESULTS = Path("results")
ARCHIVE = ".tar.xz"  # the ending of a packed campaign

# Names of campaigns, hosts and runs become folders. Runs of several factors have the longest names.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
NAME_HINT = "letters, digits, dot, dash and underscore, beginning with a letter or digit"


@dataclass(frozen=True, slots=True)
class Campaign:
    """``campaign.json``: what identifies a campaign."""

    campaign: str  # name of the campaign
    study: str  # name of the study
    study_digest: str  # as in plan.json
    host_digest: str  # SHA-256 of the hosts' facts and devices
    created: str  # UTC, ISO 8601
    command: tuple[str, ...]  # command line that created it
    zonelab_version: str  # release that created it
    schema_version: int = SCHEMA_VERSION  # of this file


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
        """Names of all hosts with a folder, sorted."""
        folder = self.root / "hosts"
        return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


def load_campaign(path: Path) -> Campaign:
    """Read ``campaign.json``. Raises ConfigError if it is missing, damaged or of another schema."""
    return load_record(Campaign, path)


def load_plan(path: Path) -> Plan:
    """Read ``plan.json``. Raises ConfigError if it is missing, damaged or of another schema.

    Names become folders. Each is checked here, so that a plan cannot lead out of its campaign.
    """
    plan = load_record(Plan, path)
    names = {plan.campaign, *(host.host for host in plan.hosts)}
    names |= {run.run for host in plan.hosts for run in host.runs}
    for name in sorted(names):
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{path}: {name!r} cannot be the name of a folder", hint=NAME_HINT, code="name"
            )
    return plan


def load_inspection(path: Path) -> Inspection:
    """Read ``host.json``. Raises ConfigError if it is missing, damaged or of another schema."""
    return load_record(Inspection, path)


def find_archive(name: str) -> Path | None:
    """Return the archive that a name means: a file, or ``results/NAME.tar.xz``."""
    if Path(name).is_file():
        return Path(name)
    archive = RESULTS / f"{name}{ARCHIVE}"
    return archive if archive.is_file() and _folder(name) is None else None


def _folder(name: str) -> Path | None:
    """Return the folder of a campaign that a name means, if any."""
    roots = (Path(name), RESULTS / name)
    return next((root for root in roots if (root / "plan.json").is_file()), None)


def find_campaign(name: str) -> CampaignPaths:
    """Return the paths of a campaign, named by its folder or by its name below ``results/``.

    Raises:
        UsageError: it does not exist; the hint lists existing campaigns.
    """
    if root := _folder(name):
        return CampaignPaths(root)
    # A folder with a dot is a part that a killed command left.
    known = {plan.parent.name for plan in RESULTS.glob("[!.]*/plan.json")}
    known |= {path.name.removesuffix(ARCHIVE) for path in RESULTS.glob(f"*{ARCHIVE}")}
    raise UsageError(
        f"no campaign {name!r}: it has no plan.json",
        hint=f"campaigns under {RESULTS}: {', '.join(sorted(known))}"
        if known
        else f"there are no campaigns under {RESULTS}; make one with: zonelab plan",
        code="no-campaign",
    )
