"""What a planned study can find, from the spread of an earlier campaign's runs.

Few runs know a spread badly (see :mod:`analysis.judge.power`): the numbers are orders of magnitude.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.judge import power, wording
from analysis.judge.compare import compare
from analysis.judge.rows import Row
from analysis.judge.stats import Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import Pool

# Words of rows whose spread does not predict the next campaign.
_UNUSABLE = (Verdict.NOT_A_RESULT, Verdict.TOO_FEW)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The power of one row.

    Attributes:
        row: the earlier campaign's row.
        finds: the smallest relative difference that the planned repetitions show; None: unknown.
        needed: repetitions that show the wanted effect; None: more than are practical.
    """

    row: Row
    finds: float | None
    needed: int | None


def forecast(
    earlier: Pool, metrics: Sequence[str], levels: Sequence[str], repetitions: int, effect: float
) -> list[Forecast]:
    """Return a forecast for every earlier row of these metrics and levels that has a spread."""
    known = {key for run in earlier.runs for key in run.result.metrics}
    wanted = [metric for metric in metrics if metric in known]
    if not wanted:
        return []
    # An earlier campaign may be unfair as a comparison. Its runs have a spread nevertheless.
    rows = compare(earlier, metrics=wanted, different_code=True).rows
    return [
        Forecast(
            row,
            _finds(row, repetitions),
            power.repetitions(row.estimate, effect, row.floor),
        )
        for row in rows
        if row.level in levels and row.verdict not in _UNUSABLE and row.estimate.error is not None
    ]


def _finds(row: Row, repetitions: int) -> float | None:
    """Return the difference that the interval of ``repetitions`` blocks shows with 80 % power."""
    found = row.estimate
    if found.error is None or not found.is_ratio or repetitions <= 1:
        return None
    per_run = max(0.0, found.error**2 - found.between_cells) * found.n
    error = math.sqrt(per_run / repetitions + found.between_cells)
    paired = found.method is Method.PAIRED
    df = float(repetitions - 1 if paired else 2 * repetitions - 2)
    if found.between_cells and found.df is not None:
        df = min(df, found.df)
    return power.detectable(dataclasses.replace(found, error=error, df=df), row.floor)


def lines(
    found: Sequence[Forecast], earlier: str, repetitions: int, effect: float, seconds: float
) -> list[str]:
    """Return the forecast as text; ``seconds`` is the predicted time of one repetition."""
    if not found:
        return []
    runs = max(one.row.estimate.n for one in found)
    text = [
        f"what {repetitions} repetition{'s' * (repetitions != 1)} can find with "
        f"{power.POWER:.0%} power, by the spread of "
        f"{runs} runs a side in {earlier}:"
    ]
    for one in found:
        finds = "unknown" if one.finds is None else wording.share(one.finds)
        text.append(
            f"  {one.row.metric}, {wording.level(one.row)}: {finds}; "
            f"{_needed(one, repetitions, effect, seconds)}"
        )
    return text


def _needed(one: Forecast, repetitions: int, effect: float, seconds: float) -> str:
    wanted = wording.share(effect)
    if effect <= one.row.floor:
        return f"{wanted} is within the noise floor"
    if one.needed is None:
        return f"{wanted} needs more than {power.MOST_REPETITIONS} repetitions"
    if (more := one.needed - repetitions) <= 0:
        return f"{wanted} needs {one.needed}"
    return f"{wanted} needs {one.needed}: {more} more, about {more * seconds / 60:.0f} min"
