"""What the files of a campaign do not allow ``zonelab verify`` to check."""

from __future__ import annotations

from harness.errors import ZonelabError
from harness.levels import LEVELS
from harness.machine import code
from harness.store import rundir
from harness.store.campaign import CampaignPaths
from harness.store.result import Status


def notes(paths: CampaignPaths) -> list[str]:
    """Return one line per kind of check that was left out, with the number of runs."""
    unknown = other = 0
    for host in paths.hosts():
        for folder in rundir.completed(paths.runs(host)):
            try:
                result, spec = rundir.load_result(folder), rundir.load_spec(folder)
            except ZonelabError:
                continue
            if not result.device.kind.ran or result.status is Status.SKIPPED:
                continue
            other += code.recorded(result.manifest) != code.runner()["source"]
            unknown += any(name not in LEVELS for name in spec.levels)
    texts = (
        (other, "by other code than this zonelab: the wording of issues"),
        (unknown, "of levels that this zonelab does not have: issues of the rules"),
    )
    return [f"{count} runs {text}" for count, text in texts if count]
