"""The sections of the report: each module of this folder is one, found by its name.

A module has a function ``section`` and its place on the page, ``ORDER``.
"""

from __future__ import annotations

import importlib
import pkgutil

from analysis.show.parts import ReportData, Section


def sections_of(data: ReportData) -> list[Section]:
    """Return every section that has something to show, in the order of the page."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    sections = (module.section(data) for module in sorted(modules, key=lambda one: one.ORDER))
    return [section for section in sections if section is not None]
