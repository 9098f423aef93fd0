"""Values of model and job files: times, sizes and rates as text with a unit, and their origin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, Field, WithJsonSchema

from harness import quantities
from harness.plan.fields import FieldError, Model, checked

TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
BYTES = {unit: quantities.SIZES[unit] for unit in ("B", "KiB", "MiB", "GiB")}
BANDWIDTHS = {f"{unit}/s": BYTES[unit] for unit in ("MiB", "GiB")}
RATES = {**BANDWIDTHS, "/s": 1}

T = TypeVar("T")


def number(text: str, units: dict[str, int], what: str) -> Decimal:
    """Return the number of nanoseconds, bytes or bytes a second that ``text`` stands for.

    Raises:
        FieldError: not a number of 0 or more with one of ``units``.
    """
    return checked(quantities.number, text, units, what)


def nanoseconds(text: str) -> float:
    """Return a time in nanoseconds."""
    return float(number(text, TIMES, "time"))


def size(text: str) -> int:
    """Return a size in bytes."""
    return int(number(text, BYTES, "size"))


def _text(units: dict[str, int], what: str) -> tuple[AfterValidator, WithJsonSchema]:
    def check(text: str) -> str:
        value = number(text, units, what)
        if units is BYTES and value != int(value):
            raise FieldError(f"{text!r} is not a whole number of bytes")
        return text

    pattern = rf"^\d+(\.\d{{1,9}})?\s*({'|'.join(units)})$"
    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": pattern})


_TIME, _BYTES = _text(TIMES, "time"), _text(BYTES, "size")
_BANDWIDTH, _RATE = _text(BANDWIDTHS, "bandwidth"), _text(RATES, "rate")
Time = Annotated[str, _TIME[0], _TIME[1]]
ByteSize = Annotated[str, _BYTES[0], _BYTES[1]]
Bandwidth = Annotated[str, _BANDWIDTH[0], _BANDWIDTH[1]]
Rate = Annotated[str, _RATE[0], _RATE[1]]
Percent = Annotated[float, Field(ge=0, le=100)]
Count = Annotated[int, Field(ge=0, le=2**32)]

Origin = Literal["measured", "derived", "fitted", "assumed"]


class Sourced(Model, Generic[T]):
    """A value, where it comes from, and its source."""

    value: T
    origin: Origin
    source: Annotated[str, Field(min_length=1)]


SourcedTime = Sourced[Time]
SourcedBytes = Sourced[ByteSize]
SourcedBandwidth = Sourced[Bandwidth]
SourcedPercent = Sourced[Percent]
SourcedCount = Sourced[Count]


def sourced(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each sourced value in the data of a model, with its name: ``flash.read_4k``."""
    for name, part in data.items():
        if not isinstance(part, dict):
            continue
        if part.keys() == Sourced.model_fields.keys():
            yield prefix + name, part
        else:
            yield from sourced(part, f"{prefix}{name}.")


def newest(known: int, what: str) -> Callable[[int], int]:
    """Return a check that refuses a schema version above ``known``."""

    def check(version: int) -> int:
        if version > known:
            raise FieldError(
                f"{version} is newer than {known}",
                hint=f"a newer zonelab wrote this {what}: use that release",
            )
        if version < 1:
            raise FieldError(f"{version} is not a version", hint=f"write {known}")
        return version

    return check
