"""Writing of a campaign: plan, record and host facts. An existing campaign is not overwritten."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import ConfigError, UsageError, ZonelabError
from harness.plan import host_changes
from harness.store.campaign import (
    NAME,
    NAME_HINT,
    Campaign,
    CampaignPaths,
    load_campaign,
    load_inspection,
    load_plan,
)
from harness.store.files import dumps, write_atomic
from harness.store.rundir import full_disk_is_clear
from harness.store.spec import Inspection, Plan


def campaign_name(name: str | None, study: str) -> str:
    """Return the wanted name, or ``<study>-<UTC date>``.

    Raises:
        UsageError: the name is not a portable folder name.
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
    """Return the plan of one rig joined with the rigs that the campaign already has.

    The stored parts are not planned again.

    Raises:
        ConfigError: the campaign is damaged, or has hosts that are not other rigs of the study.
    """
    path = CampaignPaths(results / part.campaign).plan
    if not part.rigs or not path.exists():
        return part
    (mine,) = part.hosts
    others = [host for host in load_plan(path).hosts if host.host != mine.host]
    if any(host.rig not in part.rigs or host.rig == mine.rig for host in others):
        raise ConfigError(
            f"campaign {part.campaign} has hosts that are no rigs of study {part.study}",
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
    """Write the files of a campaign; return False if an equal campaign exists.

    ``hosts`` are the newly planned hosts. With rigs, the plan can have more hosts, already stored.

    Raises:
        ConfigError: the campaign exists with another study, host, device or schema version. Nothing
            is written in this case.
        HostError: the disk is full.
    """
    paths = CampaignPaths(results / plan.campaign)
    if check_campaign(plan, hosts, results):
        return False
    now = datetime.now(tz=UTC).isoformat(timespec="seconds")
    created = load_campaign(paths.record).created if paths.plan.exists() else now
    with _all_or_nothing(paths.root), full_disk_is_clear(results):
        write_records(paths, plan, hosts, command, created)
    return True


def write_records(
    paths: CampaignPaths,
    plan: Plan,
    hosts: Sequence[tuple[str, Inspection]],
    command: Sequence[str],
    created: str,
) -> None:
    """Write ``host.json`` of the named hosts, ``campaign.json`` and ``plan.json``."""
    for host, inspection in hosts:
        paths.host(host).mkdir(parents=True, exist_ok=True)
        write_atomic(paths.host(host) / "host.json", dumps(inspection))
    record = Campaign(
        campaign=plan.campaign,
        study=plan.study,
        study_digest=plan.study_digest,
        host_digest=host_changes.host_digest([(h.host, h.inspection) for h in plan.hosts]),
        created=created,
        command=tuple(command),
        zonelab_version=plan.zonelab_version,
    )
    write_atomic(paths.record, dumps(record))
    # The plan comes last: a folder with a plan is a complete campaign.
    write_atomic(paths.plan, dumps(plan))


@contextmanager
def _all_or_nothing(folder: Path) -> Iterator[None]:
    """Remove the folder if it is new and could not be written completely.

    With a plan it is complete: another process has written it at the same time.
    """
    was_there = folder.exists()
    try:
        yield
    except (ZonelabError, OSError):
        if not was_there and not CampaignPaths(folder).plan.exists():
            shutil.rmtree(folder, ignore_errors=True)
        raise


def check_campaign(plan: Plan, hosts: Sequence[tuple[str, Inspection]], results: Path) -> bool:
    """Return whether the campaign, with all given hosts, is already stored.

    Raises:
        ConfigError: the stored campaign is damaged, or has another study or a changed host.
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
    differences = host_changes.changed(before, now)
    if differences:
        raise ConfigError(
            f"the campaign cannot continue on a changed host: {'; '.join(differences[:3])}",
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
