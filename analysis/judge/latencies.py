"""Measured latencies of a Western Digital ZN540 (1 TB, zones of 1077 MiB), in ms.

Source: data of Doekemeijer et al. 2023, *Performance Characterization of NVMe Flash Devices with
Zoned Namespaces (ZNS)* (github.com/stonet-research/NVMeBenchmarks, commit 01f40f1c, MIT), in
``analysis/references/points/zn540.csv``.
"""

from __future__ import annotations

from analysis.read import points

# Percent of the capacity written, milliseconds.
LatencyCurve = tuple[tuple[float, float], ...]

# 4 KiB of 1077 MiB.
_BLOCK = 0.0004

_POINTS = points.load(points.FOLDER / "zn540.csv")


RESET = points.means(_POINTS, "reset_unfinished")
RESET_AFTER_FINISH = points.means(_POINTS, "reset_after_finish")
FINISH = tuple(sorted(points.means(_POINTS, "finish")))
# Latencies of a write of 4 KiB that opens its zone, and of one to an open zone.
FIRST_WRITE = dict(points.means(_POINTS, "first_write_implicit_open_4k"))[0]
LATER_WRITE = dict(points.means(_POINTS, "spdk_write_qd1"))[4]


def at(curve: LatencyCurve, percent: float) -> float | None:
    """Return milliseconds at a measured point of the curve, else None. Nothing is interpolated.

    The share of one block depends on the zone size, so nearly empty and nearly full zones match.
    """
    for known, milliseconds in curve:
        ends = {0.0: percent == 0, _BLOCK: 0 < percent < 1, 100 - _BLOCK: 99 < percent < 100}  # noqa: PLR2004
        if ends.get(known, known == percent):
            return milliseconds
    return None
