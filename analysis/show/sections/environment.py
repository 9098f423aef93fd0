"""Hosts, devices and every recorded setting."""

from __future__ import annotations

from analysis import numbers
from analysis.judge import modelled
from analysis.read.drives import RecordedDrive
from analysis.show.parts import Grid, Paragraph, ReportData, Section
from harness.rig.model import overhead_left

ORDER = 130


def section(data: ReportData) -> Section:
    """Return the hosts, and every recorded value of the ok runs."""
    header, rows = data.tables["recorded"]
    title = f"Recorded settings of the runs: {len(rows)} values"
    recorded = Grid("recorded", header, rows, folded=title, method="comparability")
    hosts = Grid("environment", *data.tables["environment"])
    drives = modelled.drives_of(data.comparison.pool.campaigns)
    taken = [Paragraph(_overhead_sentence(drive)) for drive in drives]
    return Section("environment", "Environment", [hosts, *taken, recorded])


def _overhead_sentence(drive: RecordedDrive) -> str:
    """Return a sentence on the time that a drive's server subtracts, and the remaining error."""
    name = f"{drive.model} (k = {drive.dilation})"
    if not drive.overhead_us:
        return f"{name}: each request includes the time of this machine's own path."
    of_model = numbers.human(drive.overhead_us / drive.dilation, "us")
    text = f"{name}: {of_model} are subtracted from each request for the machine's own path."
    left = overhead_left(drive.model, drive.dilation, drive.overhead_us)
    return text if left is None else f"{text} At 4 KiB and above, at most {left:g} % remains."
