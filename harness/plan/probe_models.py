"""What people write in workloads without a database: commands to bare zones, timed by history."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harness.plan.models import Model, Name, Workload
from harness.plan.units import FieldError, Seconds, Size, format_size

# What is written first behind a reset has to be one command, whatever the driver.
_LARGEST_WRITE = 128 * 2**10
_LARGEST_FILL = 16 * 2**20
# Each timed write is a number in the program's one line of output, which is read up to 4 MiB.
_MOST_WRITES = 300_000

# A workload file that has this field is one of these.
ZONES = "zones"
BLOCK = "block"
Percent = Annotated[float, Field(ge=0, le=100)]
Occupancy = Literal["block", "all-but-block"] | Percent


def word(occupancy: str | float) -> str:
    """Return an occupancy as zoneprobe takes it: ``block``, ``6.25``, ``100``."""
    return occupancy if isinstance(occupancy, str) else f"{occupancy:g}"


class ZoneProbe(Model):
    """What zoneprobe does; names, meanings and limits are those of ``zoneprobe run --help``.

    Occupancies are percentages of a zone's capacity, ``block`` or ``all-but-block``: of zones
    before they are reset, and of zones before they are finished and then reset. Beside these
    treatments there is ``fresh``, which only writes. ``repeats`` is how often each is done, and
    ``first_writes`` how many writes of ``write_size`` are timed behind each.
    """

    occupancies: Annotated[tuple[Occupancy, ...], Field(min_length=1)]
    finish_occupancies: tuple[Occupancy, ...] = ()
    repeats: Annotated[int, Field(ge=1, lt=2**31)]
    first_writes: Annotated[int, Field(ge=1, lt=2**31)]
    write_size: Size
    fill_size: Size

    @model_validator(mode="after")
    def _makes_sense(self) -> ZoneProbe:
        for name in ("occupancies", "finish_occupancies"):
            words = [word(one) for one in getattr(self, name)]
            if len(set(words)) != len(words):
                raise FieldError(f"{name} must differ: {', '.join(words)}")
        for name, most in (("write_size", _LARGEST_WRITE), ("fill_size", _LARGEST_FILL)):
            if not 0 < getattr(self, name) <= most:
                raise FieldError(f"{name} is at least a block and at most {format_size(most)}")
        writes = self.treatments * self.repeats * self.first_writes
        if writes > _MOST_WRITES:
            raise FieldError(
                f"{writes} first writes are too many to be told one by one",
                hint=f"at most {_MOST_WRITES}: fewer repeats or first_writes",
            )
        return self

    @property
    def treatments(self) -> int:
        """How many there are, with ``fresh``."""
        return 1 + len(self.occupancies) + len(self.finish_occupancies)


class ProbeWorkload(Model):
    """A workload for bare zones (level ``raw-device``): one phase, no database, no cold data."""

    name: Name
    description: str
    zones: ZoneProbe
    timeout: Seconds = 300


AnyWorkload = Workload | ProbeWorkload
