"""The client of appends: where its appends must lie, and its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rig.guest_appends import Load, Sent, summary

# Two clients that fill zone 3 with four appends of two blocks, and append twice to zone 4.
LOAD = Load(first=3, zone=32, size=8, commands=3, clients=2, block=4)
PLACES = [24, 26, 28, 30, 32, 34]
TIMES = [(0, 10), (10, 30), (30, 60)]


def test_all_clients_fill_one_zone_after_the_other() -> None:
    assert list(LOAD.starts()) == [24, 24, 32]
    assert LOAD.places() == PLACES


def test_latencies_are_of_all_clients_and_the_rate_is_of_the_whole_time() -> None:
    found = summary(LOAD, [Sent(TIMES, PLACES[1::2]), Sent([(5, 105)] * 3, PLACES[::2])])
    assert found == {"mean_ns": 60.0, "p99_ns": 100, "bytes_per_second": 6 * 8 / 105e-9}


@pytest.mark.parametrize("places", [[24, 26, 26], [24, 26, 36]], ids=["twice", "gap"])
def test_an_append_at_another_place_is_an_error(places: list[int]) -> None:
    with pytest.raises(ValueError, match="do not lie side by side"):
        summary(LOAD, [Sent(TIMES, PLACES[3:]), Sent(TIMES, places)])
    assert summary(LOAD, [Sent(TIMES, PLACES[3:]), Sent(TIMES, PLACES[:3])])
    assert replace(LOAD, clients=1).places() == [24, 26, 28]
