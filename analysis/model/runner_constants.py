"""Numbers of a ZN540 for the runner, computed from its points.

The runner has neither YAML nor CSV files, so ``make docs`` writes ``harness/zn540.py``:
``python -m analysis.model.runner_constants > harness/zn540.py``. Values are rounded, so that
metrics of stored campaigns stay what they are.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

from analysis.read import points
from analysis.read.points import MeasuredPoint

FILE = points.FOLDER / "zn540.csv"
# Curves of writes that fill the drive's bandwidth, and the block size of the fastest reads.
_SATURATED_WRITES = ("write8k_inter_zone", "write16k_inter_zone", "append8k_inter_zone")
_SATURATED_READS, _READ_MIB = "randread16k", 16 / 1024

_TEXT = '''\
"""Western Digital ZN540 1 TB: measured numbers. `make docs` writes this file; do not edit it.

Source: analysis/references/points/zn540.csv, by analysis/model/runner_constants.py. Shares are
those of a zone's capacity, in %.
"""

from __future__ import annotations

# The model names that the controllers report: the measured one, and all capacities.
MODEL = "WZS4C8T1TDSP303"
MODELS = (MODEL, "WZS4C8T4TDSP303")
ZONE_CAPACITY = 1077 * 2**20
WRITE_BYTES_PER_SECOND = {write} * 2**20
READ_BYTES_PER_SECOND = {read} * 2**20
# A finish of a zone that holds data: a line by the written share, and its value for a full zone.
FINISH_AT_ZERO_MS, FINISH_MS_PER_PERCENT = {finish_zero}, {finish_slope}
FINISH_FULL_MS = {finish_full}
FINISH_EMPTY_MS = {finish_empty}
# A reset of a finished zone: a line by the share that was written before the finish.
RESET_FINISHED_AT_ZERO_MS, RESET_FINISHED_MS_PER_PERCENT = {reset_zero}, {reset_slope}
# A reset of a zone without a finish: written share and mean.
RESET_MS = (
{resets})
'''


def text(measured: Sequence[MeasuredPoint]) -> str:
    """Return the text of ``harness/zn540.py``."""
    finishes = points.means(measured, "finish")
    slope, zero = _line([pair for pair in finishes if pair[0] > 0])
    reset_slope, reset_zero = _line(
        [pair for pair in points.means(measured, "reset_after_finish") if pair[0] > 0]
    )
    finish_slope, finish_zero = round(-slope, 3), round(zero, 1)
    resets = points.means(measured, "reset_unfinished")
    return _TEXT.format(
        write=round(
            statistics.fmean(_highest(measured, curve, "bw") for curve in _SATURATED_WRITES)
        ),
        read=round(_highest(measured, _SATURATED_READS, "kiops") * 1000 * _READ_MIB),
        finish_zero=finish_zero,
        finish_slope=finish_slope,
        finish_full=round(finish_zero - 100 * finish_slope, 1),
        finish_empty=round(dict(finishes)[0], 3),
        reset_zero=round(reset_zero, 3),
        reset_slope=round(reset_slope, 3),
        resets="".join(f"    ({share!r}, {round(mean, 2)!r}),\n" for share, mean in resets),
    )


def _line(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return slope and intercept of the least-squares line."""
    fit = statistics.linear_regression([x for x, _ in pairs], [y for _, y in pairs])
    return fit.slope, fit.intercept


def _highest(measured: Sequence[MeasuredPoint], curve: str, statistic: str) -> float:
    return max(p.y for p in measured if (p.curve, p.statistic) == (curve, statistic))


if __name__ == "__main__":
    sys.stdout.write(text(points.load(FILE)))
