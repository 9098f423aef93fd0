"""Campaigns on other rigs in words and as tables, for the page, a pull request and a paper."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from analysis.judge import wording
from analysis.judge.compare import Comparison, group_label, watermark
from analysis.judge.other_campaigns import DEVICE, MEDIA, OtherCampaign
from analysis.judge.rows import Row
from analysis.read.load import CampaignData
from analysis.show import compare_columns, footer, page
from harness.store.ledger import RUN
from harness.tables import Table, tabulate

TITLE = "Levels on other rigs"
_WORDS = {MEDIA: "Media bytes per user byte", DEVICE: "Device writes per user byte"}
_NO_BYTES = "No ok run has bytes per user byte."


def about(comparison: Comparison) -> str:
    """Return the paragraph above all other campaigns; ``comparison`` is the page's own."""
    return (
        "The levels of each campaign here are compared with the baseline of that campaign only. "
        "Numbers of different kinds of device are not compared with each other. "
        f"The other sections show the campaign {comparison.campaign.plan.campaign}. "
        f"{place(comparison.campaign)}"
    )


def paragraphs(other: OtherCampaign) -> list[str]:
    """Return where a campaign ran, its verdicts, and which metric its table shows."""
    comparison = other.comparison
    where = [f"Study {comparison.campaign.plan.study}. {place(comparison.campaign)}"]
    if mark := watermark(comparison.pool):
        where.append(f"{mark[0].upper()}{mark[1:]}.")
    if other.metric is None:
        return [" ".join([*where, _NO_BYTES])]
    return [" ".join(where), page.summary(comparison), metric(other)]


def metric(other: OtherCampaign) -> str:
    """Return the sentences about the metric of a campaign's table; '' if it has none."""
    if other.metric is None:
        return ""
    phase, _, name = other.metric.rpartition(".")
    where = "" if phase == RUN else f" in {phase}"
    text = f"{_WORDS[name]}{where} ({other.metric}); lower is better."
    if other.media_unknown:
        text += f" Media bytes are unknown for {', '.join(other.media_unknown)}."
    return text


def table(other: OtherCampaign) -> Table:
    """Return one row per level of a campaign, against the campaign's baseline."""
    comparison = other.comparison
    rigs: dict[tuple[str, str], set[str]] = defaultdict(set)
    ok: Counter[tuple[str, str]] = Counter()
    for run in comparison.runs:
        if run.ok:
            group = group_label(run, comparison)
            ok[group] += 1
            planned = comparison.campaign.host_plan(run.host)
            rigs[group].add(planned.rig if planned else "")
    columns: dict[str, Callable[[Row], str]] = {
        column.heading(comparison.contrast): column.cell
        for column in compare_columns.narrow(compare_columns.ranked())
        if column.name not in ("metric", "n_level")
    }
    columns["ok runs"] = lambda row: str(ok[row.level, row.stratum])
    if comparison.campaign.plan.rigs:
        columns["rig"] = lambda row: ", ".join(sorted(rigs[row.level, row.stratum]))
    return tabulate(columns, other.rows)


def notes(other: OtherCampaign) -> Table:
    """Return the notes of each row of a campaign's table."""
    columns = {other.comparison.contrast: wording.level, "notes": compare_columns.notes}
    return tabulate(columns, (row for row in other.rows if compare_columns.notes(row)))


def gaps(other: OtherCampaign) -> list[str]:
    """Return one line per level or rig of a campaign that is not in its table."""
    return [*footer.skipped(other.comparison), *footer.rigs_to_come(other.comparison)]


def place(campaign: CampaignData) -> str:
    """Return the kinds of device and the rigs of a campaign, or its hosts."""
    hosts = dict.fromkeys(host.rig or host.host for host in campaign.plan.hosts)
    word = ("Rig" if campaign.plan.rigs else "Host") + ("s" if len(hosts) > 1 else "")
    kinds = " or ".join(sorted(campaign.kinds))
    return f"Kind of device: {kinds}. {word}: {', '.join(hosts)}."
