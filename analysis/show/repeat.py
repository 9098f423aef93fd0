"""The command that writes a report again."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.judge.compare import Comparison
from analysis.judge.other_campaigns import OtherCampaign
from analysis.read.load import CampaignData


def command(comparison: Comparison, others: Iterable[OtherCampaign], form: str = "") -> str:
    """Return ``zonelab report`` with the options that a report was written with.

    Args:
        comparison: of the report's campaign.
        others: campaigns on other rigs in the same report.
        form: the value of ``--format``; '' for the page.
    """
    words = [
        f"zonelab report {_path(comparison.campaign)}",
        *(f"--slower {_path(campaign)}" for campaign in comparison.judge.slower),
        *(f"--also {_path(other.comparison.campaign)}" for other in others),
    ]
    if comparison.judge.different_code:
        words.append("--different-code")
    if form:
        words.append(f"--format {form}")
    return " ".join(words)


def _path(campaign: CampaignData) -> str:
    return f"results/{campaign.plan.campaign}"
