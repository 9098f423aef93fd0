"""Sizes, times and shares: accepted values and error messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.quantities import (
    format_size,
    parse_qemu_size,
    parse_seconds,
    parse_share,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("6MiB", 6 * 2**20),
        ("400MB", 400_000_000),
        ("2 GiB", 2 * 2**30),
        ("1.5KiB", 1536),
        ("7", 7),
        (8000, 8000),
        ("3 kB", 3000),
    ],
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "size"), [("8M", 8 * 2**20), ("1.5K", 1536), (4096, 4096)])
def test_sizes_as_qemu_writes_them(text: object, size: int) -> None:
    assert parse_qemu_size(text) == size


@pytest.mark.parametrize("text", ["8MiB", "8m", "M", "", None, True, 1.5])
def test_wrong_sizes_for_qemu_name_its_units(text: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_qemu_size(text)
    assert caught.value.hint == "known size units: K, M, G, T"


def test_decimal_fractions_are_exact() -> None:
    assert parse_size("0.07GB") == 70_000_000


@pytest.mark.parametrize(("text", "seconds"), [("10min", 600), ("30s", 30), ("2h", 7200), (5, 5)])
def test_times(text: object, seconds: int) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(("text", "share"), [("80%", 0.8), (0.8, 0.8), ("0.05", 0.05)])
def test_shares(text: object, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["6 XB", "MiB", "6 mib", "-3MiB", "6MiB/s", "", None, True, 1.5])
def test_unknown_sizes_name_the_units(text: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_size(text)
    assert "MiB" in caught.value.hint
    assert "GB" in caught.value.hint


def test_a_fraction_of_a_byte_is_refused() -> None:
    with pytest.raises(ConfigError, match="whole number"):
        parse_size("0.3KiB")


@pytest.mark.parametrize("text", ["80 MiB", "eighty", None, True])
def test_unknown_shares(text: object) -> None:
    with pytest.raises(ConfigError, match="not a share"):
        parse_share(text)


@given(st.integers(0, 2**50))
def test_bytes_survive_being_written_out(size: int) -> None:
    assert parse_size(f"{size} B") == size


def test_sizes_are_shown_in_binary_units() -> None:
    assert format_size(2304 * 2**20) == "2304.0 MiB"
    assert format_size(512) == "512 B"
