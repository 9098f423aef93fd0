"""Fields of configuration files that are sizes, times and shares (harness/quantities.py)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from harness.errors import ConfigError
from harness.quantities import (
    LARGEST,
    SIZES,
    TIMES,
    format_size,
    parse_seconds,
    parse_share,
    parse_size,
)

__all__ = [
    "LARGEST",
    "FieldError",
    "Seconds",
    "Share",
    "Size",
    "format_size",
    "parse_seconds",
    "parse_share",
    "parse_size",
]


class FieldError(ValueError):
    """A value in a configuration file is wrong. The loader adds file and field to it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def _validator(parse: Any) -> BeforeValidator:
    def validate(value: object) -> Any:
        try:
            return parse(value)
        except ConfigError as error:
            raise FieldError(error.message, error.hint) from None

    return BeforeValidator(validate)


def _schema(kind: str, units: str) -> WithJsonSchema:
    pattern = rf"^\s*\d+(\.\d+)?\s*({units})?\s*$"
    return WithJsonSchema({"anyOf": [{"type": kind}, {"type": "string", "pattern": pattern}]})


Size = Annotated[int, _validator(parse_size), Field(ge=0), _schema("integer", "|".join(SIZES))]
Seconds = Annotated[
    int, _validator(parse_seconds), Field(gt=0), _schema("integer", "|".join(TIMES))
]
Share = Annotated[float, _validator(parse_share), Field(ge=0, le=1), _schema("number", "%")]
# Of processors, of which there may be several: 150% is one and a half.
Processors = Annotated[float, _validator(parse_share), Field(gt=0), _schema("number", "%")]
