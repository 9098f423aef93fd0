"""Models of the fields that programs declare for their phases (harness/workloads)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import Field, create_model, model_validator

from harness.plan.fields import Model, Share, Size, checked
from harness.workloads.load_program import LoadProgram
from harness.workloads.planning import Bounds, Quantity

M = TypeVar("M", bound=Model)

_QUANTITIES: Mapping[Quantity, Any] = {Quantity.SIZE: Size, Quantity.SHARE: Share}


def phase_fields(programs: Mapping[str, LoadProgram]) -> dict[str, Any]:
    """Return the optional field of each program that runs phases of a database workload."""
    return {
        program.field: (_field(program), None)
        for program in programs.values()
        if program.uses_database
    }


def bare_models(programs: Mapping[str, LoadProgram], base: type[M]) -> dict[str, type[M]]:
    """Return a model of workload files for each program without a database, by its field."""
    models: dict[str, type[M]] = {
        program.field: create_model(
            program.file_schema.title().replace("-", ""),
            __base__=base,
            __doc__=base.__doc__,
            **{program.field: (_model(program.work), ...)},  # type: ignore[call-overload]
        )
        for program in programs.values()
        if not program.uses_database
    }
    return models


def _field(program: LoadProgram) -> Any:
    model = _model(program.work) if is_dataclass(program.work) else program.work
    if program.digest_field:
        return Annotated[model | None, Field(serialization_alias=program.digest_field)]
    return model | None


def _model(work: Any) -> type[Model]:
    """Return a model of a dataclass: a subclass that checks its fields and refuses others."""
    hints = get_type_hints(work, include_extras=True)
    named = {
        field.name: (
            _annotation(hints[field.name]),
            ... if field.default is MISSING else field.default,
        )
        for field in fields(work)
    }

    def check(self: Any) -> Any:
        checked(self.check)
        return self

    validators: dict[str, Any] = {"_checked": model_validator(mode="after")(check)}
    return create_model(  # type: ignore[call-overload,no-any-return]
        work.__name__,
        __base__=(Model, work),
        __doc__=work.__doc__,
        __validators__=validators if hasattr(work, "check") else {},
        **named,
    )


def _annotation(hint: Any) -> Any:
    """Return a type with pydantic's constraints in place of ours."""
    if is_dataclass(hint):
        return _model(hint)
    if get_origin(hint) is Annotated:
        base, *marks = get_args(hint)
        base = _annotation(base)
        for mark in marks:
            if isinstance(mark, Quantity):
                base = _QUANTITIES[mark]
            elif isinstance(mark, Bounds):
                limits = {name: at for name, at in asdict(mark).items() if at is not None}
                base = Annotated[base, Field(**limits)]
        return base
    if get_origin(hint) in (UnionType, Union):
        return reduce(or_, map(_annotation, get_args(hint)))
    if get_origin(hint) is tuple:
        return tuple[tuple(map(_annotation, get_args(hint)))]  # type: ignore[misc]
    return hint
