"""Times of the kernel's block layer, on the clock of a modelled drive."""

from __future__ import annotations

from collections.abc import Sequence

from harness.observe.sysfs import Sysfs
from harness.store.spec import Device

# The kernel's defaults (block/blk-wbt.c, drives without rotation; block/mq-deadline.c).
_USUAL = {
    "queue/wbt_lat_usec": 2000,  # longer reads hold up buffered writes, but not direct ones
    "queue/iosched/read_expire": 500,
    "queue/iosched/write_expire": 5000,
    "queue/iosched/prio_aging_expire": 10_000,
}


def lengthen(sysfs: Sysfs, devices: Sequence[Device]) -> None:
    """Multiply these times by a modelled drive's dilation. What is absent or off (0) stays.

    A second of the drive takes ``dilation`` seconds of the kernel's clock. The values stay until
    the drive's server ends.
    """
    for device in devices:
        if device.dilation == 1:
            continue
        for node in sysfs.queue_nodes(sysfs.disk(device.name)):
            for attribute, usual in _USUAL.items():
                if sysfs.number(node, attribute):
                    sysfs.write(node, attribute, str(usual * device.dilation))
