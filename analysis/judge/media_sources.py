"""Checks that M of conventional devices has one source: one model, or the drives' own counters."""

from __future__ import annotations

from analysis.judge.side import Side
from analysis.read.load import RunRecord
from harness.metrics.catalogue import MetricInfo

_OF_MEDIA = frozenset({"media_bytes", "wa_dev", "wa_total"})
_NONE = "no model"


def unlike(key: str, info: MetricInfo, base: Side, level: Side) -> str | None:  # noqa: ARG001
    """Return why a metric of media cannot be compared; None if it can.

    Runs without a conventional device do not matter: M of zones is H + P.
    """
    if info.name not in _OF_MEDIA:
        return None
    left, right = base.once(_models), level.once(_models)
    if len(left | right) <= 1:
        return None
    names = [" or ".join(sorted(side)) or "zones" for side in (left, right)]
    return f"media of conventional devices: {names[0]} vs {names[1]}"


def _models(side: Side) -> frozenset[str]:
    return frozenset(model for run in side.ok if (model := _model(run)) is not None)


def _model(run: RunRecord) -> str | None:
    if run.spec.conventional is None:
        return None
    return run.spec.media_model.name if run.spec.media_model else _NONE
