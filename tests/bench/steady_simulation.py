"""How often a series is called steady, by simulation with known drift.

``python -m tests.bench.steady_simulation`` prints the table of docs/simulations.md.
"""

from __future__ import annotations

import math

import numpy as np

from analysis.read import trend
from analysis.read.arrays import FloatArray

EXPERIMENTS = 20_000
SEED = 20_227
CV = 1.0
# Seconds of a phase, and the share of a value that the next second keeps.
LENGTHS, MEMORIES = (300, 600, 1800), (0.0, 0.5, 0.8)
SHAPES = ("stationary", "doubles", "halves", "steps to twice")


def series(shape: str, seconds: int, memory: float, count: int = EXPERIMENTS) -> FloatArray:
    """Return lognormal values per second, coefficient of variation CV, shape (count, seconds)."""
    rng = np.random.default_rng([SEED, SHAPES.index(shape), seconds, round(100 * memory)])
    new = rng.normal(size=(count, seconds))
    logs = np.empty_like(new)
    logs[:, 0] = new[:, 0]
    for second in range(1, seconds):
        logs[:, second] = memory * logs[:, second - 1] + math.sqrt(1 - memory**2) * new[:, second]
    sigma = math.sqrt(math.log1p(CV**2))
    noise = np.exp(sigma * logs - sigma**2 / 2)
    part = (np.arange(seconds) + 0.5) / seconds
    level = {
        "stationary": np.ones(seconds),
        "doubles": 1 + part,
        "halves": 1 / (1 + part),
        "steps to twice": np.where(part > 0.5, 2.0, 1.0),
    }[shape]
    return np.asarray(noise * level, dtype=np.float64)


def words(values: FloatArray) -> tuple[float, float]:
    """Return the shares of series that are steady and that drift."""
    count, seconds = values.shape
    blocks = values.reshape(count, trend.BLOCKS, seconds // trend.BLOCKS).mean(axis=2)
    found = trend.change(blocks / blocks.mean(axis=1, keepdims=True))
    return float(found.steady.mean()), float(found.drifts.mean())


def table(count: int = EXPERIMENTS) -> str:
    """Return the table in Markdown."""
    lines = [
        "| seconds | memory | " + " | ".join(SHAPES) + " |",
        "|" + "---|" * (2 + len(SHAPES)),
    ]
    for seconds in LENGTHS:
        for memory in MEMORIES:
            shares = (words(series(shape, seconds, memory, count)) for shape in SHAPES)
            cells = (f"{steady:.1%}, {drifts:.1%}".replace("%", " %") for steady, drifts in shares)
            lines.append(f"| {seconds} | {memory:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201 - the table is the output
