"""Levels of campaigns on other rigs, each against the baseline of its own campaign."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.judge.other_campaigns import OtherCampaign
from analysis.show import other_rigs
from analysis.show.parts import Grid, Heading, Paragraph, Part, ReportData, Section, Special
from analysis.show.tables import differences
from harness.store.campaign import CampaignPaths
from harness.store.root import root_hash

ORDER = 25
ID = "other-rigs"


def section(data: ReportData) -> Section | None:
    """Return a table per other campaign; None if the user named none."""
    if not data.others:
        return None
    parts: list[Part] = [Paragraph(other_rigs.about(data.comparison))]
    for number, other in enumerate(data.others, 1):
        parts += _parts(other, f"{ID}-{number}")
    return Section(ID, other_rigs.TITLE, parts)


def _parts(other: OtherCampaign, name: str) -> Iterator[Part]:
    comparison = other.comparison
    campaign = comparison.campaign
    yield Heading(name, campaign.plan.campaign)
    yield from map(Paragraph, other_rigs.paragraphs(other))
    yield Grid(name, *other_rigs.table(other), source="", method="verdicts")
    yield from map(Paragraph, other_rigs.gaps(other))
    yield Grid(f"{name}-notes", *other_rigs.notes(other), folded="Notes", source="")
    yield Grid(
        f"{name}-differences",
        *differences(comparison),
        folded=f"Differences besides the {comparison.contrast}",
        source="",
        method="comparability",
    )
    root = root_hash(CampaignPaths(campaign.path))
    yield Special("root_hash.html.j2", {"campaign": campaign.plan.campaign, "root": root})
