"""``compare`` end to end on simulated campaigns: a small version of docs/simulations.md."""

from __future__ import annotations

import math

import pytest

from tests.bench import simulate_campaigns as simulation
from tests.bench.simulate_campaigns import World

pytestmark = pytest.mark.slow

COUNT = 60
WORLDS = {world.name: world for world in (*simulation.WORLDS, *simulation.UNPROTECTED)}


def _margin(share: float) -> float:
    """Return three standard errors of a simulated share."""
    return 3 * math.sqrt(share * (1 - share) / COUNT)


@pytest.mark.parametrize(
    "name",
    ["normal", "stragglers, one lost run", "cells differ by 2 %, with a twin"],
)
def test_claims_are_rarely_false_and_intervals_hold_the_truth(name: str) -> None:
    found = simulation.tally(WORLDS[name], COUNT)
    assert found.false <= 0.05 + _margin(0.05)
    assert found.covered >= 0.93 - _margin(0.93)


def test_a_lost_run_costs_little_power() -> None:
    whole, lost = (
        simulation.tally(WORLDS[name], COUNT).power
        for name in ("normal, one claim", "normal, one claim, one lost run")
    )
    assert whole >= 0.95
    assert lost >= 0.95 * whole - _margin(0.95)


def test_without_a_twin_a_difference_between_cells_is_claimed() -> None:
    """The simulation can fail: this world breaks the rule that twins keep."""
    (world,) = (one for one in simulation.UNPROTECTED if one.cell_sd)
    assert simulation.tally(world, COUNT).false > 0.3


def test_every_world_is_in_the_table() -> None:
    assert len(WORLDS) == len(simulation.WORLDS) + len(simulation.UNPROTECTED)
    assert all(isinstance(world, World) for world in WORLDS.values())
