"""Workloads: phases of the programs that load a database, their argument lists and metrics."""

from __future__ import annotations

from collections.abc import Mapping

from harness.store.spec import PhaseSpec
from harness.workloads import db_bench, kvmix, zoneprobe
from harness.workloads.base import LoadProgram

PROGRAMS: Mapping[str, LoadProgram] = {
    "db_bench": db_bench,
    "kvmix": kvmix,
    "zoneprobe": zoneprobe,
}


def loads_database(spec: PhaseSpec) -> bool:
    """Whether a phase is one of RocksDB's."""
    return program_of(spec) is not zoneprobe


def program_of(spec: PhaseSpec) -> LoadProgram:
    """Return the program of a phase; KeyError: it belongs to a newer zonelab."""
    return PROGRAMS[spec.program]
