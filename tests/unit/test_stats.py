"""Statistics: known values, known coverage, honest handling of zeros and small n."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis.judge import stats
from analysis.judge.stats import Method
from analysis.judge.verdicts import Verdict
from harness.metrics.catalogue import Better


def group(*values: float) -> dict[str, float]:
    return {f"b{i}": value for i, value in enumerate(values)}


def estimate(base: dict[str, float], level: dict[str, float], exact: bool = True) -> stats.Estimate:
    return stats.estimate(base, level, exact_allowed=exact)


def test_paired_interval_is_scipys_on_log_ratios() -> None:
    base, level = [10.0, 12.0, 11.0, 9.5], [13.0, 15.5, 13.9, 12.0]
    found = estimate(group(*base), group(*level))
    expected = scipy_stats.ttest_rel(np.log(level), np.log(base))
    low, high = expected.confidence_interval(0.95)
    assert found.method is Method.PAIRED
    assert found.center == pytest.approx(np.prod(level) ** 0.25 / np.prod(base) ** 0.25)
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert found.p_value == pytest.approx(expected.pvalue)


def test_blocks_without_a_partner_are_left_out() -> None:
    base = {"b1": 10.0, "b2": 12.0, "b3": 11.0, "b4": 99.0}
    found = estimate(base, {"b1": 13.0, "b2": 15.5, "b3": 14.1})
    complete = estimate(
        {block: base[block] for block in ("b1", "b2", "b3")}, {"b1": 13.0, "b2": 15.5, "b3": 14.1}
    )
    assert found == complete
    assert (found.method, found.n_base, found.n_level) == (Method.PAIRED, 3, 3)


def test_few_common_blocks_get_welch_on_logs() -> None:
    base, level = [10.0, 12.0, 11.0, 10.5], [13.0, 15.5, 14.1]
    found = estimate(group(*base), {"b0": level[0], "x": level[1], "y": level[2]})
    expected = scipy_stats.ttest_ind(np.log(level), np.log(base), equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert found.method is Method.WELCH
    assert (found.n_base, found.n_level, found.n) == (4, 3, 3)
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert found.p_value == pytest.approx(expected.pvalue)


@pytest.mark.parametrize(
    ("runs", "common", "method"),
    [(4, 2, Method.PAIRED), (4, 1, Method.WELCH), (5, 2, Method.WELCH), (6, 3, Method.PAIRED)],
)
def test_half_of_the_larger_side_needs_a_partner(runs: int, common: int, method: Method) -> None:
    base = {f"b{i}": 10.0 + i for i in range(runs)}
    level = {f"b{i}" if i < common else f"x{i}": 12.0 + i**2 for i in range(3)}
    assert estimate(base, level).method is method


@pytest.mark.parametrize("floor", [0.0, 0.01, 0.2])
def test_a_verdict_needs_the_whole_interval_beyond_the_floor(floor: float) -> None:
    found = estimate(group(10.0, 12.0, 11.0, 9.5), group(13.0, 15.5, 13.9, 12.0))
    assert found.low is not None
    edge = found.low - 1
    assert edge > floor
    for each, word in ((edge - 1e-6, Verdict.BETTER), (edge + 1e-6, Verdict.NO_DIFFERENCE)):
        assert stats.verdict(found, Better.HIGHER, noise_floor=each) is word
    assert stats.verdict(found, Better.HIGHER, noise_floor=floor) is Verdict.BETTER


def test_a_difference_needs_its_interval_beyond_the_floor_too() -> None:
    found = estimate(group(0.0, 10.0, 20.0), group(8.0, 18.1, 27.9))
    assert not found.is_ratio
    assert found.low is not None
    assert found.base_mean == 10
    edge = found.low / 10
    assert stats.verdict(found, Better.LOWER, noise_floor=edge - 1e-6) is Verdict.WORSE
    assert stats.verdict(found, Better.LOWER, noise_floor=edge + 1e-6) is Verdict.NO_DIFFERENCE


def test_welch_with_two_runs_on_a_side_takes_the_fewest_degrees_of_freedom() -> None:
    base, level = np.log([10.0, 12.0, 11.0]), np.log([13.0, 15.5])
    found = stats.welch_t(base, level)
    half = 12.7062047 * math.sqrt(base.var(ddof=1) / 3 + level.var(ddof=1) / 2)  # t(0.975, 1)
    assert float(found.df) == 1
    assert float(found.high - found.low) / 2 == pytest.approx(half)


def test_equal_counts_in_different_blocks_are_not_paired() -> None:
    found = estimate({"b1": 1.0, "b2": 2.0}, {"b1": 1.5, "b3": 2.5})
    assert found.method is Method.WELCH


def test_many_experiments_at_once_are_the_same_as_each_alone() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 5))
    for many, one in (
        (stats.paired_t(x), stats.paired_t(x[2])),
        (stats.welch_t(x, y), stats.welch_t(x[2], y[2])),
    ):
        assert [float(part) if part.ndim == 0 else part[2] for part in many] == pytest.approx(
            [float(part) for part in one]
        )


def test_counts_that_do_not_vary_are_exact() -> None:
    found = estimate(group(40, 40, 40), group(44, 44, 44))
    assert (found.method, found.low, found.high) == (Method.EXACT, None, None)
    assert found.center == pytest.approx(1.1)
    assert stats.verdict(found, Better.LOWER) is Verdict.WORSE
    assert found.p_value == 0.0
    same = estimate(group(40, 40, 40), group(40, 40, 40))
    assert same.p_value == 1.0
    assert stats.verdict(same, Better.LOWER) is Verdict.NO_DIFFERENCE


def test_exact_counts_stay_as_they_are_and_need_no_partner() -> None:
    """exp(log 44) is not 44, and a fourth run with the same count is a run too."""
    found = estimate(group(40, 40, 40, 40), group(44, 44, 44))
    assert (found.base_mean, found.mean) == (40.0, 44.0)
    assert (found.method, found.n_base, found.n_level) == (Method.EXACT, 4, 3)


def test_an_exact_difference_of_the_floor_is_within_it() -> None:
    found = estimate(group(-100, -100, -100), group(-99, -99, -99))
    assert [stats.p_beyond(found, floor) for floor in (0.0099, 0.01)] == [0.0, 1.0]


@pytest.mark.parametrize("base", [(10, 14), (40, 52), (10, 14, 17), (3e11, 3.1e11)])
def test_a_spread_of_rounding_errors_is_none(base: tuple[float, ...]) -> None:
    found = estimate(group(*base), group(*(2 * value for value in base)))
    assert (found.method, found.p_value) == (Method.NONE, None)
    assert stats.p_beyond(found, 0.0) is None
    more = estimate(group(*base), group(*(value * (2 + i * 1e-9) for i, value in enumerate(base))))
    assert more.method is Method.PAIRED


def test_an_infinite_floor_covers_every_difference() -> None:
    for level in ((30, 34, 38), (0, 0.01, 0), (1e9, 1e9 + 1, 1e9 + 2)):
        found = estimate(group(0, 0, 0), group(*level))
        assert stats.p_beyond(found, math.inf) == 1.0
        assert stats.verdict(found, Better.LOWER, noise_floor=math.inf) is Verdict.NO_DIFFERENCE


def test_two_runs_a_side_are_not_enough_for_exact() -> None:
    """By chance, two values look like this in 2 / 4^n of all comparisons."""
    for n, exact in ((2, False), (3, True)):
        draws = np.random.default_rng(n).integers(0, 2, (20_000, 2, n))
        constant = (np.ptp(draws, axis=-1) == 0).all(axis=-1)
        different = draws[:, 0, 0] != draws[:, 1, 0]
        share = float(np.mean(constant & different))
        assert share == pytest.approx(2 / 4**n, abs=0.01)
        assert (share <= 0.05) is exact
        found = estimate(group(*[40.0] * n), group(*[41.0] * n))
        assert (found.method is Method.EXACT) is exact
        word = Verdict.WORSE if exact else Verdict.TOO_FEW
        assert stats.verdict(found, Better.LOWER) is word


def test_a_time_that_does_not_vary_is_not_called_exact() -> None:
    same = estimate(group(1, 1, 1), group(1, 1, 1), exact=False)
    assert (same.method, same.p_value) == (Method.PAIRED, 1.0)
    apart = estimate(group(1, 1, 1), {"x": 1, "y": 1, "z": 1}, exact=False)
    assert (apart.method, apart.p_value, apart.df) == (Method.WELCH, 1.0, 2.0)
    found = estimate(group(1, 1, 1), group(2, 2, 2), exact=False)
    assert (found.method, found.p_value) == (Method.NONE, None)


def test_zero_gives_a_difference_of_means_and_no_log() -> None:
    found = estimate(group(0, 0, 0), group(30, 34, 38))
    assert not found.is_ratio
    assert found.center == pytest.approx(34)
    low, high = scipy_stats.ttest_rel([30, 34, 38], [0, 0, 0]).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert stats.verdict(found, Better.LOWER) is Verdict.WORSE
    assert stats.relative_change(found) == math.inf


def test_a_difference_of_less_than_one_unit_rises_too() -> None:
    found = estimate(group(0, 0, 0), group(0.30, 0.34, 0.38))
    assert stats.verdict(found, Better.HIGHER) is Verdict.BETTER
    assert stats.verdict(found, Better.HIGHER, claimed=False) is Verdict.HIGHER
    fewer = estimate(group(0.30, 0.34, 0.38), group(0, 0, 0))
    assert not fewer.is_ratio
    assert stats.verdict(fewer, Better.HIGHER, claimed=False) is Verdict.LOWER


def test_negative_values_give_a_difference() -> None:
    found = estimate(group(-4, -5, -6), group(-1, -2.1, -2.9))
    assert not found.is_ratio
    assert found.center == pytest.approx(3)
    assert stats.relative_change(found) == pytest.approx(0.6)
    assert stats.verdict(found, Better.HIGHER) is Verdict.BETTER


def test_values_below_one_have_a_ratio_too() -> None:
    assert estimate(group(0.1, 0.2, 0.3), group(0.2, 0.3, 0.5)).is_ratio


def test_zeros_on_both_sides_do_not_differ() -> None:
    assert stats.relative_change(estimate(group(0, 0, 0), group(0, 0, 0))) == 0.0


def test_an_interval_too_wide_for_a_number_is_infinite() -> None:
    """Log ratios are 0 and 200, so the upper end is exp(100 + 12.7 * 100)."""
    found = estimate(group(1, 1), group(1, math.exp(200)))
    assert (found.low, found.high) == (0.0, math.inf)


@pytest.mark.parametrize(
    ("base", "level"),
    [((), ()), ((), (1.0,)), ((1.0,), ()), ((1.0,), (2.0,)), ((1.0, 2.0), (3.0,))],
)
def test_fewer_than_two_runs_get_no_interval_and_no_verdict(
    base: tuple[float, ...], level: tuple[float, ...]
) -> None:
    found = estimate(group(*base), group(*level))
    assert (found.low, found.high, found.p_value) == (None, None, None)
    assert stats.verdict(found, Better.LOWER) is Verdict.TOO_FEW


@pytest.mark.parametrize(
    ("better", "level", "word"),
    [
        (Better.HIGHER, (11.0, 11.1, 11.2), Verdict.BETTER),
        (Better.LOWER, (11.0, 11.1, 11.2), Verdict.WORSE),
        (Better.LOWER, (9.0, 9.1, 9.2), Verdict.BETTER),
        (Better.NONE, (9.0, 9.1, 9.2), Verdict.DESCRIPTIVE),
        (Better.HIGHER, (10.05, 10.14, 10.26), Verdict.NO_DIFFERENCE),  # below the noise floor
        (Better.HIGHER, (8.0, 10.0, 13.5), Verdict.NO_DIFFERENCE),  # interval includes 1
    ],
)
def test_verdict_words(better: Better, level: tuple[float, ...], word: Verdict) -> None:
    assert stats.verdict(estimate(group(10.0, 10.1, 10.2), group(*level)), better) is word


def test_noise_floor_is_a_parameter() -> None:
    found = estimate(group(10.0, 10.1, 10.2), group(10.05, 10.15, 10.25))
    assert stats.verdict(found, Better.HIGHER) is Verdict.NO_DIFFERENCE
    assert stats.verdict(found, Better.HIGHER, noise_floor=0.001) is Verdict.BETTER


def test_holm_matches_the_worked_example() -> None:
    """Holm 1979: 0.01, 0.04, 0.03, 0.005 over four hypotheses."""
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p: list[float]) -> None:
    adjusted = stats.holm(p)
    assert all(
        raw <= new <= 1 or new == pytest.approx(raw) for raw, new in zip(p, adjusted, strict=True)
    )
    order = sorted(range(len(p)), key=lambda i: p[i])
    assert [adjusted[i] for i in order] == sorted(adjusted)


def test_holm_adjusted_p_decides_the_verdict() -> None:
    found = estimate(group(10.0, 10.1, 10.2), group(11.0, 11.3, 11.2))
    assert found.p_value is not None
    assert found.p_value < 0.05
    assert stats.verdict(found, Better.HIGHER, p_value=0.2) is Verdict.NO_DIFFERENCE
    assert stats.verdict(found, Better.HIGHER, p_value=0.05) is Verdict.NO_DIFFERENCE
    assert stats.verdict(found, Better.HIGHER, p_value=0.0499) is Verdict.BETTER
