"""Does the campaign agree with what was published?"""

from __future__ import annotations

from collections import Counter

from analysis import published
from analysis.compare import watermark
from analysis.sections.base import Context, Grid, Part, Section, Text

_HEADER = ("source", "metric", "level / baseline", "published", "here", "outcome", "why")


def section(context: Context) -> Section | None:
    """Return the table; None where nothing published is about this campaign's levels and phases."""
    campaign = context.comparison.campaign
    held, others = published.hold(campaign)
    if not held:
        return None
    counts = Counter(one.agreement.value for one in held)
    told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    parts: list[Part] = [Text(f"{len(held)} published points are about what was measured: {told}.")]
    if mark := watermark(context.comparison.pool):
        parts.append(Text(f"{mark}: only bytes and counts are judged.", soft=True))
    parts.append(
        Grid("published", _HEADER, [_row(one) for one in held], method="published-results")
    )
    titles = dict.fromkeys(one.reference for one in held)
    parts += [
        Text(f"{one.title}. Hardware: {one.hardware}. Caveats: {one.caveats}.", soft=True)
        for one in titles
    ]
    if others:
        text = f"{others} more are about levels or phases that this campaign does not have."
        parts.append(Text(text, soft=True))
    return Section("published", "Published results", parts)


def _row(one: published.Held) -> tuple[str, ...]:
    point = one.point
    said = f"{point.ratio:g}" if point.ratio is not None else point.expected.value
    source = one.reference.title.split(",")[0]
    return (source, point.metric, one.sides, said, one.found, one.agreement.value, one.why)
