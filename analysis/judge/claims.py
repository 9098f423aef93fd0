"""Judges claims on a campaign: pass, fail or not shown.

Claims are declared in the study before the first run, or in a ``claims.toml``:

    [[claim]]
    id = "zlfs-writes-less"
    metric = "overwrite.level_write_amplification"
    level = "zlfs"
    baseline = "f2fs"
    oracle = "better"          # or worse, different; Holm-corrected over the file
    where = {disable_wal = 1}  # optional: only these runs

    [[claim]]
    id = "published-ratio"
    metric = "overwrite.throughput"
    level = "zenfs"
    baseline = "f2fs"
    oracle = "band"            # the ratio to the baseline
    low = 1.1
    high = 2.0
    tolerance = 0.1            # optional: the band is 10 % wider on both sides
    source = "a publication"   # optional
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from analysis.judge import family, stats, wording
from analysis.judge.cell_status import NO_OK_RUN, began_any
from analysis.judge.compare import Comparison, compare
from analysis.judge.rows import Row
from analysis.judge.select import label, strata
from analysis.judge.verdicts import Verdict
from analysis.read.load import CampaignData
from harness.errors import ConfigError, UsageError
from harness.metrics.catalogue import CATALOGUE
from harness.store.codec import decode
from harness.store.spec import Plan, Scalar


class Oracle(StrEnum):
    """The claimed relation of a level to its baseline."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"
    BAND = "band"


class ClaimOutcome(StrEnum):
    """The result of a claim."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True)
class StatedClaim:
    """A claim. ``low`` and ``high`` bound the ratio; they are None unless the oracle is a band."""

    id: str
    metric: str
    level: str
    baseline: str
    oracle: Oracle
    low: float | None = None
    high: float | None = None
    tolerance: float = 0.0
    where: Mapping[str, Scalar] = field(default_factory=dict)
    source: str = ""

    @property
    def expected(self) -> str:
        """The oracle for people."""
        if self.low is None or self.high is None:
            return self.oracle.value
        wider = f" ±{100 * self.tolerance:g} %" if self.tolerance else ""
        return f"{self.low:g} .. {self.high:g}{wider}"


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A claim with its outcome and reason; ``found`` is the ratio and interval for people."""

    claim: StatedClaim
    outcome: ClaimOutcome
    found: str
    why: str


def of_plan(plan: Plan) -> tuple[StatedClaim, ...]:
    """Return the claims of the study. They are all ordinal."""
    return tuple(
        StatedClaim(one.id, one.metric, one.level, one.baseline, Oracle(one.expect))
        for one in plan.claims
    )


def read(path: Path) -> tuple[StatedClaim, ...]:
    """Read a ``claims.toml``.

    Raises:
        ConfigError: the file is missing or not TOML, or a claim is incomplete or has unknown keys.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}", hint="see docs/methods.md, Claims") from None
    tables = document.pop("claim", None)
    if document or not isinstance(tables, list) or not tables:
        raise ConfigError(
            f"{path}: needs [[claim]] tables and nothing else", hint="see docs/methods.md, Claims"
        )
    claims = tuple(_claim(path, table) for table in tables)
    ids = [claim.id for claim in claims]
    if len(set(ids)) != len(ids):
        raise _wrong(path, next(i for i in ids if ids.count(i) > 1), "this id occurs twice")
    return claims


def judge(
    campaign: CampaignData,
    claims: Sequence[StatedClaim],
    *,
    slower: Sequence[CampaignData] = (),
    different_code: bool = False,
) -> tuple[JudgedClaim, ...]:
    """Judge claims on a campaign. Ordinal claims are Holm-corrected together, as declared ones are.

    If a claim has several strata, it passes only if all pass, and fails if one of them fails.
    ``slower`` and ``different_code`` are those of ``compare``.
    """
    rows = [_rows(campaign, claim, slower, different_code=different_code) for claim in claims]
    ordinal = [index for index, claim in enumerate(claims) if claim.oracle is not Oracle.BAND]
    tested = [
        [((index, place), row) for place, row in enumerate(rows[index][0])] for index in ordinal
    ]
    untested = [len(rows[index][1]) for index in ordinal]
    adjusted = family.holm(tested, family.KNOWN_BEFORE, untested)
    judged = []
    for index, (claim, (found, gaps)) in enumerate(zip(claims, rows, strict=True)):
        each = [
            _judge(claim, row, adjusted.get((index, place), 1.0)) for place, row in enumerate(found)
        ]
        each += [JudgedClaim(claim, ClaimOutcome.NOT_SHOWN, "", why) for why in gaps]
        judged.append(max(each, key=lambda one: _WORST.index(one.outcome)))
    return tuple(judged)


_WORST = (ClaimOutcome.PASS, ClaimOutcome.NOT_SHOWN, ClaimOutcome.FAIL)
_OPPOSITE = {Oracle.BETTER: Verdict.WORSE, Oracle.WORSE: Verdict.BETTER}


def _rows(
    campaign: CampaignData,
    claim: StatedClaim,
    slower: Sequence[CampaignData],
    *,
    different_code: bool,
) -> tuple[list[Row], list[str]]:
    """Return the claim's rows, one per stratum, and why there is none, or none of a stratum."""
    try:
        comparison = compare(
            campaign,
            baseline=claim.baseline,
            against=[claim.level],
            metrics=[claim.metric],
            where={name: str(value) for name, value in claim.where.items()},
            slower=slower,
            different_code=different_code,
        )
    except UsageError as error:
        return [], [error.message]
    rows = [row for row in comparison.rows if row.metric == claim.metric]
    if rows:
        return rows, list(_gaps(comparison, claim.level))
    reasons = [comparison.skipped.get(claim.level), *comparison.skipped.values()]
    return [], [next(filter(None, reasons), "not measured in any ok run")]


def _gaps(comparison: Comparison, level: str) -> Iterator[str]:
    """Return why strata have no row: the level has no ok run, although a side could have some."""
    for stratum, members in strata(comparison.runs, comparison.contrast).items():
        ran = any(run.ok and label(run, comparison.contrast) == level for run in members)
        if not ran and began_any(members):
            name = wording.level_in(level, stratum)
            yield f"{name}: {comparison.skipped.get(name, NO_OK_RUN)}"


def _judge(claim: StatedClaim, row: Row, p_holm: float) -> JudgedClaim:
    found = f"{wording.ratio(row)} ({wording.interval(row)})" + (
        f", {row.stratum}" if row.stratum else ""
    )
    if row.verdict.is_silent:
        return JudgedClaim(
            claim, ClaimOutcome.NOT_SHOWN, found, f"{row.verdict}: {'; '.join(row.notes)}"
        )
    outcome, why = (
        _in_band(claim, row) if claim.oracle is Oracle.BAND else _order(claim, row, p_holm)
    )
    return JudgedClaim(claim, outcome, found, why)


def _order(claim: StatedClaim, row: Row, p_holm: float) -> tuple[ClaimOutcome, str]:
    word = stats.verdict(row.estimate, row.info.better, p_value=p_holm)
    why = f"{word}, Holm p {p_holm:.2g}" if word.is_judged else f"{word}"
    if word is _OPPOSITE.get(claim.oracle):
        return ClaimOutcome.FAIL, why
    shown = word in (Verdict.BETTER, Verdict.WORSE)
    return (ClaimOutcome.PASS if shown else ClaimOutcome.NOT_SHOWN), why


def _in_band(claim: StatedClaim, row: Row) -> tuple[ClaimOutcome, str]:
    """Pass if the whole interval lies in the band, fail if none of it does."""
    found = row.estimate
    low, high = found.bounds
    if not found.is_ratio or low is None or high is None or claim.low is None or claim.high is None:
        return ClaimOutcome.NOT_SHOWN, "there is no interval of a ratio"
    floor, ceiling = claim.low * (1 - claim.tolerance), claim.high * (1 + claim.tolerance)
    if floor <= low and high <= ceiling:
        return ClaimOutcome.PASS, "the whole interval is inside"
    if high < floor or low > ceiling:
        return ClaimOutcome.FAIL, "the whole interval is outside"
    return ClaimOutcome.NOT_SHOWN, "the interval reaches over an edge: more repetitions"


def _claim(path: Path, table: Any) -> StatedClaim:
    name = str(table.get("id", "without an id")) if isinstance(table, dict) else "that is no table"
    claim = decode(StatedClaim, table, f"{path}: claim {name}")
    if problem := _problem(claim, table):
        raise _wrong(path, name, problem)
    return claim


def _problem(claim: StatedClaim, table: Mapping[str, Any]) -> str:
    """Return what is wrong with the values of a claim; empty if nothing is."""
    if claim.metric.rpartition(".")[2] not in CATALOGUE:
        return f"no metric {claim.metric!r}"
    if claim.oracle is not Oracle.BAND:
        stray = {"low", "high", "tolerance"} & table.keys()
        return "low, high and tolerance belong to the oracle 'band'" if stray else ""
    if claim.low is None or claim.high is None:
        return "the oracle 'band' needs low and high"
    if not all(0 <= one < math.inf for one in (claim.low, claim.high, claim.tolerance)):
        return "low, high and tolerance are positive numbers"
    empty = claim.low > claim.high or claim.tolerance >= 1
    return "the band is empty, or its tolerance 100 % or more" if empty else ""


def _wrong(path: Path, name: str, what: str) -> ConfigError:
    oracles = ", ".join(oracle.value for oracle in Oracle)
    return ConfigError(f"{path}: claim {name}: {what}", hint=f"oracles: {oracles}; docs/methods.md")
