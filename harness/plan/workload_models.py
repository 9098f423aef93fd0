"""Files in ``configs/workloads``: the phases over one database, and its size."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model, model_validator

from harness.plan.fields import (
    FieldError,
    Flag,
    FlagName,
    Model,
    Name,
    Seconds,
    Share,
    Size,
    checked,
)
from harness.plan.program_fields import bare_models, phase_fields
from harness.store.spec import PhaseRole
from harness.workloads import PROGRAMS
from harness.workloads.load_program import LoadProgram
from harness.workloads.planning import PlannedPhase

# A workload file can extend another one and then contains only the differences (docs/studies.md).
# Its flags replace the other's flags one by one; every other field is replaced as a whole.
# The fields in OWN_FIELDS are never taken over.
EXTENDS = "extends"
OWN_FIELDS = ("name", "description")


class Operations(Model):
    """Number of operations of a phase: exactly one rule, and an optional upper limit.

    ``keys``: a multiple of the number of keys. ``free_space``: enough operations for a user payload
    that is this multiple of the space left after the fill. ``count``: this number. ``duration``: as
    many as fit into this time (db_bench ``--duration``). ``at_most``: the upper limit.
    """

    keys: Annotated[float, Field(gt=0)] | None = None
    free_space: Annotated[float, Field(gt=0)] | None = None
    count: Annotated[int, Field(gt=0, lt=2**63)] | None = None
    duration: Seconds | None = None
    at_most: Annotated[int, Field(gt=0, lt=2**63)] | None = None

    @model_validator(mode="after")
    def _one_rule(self) -> Operations:
        rules = [self.keys, self.free_space, self.count, self.duration]
        if sum(rule is not None for rule in rules) != 1:
            raise FieldError("operations needs exactly one of keys, free_space, count and duration")
        return self


class PhaseBase(Model):
    """The fields that phases of all programs share; ``Phase`` adds one for each program."""

    name: Name
    role: Literal["fill", "measured"]
    operations: Operations
    flags: dict[FlagName, Flag] = {}
    expects_gc: bool = False
    timeout: Seconds = 300
    stall_timeout: Seconds = 600
    assumed_write_amplification: Annotated[float, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_program(self) -> PhaseBase:
        given = [one for one in _PROGRAMS if getattr(self, one.field) is not None]
        if len(given) != 1:
            known = ", ".join(f"{one.field} ({one.name})" for one in _PROGRAMS)
            raise FieldError(f"phase {self.name} needs exactly one of: {known}")
        return self

    @property
    def program(self) -> LoadProgram:
        """The program that runs the phase."""
        return next(one for one in _PROGRAMS if getattr(self, one.field) is not None)

    @property
    def work(self) -> Any:
        """The value of the program's field."""
        return getattr(self, self.program.field)

    def planned(self, operations: int | None = None) -> PlannedPhase:
        """Return the phase as programs take it, with its number of operations once it is known."""
        return PlannedPhase(
            self.name,
            PhaseRole(self.role),
            self.work,
            self.flags,
            operations,
            self.operations.duration,
        )


_PROGRAMS = [program for program in PROGRAMS.values() if program.uses_database]
_FIELDS = " or of ".join(f"{one.name} (``{one.field}``)" for one in _PROGRAMS)
_PHASE = f"""One invocation of {_FIELDS}.

``timeout`` is a lower bound: the planner raises it for large devices.

``stall_timeout`` ends a phase that completes no operation for this long, because RocksDB can
wait forever for free space. 0 turns it off.

``assumed_write_amplification`` is the number of file bytes (WAL, flush, compaction) per user
byte. It is used only to predict bytes and time.
"""
if TYPE_CHECKING:
    Phase = PhaseBase
else:
    Phase = create_model("Phase", __base__=PhaseBase, __doc__=_PHASE, **phase_fields(PROGRAMS))


class Workload(Model):
    """A sequence of phases over one database, all run by one program.

    ``database_share`` is the size of the database after its first fill, as a share of the device's
    zone capacity. The number of keys follows from it. ``fill_share`` is the size of the files after
    that fill, per byte of (keys x entry). ``peak_share`` is the same for the largest moment of the
    later phases. Both are measured on the rig nvme.

    ``target_file_size_base`` is ``zone_fill`` x zone capacity / n. n is the smallest whole number,
    at least ``files_per_zone``, that makes it ``largest_file`` or less.
    ``write_buffers_per_file`` and ``level_base_in_write_buffers`` size the memtable and L1 from it.
    ``compaction_debt`` limits the bytes that wait for compaction, as a share of the capacity.
    Without this limit the database outgrows its space whenever writes are faster than compaction.
    """

    name: Name
    description: str
    key_size: Annotated[int, Field(ge=4, lt=2**31)]
    value_size: Size
    database_share: Share
    fill_share: Annotated[float, Field(gt=0, le=2)]
    peak_share: Annotated[float, Field(gt=0, le=4)]
    zone_fill: Share = 0.95
    largest_file: Size = 64 * 2**20
    files_per_zone: Annotated[int, Field(ge=1, le=1024)] = 1
    write_buffers_per_file: Annotated[float, Field(gt=0)] = 1.0
    level_base_in_write_buffers: Annotated[float, Field(gt=0)] = 4.0
    compaction_debt: Share
    flags: dict[FlagName, Flag]
    phases: Annotated[tuple[Phase, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _phases_make_sense(self) -> Workload:
        names = [phase.name for phase in self.phases]
        if len(set(names)) != len(names):
            raise FieldError(f"phase names must differ: {', '.join(names)}")
        roles = [phase.role for phase in self.phases]
        if roles[0] != "fill" or roles != sorted(roles):
            raise FieldError(
                "the first phase must have the role fill, and all fill phases must come first"
            )
        programs = sorted({phase.program.name for phase in self.phases})
        if len(programs) > 1:
            raise FieldError(
                f"phases of a workload have one program, not both {' and '.join(programs)}",
                hint="each program stores different keys",
            )
        checked(self.phases[0].program.check, [phase.planned() for phase in self.phases])
        if self.value_size < 1:
            raise FieldError("value_size must be at least 1 byte")
        return self


class BareWorkload(Model):
    """A workload for bare zones (level ``raw-device``): one phase, no database, no cold data."""

    name: Name
    description: str
    timeout: Seconds = 300

    @property
    def program(self) -> LoadProgram:
        """The program that runs the phase."""
        fields = type(self).model_fields
        return next(
            one for one in PROGRAMS.values() if not one.uses_database and one.field in fields
        )

    @property
    def work(self) -> Any:
        """The value of the program's field."""
        return getattr(self, self.program.field)


AnyWorkload = Workload | BareWorkload

# Models of workload files by the field that selects the program.
BARE_WORKLOADS = bare_models(PROGRAMS, BareWorkload)


def model_of(fields: Container[str]) -> type[AnyWorkload]:
    """Return the model of a workload with these fields."""
    return next((model for field, model in BARE_WORKLOADS.items() if field in fields), Workload)
