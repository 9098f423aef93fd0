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

    def finds(self, repetitions: int) -> float | None:
        """Return the difference that so many blocks show with 80 % power; None: unknown."""
        found = self.estimate
        if found.error is None or not found.is_ratio or repetitions <= 1:
            return None
        error, df = power.planned(found, repetitions)
        return power.detectable(dataclasses.replace(found, error=error, df=df), self.floor)

    def needed(self, effect: float) -> int | None:
        """Return the repetitions that show an effect; None: more than are practical."""
        return power.repetitions(self.estimate, effect, self.floor)


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


def lines(
    found: Sequence[EarlierSpread], earlier: str, repetitions: int, effect: float, seconds: float
) -> list[str]:
    """Return the forecast as text; ``seconds`` is the predicted time of one repetition."""
    if not found:
        return []
    runs = max(one.estimate.n for one in found)
    text = [
        f"what {repetitions} repetition{'s' * (repetitions != 1)} can find with "
        f"{power.POWER:.0%} power, by the spread of "
        f"{runs} runs a side in {earlier}:"
    ]
    for one in found:
        share = one.finds(repetitions)
        finds = "unknown" if share is None else wording.share(share)
        text.append(
            f"  {one.metric}, {one.label}: {finds}; {_needed(one, repetitions, effect, seconds)}"
        )
    return text


def _needed(one: EarlierSpread, repetitions: int, effect: float, seconds: float) -> str:
    wanted = wording.share(effect)
    if effect <= one.floor:
        return f"{wanted} is within the noise floor"
    needed = one.needed(effect)
    if needed is None:
        return f"{wanted} needs more than {power.MOST_REPETITIONS} repetitions"
    if (more := needed - repetitions) <= 0:
        return f"{wanted} needs {needed}"
    return f"{wanted} needs {needed}: {more} more, about {more * seconds / 60:.0f} min"
