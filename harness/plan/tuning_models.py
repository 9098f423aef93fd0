"""Files in ``configs/tunings``: host settings during a campaign."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.plan.fields import Model, Name


class Setting(Model):
    """A file to write. ``path`` can contain ``*``; files that do not exist are ignored."""

    path: Annotated[str, Field(pattern=r"^/(proc/sys|sys)/[A-Za-z0-9_./*-]+$")]
    value: str


UnitName = Annotated[str, Field(pattern=r"^[A-Za-z0-9@_.-]+\.timer$")]


class Tuning(Model):
    """Host settings that the role ``tuning`` applies before a campaign and restores after it.

    ``swap: off`` turns swap areas off. ``timers`` are systemd timers; running ones are stopped.
    """

    name: Name
    description: str
    settings: tuple[Setting, ...]
    swap: Literal["keep", "off"] = "keep"
    timers: tuple[UnitName, ...] = ()
