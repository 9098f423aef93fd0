"""The part of ``zonelab verify`` that needs the planner: it derives the plan again."""

from __future__ import annotations

from harness.plan import derived_again
from harness.store.campaign import CampaignPaths, load_plan


def problems(campaign: CampaignPaths) -> list[str]:
    """Return one line per difference between the plan and the study that it contains."""
    return derived_again.problems(campaign)


def notes(campaign: CampaignPaths) -> list[str]:
    """Return what could not be derived again."""
    return derived_again.notes(load_plan(campaign.plan))
