"""Where the bytes went: to each device, and from the user to the media."""

from __future__ import annotations

from analysis import figures, flow_figure
from analysis.sections.base import Context, Grid, Heading, Part, Plots, Section, Text, without_runs

ID, TITLE = "bytes", "Bytes to each device"


def section(context: Context) -> Section:
    """Return figures, RocksDB's own levels, and the ledger where runs have one."""
    none = without_runs(ID, TITLE, context)
    if none is not None:
        return none
    comparison, groups = context.comparison, context.groups
    parts: list[Part] = [
        Plots([figures.device_bytes(comparison, groups, phase) for phase in context.phases])
    ]
    parts.append(
        Grid("lsm", *context.tables["lsm"], folded="RocksDB's levels behind each phase",
             source="raw/{phase}.stdout", method="rocksdb")
    )  # fmt: skip
    header, rows = context.tables["ledger"]
    if rows:
        parts += [
            Heading("ledger", "Ledger"),
            Plots([flow_figure.from_user_to_media(comparison, groups)]),
            Text("Bytes of each interval between two barriers. Whether adjacent layers agree is "
                 "told under Closures.", soft=True),
            Grid("ledger", header, rows, source="ledger.json", method="bytes",
                 folded="Ledger of every run and interval"),
        ]  # fmt: skip
    return Section(ID, TITLE, parts)
