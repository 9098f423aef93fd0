"""``python tests/bench/left_out.py``: errors of curves of zn540-1tb that a fit has not seen.

Each curve is left out once. The numbers that it shares with the other curves begin 25 % too high
and are fitted to the others. Prints one line of JSON for each curve (docs/model.md).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from analysis.model import fit, validation
from analysis.read import points
from harness.plan.drive_files import load_curves, load_model
from harness.plan.drive_models import DriveModel
from harness.plan.drive_values import BANDWIDTHS, TIMES, number
from harness.plan.load import build

BEGINS = 1.25
READS = ("randread4k", "randread8k", "randread16k")
APPENDS = (
    "append4k_intra_zone",
    "append8k_intra_zone",
    "append4k_inter_zone",
    "append8k_inter_zone",
)
WRITES = ("write4k_inter_zone", "write8k_inter_zone", "write16k_inter_zone")
# Curves, curves that are always seen, numbers.
GROUPS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (READS, (), ("flash.read_4k", "flash.read_page", "flash.channel_read_rate", "front.read")),
    (
        APPENDS,
        ("spdk_append_qd1",),
        ("front.stage_append", "front.stage_partial", "front.append", "front.list_append"),
    ),
    (WRITES, (), ("front.stage_write", "front.stage_partial")),
)


def changed(model: DriveModel, names: tuple[str, ...]) -> DriveModel:
    """Return the model with the named numbers too high."""
    data: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    for name in names:
        group, field = name.split(".")
        leaf = data[group][field]
        fast = leaf["value"].endswith("/s")
        value = float(number(leaf["value"], BANDWIDTHS if fast else TIMES, name)) * BEGINS
        unit = BANDWIDTHS["MiB/s"] if fast else TIMES["us"]
        leaf["value"] = f"{value / unit:.3f}{'MiB/s' if fast else 'us'}"
    return build(DriveModel, data, model.name)


def main() -> int:
    """Fit and print."""
    model, curves = load_model("zn540-1tb"), load_curves("zn540")
    measured = points.load(points.FOLDER / "zn540.csv", curves.curves)
    for group, always, names in GROUPS:
        for left in group:
            seen = {*group, *always} - {left}
            fitted = fit.fit(
                changed(model, names),
                curves,
                [point for point in measured if point.curve in seen],
                names=names,
                source="fit without a curve",
                threads=2,
                rounds=6,
            )
            errors = validation.validate(
                build(DriveModel, fitted.data, model.name),
                curves,
                [point for point in measured if point.curve == left],
                2,
            )
            print(  # noqa: T201
                json.dumps(
                    {
                        "left_out": left,
                        "seen_mean": validation.core_mean(fitted.errors),
                        "mean": {e.statistic: e.mean for e in errors if e.grade == "core"},
                        "largest": {e.statistic: e.worst.error for e in errors},
                    }
                ),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
