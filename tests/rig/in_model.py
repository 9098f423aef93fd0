"""Jobs on the timed rig's zoned drive in virtual time, by ``zonemodel``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.plan.drive_files import job_input, load_model, program_input
from harness.plan.job_models import Job
from harness.plan.load import build
from harness.tools import zonemodel

MODEL = "zones-4m"


def play(name: str, **fields: Any) -> Mapping[str, Mapping[str, Any]]:
    """Play a job whose only client is ``client``; return its results by command."""
    job = build(Job, {"schema_version": 1, "name": name, **fields}, name)
    drive = _without_gaps(program_input(load_model(MODEL)))
    (played,) = zonemodel.run(drive, [job_input(job)], 1)
    return played.clients["client"]


def _without_gaps(drive: dict[str, Any]) -> dict[str, Any]:
    """Return a drive whose host sends its next request at once.

    ``host.gap`` is the time of the published points' host. A dilated guest takes nearly none, so
    a full write buffer delays its writes instead.
    """
    host = drive["host"]
    gaps = {name: {**host[name], "value": "0us"} for name in ("gap", "gap_per_kib")}
    return {**drive, "host": {**host, **gaps}}
