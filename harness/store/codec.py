"""Strict JSON for frozen dataclasses: unknown and missing fields are errors, null is not zero."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from harness.errors import ConfigError

T = TypeVar("T")

SCHEMA_VERSION = 1


def encode(value: Any) -> Any:
    """Turn a dataclass (or a tree of them) into plain JSON types, field order kept."""
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
        ConfigError: a field is unknown, missing or of another type; the message names its path.
    """
    return typing.cast("T", _decode(cls, data, where))


def check_version(data: Any, what: str) -> None:
    """Raise ConfigError unless ``data`` is an object of this schema version."""
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"{what} has schema_version {version!r}, this zonelab reads {SCHEMA_VERSION}",
            hint="use the zonelab release that wrote it, or start a new campaign",
            code="schema-version",
        )


def _decode(kind: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return data
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data, where)
    if origin in (tuple, list):
        if not isinstance(data, list):
            raise _mismatch(where, "a list", data)
        item = typing.get_args(kind)[0]
        items = [_decode(item, entry, f"{where}[{i}]") for i, entry in enumerate(data)]
        return tuple(items) if origin is tuple else items
    if origin in (dict, Mapping):
        if not isinstance(data, dict):
            raise _mismatch(where, "an object", data)
        item = typing.get_args(kind)[1]
        return {key: _decode(item, entry, f"{where}.{key}") for key, entry in data.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, where)
    return _decode_scalar(kind, data, where)


def _decode_union(options: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in options:
        return None
    problems = []
    for option in options:
        if option is type(None):
            continue
        try:
            return _decode(option, data, where)
        except ConfigError as error:
            problems.append(error.message)
    raise ConfigError(problems[0] if problems else f"{where}: unexpected {data!r}")


def _decode_dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _mismatch(where, "an object", data)
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for name in data:
        if name not in fields:
            raise ConfigError(f"{where}: unknown field {name!r}", code="unknown-field")
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _decode(hints[name], data[name], f"{where}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{where}: missing field {name!r}", code="missing-field")
    return kind(**values)


def _decode_scalar(kind: Any, data: Any, where: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(data)
        except ValueError:
            choices = ", ".join(str(member.value) for member in kind)
            raise _mismatch(where, f"one of {choices}", data) from None
    base = getattr(kind, "__supertype__", kind)
    if base is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, base) or (isinstance(data, bool) and base is not bool):
        raise _mismatch(where, base.__name__, data)
    return data


def _mismatch(where: str, expected: str, data: Any) -> ConfigError:
    return ConfigError(f"{where}: expected {expected}, got {data!r}", code="wrong-type")
