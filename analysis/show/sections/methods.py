"""Formulas of all numbers, and the commands that repeat them."""

from __future__ import annotations

import shlex

from analysis.judge.stats import NOISE_FLOOR
from analysis.read.load import CampaignData
from analysis.show import methods_page, repeat
from analysis.show.parts import ReportData, Section, Special
from harness.metrics.catalogue import CATALOGUE
from harness.store.campaign import CampaignPaths, load_campaign

ORDER = 150


def section(data: ReportData) -> Section:
    """Return the commands, the formula of every metric with a row, and docs/methods.md."""
    campaign = data.comparison.campaign
    names = {row.info.name for row in data.comparison.shown}
    values = {
        "plan": campaign.plan,
        "verify": f"zonelab verify results/{campaign.plan.campaign}",
        "command": repeat.command(data.comparison, data.others),
        "planned": _plan_command(campaign),
        "noise_floor": f"{100 * NOISE_FLOOR:g} %",
        "metrics": [metric for metric in CATALOGUE.values() if metric.name in names],
        "document": methods_page.to_html(methods_page.DOCUMENT.read_text(encoding="utf-8")),
    }
    return Section("methods", "Methods", [Special("methods.html.j2", values)])


def _plan_command(campaign: CampaignData) -> str:
    """Return the command that planned the campaign, '' when it was not recorded."""
    path = CampaignPaths(campaign.path).record
    return shlex.join(load_campaign(path).command) if path.is_file() else ""
