"""How often a phase is called steady, by simulation with known drift.

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
# Seconds of a phase without its ends, and runs of it.
LENGTHS = ((300, 1), (300, 4), (600, 1), (600, 4), (1800, 1))
MEMORIES = (0.0, 0.5, 0.8)  # the share of a value that the next second keeps
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


def words(values: FloatArray, runs: int = 1) -> tuple[float, float]:
    """Return the shares of phases that are steady and that drift; a phase has ``runs`` series."""
    count, seconds = values.shape
    blocks = values.reshape(count, trend.BLOCKS, seconds // trend.BLOCKS).mean(axis=2)
    shares = blocks / blocks.mean(axis=1, keepdims=True)
    found = trend.change(shares.reshape(count // runs, runs, trend.BLOCKS).mean(axis=1))
    return float(found.steady.mean()), float(found.drifts.mean())


def table(count: int = EXPERIMENTS) -> str:
    """Return the table in Markdown."""
    lines = [
        "| seconds | runs | memory | " + " | ".join(SHAPES) + " |",
        "|" + "---|" * (3 + len(SHAPES)),
    ]
    for seconds, runs in LENGTHS:
        for memory in MEMORIES:
            found = (words(series(shape, seconds, memory, count * runs), runs) for shape in SHAPES)
            cells = (f"{steady:.1%}, {drifts:.1%}".replace("%", " %") for steady, drifts in found)
            lines.append(f"| {seconds} | {runs} | {memory:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201 - the table is the output
