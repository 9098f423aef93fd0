"""Coverage of the interval over campaigns, by simulation with a known ratio.

``python -m tests.bench.campaign_simulation`` prints the table of docs/simulations.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.judge import campaigns, stats
from analysis.read.arrays import FloatArray

EXPERIMENTS = 20_000
SEED = 20_228
RUN = 0.01  # standard deviation of a run's log
COUNTS, RUNS, BETWEEN = (2, 3, 5), (3, 5), (0.0, 0.02)


class Shares(NamedTuple):
    """Share of intervals that hold the truth, of false verdicts, and the median half-width."""

    covered: float
    false: float
    half_width: float


def experiments(
    count: int, runs: int, between: float, *, of: int = EXPERIMENTS
) -> tuple[FloatArray, FloatArray]:
    """Return log ratios and their errors, shape (experiments, campaigns); the true ratio is 1."""
    rng = np.random.default_rng([SEED, count, runs, round(1e4 * between)])
    shift = between * rng.normal(size=(of, count, 1))
    found = stats.paired_t(shift + RUN * np.sqrt(2) * rng.normal(size=(of, count, runs)))
    return found.center, found.error


def shares(count: int, runs: int, between: float, *, of: int = EXPERIMENTS) -> Shares:
    """Return what the interval over campaigns does."""
    return _shares(campaigns.random_effects(*experiments(count, runs, between, of=of)).interval)


def one_campaign(runs: int, between: float, *, of: int = EXPERIMENTS) -> Shares:
    """Return what the interval of a single campaign does."""
    centers, errors = experiments(1, runs, between, of=of)
    df = np.full(len(centers), runs - 1.0)
    return _shares(stats.t_interval(centers[:, 0], errors[:, 0], df))


def _shares(found: stats.Interval) -> Shares:
    covered = (found.low <= 0) & (found.high >= 0)
    p = stats.minimum_effect(found.center, found.error, found.df, np.log1p(stats.NOISE_FLOOR))
    width = float(np.median(found.high - found.low)) / 2
    return Shares(float(covered.mean()), float((p < stats.ALPHA).mean()), width)


def table(of: int = EXPERIMENTS) -> str:
    """Return the table in Markdown."""
    lines = [
        "| sd between campaigns | runs | campaigns | coverage | false verdicts | ± |",
        "|---|---|---|---|---|---|",
    ]
    for between in BETWEEN:
        for runs in RUNS:
            rows = [(1, one_campaign(runs, between, of=of))]
            rows += [(count, shares(count, runs, between, of=of)) for count in COUNTS]
            for count, found in rows:
                cells = f"{found.covered:.1%} | {found.false:.1%} | {found.half_width:.1%}"
                lines.append(f"| {between:.0%} | {runs} | {count} | {cells} |")
    return "\n".join(lines).replace("%", " %")


if __name__ == "__main__":
    print(table())  # noqa: T201 - the table is the output
