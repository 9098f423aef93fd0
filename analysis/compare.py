"""A campaign's verdicts: every selected metric of every level against the baseline."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis import cache, comparability, stats, steady
from analysis.comparability import Difference
from analysis.load import CampaignData, RunRecord
from analysis.select import (
    choose_baseline,
    label,
    metric_info,
    select_metrics,
    strata,
    stratum_of,
    values_of,
    varying_factors,
)  # fmt: skip
from analysis.stats import Estimate, Method, Verdict
from analysis.steady import PhaseSteady
from harness.metrics import Kind, MetricInfo
from harness.store.result import Severity, Status

WATERMARK = "emulated device: times are not a result"
REPORTED_STATUSES = (Status.OK, Status.INVALID, Status.FAILED, Status.SKIPPED, Status.ABORTED)


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one level against the baseline, within one stratum of the other factors.

    ``stratum`` names the other factors' values, empty when none varies. ``steady`` counts the
    labels of the phase (baseline's runs, level's runs), empty for what is of no measured phase.
    """

    metric: str
    info: MetricInfo
    stratum: str
    baseline: str
    level: str
    estimate: Estimate
    verdict: Verdict
    notes: tuple[str, ...]
    steady: tuple[str, str] = ("", "")
    claim: str | None = None
    expect: str | None = None
    p_holm: float | None = None


@dataclass(frozen=True, slots=True)
class CellStatus:
    """How the runs of a cell ended, latest attempts; ``missing`` were planned and never ran."""

    cell: str
    level: str
    counts: dict[str, int]
    missing: int
    earlier_attempts: int
    issues: dict[str, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything ``zonelab compare`` prints. ``skipped``: value without any ok run → why.

    ``unmeasured`` names selected metrics that are null in every ok run; ``steady`` has every
    measured phase of every ok run.
    """

    campaign: CampaignData
    contrast: str
    baseline: str
    values: tuple[str, ...]
    rows: tuple[Row, ...]
    cells: tuple[CellStatus, ...]
    skipped: dict[str, str]
    unmeasured: tuple[str, ...]
    differences: dict[str, tuple[Difference, ...]]
    steady: tuple[PhaseSteady, ...]

    @property
    def any_ok(self) -> bool:
        """Whether there is anything to compare at all."""
        return any(run.ok for run in self.campaign.latest)

    @property
    def mixed_builds(self) -> tuple[str, ...]:
        """One phrase per group that is not judged because its RocksDB build is another one."""
        return tuple(
            f"{group}: {difference.base} vs {difference.level}"
            for group, found in self.differences.items()
            for difference in found
            if difference.key == comparability.BUILD
        )

    def regressions(self, threshold: float) -> tuple[Row, ...]:
        """Return the rows judged ``worse`` by more than ``threshold`` (0.05: 5 %)."""
        return tuple(
            row
            for row in self.rows
            if row.verdict is Verdict.WORSE and abs(stats.relative_change(row.estimate)) > threshold
        )


def compare(
    campaign: CampaignData,
    *,
    baseline: str | None = None,
    contrast: str | None = None,
    metrics: Sequence[str] = (),
    noise_floor: float = stats.NOISE_FLOOR,
) -> Comparison:
    """Compare every value of the contrasted factor with the baseline value.

    Raises:
        UsageError: the factor, the baseline or a metric does not exist in this campaign.
    """
    contrast = contrast or campaign.plan.contrast
    runs = campaign.latest
    values = values_of(campaign, contrast)
    baseline = choose_baseline(campaign, contrast, values, baseline)
    selected = select_metrics(campaign, metrics)
    keys = [key for key in selected if any(r.ok and r.value(key) is not None for r in runs)]
    unmeasured = tuple(key for key in selected if key not in keys)
    labels = tuple(one for run in runs if run.ok for one in steady.of_run(run))
    prints = {id(run): comparability.fingerprint(campaign, run) for run in runs if run.ok}
    rows: list[Row] = []
    found: dict[str, tuple[Difference, ...]] = {}
    for stratum, members in strata(runs, contrast).items():
        groups = {value: [r for r in members if label(r, contrast) == value] for value in values}
        for value in values:
            if value == baseline or not any(run.ok for run in groups[value]):
                continue
            base, level = ([r for r in groups[v] if r.ok] for v in (baseline, value))
            diff = comparability.differences(
                [prints[id(r)] for r in base],
                [prints[id(r)] for r in level],
                contrast,
                declared=comparability.declared(campaign, [*base, *level]),
            ) if base else ()  # fmt: skip
            if diff:
                found[f"{value}{f' ({stratum})' if stratum else ''}"] = diff
            rows += [
                _row(key, stratum, (baseline, groups[baseline]), (value, groups[value]), diff=diff,
                     labels=labels, emulated=campaign.emulated, noise_floor=noise_floor)
                for key in keys
            ]  # fmt: skip
    order = {key: index for index, key in enumerate(keys)}
    rows.sort(key=lambda row: order[row.metric])
    skipped = {level: reason.message for level, reason in campaign.skipped().items()}
    for value in values:
        ended = Counter(r.result.status.value for r in runs if label(r, contrast) == value)
        if value not in skipped and not ended.get(Status.OK):
            how = ", ".join(f"{count} {status}" for status, count in sorted(ended.items()))
            skipped[value] = f"no ok run ({how or 'none finished yet'})"
    judged = tuple(_claims(campaign, contrast, rows, noise_floor))
    return Comparison(
        campaign, contrast, baseline, tuple(values), judged, tuple(_cells(campaign)), skipped,
        unmeasured, found, labels,
    )  # fmt: skip


def group_label(run: RunRecord, comparison: Comparison) -> tuple[str, str]:
    """Return (value of the contrasted factor, stratum) of a run, as the rows name them."""
    contrast = comparison.contrast
    varying = varying_factors(comparison.campaign.latest, contrast)
    return label(run, contrast), stratum_of(run, varying)


def _row(
    key: str,
    stratum: str,
    base: tuple[str, list[RunRecord]],
    level: tuple[str, list[RunRecord]],
    *,
    diff: Sequence[Difference],
    labels: Sequence[PhaseSteady],
    emulated: bool,
    noise_floor: float,
) -> Row:
    info = metric_info(key)
    left, right = _by_block(base[1], key), _by_block(level[1], key)
    found = stats.estimate(left, right, exact_allowed=info.kind is not Kind.TIME)
    notes = _notes(key, base, level, found)
    blocking = [d for d in diff if d.blocking]
    if any(d.declared for d in diff):
        notes = (*notes, "on another rig, as declared (below)")
    if emulated and info.kind is Kind.TIME:
        word = Verdict.NOT_A_RESULT
    elif not any(run.ok for run in base[1]):
        word = Verdict.NOT_COMPARABLE
        notes = (*notes, f"{base[0]} has no ok run")
    elif blocking:
        word = Verdict.NOT_COMPARABLE
        notes = (*notes, *(d.label for d in blocking))
    elif reason := cache.unlike(key, info, base, level):
        word = Verdict.NOT_COMPARABLE
        notes = (*notes, reason)
    else:
        word = stats.verdict(found, info.better, noise_floor=noise_floor)
    states = (_steady(key, base[1], labels), _steady(key, level[1], labels))
    notes += tuple(
        f"{name}: {text}" for (name, _), text in zip((base, level), states, strict=True) if text
    )
    return Row(key, info, stratum, base[0], level[0], found, word, notes, states)


def _steady(key: str, runs: Iterable[RunRecord], labels: Sequence[PhaseSteady]) -> str:
    """Count the labels of a metric's phase over these runs."""
    paths = {run.path for run in runs}
    phase = key.rpartition(".")[0]
    return steady.counted([one for one in labels if one.phase == phase and one.run.path in paths])


def _by_block(runs: Iterable[RunRecord], key: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for run in runs:
        value = run.value(key) if run.ok else None
        if value is not None:
            # Several runs of a cell in one block would be repetitions that share a seed.
            values[f"{run.block_key}/r{run.result.repetition}"] = value
    return values


def _notes(
    key: str,
    base: tuple[str, list[RunRecord]],
    level: tuple[str, list[RunRecord]],
    found: Estimate,
) -> tuple[str, ...]:
    notes = []
    for name, runs in (base, level):
        nulls = sum(run.ok and run.value(key) is None for run in runs)
        if nulls:
            notes.append(f"{name}: {nulls} null")
    if not found.is_ratio and found.center is not None:
        notes.append("has zeros: difference of means")
    if found.method is Method.WELCH:
        notes.append("not the same blocks: Welch t")
    warned = Counter(
        issue.code for run in level[1] if run.ok for issue in run.result.issues
        if issue.severity is not Severity.INFO and issue.phase in (None, key.partition(".")[0])
    )  # fmt: skip
    notes += [f"{code} x{count}" for code, count in sorted(warned.items())]
    return tuple(notes)


def _claims(
    campaign: CampaignData, contrast: str, rows: Sequence[Row], noise_floor: float
) -> list[Row]:
    """Mark the rows of primary claims and judge them by Holm-adjusted p values."""
    if contrast != campaign.plan.contrast:
        return list(rows)
    claims = {(claim.metric, claim.level, claim.baseline): claim for claim in campaign.plan.claims}
    primary = [
        index for index, row in enumerate(rows) if (row.metric, row.level, row.baseline) in claims
    ]
    judged = [
        index for index in primary
        if rows[index].estimate.p_value is not None
        and rows[index].verdict not in (Verdict.NOT_A_RESULT, Verdict.NOT_COMPARABLE)
    ]  # fmt: skip
    adjusted = stats.holm([rows[index].estimate.p_value or 0.0 for index in judged])
    p_holm = dict(zip(judged, adjusted, strict=True))
    marked = list(rows)
    for index in primary:
        row = rows[index]
        claim = claims[(row.metric, row.level, row.baseline)]
        word = row.verdict
        if index in p_holm:
            word = stats.verdict(
                row.estimate, row.info.better, noise_floor=noise_floor, p_value=p_holm[index]
            )
        marked[index] = dataclasses.replace(
            row, verdict=word, claim=claim.id, expect=claim.expect, p_holm=p_holm.get(index)
        )
    return marked


def _cells(campaign: CampaignData) -> Iterable[CellStatus]:
    latest = campaign.latest
    planned = [spec for host in campaign.plan.hosts for spec in host.runs]
    levels = {spec.cell: spec.row for spec in planned} | {
        run.result.cell: run.spec.row for run in latest
    }
    for cell in sorted(levels, key=lambda name: (campaign.level_order(levels[name]), name)):
        runs = [run for run in latest if run.result.cell == cell]
        attempts = sum(run.result.cell == cell for run in campaign.runs)
        missing = [p.spec for p in campaign.missing if p.spec.cell == cell]
        yield CellStatus(
            cell=cell,
            level=levels[cell],
            counts=dict(Counter(run.result.status.value for run in runs)),
            missing=len(missing),
            earlier_attempts=attempts - len(runs),
            issues=dict(sorted(Counter(i.code for run in runs for i in run.result.issues).items())),
        )
