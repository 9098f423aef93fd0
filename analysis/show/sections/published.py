"""Agreement of the campaign with published results."""

from __future__ import annotations

from analysis.judge import agreement, published
from analysis.judge.compare import watermark
from analysis.show.parts import Grid, Paragraph, Part, ReportData, Section
from harness.store.spec import DeviceKind

ORDER = 100
_HEADER = ("source", "metric", "level / baseline", "published", "here", "outcome", "why")

_UNTIMED = "only bytes and counts are judged"
_MODELLED = "times are judged where they have a verdict"


def section(data: ReportData) -> Section | None:
    """Return the table; None when no published point has this campaign's levels and phases."""
    comparison = data.comparison
    held, others = published.judge(
        comparison.campaign,
        different_code=comparison.judge.different_code,
        slower=comparison.judge.slower,
    )
    if not held:
        return None
    outcomes = agreement.tally(point.agreement for point in held)
    parts: list[Part] = [
        Paragraph(f"This campaign measured what {len(held)} published points report: {outcomes}.")
    ]
    if mark := watermark(comparison.pool):
        what = _MODELLED if DeviceKind.MODELLED in comparison.campaign.kinds else _UNTIMED
        parts.append(Paragraph(f"{mark}: {what}.", soft=True))
    rows = [_row(point) for point in held]
    parts.append(Grid("published", _HEADER, rows, method="published-results"))
    parts += [
        Paragraph(
            f"{source.title}. Hardware: {source.hardware}. Caveats: {source.caveats}.", soft=True
        )
        for source in dict.fromkeys(point.reference for point in held)
    ]
    if others:
        text = f"{others} more concern levels or phases that this campaign does not have."
        parts.append(Paragraph(text, soft=True))
    return Section("published", "Published results", parts)


def _row(held: published.JudgedResult) -> tuple[str, ...]:
    point = held.point
    value = f"{point.ratio:g}" if point.ratio is not None else point.expected.value
    source = held.reference.title.split(",")[0]
    return (source, point.metric, held.sides, value, held.found, held.agreement.value, held.why)
