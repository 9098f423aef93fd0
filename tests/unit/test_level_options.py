"""A plan refuses values that mkfs or mount would refuse only after the device is wiped."""

import re
from pathlib import Path

import pytest

from harness.errors import ConfigError
from harness.levels import LEVELS
from harness.levels.level import LevelContext
from harness.levels.options import OneOf, Option, Switch, Whole, finish_remaining_pct, is_on
from harness.levels.xfs import mount_options
from harness.store.spec import Scalar
from tests.fixtures.level_host import ZONED

ZLFS = Path(__file__).parents[2] / "harness/native/zlfs"


@pytest.mark.parametrize(
    ("level", "option", "value", "accepted"),
    [
        ("zlfs", "on_active_limit", "nonsense", "one of share, finish, wait"),
        ("zlfs", "finish_remaining_pct", 400, "a whole number, 0 to 100"),
        ("zlfs", "gc", "maybe", "on or off"),
        ("zlfs", "gc", 1, "on or off"),
        ("zenfs", "finish_occupancy_pct", True, "a whole number, 0 to 100"),
        ("zenfs", "gc", "no", "on or off"),
        ("f2fs", "active_logs", "abc", "one of 2, 4, 6"),
        ("f2fs", "active_logs", 3, "one of 2, 4, 6"),
        ("btrfs", "bg_reclaim_threshold", 101, "a whole number, 0 to 100"),
        ("dm-zoned", "seq", "abc", "a whole number, 1 or more"),
        ("dm-zoned", "filesystem", "zfs", "one of ext4, xfs"),
        ("xfs", "max_open_zones", "many", "a whole number, 1 or more"),
        ("xfs", "lifetime", "offf", "on or off"),
        ("conventional-ext4", "mount_options", True, "text"),
        ("conventional-ext4", "precondition", "maybe", "on or off"),
        ("conventional-xfs", "precondition", 1, "on or off"),
    ],
)
def test_a_value_that_the_level_does_not_take(
    level: str, option: str, value: Scalar, accepted: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        LEVELS[level].check_options({option: value})
    assert caught.value.message == f"level {level}: {option} is {value!r}"
    assert (caught.value.hint, caught.value.code) == (accepted, "bad-option")


def test_dm_zap_checks_the_values_of_its_table() -> None:
    for options in ({"nr_conv_zones": 3}, {"split_sectors": 5}, {"class_0_optimal": 126}):
        with pytest.raises(ConfigError):
            LEVELS["dm-zap"].check_options(options)
    LEVELS["dm-zap"].check_options({"overprovisioning_rate": 30, "split_sectors": 0})


@pytest.mark.parametrize("level", ["zlfs", "zenfs"])
def test_one_convention_of_a_threshold(level: str) -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        LEVELS[level].check_options({"finish_remaining_pct": 10, "finish_occupancy_pct": 90})
    assert finish_remaining_pct({"finish_occupancy_pct": 90}) == 10
    assert finish_remaining_pct({"finish_remaining_pct": 90}) == 90
    assert finish_remaining_pct({}) == 0


@pytest.mark.parametrize(
    ("value", "mounted"),
    [("off", "nolifetime"), (False, "nolifetime"), ("on", "lifetime"), (True, "lifetime")],
)
def test_off_is_a_word_and_still_off(value: Scalar, mounted: str) -> None:
    """zonelab's YAML reads ``off`` as a string, and non-empty strings are true."""
    options = {"lifetime": value}
    context = LevelContext(ZONED, None, options, Path("/scratch"), "zl-0", lambda: None)
    assert mount_options(Path("/dev/z"), context) == f"rtdev=/dev/z,{mounted}"
    assert is_on(value) is (mounted == "lifetime")


def test_zlfs_accepts_the_options_of_its_mkfs() -> None:
    """The fields of policy.h: names, ranges and words; those of victims have their own file."""
    text = "".join((ZLFS / name).read_text() for name in ("collect/victim.h", "alloc/policy.h"))
    words = {
        name: tuple(re.findall(r'"([^"]+)"', listed))
        for name, listed in re.findall(r"(k\w+Names)\[\] = \{([^}]*)\}", text)
    }
    fields = re.findall(
        r'\{"(\w+)",\s*"[^"]*",\s*&Policy::\w+, (\d+),'
        r"\s*(\d+|std::size\(\w+\) - 1)(?:,\s*(\w+))?\}",
        text,
    )
    found: dict[str, Option] = {
        name: Switch()
        if named == "kSwitchNames"
        else OneOf(words[named])
        if named
        else Whole(int(least), int(most))
        for name, least, most, named in fields
    }
    assert found == dict(LEVELS["zlfs"].options)
