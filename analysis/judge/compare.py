"""Compares every selected metric of every level with the baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.judge import (
    comparability,
    drift,
    family,
    modelled,
    noise,
    one_number,
    stats,
    wording,
)
from analysis.judge.cell_status import (
    INFEASIBLE,
    NO_OK_RUN,
    CellStatus,
    absent_strata,
    cell_statuses,
    skipped_values,
)
from analysis.judge.comparability import Difference
from analysis.judge.drift import Drift
from analysis.judge.family import KeyedRow
from analysis.judge.noise import Floor
from analysis.judge.pairs import Judge
from analysis.judge.rows import Row
from analysis.judge.select import (
    choose_baseline,
    choose_values,
    label,
    only_where,
    select_metrics,
    strata,
    stratum_of,
    values_of,
    varying_factors,
)
from analysis.judge.verdicts import Verdict
from analysis.read import steady
from analysis.read.grouping import grouped
from analysis.read.load import CampaignData, Pool, RunRecord
from analysis.read.steady import PhaseSteady
from harness.metrics.catalogue import MetricKind
from harness.store.spec import DeviceKind

WATERMARK = "emulated device: times are not a result"
IMPORTED = "imported: others measured it, and zonelab has only their files; times get no verdict"
REPLAYED = "replayed from a recorded trace: computed by the allocator, not run on a device"


# The most names of metrics in a sentence; a sweep has hundreds.
_MOST_UNTIMED = 20
# Kinds of devices with meaningful times.
_TIMED = frozenset({DeviceKind.HARDWARE, DeviceKind.MODELLED})


def watermark(pool: Pool) -> str:
    """Return the warning that every view of these campaigns shows; '' if there is none."""
    replayed = [campaign.replayed for campaign in pool.campaigns]
    live = Pool(tuple(campaign for campaign in pool.campaigns if not campaign.replayed))
    return "; ".join([*[REPLAYED] * any(replayed), *times(live.campaigns)])


def times(campaigns: Iterable[CampaignData]) -> list[str]:
    """Return the warnings about times on devices of these campaigns; none on hardware."""
    found = list(campaigns)
    kinds = {kind for campaign in found for kind in campaign.kinds} - {DeviceKind.HARDWARE}
    lines = [WATERMARK] if kinds - {DeviceKind.MODELLED, DeviceKind.IMPORTED} else []
    if DeviceKind.MODELLED in kinds:
        lines.append(modelled.label(found))
    if DeviceKind.IMPORTED in kinds:
        lines.append(IMPORTED)
    return lines


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that ``zonelab compare`` prints.

    Attributes:
        runs: the latest attempts that were compared.
        varying: the factors that distinguish strata.
        skipped: values of the contrasted factor without an ok run, anywhere or in a stratum → why.
        absent: the entries of ``skipped`` for a stratum in which a side has no ok run. Infeasible
            runs do not count.
        unmeasured: selected metrics that are null in every ok run.
        steady: every measured phase of every cell with an ok run.
        judge: the settings with which the rows were judged.
        judged: the rows before claims were marked, with their runs.
        declared: the comparisons that the study claims.
        claims: their rows in all runs, also where a claim has a baseline of its own.
        asked: whether the user named the metrics, so that every one is shown.
        over_campaigns: whether the campaign is the unit of replication.
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
    judge: Judge
    judged: tuple[KeyedRow, ...]
    declared: family.Declared
    claims: tuple[Row, ...]
    asked: bool = False
    over_campaigns: bool = False

    @property
    def shown(self) -> tuple[Row, ...]:
        """The rows to show: without times if no device has meaningful times."""
        return tuple(row for row in self.rows if not self._is_untimed(row))

    @property
    def untimed(self) -> str:
        """The sentence about rows of times that are left out; '' if there are none."""
        left_out = dict.fromkeys(row.metric for row in self.rows if self._is_untimed(row))
        if not left_out:
            return ""
        kinds = " or ".join(sorted({kind for one in self.pool.campaigns for kind in one.kinds}))
        more = len(left_out) - _MOST_UNTIMED
        listed = [*left_out][:_MOST_UNTIMED] + [f"{more} more"] * (more > 0)
        verb = "get no verdict" if kinds == DeviceKind.IMPORTED else "are not a result"
        return (
            f"Times of an {kinds} device {verb}, so these metrics have no row: "
            f"{', '.join(listed)}. JSON and CSV have their values."
        )

    def _is_untimed(self, row: Row) -> bool:
        if self.asked or row.verdict is not Verdict.NOT_A_RESULT:
            return False
        return not any(one.kinds & _TIMED for one in self.pool.campaigns)

    @property
    def campaign(self) -> CampaignData:
        """The campaign whose study sets the contrast and the metrics."""
        return self.pool.first

    @property
    def any_ok(self) -> bool:
        """Whether any run is ok."""
        return any(run.ok for run in self.runs)

    @property
    def any_judged(self) -> bool:
        """Whether any row has a verdict."""
        return any(row.verdict.is_judged for row in self.rows)

    @property
    def times_judged(self) -> bool:
        """Whether any time has a verdict."""
        times = (row for row in self.rows if row.info.kind is MetricKind.TIME)
        return any(row.verdict.is_judged for row in times)

    @property
    def mixed_builds(self) -> tuple[str, ...]:
        """One phrase per group that is not judged because RocksDB builds differ."""
        return tuple(
            f"{group}: {difference.baseline} vs {difference.level}"
            for group, found in self.differences.items()
            for difference in found
            if difference.key == comparability.BUILD
        )

    def regressions(self, threshold: float) -> tuple[Row, ...]:
        """Return the rows that lose by more than ``threshold`` (0.05: 5 %)."""
        return tuple(
            row
            for row in self.rows
            if row.is_loss and abs(stats.relative_change(row.estimate)) > threshold
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
    different_code: bool = False,
    may_differ: Sequence[str] = (),
    slower: Sequence[CampaignData] = (),
) -> Comparison:
    """Compare values of the contrasted factor with the baseline value.

    Args:
        source: a campaign, or several.
        baseline: the value to compare with; the study's by default.
        contrast: a factor, ``level``, ``cell``, ``host`` or ``campaign``; the study's by default,
            or ``campaign`` where there are several.
        metrics: names or patterns; the study's by default.
        noise_floor: relative difference that a verdict must exceed; twins can raise it.
        against: the values to compare with the baseline; all others by default.
        where: only runs with these values of factors.
        different_code: give verdicts although different code produced the runs.
        may_differ: beginnings of recorded keys; differences in these keys do not block a verdict.
        slower: campaigns of the study on modelled drives with twice the dilation.

    Raises:
        UsageError: a factor, a value or a metric does not exist in the campaign.
    """
    pool = source if isinstance(source, Pool) else Pool((source,))
    contrast = contrast or ("campaign" if pool.several else pool.first.plan.contrast)
    values = values_of(pool, contrast)
    baseline = choose_baseline(pool, contrast, values, baseline)
    values = choose_values(contrast, values, baseline, against)
    selected = select_metrics(pool, metrics)
    runs = only_where(pool, pool.latest, where or {})
    keys = [key for key in selected if any(r.ok and r.value(key) is not None for r in runs)]
    measured = frozenset(keys)
    claimed = [claim.metric for claim in pool.first.plan.claims]
    # The floor comes from all runs, so it does not depend on the selected ones.
    floors = noise.floors(pool.latest, [*keys, *claimed], noise_floor)
    judge = Judge(
        pool, contrast, floors, noise_floor, different_code, tuple(may_differ), tuple(slower)
    )
    chosen_runs = [run for run in runs if label(run, contrast) in values]
    apart = noise.floor_cells(pool.latest, contrast, baseline)
    compared = [run for run in chosen_runs if run.cell not in apart]
    groups = strata(compared, contrast)
    labels = _steady_labels(groups, contrast)
    one = one_number.others_of(keys, groups, claimed)
    keys = list(one)
    judged, differences = _judged(judge, keys, groups, (baseline, *values), labels)
    places = {key: place for place, key in enumerate(keys)}
    judged.sort(key=lambda keyed: places[keyed.row.metric])
    declared, claims = family.declared(judge)
    marked = family.mark(judge, judged, declared)
    rows = [_with_same_numbers(row, one[row.metric]) for row in marked]
    chosen = bool(where or against)
    skipped = skipped_values(pool, contrast, values, compared, chosen=chosen)
    lacking = _unexplained(skipped, absent_strata(contrast, baseline, values, groups))
    return Comparison(
        pool=pool,
        runs=tuple(compared),
        varying=tuple(varying_factors(compared, contrast)),
        contrast=contrast,
        baseline=baseline,
        values=tuple(values),
        rows=tuple(rows),
        cells=tuple(cell_statuses(pool, chosen_runs, chosen=chosen)),
        skipped=lacking | skipped,
        absent=tuple(name for name, why in lacking.items() if why != INFEASIBLE),
        unmeasured=tuple(key for key in selected if key not in measured),
        differences=differences,
        steady=labels,
        floors={key: floors[key] for key in keys},
        drifts=drift.find_drifts(pool, noise_floor),
        judge=judge,
        judged=tuple(judged),
        declared=declared,
        claims=tuple(claims),
        asked=bool(metrics),
    )


def _steady_labels(
    groups: Mapping[str, Sequence[RunRecord]], contrast: str
) -> tuple[PhaseSteady, ...]:
    """Return the label of every measured phase, by value and stratum; ``groups`` are strata."""
    strata_of_ok = {run: name for name, runs in groups.items() for run in runs if run.ok}
    return steady.label_phases(
        list(strata_of_ok), lambda run: (label(run, contrast), strata_of_ok[run])
    )


def _unexplained(skipped: Mapping[str, str], absent: Mapping[str, str]) -> dict[str, str]:
    """Return the absent strata, without those that a better reason explains."""
    return {
        name: why
        for name, why in absent.items()
        if skipped.get(name, NO_OK_RUN).startswith(NO_OK_RUN)
    }


def _judged(
    judge: Judge,
    keys: Sequence[str],
    groups: Mapping[str, Sequence[RunRecord]],
    values: Sequence[str],
    labels: Sequence[PhaseSteady],
) -> tuple[list[KeyedRow], dict[str, tuple[Difference, ...]]]:
    """Return the rows of all values against the first one, and what else differs by value."""
    judged: list[KeyedRow] = []
    differences: dict[str, tuple[Difference, ...]] = {}
    every_phase = {phase for members in groups.values() for phase in _phases(members)}
    for stratum, members in groups.items():
        elsewhere = every_phase - _phases(members)
        own = [key for key in keys if key.rpartition(".")[0] not in elsewhere]
        base, *levels = judge.sides(values, members)
        for side in (base, *levels):
            place = (side.name, stratum)
            side.labels.extend(one for one in labels if (one.value, one.stratum) == place)
        for level in levels:
            if not level.ok:
                continue
            found = judge.differences(base, level)
            if found:
                differences[wording.level_in(level.name, stratum)] = found
            rows = judge.rows(own, stratum, base, level, found)
            judged += [KeyedRow.of(row, base, level) for row in rows]
    return judged, differences


def _phases(runs: Iterable[RunRecord]) -> set[str]:
    """Return the names of all phases that the runs have."""
    return {phase.name for run in runs for phase in run.spec.phases}


def _with_same_numbers(row: Row, others: Sequence[str]) -> Row:
    """Return the row with a note that names the metrics with the same number."""
    note = f"the same number: {', '.join(others)}"
    return dataclasses.replace(row, notes=(*row.notes, note)) if others else row


def repeated_groups(comparison: Comparison) -> frozenset[tuple[str, str]]:
    """Return each (value, stratum) of which every cell repeats another one."""
    repeated = noise.repeated_cells(comparison.runs, comparison.contrast, comparison.baseline)
    groups = grouped(comparison.runs, lambda run: group_label(run, comparison))
    return frozenset(
        group for group, runs in groups.items() if all(run.cell in repeated for run in runs)
    )


def group_label(run: RunRecord, comparison: Comparison) -> tuple[str, str]:
    """Return (value of the contrasted factor, stratum) of a run, as the rows name them."""
    return label(run, comparison.contrast), stratum_of(run, comparison.varying)
