"""The filter ``zonelab_watch``: judges the progress of a campaign (harness/run/watch.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from harness.run.watch import judge


def watch(text: str, silent_seconds: float) -> dict[str, Any]:
    """Return ``over``, ``line`` and ``error`` for what the wait task of the role read."""
    return asdict(judge(text, silent_seconds))


class FilterModule:
    """Filters of the role."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return them by name."""
        return {"zonelab_watch": watch}
