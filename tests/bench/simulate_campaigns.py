"""False claims, coverage and power of ``compare``, end to end on synthetic campaigns.

``python -m tests.bench.simulate_campaigns`` prints the table of docs/simulations.md. Nothing of the
comparison is left out: each campaign passes comparability, twins, intervals, floor and Holm.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analysis.judge.compare import compare
from analysis.judge.over_campaigns import compare_over
from analysis.judge.rows import Row
from analysis.judge.verdicts import Verdict
from analysis.read.load import CampaignData, Pool, RunRecord, load
from harness.store.result import Metric, Result, Status
from harness.store.spec import Claim, DeviceKind, RunSpec
from tests.bench import coverage_simulation
from tests.fixtures.campaigns import write_campaign

CAMPAIGNS = 1000
SEED = 20_229
BASE, TWIN, CLAIMED, OTHER = "conventional-ext4", "conventional-xfs", "zlfs", "zenfs"
METRIC = "overwrite.device_written"
CLAIMS = (
    Claim("C1", METRIC, CLAIMED, BASE, "different"),
    Claim("C2", METRIC, OTHER, BASE, "different"),
)
EFFECT = 1.1  # the true ratio where there is one
_BLOCK = 0.3  # standard deviation of a block's log


class World(NamedTuple):
    """How runs differ. ``scale`` multiplies the noise of :mod:`coverage_simulation`."""

    name: str
    noise: str
    scale: float = 0.2  # normal and lognormal: 2 %
    repetitions: int = 5
    cell_sd: float = 0.0
    campaign_sd: float = 0.0
    lost: int = 0  # runs of the claimed level without a result
    campaigns: int = 1
    twin: bool = False  # whether the study has the baseline twice
    claims: int = 2


WORLDS = (
    *(World(name, name) for name in ("normal", "lognormal", "stragglers")),
    *(World(f"{name}, one lost run", name, lost=1) for name in ("normal", "lognormal")),
    World("stragglers, one lost run", "stragglers", lost=1),
    World("normal, one claim", "normal", claims=1),
    World("normal, one claim, one lost run", "normal", lost=1, claims=1),
    World("normal, 3 runs", "normal", repetitions=3),
    World("normal, with a twin", "normal", twin=True),
    World("cells differ by 2 %, with a twin", "normal", 0.03, cell_sd=0.02, twin=True),
    World("three campaigns that differ by 2 %", "normal", 0.1, 3, campaign_sd=0.02, campaigns=3),
)
# What the rules cannot prevent: the reason for twins, and for several campaigns.
UNPROTECTED = (
    World("cells differ by 2 %, no twin", "normal", 0.03, cell_sd=0.02),
    World("one of campaigns that differ by 2 %", "normal", 0.1, campaign_sd=0.02),
)


class Tally(NamedTuple):
    """Shares of campaigns: any false claim, interval holds the truth, effect is claimed."""

    false: float
    covered: float
    power: float


@dataclasses.dataclass(frozen=True)
class Template:
    """A campaign with every record but the simulated metric."""

    campaign: CampaignData

    @classmethod
    def make(cls, world: World) -> Template:
        """Return a campaign of a baseline, two claimed levels, and a twin of the baseline."""
        with tempfile.TemporaryDirectory() as folder:
            path = write_campaign(
                Path(folder) / "c",
                levels=(BASE, *[TWIN] * world.twin, CLAIMED, OTHER),
                repetitions=world.repetitions,
                kind=DeviceKind.HARDWARE,
                claims=CLAIMS[: world.claims],
                metrics=(METRIC,),
                series=False,
            )
            found = load(path)
        runs = tuple(_plain(run) for run in found.runs)
        return cls(dataclasses.replace(found, runs=runs))

    def drawn(self, world: World, rng: np.random.Generator, ratio: float, label: str) -> Pool:
        """Return one campaign of a world, whose claimed level has this true ratio."""
        levels = list(dict.fromkeys(run.spec.row for run in self.campaign.runs))
        shape = (len(levels), world.repetitions)
        logs = world.scale * coverage_simulation.NOISES[world.noise](rng, shape)
        logs += _BLOCK * rng.normal(size=world.repetitions)
        logs += world.cell_sd * rng.normal(size=(len(levels), 1))
        logs += world.campaign_sd * math.sqrt(0.5) * rng.normal(size=(len(levels), 1))
        logs[[level.startswith(CLAIMED) for level in levels]] += math.log(ratio)
        lost = set(rng.permutation(world.repetitions)[: world.lost])
        runs = []
        for run in self.campaign.runs:
            block = run.spec.repetition - 1
            value = 1e9 * math.exp(logs[levels.index(run.spec.row), block])
            failed = run.spec.level == CLAIMED and block in lost
            result = dataclasses.replace(
                run.result,
                status=Status.FAILED if failed else Status.OK,
                metrics={METRIC: Metric(value, "B")},
            )
            runs.append(dataclasses.replace(run, result=result, campaign=label))
        return Pool((dataclasses.replace(self.campaign, runs=tuple(runs), label=label),))


def _plain(run: RunRecord) -> RunRecord:
    """Return a run without phases, so that it has no series; the twin gets the baseline's level."""
    spec, result = run.spec, dataclasses.replace(run.result, phases=(), manifest={})
    if spec.level == TWIN:
        spec, result = _as_twin(spec, result)
    return dataclasses.replace(run, spec=spec, result=result)


def _as_twin(spec: RunSpec, result: Result) -> tuple[RunSpec, Result]:
    twin = dataclasses.replace(spec, level=BASE, variant="again")
    return twin, dataclasses.replace(result, level=BASE)


def tally(world: World, count: int = CAMPAIGNS) -> Tally:
    """Simulate ``count`` campaigns without a difference, and as many with one."""
    template = Template.make(world)
    rng = np.random.default_rng([SEED, *world.name.encode()])
    false = [_claims(rows) for rows in _judged(template, world, rng, 1.0, count)]
    shown = list(_judged(template, world, rng, EFFECT, count))
    rows = [next(row for row in one if row.level == CLAIMED) for one in shown]
    held = [row.estimate.low is not None and _holds(row, EFFECT) for row in rows]
    found = [row.verdict is Verdict.WORSE for row in rows]
    return Tally(*(float(np.mean(values)) for values in (false, held, found)))


def _judged(
    template: Template, world: World, rng: np.random.Generator, ratio: float, count: int
) -> Iterator[tuple[Row, ...]]:
    for _ in range(count):
        if world.campaigns == 1:
            yield compare(template.drawn(world, rng, ratio, "")).rows
            continue
        pools = [template.drawn(world, rng, ratio, f"c{i}") for i in range(world.campaigns)]
        joined = Pool(tuple(pool.first for pool in pools))
        yield compare_over(compare(joined, contrast=joined.first.plan.contrast)).rows


def _claims(rows: tuple[Row, ...]) -> bool:
    return any(row.verdict in (Verdict.BETTER, Verdict.WORSE) for row in rows)


def _holds(row: Row, ratio: float) -> bool:
    low, high = row.estimate.bounds
    return low is not None and high is not None and low <= ratio <= high


def table(count: int = CAMPAIGNS) -> str:
    """Return the table in Markdown."""
    lines = ["| campaigns | a false claim | coverage | power |", "|---|---|---|---|"]
    for world in (*WORLDS, *UNPROTECTED):
        found = tally(world, count)
        lines.append(
            f"| {world.name} | {found.false:.1%} | {found.covered:.1%} | {found.power:.1%} |"
        )
    return "\n".join(lines).replace("%", " %").replace("  %", " %")


if __name__ == "__main__":
    print(table())  # noqa: T201 - the table is the output
