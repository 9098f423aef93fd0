"""Measured latencies of a Western Digital ZN540 (1 TB, zones of 1077 MiB), in ms.

Source: data of Doekemeijer et al. 2023, *Performance Characterization of NVMe Flash Devices with
Zoned Namespaces (ZNS)* (github.com/stonet-research/NVMeBenchmarks, commit 01f40f1c, MIT): means of
their partial_reset and partial_finish runs, computed again from the raw samples.
"""

from __future__ import annotations

# Percent of the capacity written, milliseconds.
Curve = tuple[tuple[float, float], ...]

# 4 KiB of 1077 MiB.
_BLOCK = 0.0004

RESET: Curve = (
    (0, 1.077),
    (_BLOCK, 1.686),
    (6.25, 5.154),
    (12.5, 6.316),
    (25, 8.144),
    (50, 11.608),
    (100, 16.187),
)
RESET_AFTER_FINISH: Curve = (
    (0, 1.591),
    (_BLOCK, 1.674),
    (6.25, 2.513),
    (12.5, 3.356),
    (25, 5.074),
    (50, 8.523),
    (100 - _BLOCK, 15.372),
)
FINISH: Curve = (
    (0, 0.01355),
    (_BLOCK, 907.507),
    (6.25, 848.266),
    (12.5, 792.699),
    (25, 681.053),
    (50, 456.759),
    (100 - _BLOCK, 3.072),
)
# A write of 4 KiB that opens its zone, and one to an open zone.
FIRST_WRITE, LATER_WRITE = 13.64e-3, 11.36e-3


def at(curve: Curve, percent: float) -> float | None:
    """Return milliseconds at a measured point of the curve, else None. Nothing is interpolated.

    The share of one block depends on the zone size, so nearly empty and nearly full zones match.
    """
    for known, milliseconds in curve:
        ends = {0.0: percent == 0, _BLOCK: 0 < percent < 1, 100 - _BLOCK: 99 < percent < 100}  # noqa: PLR2004
        if ends.get(known, known == percent):
            return milliseconds
    return None
