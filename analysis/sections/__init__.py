"""The sections of the report, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable

from analysis.sections import (
    device_bytes,
    environment,
    finish,
    history,
    issues,
    latency,
    methods,
    over_time,
    published,
    runs,
    tenants,
    throughput,
    utilisation,
    values,
    verdicts,
)
from analysis.sections.base import Context, Section

# One section a line; CONTRIBUTING tells how to add one.
SECTIONS: tuple[Callable[[Context], Section | None], ...] = (
    tenants.section,
    verdicts.section,
    finish.section,
    throughput.section,
    latency.section,
    history.section,
    device_bytes.section,
    utilisation.section,
    over_time.section,
    published.section,
    issues.section,
    runs.section,
    environment.section,
    values.section,
    methods.section,
)


def sections_of(context: Context) -> list[Section]:
    """Return every section that has something to show."""
    found = (make(context) for make in SECTIONS)
    return [section for section in found if section is not None]
