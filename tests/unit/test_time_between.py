"""Time between two kernel events, from histograms as Linux 7.3 prints them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.observe.tracing.time_between import TimeBetween

DEVICE = 259 << 20
HIST = """\
# event histogram
#
# trigger info: hist:keys=dev:vals=hitcount,common_timestamp.usecs:sort=hitcount [active]
#

{{ dev:    7340032 }} hitcount:          9  common_timestamp:          9
{{ dev:  {device} }} hitcount: {count:>10}  common_timestamp: {sum}

Totals:
    Hits: 5
    Entries: 1
    Dropped: 0
"""


@pytest.fixture
def watch(tmp_path: Path) -> TimeBetween:
    """Return a watch in a tree like tracefs, which makes an instance's files itself."""
    (tmp_path / "events").mkdir()
    found = TimeBetween(tmp_path, "own", "f2fs/begin", "f2fs/end", "dev")
    for event in (found.begin, found.end):
        (tmp_path / "instances/own/events" / event).mkdir(parents=True)
    return found


def put(watch: TimeBetween, event: str, count: int, total: int) -> None:
    file = watch.tracing / "instances/own/events" / event / "hist"
    file.write_text(HIST.format(device=DEVICE, count=count, sum=total))


def test_the_time_is_the_difference_of_both_sums(watch: TimeBetween) -> None:
    put(watch, watch.begin, 5, 1824010855)
    put(watch, watch.end, 5, 1824149296)
    assert watch.seconds(DEVICE) == 0.138441
    assert watch.seconds(7 << 20) == 0  # the other file system
    assert watch.seconds(1) == 0  # no event yet


def test_sums_wrap_at_64_bits(watch: TimeBetween) -> None:
    put(watch, watch.begin, 5, (1 << 64) - 1_000_000)
    put(watch, watch.end, 5, 1_000_000)
    assert watch.seconds(DEVICE) == 2


def test_what_has_not_ended_counts_until_now(watch: TimeBetween) -> None:
    began = int((time.monotonic() - 3) * 1e6)
    put(watch, watch.begin, 2, 1_000_000 + began)
    put(watch, watch.end, 1, 1_500_000)
    assert watch.seconds(DEVICE) == pytest.approx(3.5, abs=0.4)


@pytest.mark.parametrize(("begun", "ended"), [(1, 2), (3, 1)])
def test_events_that_do_not_alternate_give_no_time(
    watch: TimeBetween, begun: int, ended: int
) -> None:
    put(watch, watch.begin, begun, 1)
    put(watch, watch.end, ended, 2)
    assert watch.seconds(DEVICE) is None


def test_a_kernel_that_cannot_count_gives_no_time(tmp_path: Path) -> None:
    watch = TimeBetween(tmp_path / "none", "own", "f2fs/begin", "f2fs/end", "dev")
    watch.start()
    assert watch.seconds(DEVICE) is None
    watch.stop()
    assert not (tmp_path / "none").exists()


def test_an_instance_is_made_and_removed(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "instances").mkdir()
    watch = TimeBetween(tmp_path, "own", "f2fs/begin", "f2fs/end", "dev")
    watch.start()
    assert (tmp_path / "instances/own").is_dir()
    watch.stop()
    assert not (tmp_path / "instances/own").exists()
