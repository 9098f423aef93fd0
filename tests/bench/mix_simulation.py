"""Synthetic mixes for the test of attribution: autocorrelated latencies and bursty events.

``python -m tests.bench.mix_simulation`` prints the table of docs/simulations.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.read.arrays import FloatArray
from analysis.tenants.attribution import AlignedRun, attribute

TRIALS = 300
KINDS = ("reset", "finish", "gc")


@dataclass(frozen=True, slots=True)
class Shape:
    """Parameters of a mix.

    ``seconds`` samples in each of ``runs`` runs; ``memory`` is the correlation of neighbouring
    samples of log latency; ``trend``: how far latency rises, in logs, and events with it, over a
    run; ``effect``: by how much, in logs, the aggressor's events lift the others' latency.
    """

    tenants: int = 2
    runs: int = 3
    seconds: int = 60
    memory: float = 0.8
    trend: float = 0.0
    effect: float = 0.0


NULLS = {
    "two tenants, 3 runs of 60 s": Shape(),
    "two tenants, 1 run of 60 s": Shape(runs=1),
    "two tenants, 3 runs of 25 s": Shape(seconds=25),
    "two tenants, 3 runs of 300 s": Shape(seconds=300),
    "memory 0.95": Shape(memory=0.95),
    "no memory": Shape(memory=0.0),
    "all rises over the run": Shape(trend=2.0),
    "four tenants": Shape(tenants=4),
}
PLANTED = {
    "two tenants, 3 runs of 60 s": Shape(effect=1.5),
    "weak: half as much again": Shape(effect=0.4),
    "memory 0.95": Shape(memory=0.95, effect=1.5),
    "two tenants, 1 run of 60 s": Shape(runs=1, effect=1.5),
    "four tenants": Shape(tenants=4, effect=1.5),
}


def bursts(rng: np.random.Generator, seconds: int, trend: float) -> dict[str, FloatArray]:
    """Return counts of events per second, by kind: silence of 12 s on average, bursts of 3 s."""
    on = np.zeros(seconds, dtype=np.bool_)
    state = rng.random() < 0.2
    for second in range(seconds):
        on[second] = state
        state = rng.random() >= 1 / 3 if state else rng.random() < 1 / 12
    rate = np.where(on, 3.0, 0.02) * np.exp(trend * np.linspace(0, 1, seconds))
    counts = {
        kind: rng.poisson(rate * share) for kind, share in zip(KINDS, (1, 0.5, 0.2), strict=True)
    }
    return {kind: count.astype(np.float64) for kind, count in counts.items()}


def latency(rng: np.random.Generator, shape: Shape) -> FloatArray:
    """Return logs of a latency: a first-order autoregression, and peaks of its own."""
    steps = rng.normal(size=shape.seconds) * np.sqrt(1 - shape.memory**2)
    value, logs = float(rng.normal()), np.zeros(shape.seconds)
    for second, step in enumerate(steps):
        value = shape.memory * value + step
        logs[second] = 0.25 * value
    own = np.where(rng.random(shape.seconds) < 0.06, rng.exponential(1.5, shape.seconds), 0.0)
    return logs + _echo(own) + shape.trend * np.linspace(0, 1, shape.seconds)


def mix(rng: np.random.Generator, shape: Shape) -> dict[str, list[AlignedRun]]:
    """Return the runs of a mix; tenant ``t0`` is the aggressor, where there is any effect."""
    names = [f"t{number}" for number in range(shape.tenants)]
    found: dict[str, list[AlignedRun]] = {name: [] for name in names}
    for _ in range(shape.runs):
        events = {name: bursts(rng, shape.seconds, shape.trend) for name in names}
        struck = _echo(np.where(events[names[0]]["reset"] > 0, shape.effect, 0.0))
        for name in names:
            logs = latency(rng, shape) + (struck if name != names[0] else 0.0)
            others = {other: events[other] for other in names if other != name}
            found[name].append(AlignedRun(np.exp(logs), others))
    return found


def shares(shape: Shape, trials: int = TRIALS) -> tuple[float, float]:
    """Return the shares of trials in which ``t0`` was named, and in which anyone else was."""
    rng = np.random.default_rng(
        [
            trials,
            shape.tenants,
            shape.runs,
            shape.seconds,
            int(100 * shape.memory),
            int(100 * shape.effect),
            int(100 * shape.trend),
        ]
    )
    right = wrong = 0
    for _ in range(trials):
        named = {one.name for one in attribute(mix(rng, shape)) if one.named}
        right += "t0" in named
        wrong += bool(named - {"t0"} if shape.effect else named)
    return right / trials, wrong / trials


def table(trials: int = TRIALS) -> str:
    """Return the Markdown table of docs/simulations.md."""
    lines = ["| mix | aggressor named | anyone else named |", "|---|---|---|"]
    lines += [
        f"| no aggressor: {name} | | {100 * shares(shape, trials)[1]:.1f} % |"
        for name, shape in NULLS.items()
    ]
    for name, shape in PLANTED.items():
        right, wrong = shares(shape, trials)
        lines.append(f"| an aggressor: {name} | {100 * right:.1f} % | {100 * wrong:.1f} % |")
    return "\n".join(lines)


def _echo(struck: FloatArray) -> FloatArray:
    """Return a rise that is half gone after a second, and a quarter of it after two."""
    later = np.concatenate(([0.0], struck[:-1])), np.concatenate(([0.0, 0.0], struck[:-2]))
    return np.asarray(struck + 0.5 * later[0] + 0.25 * later[1], dtype=np.float64)


if __name__ == "__main__":
    print(table())  # noqa: T201 - the table is what it is for
