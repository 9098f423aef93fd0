"""The label at the start of a bare conventional device: it identifies the data of a killed run."""

from __future__ import annotations

import os

MAGIC = b"ZLRAWDEV"
LABEL_AT, LABEL_SIZE = len(MAGIC), 32  # size includes the zero at the end
_BLOCK = 4096


def write(handle: int, text: str) -> None:
    """Write a label to the first block of an open device and flush the device.

    Raises:
        OSError: the device cannot be written.
    """
    label = text.encode("ascii")
    if len(label) >= LABEL_SIZE:
        raise ValueError(f"label {text!r} is longer than {LABEL_SIZE - 1} bytes")
    os.pwrite(handle, (MAGIC + label).ljust(_BLOCK, b"\0"), 0)
    os.fsync(handle)
