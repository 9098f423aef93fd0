"""No integration at all: bare zones, to measure what the device itself does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

from harness.errors import HostError
from harness.levels.base import (
    AUX,
    DirectIo,
    Kind,
    Level,
    LevelContext,
    LevelUp,
    LevelUsage,
    Needs,
    Progress,
)
from harness.store.spec import Device, Reason
from harness.tools import native as programs
from harness.tools import zone_reset, zoneprobe

# One for the label, one for zones that nobody wrote to, one for all the others.
_MIN_ZONES = 3


class RawDevice(Level):
    """zoneprobe on the device; zone 0 has the label by which a killed run is known as ours."""

    name: ClassVar[str] = "raw-device"
    summary: ClassVar[str] = "bare zones, without file system or database: measures the device"
    kind: ClassVar[Kind] = Kind.RAW
    needs: ClassVar[Needs] = Needs(_MIN_ZONES, 1, "one zone is written at a time")
    takes_database: ClassVar[bool] = False
    programs: ClassVar[tuple[str, ...]] = (zoneprobe.PROGRAM,)
    metadata_zones: ClassVar[int] = zoneprobe.LABEL_ZONES

    def probe(self, device: Device, conventional: Device | None) -> Reason | None:  # noqa: ARG002
        """Check the program, then the device's zones."""
        try:
            programs.program(zoneprobe.PROGRAM)
        except HostError as error:
            return Reason(error.code, error.message, error.hint)
        if not device.zoned:
            return Reason("not-zoned", f"{device.path} has no zones", "name a zoned one")
        if (device.zones or 0) < _MIN_ZONES:
            return Reason(
                "zones-too-few",
                f"raw-device needs {_MIN_ZONES} zones, {device.path} has {device.zones}",
                "use a larger namespace",
            )
        return None

    def up(self, context: LevelContext) -> LevelUp:
        """Reset all zones and write the label."""
        self.check_options(context.options)
        device, aux = Path(context.device.path), context.scratch / AUX
        up = LevelUp(
            db=None,
            fs_uri=None,
            cold_dir=None,
            devices=(context.device,),
            records=(aux / zoneprobe.LEDGER,),
        )
        self.down(up)  # what a killed run of this name left
        try:
            aux.mkdir(parents=True)
            up.records[0].touch()
            context.check_devices()
            zone_reset.reset_all(device, context.device.size)
            zoneprobe.label(device, context.label)
        except BaseException:
            self.down(up)
            raise
        return up

    def fill_cold(self, up: LevelUp, size: int, seed: int, progress: Progress) -> int:  # noqa: ARG002
        """Store nothing: there is no utilisation to bring bare zones to."""
        return 0

    def usage(self, up: LevelUp) -> LevelUsage:
        """Return what zoneprobe counts of itself."""
        with up.records[0].open(encoding="utf-8", errors="replace", newline="\n") as lines:
            own = zoneprobe.totals(lines)
        return LevelUsage(None, None, None, "none: nothing is collected", own=own)

    def database_bytes(self, up: LevelUp) -> int:  # noqa: ARG002 - none
        """Return 0: there is no database."""
        return 0

    def direct_io(self, up: LevelUp) -> DirectIo:  # noqa: ARG002 - the same everywhere
        """Always direct."""
        return DirectIo(True, True, "zoneprobe opens the device with O_DIRECT and nothing else")

    def sync(self, up: LevelUp) -> None:
        """Do nothing: between phases nobody holds anything back."""

    def down(self, up: LevelUp) -> None:
        """Remove the auxiliary directory; nothing is mounted."""
        shutil.rmtree(up.records[0].parent, ignore_errors=True)
