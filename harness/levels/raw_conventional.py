"""No integration: a bare conventional device, to measure the device itself."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import ClassVar

from harness.levels.bring_up import bring_up
from harness.levels.level import (
    Level,
    LevelContext,
    LevelKind,
    LevelUp,
    LevelUsage,
)
from harness.observe.signatures import Probe
from harness.store.files import descriptor
from harness.store.spec import Device, Reason
from harness.tools import discard, raw_label
from harness.tools.direct_io import DirectIo

# Enough for the label and a small region to measure.
_LEAST_BYTES = 4 << 20


class RawConventional(Level):
    """Programs on a bare namespace, drive or partition, which is discarded first."""

    name: ClassVar[str] = "raw-conventional"
    summary: ClassVar[str] = "a bare conventional device: measures the device"
    kind: ClassVar[LevelKind] = LevelKind.RAW
    needs_conventional: ClassVar[bool] = True
    uses_zoned: ClassVar[bool] = False
    takes_database: ClassVar[bool] = False
    signatures: ClassVar[tuple[Probe, ...]] = (
        Probe("zonelab-raw", 0, raw_label.MAGIC, raw_label.LABEL_AT, raw_label.LABEL_SIZE),
    )

    def probe(self, device: Device, conventional: Device | None) -> Reason | None:  # noqa: ARG002
        """Check that there is a conventional device."""
        return self.require_conventional(conventional, _LEAST_BYTES)

    def up(self, context: LevelContext) -> LevelUp:
        """Discard the device, where it can, and write the label."""
        self.check_options(context.options)
        device = context.conventional
        if device is None:
            raise ValueError(f"{self.name} runs on a conventional device")
        up = LevelUp(devices=(device,))
        with bring_up(self, context, up):
            context.check_devices()
            # The kernel refuses a device in use. One open for both: at its close udev opens it too.
            with descriptor(device.path, os.O_WRONLY | os.O_EXCL) as handle:
                discarded = discard.discard(handle, 0, device.size)
                raw_label.write(handle, context.label)
        return replace(up, facts={"discarded": discarded})

    def usage(self, up: LevelUp) -> LevelUsage:  # noqa: ARG002 - nothing to ask
        """Return no counters: garbage collection happens inside the drive."""
        return LevelUsage(None, None, None, "none: the drive collects garbage itself")

    def direct_io(self, up: LevelUp) -> DirectIo:  # noqa: ARG002 - the same everywhere
        """Always direct."""
        return DirectIo(True, True, "fio opens the device with O_DIRECT and nothing else")

    def down(self, up: LevelUp) -> None:
        """Do nothing: nothing is mounted."""
