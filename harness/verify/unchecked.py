"""What the files of a campaign do not allow ``zonelab verify`` to check."""

from __future__ import annotations

from harness.errors import ZonelabError
from harness.levels import LEVELS
from harness.machine import code
from harness.store import rundir
from harness.store.campaign import CampaignPaths
from harness.store.observed import NAME
from harness.store.result import Status
from harness.verify.judged import load_observed


def notes(paths: CampaignPaths) -> list[str]:
    """Return one line per kind of check that was left out, with the number of runs."""
    old = unknown = other = mixes = singles = unsampled = gauges = logs = 0
    for host in paths.hosts():
        for folder in rundir.completed(paths.runs(host)):
            try:
                result, spec = rundir.load_result(folder), rundir.load_spec(folder)
                observed = load_observed(folder)
            except ZonelabError:
                continue
            if not result.device.kind.ran or result.status is Status.SKIPPED:
                continue
            other += code.recorded(result.manifest) != code.runner()["source"]
            unknown += any(name not in LEVELS for name in spec.levels)
            old += observed is None
            if spec.tenants:
                mixes += observed is None or observed.together is None
                singles += observed is None or observed.tenants is None
            unsampled += observed is None or observed.longest_gap is None
            gauges += observed is None or observed.digests is None
            logs += observed is None or observed.kernel_log_digest is None
    texts = (
        (
            old,
            f"without {NAME}: clock, tracing, and the levels' own checks",
        ),
        (mixes, "with tenants, of older releases: all issues of the rules"),
        (singles, "with tenants, of older releases: issues of single tenants, and use of zones"),
        (logs, "of older releases: lines of the kernel log"),
        (unsampled, "of older releases: holes and cut ends of series of gauges"),
        (gauges, "of older releases: values of gauges"),
        (other, "by other code than this zonelab: the wording of issues"),
        (unknown, "of levels that this zonelab does not have: issues of the rules"),
    )
    return [f"{count} runs {text}" for count, text in texts if count]
