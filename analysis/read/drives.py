"""Modelled drives in the records of runs."""

from __future__ import annotations

import re
from dataclasses import dataclass

# The names that harness/observe/zoneblk.py and native_drive.py give to drives.
_NAME = re.compile(
    r"^(?:zoneblk|zlfs) (?P<served>\S+)(?: -(?P<overhead>\d+)ns)? x(?P<dilation>\d+)$"
)


@dataclass(frozen=True, slots=True)
class RecordedDrive:
    """A modelled drive as a run recorded it. ``overhead_us`` is time of the machine."""

    served: str
    dilation: int
    overhead_us: float

    @property
    def model(self) -> str:
        """The model's name, without the digest of its values."""
        return self.served.rpartition("-")[0]


def drive_of(model: str) -> RecordedDrive | None:
    """Return the drive of a recorded device model; None if it is not one modelled drive."""
    found = _NAME.match(model)
    if found is None:
        return None
    overhead = int(found["overhead"] or 0) / 1000
    return RecordedDrive(found["served"], int(found["dilation"]), overhead)
