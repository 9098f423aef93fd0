"""Coverage of the confidence intervals, by simulation with known true values.

``python -m tests.bench.coverage_simulation`` prints both tables of docs/simulations.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.judge import stats
from analysis.read.arrays import FloatArray
from harness.metrics.catalogue import Better

EXPERIMENTS = 20_000
# Of identical cells: a share of 5 % is known to 0.03 percentage points.
IDENTICAL = 400_000
SIZES = (3, 5, 10)
SEED = 20_221  # any; one is written down so that the table can be printed again
TRUE = math.log(1.2)
# Of one run in ten: what an unlucky neighbour, a retry or a thermal pause does.
HIT = 0.1
_SLOWER = math.log(0.6)

Noise = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of intervals that hold the truth, and their median half-width as a log ratio."""

    share: float
    half_width: float


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Return logs of normal values with a coefficient of variation of 10 %."""
    return np.log(np.maximum(1 + 0.1 * rng.normal(size=shape), 1e-3))


def lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Return logs of lognormal values, sigma 0.1."""
    return 0.1 * rng.normal(size=shape)


def contaminated(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Return logs; one in ten has ten times the spread (after Tukey 1960)."""
    scale = np.where(rng.random(shape) < HIT, 0.5, 0.05)
    return np.asarray(scale * rng.normal(size=shape), dtype=np.float64)


def stragglers(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Return logs of runs; one in ten reaches only 60 %."""
    late = np.where(rng.random(shape) < HIT, _SLOWER, 0.0)
    return np.asarray(0.05 * rng.normal(size=shape) + late, dtype=np.float64)


NOISES: dict[str, Noise] = {
    "normal": normal,
    "lognormal": lognormal,
    "contaminated": contaminated,
    "stragglers": stragglers,
}


def experiments(
    noise: Noise, n: int, m: int, true: float, *, paired: bool, count: int = EXPERIMENTS
) -> tuple[FloatArray, FloatArray]:
    """Return logs of baseline and level, shapes (count, n) and (count, m).

    Paired runs share the deviation of their block (n = m).
    """
    rng = np.random.default_rng([SEED, n, m, int(paired)])
    x, y = noise(rng, (count, n)), true + noise(rng, (count, m))
    if paired:
        block = 0.3 * rng.normal(size=(count, n))
        x, y = x + block, y + block
    return x, y


def coverage(noise: Noise, n: int, *, paired: bool, m: int | None = None) -> Coverage:
    """Return how often the interval holds the true log ratio; ``m``: runs of the level."""
    x, y = experiments(noise, n, m or n, TRUE, paired=paired)
    found = stats.paired_t(y - x) if paired else stats.welch_t(x, y)
    return _coverage(found, TRUE)


def straggling_level(n: int) -> tuple[Coverage, Coverage]:
    """Return coverage of the mean and of the median log ratio if one level alone has stragglers."""
    rng = np.random.default_rng([SEED, n])
    x, y = lognormal(rng, (EXPERIMENTS, n)) / 2, TRUE + stragglers(rng, (EXPERIMENTS, n))
    many = stragglers(rng, (10**6,)) - lognormal(rng, (10**6,)) / 2
    found = stats.paired_t(y - x)
    median = TRUE + float(np.median(many))
    return _coverage(found, TRUE + HIT * _SLOWER), _coverage(found, median)


def false_share(noise: Noise, n: int, *, paired: bool) -> float:
    """Return the share of A/A experiments that would be called better or worse."""
    x, y = experiments(noise, n, n, 0.0, paired=paired, count=IDENTICAL)
    found = stats.paired_t(y - x) if paired else stats.welch_t(x, y)
    return float(np.mean(_beyond(found, stats.NOISE_FLOOR) < stats.ALPHA))


def false_shares() -> str:
    """Return the Markdown table of them, and the mean of all its cells."""
    lines = ["| noise of a run | n | paired t | Welch t |", "|---|---|---|---|"]
    every = []
    for name, noise in NOISES.items():
        for n in SIZES:
            found = [false_share(noise, n, paired=paired) for paired in (True, False)]
            every += found
            lines.append(f"| {name} | {n} | " + " | ".join(f"{s:.2%}" for s in found) + " |")
    lines.append(f"| all of these | | {np.mean(every):.2%} | |")
    return "\n".join(lines).replace("%", " %")


def false_share_beside_twins(noise: Noise, n: int) -> float:
    """Return the same shares with a noise floor from a pair of identical cells."""
    x, y = experiments(noise, n, n, 0.0, paired=True)
    one, other = experiments(noise, n, n, 0.0, paired=False)
    twins = np.expm1(np.abs(np.mean(other - one, axis=-1)))
    found = stats.paired_t(y - x)
    floors = np.maximum(twins, stats.NOISE_FLOOR)
    return float(np.mean(_beyond(found, floors) < stats.ALPHA))


def false_share_of_claims(noise: Noise, n: int, claims: int = 5) -> float:
    """Return the share of A/A campaigns in which any of several claims on a baseline is called."""
    rng = np.random.default_rng([SEED, n, claims])
    count = EXPERIMENTS // 2  # Holm's procedure runs once per campaign
    base = noise(rng, (count, 1, n))
    found = stats.paired_t(noise(rng, (count, claims, n)) - base)
    adjusted = np.array([stats.holm(list(row)) for row in _beyond(found, stats.NOISE_FLOOR)])
    return float(np.mean((adjusted < stats.ALPHA).any(axis=-1)))


def _beyond(found: stats.Interval, floor: float | FloatArray) -> FloatArray:
    return stats.minimum_effect(found.center, found.error, found.df, np.log1p(floor))


def verdict_share_at_floor(noise: Noise, n: int) -> float:
    """Return the share of verdicts if the true ratio is exactly a floor of 50 %."""
    floor = 0.5
    x, y = experiments(noise, n, n, math.log1p(floor), paired=True)
    return float(np.mean(_beyond(stats.paired_t(y - x), floor) < stats.ALPHA))


def power_with_a_lost_run(n: int, *, effect: float = 0.10, campaigns: int = 1000) -> float:
    """Return the share of campaigns that show ``effect`` although one run of the level is lost.

    Blocks deviate by 30 %, runs by 2 %.
    """
    rng = np.random.default_rng([SEED, n])
    block = 0.3 * rng.normal(size=(campaigns, n))
    sides = block + 0.02 * rng.normal(size=(2, campaigns, n))
    base, level = np.exp(sides[0]), np.exp(sides[1] + math.log1p(effect))
    shown = 0
    for left, right in zip(base, level, strict=True):
        values = [{str(i): float(value) for i, value in enumerate(side)} for side in (left, right)]
        del values[1]["0"]
        found = stats.estimate(values[0], values[1], exact_allowed=False)
        shown += stats.verdict(found, Better.HIGHER) is stats.Verdict.BETTER
    return shown / campaigns


def table() -> str:
    """Return the Markdown table of docs/simulations.md."""
    lines = [
        "| noise of a run | n | paired t | ± | Welch t | ± |",
        "|---|---|---|---|---|---|",
    ]
    for name, noise in NOISES.items():
        for n in SIZES:
            found = [coverage(noise, n, paired=paired) for paired in (True, False)]
            lines.append(f"| {name} | {n} | " + " | ".join(map(_cells, found)) + " |")
    lines += [f"| lognormal, 2 and {m} runs | 2 | | | {_cells(_unequal(m))} |" for m in SIZES]
    for n in SIZES:
        mean, median = straggling_level(n)
        lines.append(f"| stragglers on one side, mean | {n} | {_cells(mean)} | | |")
        lines.append(f"| stragglers on one side, median | {n} | {_cells(median)} | | |")
    return "\n".join(lines)


def _unequal(m: int) -> Coverage:
    return coverage(lognormal, 2, m=m, paired=False)


def _cells(found: Coverage) -> str:
    return f"{100 * found.share:.1f} % | {100 * math.expm1(found.half_width):.0f} %"


def _coverage(found: stats.Interval, true: float) -> Coverage:
    holds = (found.low <= true) & (true <= found.high)
    return Coverage(float(np.mean(holds)), float(np.median(found.high - found.low)) / 2)


if __name__ == "__main__":
    print(table(), false_shares(), sep="\n\n")  # noqa: T201 - the tables are what it is for
