"""Drives that zonelab has published numbers of, by the model that a device reports."""

from __future__ import annotations

from harness import zn540

# Names as publications have them, and the model names that controllers report instead.
_CONTROLLERS = {"ZN540": zn540.MODELS}


def is_drive(model: str, name: str) -> bool:
    """Return whether a model is of the drive ``name``, or of a model of it (``zn540-1tb``)."""
    names = (name, *_CONTROLLERS.get(name, ()))
    return any(one.lower() in model.lower() for one in names)
