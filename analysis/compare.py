"""A campaign's verdicts: every selected metric of every level against the baseline."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis import cache, comparability, drift, noise, percentiles, stats, steady, wal
from analysis.comparability import Difference
from analysis.drift import Drift
from analysis.load import CampaignData, Pool, RunRecord
from analysis.noise import Floor
from analysis.select import (
    choose_baseline,
    choose_values,
    label,
    metric_info,
    only_where,
    select_metrics,
    strata,
    stratum_of,
    values_of,
    varying_factors,
)
from analysis.side import Side
from analysis.stats import Estimate, Method, Verdict
from analysis.steady import PhaseSteady
from harness.metrics import Kind, MetricInfo
from harness.store.result import Severity, Status
from harness.tools import histogram

WATERMARK = "emulated device: times are not a result"
REPLAYED = "replayed from a recorded trace: computed by the allocator, not run on a device"

_NO_OK = "no ok run"
_JUDGED = (Verdict.BETTER, Verdict.WORSE, Verdict.NO_DIFFERENCE)
REPORTED_STATUSES = (Status.OK, Status.INVALID, Status.FAILED, Status.SKIPPED, Status.ABORTED)


def watermark(pool: Pool) -> str:
    """Return what has to be said above everything that shows these campaigns; '' for nothing."""
    replayed = [campaign.replayed for campaign in pool.campaigns]
    live = Pool(tuple(campaign for campaign in pool.campaigns if not campaign.replayed))
    said = [REPLAYED] * any(replayed) + [WATERMARK] * live.emulated
    return "; ".join(said)


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one level against the baseline, within one stratum of the other factors.

    ``stratum`` names the other factors' values, empty when none varies. ``steady`` counts the
    labels of the phase (baseline's runs, level's runs), empty for what is of no measured phase.
    ``floor`` is the largest relative difference that is none. ``shown`` are both sides' values
    where they are no means of the runs': percentiles, from merged histograms.
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
    floor: float = stats.NOISE_FLOOR
    shown: tuple[float | None, float | None] | None = None

    @property
    def values(self) -> tuple[float | None, float | None]:
        """The baseline's and the level's value, for people."""
        return self.shown or (self.estimate.base_mean, self.estimate.mean)


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

    ``runs`` are the latest attempts that were looked at, ``varying`` the factors that tell their
    strata apart. ``absent`` are those of ``skipped`` whose
    counterparts with the baseline's value are ok. ``unmeasured`` names selected metrics that are
    null in every ok run; ``steady`` has every measured phase of every ok run.
    """

    pool: Pool
    runs: tuple[RunRecord, ...]
    varying: tuple[str, ...]
    contrast: str
    baseline: str
    values: tuple[str, ...]
    rows: tuple[Row, ...]
    cells: tuple[CellStatus, ...]
    skipped: dict[str, str]
    absent: tuple[str, ...]
    unmeasured: tuple[str, ...]
    differences: dict[str, tuple[Difference, ...]]
    steady: tuple[PhaseSteady, ...]
    floors: dict[str, Floor]
    drifts: tuple[Drift, ...]

    @property
    def campaign(self) -> CampaignData:
        """The campaign whose study says what is compared."""
        return self.pool.first

    @property
    def any_ok(self) -> bool:
        """Whether there is anything to compare at all."""
        return any(run.ok for run in self.runs)

    @property
    def any_judged(self) -> bool:
        """Whether any row says which side is better, or that no difference was shown."""
        return any(row.verdict in _JUDGED for row in self.rows)

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
    source: CampaignData | Pool,
    *,
    baseline: str | None = None,
    contrast: str | None = None,
    metrics: Sequence[str] = (),
    noise_floor: float = stats.NOISE_FLOOR,
    against: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare values of the contrasted factor with the baseline value.

    Args:
        source: a campaign, or several.
        baseline: the value to compare with; the study's by default.
        contrast: a factor, ``level``, ``cell``, ``host`` or ``campaign``; the study's by default,
            or ``campaign`` where there are several.
        metrics: names or patterns; the study's by default.
        noise_floor: smallest relative difference that may be a verdict, unless twins say more.
        against: the values to compare with the baseline; all others by default.
        where: runs with these values of factors only.

    Raises:
        UsageError: a factor, a value or a metric does not exist here.
    """
    pool = source if isinstance(source, Pool) else Pool((source,))
    contrast = contrast or ("campaign" if pool.several else pool.first.plan.contrast)
    values = values_of(pool, contrast)
    baseline = choose_baseline(pool, contrast, values, baseline)
    values = choose_values(contrast, values, baseline, against)
    selected = select_metrics(pool, metrics)
    runs = only_where(pool, pool.latest, where or {})
    keys = [key for key in selected if any(r.ok and r.value(key) is not None for r in runs)]
    floors = noise.floors(runs, keys, noise_floor)
    rows: list[Row] = []
    found: dict[str, tuple[Difference, ...]] = {}
    compared = [run for run in runs if label(run, contrast) in values]
    labels = steady.of_runs(pool, [run for run in compared if run.ok])
    of_run: dict[int, list[PhaseSteady]] = defaultdict(list)
    for one in labels:
        of_run[id(one.run)].append(one)
    groups = strata(compared, contrast)
    for stratum, members in groups.items():
        sides = {value: Side(value, pool) for value in values}
        for run in members:
            side = sides[label(run, contrast)]
            side.runs.append(run)
            side.labels.extend(of_run[id(run)])
        base = sides[baseline]
        for value, level in sides.items():
            if value == baseline or not level.ok:
                continue
            diff = _differences(contrast, base, level)
            if diff:
                found[f"{value}{f' ({stratum})' if stratum else ''}"] = diff
            twins = noise.are_twins(base.ok, level.ok)  # not measured with their own yardstick
            rows += [
                _row(key, stratum, base, level, pool=pool, contrast=contrast, diff=diff,
                     floor=noise_floor if twins else floors[key].floor)
                for key in keys
            ]  # fmt: skip
    order = {key: index for index, key in enumerate(keys)}
    rows.sort(key=lambda row: order[row.metric])
    chosen = bool(where or against)
    skipped = _skipped(pool, contrast, values, compared, chosen=chosen)
    absent = {
        name: why for name, why in _absent(contrast, baseline, values, groups).items()
        if skipped.get(name, "").startswith(_NO_OK) or name not in skipped
    }  # fmt: skip
    return Comparison(
        pool=pool, runs=tuple(compared), varying=tuple(varying_factors(compared, contrast)),
        contrast=contrast, baseline=baseline, values=tuple(values),
        rows=tuple(_claims(pool, contrast, rows)),
        cells=tuple(_cells(pool, compared, chosen=chosen)), skipped=absent | skipped,
        absent=tuple(absent), unmeasured=tuple(key for key in selected if key not in keys),
        differences=found, steady=labels, floors=floors, drifts=drift.of_metrics(runs, keys),
    )  # fmt: skip


def group_label(run: RunRecord, comparison: Comparison) -> tuple[str, str]:
    """Return (value of the contrasted factor, stratum) of a run, as the rows name them."""
    return label(run, comparison.contrast), stratum_of(run, comparison.varying)


def _differences(contrast: str, base: Side, level: Side) -> tuple[Difference, ...]:
    if not base.ok:
        return ()
    contrasted = {contrast}
    if contrast == "cell":
        names = {"level", *(n for run in (*base.ok, *level.ok) for n in run.result.factors)}
        contrasted = {
            n for n in names if {label(r, n) for r in base.ok} != {label(r, n) for r in level.ok}
        }
    left, right = base.once(_recorded), level.once(_recorded)
    declared = base.once(_declared) and level.once(_declared)
    return comparability.differences(left, right, contrasted, declared=declared)


def _recorded(side: Side) -> dict[str, set[str]]:
    prints = (comparability.fingerprint(side.pool.of(run), run) for run in side.ok)
    return comparability.gathered(prints)


def _declared(side: Side) -> bool:
    return not side.pool.several and comparability.declared(side.pool.first, side.ok)


def _row(
    key: str,
    stratum: str,
    base: Side,
    level: Side,
    *,
    pool: Pool,
    contrast: str,
    diff: Sequence[Difference],
    floor: float,
) -> Row:
    info = metric_info(key)
    left, right = base.by_block(key, contrast), level.by_block(key, contrast)
    found = stats.estimate(left, right, exact_allowed=info.kind is not Kind.TIME)
    notes = _notes(key, base, level, found)
    if any(d.declared for d in diff):
        notes = (*notes, "on another rig, as declared (below)")
    if (base.emulated or level.emulated) and info.kind is Kind.TIME:
        word = Verdict.NOT_A_RESULT
    elif reasons := (*_obstacles(key, info, base, level, diff), *_pooled(pool, contrast, found)):
        word = Verdict.NOT_COMPARABLE
        notes = (*notes, *reasons)
    else:
        word = stats.verdict(found, info.better, noise_floor=floor)
        if warning := wal.uncounted(key, info, base, level):
            notes = (*notes, warning)
    phase = key.rpartition(".")[0]
    states = (base.once(_steady, phase), level.once(_steady, phase))
    notes += tuple(
        f"{side.name}: {text}" for side, text in zip((base, level), states, strict=True) if text
    )
    shown = None
    if percentiles.per_myriad(info.name) is not None:
        left_whole, right_whole = base.once(_histogram, phase), level.once(_histogram, phase)
        shown = (
            percentiles.percentile(left_whole, info.name),
            percentiles.percentile(right_whole, info.name),
        )
    return Row(
        key, info, stratum, base.name, level.name, found, word, notes, states, floor=floor,
        shown=shown,
    )  # fmt: skip


def _obstacles(
    key: str, info: MetricInfo, base: Side, level: Side, diff: Sequence[Difference]
) -> list[str]:
    """Return why there is no verdict: each a phrase for the notes."""
    if not base.ok:
        return [f"{base.name} has no ok run"]
    if blocking := [d.label for d in diff if d.blocking]:
        return blocking
    guards = (cache.unlike, wal.unlike)
    return [reason for guard in guards if (reason := guard(key, info, base, level))]


def _pooled(pool: Pool, contrast: str, found: Estimate) -> list[str]:
    """Return why runs of hosts that differ cannot be compared: some block is not whole."""
    differ = any(campaign.plan.hosts_differ for campaign in pool.campaigns)
    if not differ or contrast == "host" or found.method is not Method.WELCH:
        return []
    return ["hosts differ, and not the same blocks are there"]


def _skipped(
    pool: Pool, contrast: str, values: Sequence[str], runs: Sequence[RunRecord], *, chosen: bool
) -> dict[str, str]:
    """Return levels that could not run, and values without an ok run → why.

    Where runs were chosen, nobody asked for all levels.
    """
    skipped = {
        f"{level} ({campaign.label})" if campaign.label else level: reason.message
        for campaign in pool.campaigns
        for level, reason in campaign.skipped().items()
        if (level in values if contrast == "level" else not chosen)
    }
    for value in values:
        ended = [r.result.status for r in runs if label(r, contrast) == value]
        if value not in skipped and Status.OK not in ended:
            skipped[value] = _how(ended, "none finished yet")
    return skipped


def _absent(
    contrast: str, baseline: str, values: Sequence[str], groups: Mapping[str, list[RunRecord]]
) -> dict[str, str]:
    """Return strata in which the baseline has an ok run and a value has none → why.

    A level that could not run has its reason already.
    """
    found = {}
    for stratum, members in groups.items():
        ended: dict[str, list[Status]] = {value: [] for value in values}
        for run in members:
            ended[label(run, contrast)].append(run.result.status)
        for value in values:
            if Status.OK in ended[baseline] and Status.OK not in ended[value]:
                name = f"{value} ({stratum})" if stratum else value
                found[name] = _how(ended[value], "none there")
    return found


def _how(ended: Sequence[Status], none: str) -> str:
    counts = sorted(Counter(status.value for status in ended).items())
    return f"{_NO_OK} ({', '.join(f'{count} {status}' for status, count in counts) or none})"


def _steady(side: Side, phase: str) -> str:
    """Count the labels of a phase over a side's runs."""
    return steady.counted([one for one in side.labels if one.phase == phase])


def _histogram(side: Side, phase: str) -> histogram.Histogram | None:
    return percentiles.together(side.ok, phase)


def _warned(side: Side, phase: str) -> Counter[str]:
    return Counter(
        issue.code for run in side.ok for issue in run.result.issues
        if issue.severity is not Severity.INFO and issue.phase in (None, phase)
    )  # fmt: skip


def _notes(key: str, base: Side, level: Side, found: Estimate) -> tuple[str, ...]:
    notes = []
    for side in (base, level):
        nulls = side.nulls(key)
        if nulls:
            notes.append(f"{side.name}: {nulls} null")
    if not found.is_ratio and found.center is not None:
        notes.append("has zeros: difference of means")
    if found.method is Method.NONE and found.n >= stats.MINIMUM_RUNS:
        notes.append("no spread was seen: exact takes 3 runs a side")
    if found.method is Method.WELCH:
        notes.append("not the same blocks: Welch t")
    warned = level.once(_warned, key.rpartition(".")[0])
    notes += [f"{code} x{count}" for code, count in sorted(warned.items())]
    return tuple(notes)


def _claims(pool: Pool, contrast: str, rows: Sequence[Row]) -> list[Row]:
    """Mark the rows of primary claims and judge them by Holm-adjusted p values."""
    campaign = pool.first
    if pool.several or contrast != campaign.plan.contrast:
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
                row.estimate, row.info.better, noise_floor=row.floor, p_value=p_holm[index]
            )
        marked[index] = dataclasses.replace(
            row, verdict=word, claim=claim.id, expect=claim.expect, p_holm=p_holm.get(index)
        )
    return marked


def _cells(pool: Pool, runs: Sequence[RunRecord], *, chosen: bool) -> Iterable[CellStatus]:
    """Return how each cell's runs ended; where runs were chosen, of the cells that have some."""
    for campaign in pool.campaigns:
        prefix = f"{campaign.label}/" if campaign.label else ""
        latest = [run for run in runs if run.campaign == campaign.label]
        members: dict[str, list[RunRecord]] = defaultdict(list)
        for run in latest:
            members[run.result.cell].append(run)
        attempts = Counter(run.result.cell for run in campaign.runs)
        missing = Counter(planned.spec.cell for planned in campaign.missing)
        planned = [spec for host in campaign.plan.hosts for spec in host.runs]
        levels = {spec.cell: spec.row for spec in (() if chosen else planned)} | {
            run.result.cell: run.spec.row for run in latest
        }
        places = {level: campaign.level_order(level) for level in set(levels.values())}
        for cell, level in sorted(
            levels.items(), key=lambda item: (places[item[1]], item[0])
        ):  # fmt: skip
            ended = members[cell]
            issues = Counter(issue.code for run in ended for issue in run.result.issues)
            yield CellStatus(
                cell=prefix + cell,
                level=level,
                counts=dict(Counter(run.result.status.value for run in ended)),
                missing=missing[cell],
                earlier_attempts=0 if chosen else attempts[cell] - len(ended),
                issues=dict(sorted(issues.items())),
            )
