"""Programs of phases: a concrete ``LoadProgram`` in a module of this folder."""

from __future__ import annotations

from harness.discovery import instances
from harness.store.spec import PhaseSpec
from harness.workloads.load_program import LoadProgram


def discover() -> dict[str, LoadProgram]:
    """Return one instance of each program by its name."""
    return {program.name: program for program in instances(__name__, __path__, LoadProgram)}  # type: ignore[type-abstract]


def program_of(spec: PhaseSpec) -> LoadProgram:
    """Return the program of a phase; KeyError: it belongs to a newer zonelab."""
    return PROGRAMS[spec.program]


def packages() -> list[str]:
    """Return the distribution packages of all programs, sorted."""
    return sorted({package for program in PROGRAMS.values() for package in program.packages})


PROGRAMS = discover()
