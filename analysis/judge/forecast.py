"""Which differences a planned study can show, from the spread of an earlier campaign's runs.

Few runs determine a spread badly (see :mod:`analysis.judge.power`), so the numbers are orders of
magnitude.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.judge import power, wording
from analysis.judge.compare import compare
from analysis.judge.stats import Estimate, Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import Pool

# Verdicts of rows whose spread does not predict the next campaign.
_UNUSABLE = (Verdict.NOT_A_RESULT, Verdict.TOO_FEW)


@dataclass(frozen=True, slots=True)
class EarlierSpread:
    """An earlier campaign's estimate and noise floor of a metric of a level.

    ``label`` is the level with its stratum.
    """

    metric: str
    level: str
    label: str
    estimate: Estimate
    floor: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The power of one row.

    Attributes:
        spread: the earlier campaign's estimate and noise floor.
        finds: the smallest relative difference that the planned repetitions show; None: unknown.
        needed: repetitions that show the wanted effect; None: more than are practical.
    """

    spread: EarlierSpread
    finds: float | None
    needed: int | None


def forecast(spreads: Sequence[EarlierSpread], repetitions: int, effect: float) -> list[Forecast]:
    """Return the power of a study with so many repetitions for each spread."""
    return [
        Forecast(
            spread,
            _finds(spread, repetitions),
            power.repetitions(spread.estimate, effect, spread.floor),
        )
        for spread in spreads
    ]


def spreads_of(earlier: Pool, metrics: Sequence[str], levels: Sequence[str]) -> list[EarlierSpread]:
    """Return the spread of every row of these metrics and levels that has one."""
    known = {key for run in earlier.runs for key in run.result.metrics}
    wanted = [metric for metric in metrics if metric in known]
    if not wanted:
        return []
    # The spread of an earlier campaign is useful even if its sides must not be compared.
    rows = compare(earlier, metrics=wanted, different_code=True).rows
    return [
        EarlierSpread(row.metric, row.level, wording.level(row), row.estimate, row.floor)
        for row in rows
        if row.level in levels and row.verdict not in _UNUSABLE and row.estimate.error is not None
    ]


def spreads_in(
    file: Path, question: str, metrics: Sequence[str], levels: Sequence[str]
) -> list[EarlierSpread]:
    """Return the spreads from the output of ``compare --format csv``; none for other questions."""
    with file.open(newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    return [
        EarlierSpread(
            row["metric"],
            row["level"],
            wording.level_in(row["level"], row["stratum"]),
            _estimate(row),
            float(row["noise_floor"] or "inf"),
        )
        for row in rows
        if row["question"] == question
        and row["metric"] in metrics
        and row["level"] in levels
        and row["verdict"] not in _UNUSABLE
        and row["error"]
    ]


def _estimate(row: Mapping[str, str]) -> Estimate:
    def number(name: str) -> float | None:
        return float(row[name]) if row[name] else None

    return Estimate(
        row["is_ratio"] == "true",
        number("center"),
        number("low"),
        number("high"),
        number("p_value"),
        int(row["n_baseline"]),
        int(row["n_level"]),
        Method(row["method"]),
        number("baseline_mean"),
        number("level_mean"),
        number("error"),
        number("df"),
        float(row["between_cells"]),
    )


def _finds(spread: EarlierSpread, repetitions: int) -> float | None:
    """Return the difference that the interval of ``repetitions`` blocks shows with 80 % power."""
    found = spread.estimate
    if found.error is None or not found.is_ratio or repetitions <= 1:
        return None
    error, df = power.planned(found, repetitions)
    return power.detectable(dataclasses.replace(found, error=error, df=df), spread.floor)


def lines(
    found: Sequence[Forecast], earlier: str, repetitions: int, effect: float, seconds: float
) -> list[str]:
    """Return the forecast as text; ``seconds`` is the predicted time of one repetition."""
    if not found:
        return []
    runs = max(one.spread.estimate.n for one in found)
    text = [
        f"what {repetitions} repetition{'s' * (repetitions != 1)} can find with "
        f"{power.POWER:.0%} power, by the spread of "
        f"{runs} runs a side in {earlier}:"
    ]
    for one in found:
        finds = "unknown" if one.finds is None else wording.share(one.finds)
        text.append(
            f"  {one.spread.metric}, {one.spread.label}: {finds}; "
            f"{_needed(one, repetitions, effect, seconds)}"
        )
    return text


def _needed(one: Forecast, repetitions: int, effect: float, seconds: float) -> str:
    wanted = wording.share(effect)
    if effect <= one.spread.floor:
        return f"{wanted} is within the noise floor"
    if one.needed is None:
        return f"{wanted} needs more than {power.MOST_REPETITIONS} repetitions"
    if (more := one.needed - repetitions) <= 0:
        return f"{wanted} needs {one.needed}"
    return f"{wanted} needs {one.needed}: {more} more, about {more * seconds / 60:.0f} min"
