"""Writing a campaign: plan, record and hosts' facts, or nothing at all when it is already there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import ConfigError, UsageError, ZonelabError
from harness.plan import facts
from harness.store.campaign import (
    NAME,
    NAME_HINT,
    Campaign,
    CampaignPaths,
    load_campaign,
    load_inspection,
    load_plan,
)
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import dumps, write_atomic
from harness.store.rundir import full_disk_is_clear
from harness.store.spec import Inspection, Plan


def campaign_name(name: str | None, study: str) -> str:
    """Return the wanted name, or ``<study>-<UTC date>``.

    Raises:
        UsageError: it cannot be a folder's name on every system.
    """
    chosen = name or f"{study}-{datetime.now(tz=UTC):%Y%m%d}"
    if not NAME.fullmatch(chosen):
        raise UsageError(
            f"{chosen!r} cannot name a campaign",
            hint=NAME_HINT,
            code="campaign-name",
        )
    return chosen


def join(part: Plan, results: Path) -> Plan:
    """Return one rig's part with the parts of other rigs that the campaign has already.

    Those stay as they were planned, whatever this version would make of them.

    Raises:
        ConfigError: the campaign is damaged, or its rig of this name was another host.
    """
    path = CampaignPaths(results / part.campaign).plan
    if not part.rigs or not path.exists():
        return part
    (mine,) = part.hosts
    others = [host for host in load_plan(path).hosts if host.host != mine.host]
    if any(host.rig not in part.rigs or host.rig == mine.rig for host in others):
        raise ConfigError(
            f"campaign {part.campaign} has hosts that are no other rigs of study {part.study}",
            hint="start a new campaign: CAMPAIGN=<another name> (or --campaign)",
            code="changed-host",
        )
    hosts = sorted([*others, mine], key=lambda host: part.rigs.index(host.rig))
    return replace(part, hosts=tuple(hosts))


def save(
    plan: Plan,
    hosts: Sequence[tuple[str, Inspection]],
    results: Path,
    command: Sequence[str],
) -> bool:
    """Write the campaign's files; return False when an equal campaign was already there.

    ``hosts`` are those planned now; with rigs, the plan may have others, which are there already.

    Raises:
        ConfigError: the campaign exists with another study, host or device, or was written by
            another version of the schema. Nothing is written then.
        HostError: the disk is full.
    """
    paths = CampaignPaths(results / plan.campaign)
    if check_campaign(plan, hosts, results):
        return False
    now = datetime.now(tz=UTC).isoformat(timespec="seconds")
    created = load_campaign(paths.record).created if paths.plan.exists() else now
    with _all_or_nothing(paths.root), full_disk_is_clear(results):
        for host, inspection in hosts:
            paths.host(host).mkdir(parents=True, exist_ok=True)
            write_atomic(paths.host(host) / "host.json", dumps(inspection))
        write_atomic(
            paths.record,
            dumps(
                Campaign(
                    campaign=plan.campaign,
                    study=plan.study,
                    study_digest=plan.study_digest,
                    host_digest=facts.host_digest([(h.host, h.inspection) for h in plan.hosts]),
                    created=created,
                    command=tuple(command),
                    zonelab_version=plan.zonelab_version,
                    schema_version=SCHEMA_VERSION,
                )
            ),
        )
        # Last: a folder with a plan is a campaign, and all of it is there.
        write_atomic(paths.plan, dumps(plan))
    return True


@contextmanager
def _all_or_nothing(folder: Path) -> Iterator[None]:
    """Remove a folder made below when not all of it could be written."""
    was_there = folder.exists()
    try:
        yield
    except (ZonelabError, OSError):
        if not was_there:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def check_campaign(plan: Plan, hosts: Sequence[tuple[str, Inspection]], results: Path) -> bool:
    """Return whether this very campaign is already there; a rig's part may still be missing.

    Raises:
        ConfigError: it is there, but of another study or on a changed host (the first
            differences are named), or damaged.
    """
    paths = CampaignPaths(results / plan.campaign)
    if not paths.plan.exists():
        return False
    stored, given = load_plan(paths.plan), dict(hosts)
    before = {
        host.host: load_inspection(paths.host(host.host) / "host.json")
        for host in stored.hosts
        if not plan.rigs or host.host in given  # the other rigs are down now
    }
    missing = {host for host in given if plan.rigs and host not in before}
    hint = f"start a new campaign: CAMPAIGN=<another name> (or --campaign), this is {plan.campaign}"
    now = {host: inspection for host, inspection in hosts if host not in missing}
    differences = facts.changed(before, now)
    if differences:
        raise ConfigError(
            f"continuing on a changed host is refused: {'; '.join(differences[:3])}",
            hint=hint,
            code="changed-host",
        )
    if stored.study_digest != plan.study_digest:
        raise ConfigError(
            f"campaign {plan.campaign} was planned from another version of study {stored.study}",
            hint=hint,
            code="changed-study",
        )
    return not missing
