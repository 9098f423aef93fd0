"""How the numbers came about, and how to make this page again."""

from __future__ import annotations

import shlex

from analysis import methods_page
from analysis.load import CampaignData
from analysis.sections.base import Context, Section, Special
from harness.metrics import CATALOGUE
from harness.store.campaign import CampaignPaths, load_campaign


def section(context: Context) -> Section:
    """Return the formulas of every metric that has a row, and the command."""
    plan = context.comparison.campaign.plan
    document = methods_page.DOCUMENT.read_text(encoding="utf-8")
    names = {row.info.name for row in context.comparison.rows}
    return Section("methods", "Methods", [
        Special("methods.html.j2", {
            "plan": plan, "verify": f"zonelab verify results/{plan.campaign}",
            "planned": _planned(context.comparison.campaign),
            "noise_floor": f"{100 * context.noise_floor:g} %",
            "command": f"zonelab report results/{plan.campaign}",
            "formulas": [
                (m.name, m.unit, m.kind.value, m.better.value, m.formula)
                for m in CATALOGUE.values() if m.name in names
            ],
            "document": methods_page.to_html(document),
        })
    ])  # fmt: skip


def _planned(campaign: CampaignData) -> str:
    """Return the command that planned the campaign; nothing where it was not kept."""
    path = CampaignPaths(campaign.path).record
    return shlex.join(load_campaign(path).command) if path.is_file() else ""
