"""Paired comparison in the benchmarks of zonelab itself."""

from __future__ import annotations

import math

import pytest

from tests.bench.paired import interval


def test_one_pair_bounds_nothing() -> None:
    assert interval([math.log(0.98)]) == (pytest.approx(0.98), 0.0, math.inf)


def test_pairs_are_bounded_by_students_t() -> None:
    # Three log ratios of mean 0 and deviation 0.01: 4.3027 (t, 2 degrees, 97.5 %) * 0.01 / sqrt 3.
    ratio, low, high = interval([-0.01, 0.0, 0.01])
    half = 4.302653 * 0.01 / math.sqrt(3)
    assert ratio == pytest.approx(1.0)
    assert (math.log(low), math.log(high)) == (
        pytest.approx(-half, rel=1e-5),
        pytest.approx(half, rel=1e-5),
    )
