"""Records the whole contents of released devices, so that they are known after a restart.

Within one boot the kernel counts every write. After a restart, only a whole read proves that
nothing was written between the samples of a fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from harness.errors import GuardRefused
from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Journal, JournalEvent
from harness.store.spec import Device

# A flash drive reads these bytes in about a minute. A larger device needs a consent after a
# restart.
LARGEST = 64 << 30


def seal(host: Host, guard: Guard, journal: Journal, planned: Iterable[Device]) -> None:
    """Add the digest of every byte to the release of each device that is as zonelab left it.

    Zones with a write pointer need none: the fingerprint shows later writes to them. A device that
    cannot be found or read gets no digest, so it needs a consent after a restart.
    """
    for device in {device.identity.key: device for device in planned}.values():
        with suppress(GuardRefused, OSError):
            _seal(host, guard, journal, host.find(device))


def _seal(host: Host, guard: Guard, journal: Journal, device: Device) -> None:
    last = journal.last(device.identity.key)
    if last is None or last.event is not JournalEvent.RELEASE or last.whole:
        return
    if not 0 < guard.contents.plain_bytes(device) <= LARGEST or not guard.is_as_left(device):
        return
    whole = guard.contents.whole(device)
    if guard.is_as_left(device):  # nobody wrote during the read
        journal.append(replace(last, whole=whole, time=host.now()))
