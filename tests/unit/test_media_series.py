"""``zonelab verify`` holds the series of a modelled drive's media bytes against the barriers."""

from __future__ import annotations

import pytest

from harness.levels.level import LevelUsage
from harness.run.ledger import BarrierSnapshot
from harness.store.ledger import Witness
from harness.verify.gauged import media_bytes
from harness.verify.sampled import PhaseWindow, SeriesTable
from tests.fixtures.barriers import counters

DISK = "ublkb1"


def barrier(media: int) -> BarrierSnapshot:
    """Return a barrier at which the drive had written so many bytes to its media."""
    media_count = Witness("modelled: x", 0, {DISK: media}, {DISK: (DISK,)})
    snapshot = counters(zoned="", conventional=DISK, media=media_count)
    return BarrierSnapshot(snapshot, LevelUsage(None, None, None, ""), None)


UP, COLD, AFTER = barrier(100), barrier(200), barrier(900)
PHASE = PhaseWindow("overwrite", 10.0, 20.0, None, COLD, COLD, AFTER)


def table(*values: int) -> SeriesTable:
    times = tuple(11.0 + index for index in range(len(values)))
    rows = ({"t": str(t), DISK: str(v)} for t, v in zip(times, values, strict=True))
    return SeriesTable(times, tuple(rows))


@pytest.mark.parametrize(
    ("values", "stopped", "found"),
    [
        ((200, 500, 900), False, []),
        ((200, 500, 400), False, [f"{DISK}: falls; a counter only grows"]),
        ((199, 500), False, [f"{DISK}: has 199 at 11.000 s, the barriers give 200 to 900"]),
        ((500, 901), False, [f"{DISK}: has 901 at 12.000 s, the barriers give 200 to 900"]),
        ((500, 901), True, []),  # its last writes have no barrier behind them
        ((199, 901), True, [f"{DISK}: has 199 at 11.000 s, the barriers give 200 to 900"]),
    ],
)
def test_a_series_of_media_bytes(values: tuple[int, ...], stopped: bool, found: list[str]) -> None:
    assert list(media_bytes(table(*values), [PHASE], [UP, COLD, AFTER], stopped=stopped)) == found
