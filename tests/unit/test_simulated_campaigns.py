"""``compare`` end to end on simulated campaigns: a small version of docs/simulations.md."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from tests.bench import simulate_campaigns as simulation
from tests.bench.simulate_campaigns import World

pytestmark = pytest.mark.slow

COUNT = 120
PAGE = Path(__file__).parents[2] / "docs/simulations.md"
WORLDS = {world.name: world for world in (*simulation.WORLDS, *simulation.UNPROTECTED)}


def _page() -> dict[str, tuple[float, ...]]:
    """Return the rows of the page's table: world → shares of false claims, coverage and power."""
    section = PAGE.read_text().partition("## Whole campaigns")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|$", section, re.M)
    return {name: tuple(float(share) / 100 for share in shares) for name, *shares in rows}


def _margin(share: float) -> float:
    """Return three standard errors of a simulated share that is never quite 0 or 1."""
    inner = min(max(share, 0.01), 0.99)
    return 3 * math.sqrt(inner * (1 - inner) / COUNT)


@pytest.mark.parametrize("name", WORLDS)
def test_the_page_has_what_campaigns_give(name: str) -> None:
    found = simulation.tally(WORLDS[name], COUNT)
    shares = (found.false, found.covered, found.power)
    for share, shown in zip(shares, _page()[name], strict=True):
        assert abs(share - shown) <= _margin(shown), (name, shares, shown)


def test_the_page_shows_honest_claims() -> None:
    """Of 1,000 campaigns each, where a rule protects them."""
    protected = [_page()[world.name] for world in simulation.WORLDS]
    assert max(false for false, *_ in protected) <= 0.05
    assert min(covered for _, covered, _ in protected) >= 0.93


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
    assert _page().keys() == WORLDS.keys()
    assert len(WORLDS) == len(simulation.WORLDS) + len(simulation.UNPROTECTED)
    assert all(isinstance(world, World) for world in WORLDS.values())
