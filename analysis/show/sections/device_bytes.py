"""Bytes written to each device, and from the user to the media."""

from __future__ import annotations

from analysis.show import figures, flow_figure
from analysis.show.parts import (
    Grid,
    Heading,
    Paragraph,
    Part,
    Plots,
    ReportData,
    Section,
    without_runs,
)

ORDER = 70
ID, TITLE = "bytes", "Bytes to each device"
_LEDGER = (
    "Bytes of each interval between two barriers. The heading Closures shows whether adjacent "
    "layers agree."
)


def section(data: ReportData) -> Section | None:
    """Return figures, the levels of RocksDB's tree, and the ledger where runs have one."""
    if none := without_runs(ID, TITLE, data):
        return none
    comparison, groups = data.comparison, data.groups
    levels = Grid(
        "lsm",
        *data.tables["lsm"],
        folded="RocksDB's levels after each phase",
        source="raw/{phase}.stdout",
        method="rocksdb",
    )
    parts: list[Part] = [
        Plots([figures.device_bytes(comparison, groups, phase) for phase in data.phases]),
        levels,
    ]
    ledger = Grid(
        "ledger",
        *data.tables["ledger"],
        folded="Ledger of every run and interval",
        source="ledger.json",
        method="the-ledger",
    )
    if ledger.rows:
        plot = flow_figure.from_user_to_media(comparison, groups)
        parts += [Heading("ledger", "Ledger"), Plots([plot]), Paragraph(_LEDGER, soft=True), ledger]
    return Section(ID, TITLE, parts) if data.phases or ledger.rows else None
