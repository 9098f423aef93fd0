"""Resets and finishes by zoneprobe on the timed rig, against the model's virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import mean

from harness.rig import guest
from harness.tools import zoneprobe

from .in_model import play

KIB = 1 << 10
# A reset takes up to 9 % more or less. The mean of so many is within 2 % of the model's.
REPEATS = 128
_PROGRAM = "/usr/local/lib/zonelab/native/bin/zoneprobe"
_PROBE = (
    "set -e; blkzone reset {device}; {program} label --device {device} --label times; "
    "{program} run --device {device} --occupancies {resets} --finish_occupancies {finishes}"
    f" --repeats {REPEATS} --first_writes 1 --seed 1; blkzone reset {{device}}"
)


@dataclass(frozen=True)
class Case:
    """A reset or finish of a zone of which a share is written: percent, or one ``block``."""

    operation: str
    occupancy: str

    @property
    def name(self) -> str:
        return f"{self.operation}-{self.occupancy}"


RESETS = tuple(Case("reset", occupancy) for occupancy in ("0", "block", "25", "50", "100"))
FINISHES = tuple(Case("finish", occupancy) for occupancy in ("0", "block", "25", "50"))
AFTER_FINISH = tuple(Case("reset-after-finish", one.occupancy) for one in FINISHES)
CASES = (*RESETS, *FINISHES, *AFTER_FINISH)


@cache
def nominal(case: Case) -> float:
    """Return the mean time in us that the model has for the same commands in turn."""
    block = case.occupancy == "block"
    fill = {"times": 1} if block else {"to_pct": float(case.occupancy)}
    writes = [] if case.occupancy == "0" else [{"command": "write", **fill}]
    manage = ["reset"] if case in RESETS else ["finish", "reset"]
    client = {
        "name": "client",
        "sequence": [*writes, *manage],
        "size": f"{4 if block else 128}KiB",
        "zones": [1, 192],
        "repeat": True,
    }
    found = play(case.name, duration="20s", clients=[client])
    return float(found["finish" if case in FINISHES else "reset"]["mean_ns"]) / 1000


def measured(rig: str, device: str, dilation: int) -> dict[Case, float]:
    """Return the mean times in us of the model that zoneprobe measures. Erases the device."""
    resets, finishes = (",".join(one.occupancy for one in cases) for cases in (RESETS, FINISHES))
    command = _PROBE.format(device=device, program=_PROGRAM, resets=resets, finishes=finishes)
    summary = zoneprobe.parse(guest.run(rig, command, timeout=1200).stdout)
    assert summary is not None
    found = {}
    for one in summary.treatments:
        kind, _, occupancy = one.name.partition("-")
        if one.finish:
            found[Case("finish", occupancy)] = one.finishes
            found[Case("reset-after-finish", occupancy)] = one.resets
        elif kind == "reset":
            found[Case("reset", occupancy)] = one.resets
    return {case: mean(times) / 1000 / dilation for case, times in found.items()}
