"""Drives that zonelab has published numbers of, by the model that a device reports."""

from __future__ import annotations

from dataclasses import dataclass

from harness import zn540


@dataclass(frozen=True, slots=True)
class BandwidthCap:
    """The highest bandwidths of a drive, in bytes per second of the drive's clock."""

    write: float
    read: float


_ZN540_CAP = BandwidthCap(zn540.WRITE_BYTES_PER_SECOND, zn540.READ_BYTES_PER_SECOND)

# Names as publications have them, and the model names that controllers report instead.
_CONTROLLERS = {"ZN540": zn540.MODELS}


def is_drive(model: str, name: str) -> bool:
    """Return whether a model is of the drive ``name``, or of a model of it (``zn540-1tb``)."""
    names = (name, *_CONTROLLERS.get(name, ()))
    return any(one.lower() in model.lower() for one in names)


def cap(model: str) -> BandwidthCap | None:
    """Return the published bandwidth of a drive; null for unknown drives."""
    return _ZN540_CAP if is_drive(model, "ZN540") else None
