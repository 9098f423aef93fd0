"""Western Digital ZN540 1 TB: measured numbers. `make docs` writes this file; do not edit it.

Source: analysis/references/points/zn540.csv, by analysis/model/runner_constants.py. Shares are
those of a zone's capacity, in %.
"""

from __future__ import annotations

# The model names that the controllers report: the measured one, and all capacities.
MODEL = "WZS4C8T1TDSP303"
MODELS = (MODEL, "WZS4C8T4TDSP303")
ZONE_CAPACITY = 1077 * 2**20
WRITE_BYTES_PER_SECOND = 1155 * 2**20
READ_BYTES_PER_SECOND = 2507 * 2**20
# A finish of a zone that holds data: a line by the written share, and its value for a full zone.
FINISH_AT_ZERO_MS, FINISH_MS_PER_PERCENT = 906.3, 9.025
FINISH_FULL_MS = 3.8
FINISH_EMPTY_MS = 0.014
# A reset of a finished zone: a line by the share that was written before the finish.
RESET_FINISHED_AT_ZERO_MS, RESET_FINISHED_MS_PER_PERCENT = 1.656, 0.137
# A reset of a zone without a finish: written share and mean.
RESET_MS = (
    (0.0, 1.08),
    (0.0004, 1.69),
    (6.25, 5.15),
    (12.5, 6.32),
    (25.0, 8.14),
    (50.0, 11.61),
    (100.0, 16.19),
)
