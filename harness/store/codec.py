"""Strict conversion between JSON and frozen dataclasses: unknown and missing fields are errors."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from harness.errors import ConfigError

T = TypeVar("T")

SCHEMA_VERSION = 1


def encode(value: Any) -> Any:
    """Turn a tree of dataclasses into plain JSON types; fields keep their order."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(cls: type[T], data: Any, where: str = "$") -> T:
    """Build ``cls`` from parsed JSON.

    Raises:
        ConfigError: a field is unknown, missing or of the wrong type; the message names its path.
    """
    return typing.cast("T", _reader(cls).read(data, where))


def check_version(data: Any, what: str) -> None:
    """Raise ConfigError unless ``data`` is an object of this schema version."""
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"{what} has schema_version {version!r}, but this zonelab reads {SCHEMA_VERSION}",
            hint="use the zonelab release that wrote it, or start a new campaign",
            code="schema-version",
        )


# The path of a value: names and indexes, innermost last. Only error messages join it, because a
# campaign has millions of values.
_Place = str | tuple["_Place", str | int]
_Read = Callable[[Any, _Place], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class _TypeReader:
    """Reads one type. Values whose type is in ``plain_types`` need no call of ``read``."""

    read: _Read
    plain_types: frozenset[type] = frozenset()


def _reader(kind: Any) -> _TypeReader:
    origin = typing.get_origin(kind)
    if kind is Any:
        return _TypeReader(lambda data, _: data)
    if origin in (typing.Union, types.UnionType):
        return _of_union([_reader(option) for option in typing.get_args(kind)])
    if origin in (tuple, list):
        return _TypeReader(_of_list(origin, _reader(typing.get_args(kind)[0])))
    if origin in (dict, Mapping):
        return _TypeReader(_of_mapping(_reader(typing.get_args(kind)[1])))
    if dataclasses.is_dataclass(kind):
        return _TypeReader(_of_record(typing.cast("Any", kind)))
    return _of_scalar(kind)


def _of_union(options: Sequence[_TypeReader]) -> _TypeReader:
    """Return a reader of the first option that fits. If none fits, it raises the first error."""

    def read(data: Any, where: _Place) -> Any:
        problem = None
        for option in options:
            try:
                return option.read(data, where)
            except ConfigError as error:
                if option is not _NULL:
                    problem = problem or error.message
        raise ConfigError(problem or f"{_path(where)}: unexpected {data!r}")

    plain: set[type] = {type(None)} if _NULL in options else set()
    for option in options:
        if not option.plain_types:  # it may convert values of types that later options keep
            break
        # A float option converts integers unless an int option comes first.
        plain |= option.plain_types - ({int} if float in plain and int not in plain else set())
    return _TypeReader(read, frozenset(plain))


def _of_list(kind: type, item: _TypeReader) -> _Read:
    def read(data: Any, where: _Place) -> Any:
        if not isinstance(data, list):
            raise _mismatch(where, "a list", data)
        plain_types, read_item = item.plain_types, item.read
        return kind(
            [
                value if type(value) in plain_types else read_item(value, (where, index))
                for index, value in enumerate(data)
            ]
        )

    return read


def _of_mapping(item: _TypeReader) -> _Read:
    def read(data: Any, where: _Place) -> Any:
        if not isinstance(data, dict):
            raise _mismatch(where, "an object", data)
        plain_types, read_item = item.plain_types, item.read
        return {
            key: value if type(value) in plain_types else read_item(value, (where, key))
            for key, value in data.items()
        }

    return read


@cache  # resolving the type hints of a class takes longer than decoding one record
def _of_record(kind: Any) -> _Read:
    hints = typing.get_type_hints(kind)
    nothing = dataclasses.MISSING
    fields = {
        field.name: field.default is nothing and field.default_factory is nothing
        for field in dataclasses.fields(kind)
    }
    known, readers = fields.keys(), {name: _reader(hints[name]) for name in fields}

    def read(data: Any, where: _Place) -> Any:
        if not isinstance(data, dict):
            raise _mismatch(where, "an object", data)
        if not known >= data.keys():
            name = next(name for name in data if name not in fields)
            raise ConfigError(f"{_path(where)}: unknown field {name!r}", code="unknown-field")
        values = {}
        for name, required in fields.items():
            if name in data:
                value, reader = data[name], readers[name]
                if type(value) not in reader.plain_types:
                    value = reader.read(value, (where, name))
                values[name] = value
            elif required:
                raise ConfigError(f"{_path(where)}: missing field {name!r}", code="missing-field")
        return kind(**values)

    return read


def _of_scalar(kind: Any) -> _TypeReader:
    if kind is type(None):
        return _NULL
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _TypeReader(_of_enum(kind))
    base = getattr(kind, "__supertype__", kind)

    def read(data: Any, where: _Place) -> Any:
        if base is float and isinstance(data, int) and not isinstance(data, bool):
            return float(data)
        if not isinstance(data, base) or (isinstance(data, bool) and base is not bool):
            raise _mismatch(where, base.__name__, data)
        return data

    return _TypeReader(read, frozenset({base}))


def _of_enum(kind: type[Enum]) -> _Read:
    members = {member.value: member for member in kind}

    def read(data: Any, where: _Place) -> Any:
        try:
            return members[data]
        except (KeyError, TypeError):
            choices = ", ".join(str(value) for value in members)
            raise _mismatch(where, f"one of {choices}", data) from None

    return read


def _null(data: Any, where: _Place) -> None:
    if data is not None:
        raise _mismatch(where, "null", data)


_NULL = _TypeReader(_null, frozenset({type(None)}))


def _path(where: _Place) -> str:
    if isinstance(where, str):
        return where
    outer, step = where
    return f"{_path(outer)}[{step}]" if isinstance(step, int) else f"{_path(outer)}.{step}"


def _mismatch(where: _Place, expected: str, data: Any) -> ConfigError:
    return ConfigError(f"{_path(where)}: expected {expected}, got {data!r}", code="wrong-type")
