"""Types of fields in configuration files: names, flags, sizes, times and shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, ParamSpec, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from harness.errors import ConfigError
from harness.quantities import SIZES, TIMES, parse_seconds, parse_share, parse_size

T = TypeVar("T")
P = ParamSpec("P")

Flag = str | bool | int | float
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
FlagName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class Model(BaseModel):
    """Base of all models: unknown fields are errors, and no value is converted silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    PAGE: ClassVar[str] = "docs/studies.md"  # explains the file; hints name it


class FieldError(ValueError):
    """A wrong value in a configuration file. The loader adds file and field to the message."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def checked(check: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a check or a parser; pydantic takes only ValueErrors.

    Raises:
        FieldError: it raised ConfigError.
    """
    try:
        return check(*arguments, **named)
    except ConfigError as error:
        raise FieldError(error.message, error.hint) from None


def validated_by(parse: Callable[[Any], Any]) -> BeforeValidator:
    """Return a pydantic validator that parses a field and reports its ConfigError."""
    return BeforeValidator(lambda value: checked(parse, value))


def _schema(kind: str, units: str) -> WithJsonSchema:
    pattern = rf"^\s*\d+(\.\d+)?\s*({units})?\s*$"
    return WithJsonSchema({"anyOf": [{"type": kind}, {"type": "string", "pattern": pattern}]})


Size = Annotated[int, validated_by(parse_size), Field(ge=0), _schema("integer", "|".join(SIZES))]
Seconds = Annotated[
    int, validated_by(parse_seconds), Field(gt=0), _schema("integer", "|".join(TIMES))
]
Share = Annotated[float, validated_by(parse_share), Field(ge=0, le=1), _schema("number", "%")]
# Can exceed 1: 150% is one and a half processors.
Processors = Annotated[float, validated_by(parse_share), Field(gt=0), _schema("number", "%")]
