"""The sections of the report: each module of this folder is one, found by its name.

A module has a function ``section`` and its place on the page, ``ORDER``.
"""

from __future__ import annotations

from analysis.show.parts import ReportData, Section
from harness.discovery import modules


def sections_of(data: ReportData) -> list[Section]:
    """Return every section that has something to show, in the order of the page."""
    ordered = sorted(modules(__name__, __path__), key=lambda module: module.ORDER)
    sections = (module.section(data) for module in ordered)
    return [section for section in sections if section is not None]
