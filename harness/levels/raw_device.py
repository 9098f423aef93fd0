"""No integration: bare zones, to measure the device itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from harness.errors import HostError
from harness.levels.bring_up import bring_up
from harness.levels.level import (
    AUX,
    Level,
    LevelContext,
    LevelKind,
    LevelUp,
    LevelUsage,
    Needs,
)
from harness.observe.signatures import Probe
from harness.store.ledger import OwnCounts
from harness.store.spec import Device, Reason
from harness.tools import native as programs
from harness.tools import zone_reset, zoneprobe
from harness.tools.direct_io import DirectIo


class RawDevice(Level):
    """Programs on bare zones; the label in zone 0 identifies the data of a killed run."""

    name: ClassVar[str] = "raw-device"
    summary: ClassVar[str] = "bare zones, without file system or database: measures the device"
    kind: ClassVar[LevelKind] = LevelKind.RAW
    # A zone for the label, a zone that stays empty, and a zone to measure.
    needs: ClassVar[Needs] = Needs(3, 1, "one zone is written at a time")
    takes_database: ClassVar[bool] = False
    signatures: ClassVar[tuple[Probe, ...]] = (Probe("zoneprobe", 0, b"ZLPROBE1", 8, 32),)
    programs: ClassVar[tuple[str, ...]] = (zoneprobe.PROGRAM,)
    metadata_zones: ClassVar[int] = zoneprobe.LABEL_ZONES
    own_ledger: ClassVar[str] = zoneprobe.LEDGER

    def probe(self, device: Device, conventional: Device | None) -> Reason | None:  # noqa: ARG002
        """Check the program, then the device's zones."""
        try:
            programs.program(zoneprobe.PROGRAM)
        except HostError as error:
            return Reason.of(error)
        return self.require_zones(device)

    def up(self, context: LevelContext) -> LevelUp:
        """Reset all zones and write the label."""
        self.check_options(context.options)
        device, aux = Path(context.device.path), context.scratch / AUX
        up = LevelUp(devices=(context.device,), records=(aux / self.own_ledger,))
        self.down(up)  # remove the remains of a killed run of this name
        with bring_up(self, context, up):
            aux.mkdir(parents=True)
            up.records[0].touch()
            context.check_devices()
            zone_reset.reset_all(device, context.device.size)
            zoneprobe.label(device, context.label)
        return up

    def usage(self, up: LevelUp) -> LevelUsage:
        """Return zoneprobe's own counts; none before it has run. fio's output has fio's counts."""
        if not up.records[0].stat().st_size:
            return LevelUsage(None, None, None, "none: nothing is collected")
        with up.records[0].open(encoding="utf-8", errors="replace", newline="\n") as lines:
            own = zoneprobe.totals(lines)
        return LevelUsage(None, None, None, "none: nothing is collected", own=own)

    def own_totals(
        self,
        lines: Iterable[str],
        device: Device,  # noqa: ARG002 - the same everywhere
    ) -> tuple[OwnCounts, None]:
        """Return zoneprobe's own counts from its ledger."""
        return zoneprobe.totals(lines), None

    def direct_io(self, up: LevelUp) -> DirectIo:  # noqa: ARG002 - the same everywhere
        """Always direct."""
        return DirectIo(True, True, "its programs open the device with O_DIRECT and nothing else")

    def down(self, up: LevelUp) -> None:
        """Remove the auxiliary directory; nothing is mounted."""
        shutil.rmtree(up.records[0].parent, ignore_errors=True)
