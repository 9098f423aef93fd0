"""The lines below a comparison table: skipped rows, differences, noise, drift, steady state."""

from __future__ import annotations

from analysis.judge import stats
from analysis.judge.compare import Comparison
from analysis.read import steady
from analysis.tenants import mix

# First words of a line, by the consequence of the differences in it.
_CONSEQUENCES = {"no verdict": "NOT COMPARABLE", "declared": "declared", "listed": "also differs"}
# How differences of identical cells become a row's floor (docs/methods.md).
_FLOOR = (
    "an interval must lie beyond the largest difference of identical cells: of the two compared "
    "levels if both have some, else of all"
)


def footer(comparison: Comparison) -> list[str]:
    """Return one line per fact that qualifies the table."""
    plan = comparison.campaign.plan
    has_tenants = comparison.contrast == mix.FACTOR
    lines = skipped(comparison)
    if comparison.unmeasured and comparison.any_ok:
        lines.append(f"not measured in any ok run: {', '.join(comparison.unmeasured)}")
    # The cells of a mix differ by design. Each tenant is the same in all of its own runs.
    lines += [] if has_tenants else _difference_lines(comparison)
    lines += rigs_to_come(comparison)
    if plan.hosts_differ:
        differ = "; ".join(plan.hosts_differ)
        lines.append(f"hosts differ, as declared; blocks are compared within a host: {differ}")
    lines += _noise_lines(comparison)
    lines += _drift_lines(comparison)
    lines += _steady_lines(comparison)
    if comparison.shown and not has_tenants:
        lines.append(_legend(over_campaigns=comparison.over_campaigns))
    return lines


def _legend(*, over_campaigns: bool) -> str:
    """Return what the columns mean."""
    confidence = f"{100 * stats.CONFIDENCE:.0f} %"
    if over_campaigns:
        return (
            f"ratio = geometric mean of the ratios within each campaign; {confidence} interval by "
            "Student's t, with the campaign as the unit; exact = does not vary; detectable = "
            "smallest difference these n campaigns would show in 4 of 5 cases. n = campaigns. See "
            "docs/methods.md."
        )
    return (
        f"ratio = geometric mean of the level / of the baseline; {confidence} interval by "
        "paired t on log ratios within common blocks (Welch t where these are few); "
        "exact = does not vary; detectable = smallest difference these n runs would show in 4 "
        "of 5 campaigns. n = runs. See docs/methods.md."
    )


def skipped(comparison: Comparison) -> list[str]:
    """Return one line per level that did not run, with the reason."""
    return [f"skipped: {level}: {why}" for level, why in comparison.skipped.items()]


def rigs_to_come(comparison: Comparison) -> list[str]:
    """Return one line per rig whose part of the campaign is not planned yet."""
    return [
        f"not measured yet: the part of rig {rig}" for rig in comparison.campaign.plan.rigs_to_come
    ]


def _difference_lines(comparison: Comparison) -> list[str]:
    """Return one line per group and consequence."""
    lines = []
    for group, differences in comparison.differences.items():
        for consequence, word in _CONSEQUENCES.items():
            labels = [one.label for one in differences if one.consequence == consequence]
            if labels:
                lines.append(f"{word}: {group} vs {comparison.baseline}: {'; '.join(labels)}")
    return lines


def _noise_lines(comparison: Comparison) -> list[str]:
    """Return one line per metric with identical cells, and one line that explains them."""
    lines = [
        f"identical cells: {floor.metric}: {'; '.join(floor.twins)}"
        for floor in comparison.floors.values()
        if floor.twins
    ]
    return [*lines, _FLOOR] if lines else []


def _drift_lines(comparison: Comparison) -> list[str]:
    """Return one line per metric that drifted over the campaign, or one line that none did."""
    if not comparison.drifts:
        return []
    lines = [
        f"drift: {drift.metric} moved by {drift.change:+.1%} ({drift.low:+.1%} .. "
        f"{drift.high:+.1%}) from first run to last, for every {comparison.contrast} "
        f"(Holm p {drift.p_holm:.2g}): blocks remove it from ratios, not from values"
        for drift in comparison.drifts
        if drift.shown
    ]
    return lines or [f"drift over the campaign: none shown in {len(comparison.drifts)} metrics"]


def _steady_lines(comparison: Comparison) -> list[str]:
    """Return one line per measured phase of a group; one for all those without a series."""
    lines = []
    recorded = [phase for phase in comparison.steady if phase.recorded]
    for one in recorded:
        group = f"{one.phase} of {one.value}{f' ({one.stratum})' if one.stratum else ''}"
        label = one.steady.label.value
        lines.append(f"steady state: {group}: {label}; {steady.window(one.steady)}")
    if unknown := len(comparison.steady) - len(recorded):
        lines.append(f"steady state: not known in {unknown} phases without a series")
    return lines
