"""Strict JSON: round trips, and every way a file can be wrong."""

import json
from dataclasses import dataclass
from enum import StrEnum

import pytest

from harness.errors import ConfigError
from harness.store.codec import check_version, decode, encode


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    name: str
    share: float | None


@dataclass(frozen=True)
class Outer:
    inner: Inner
    many: tuple[Inner, ...]
    colour: Colour
    table: dict[str, int | str | bool]
    count: int
    note: str = ""


GOOD = Outer(Inner("a", None), (Inner("b", 0.5),), Colour.RED, {"x": 1, "y": "z", "t": True}, 3)


def test_round_trip_through_text_keeps_everything() -> None:
    assert decode(Outer, json.loads(json.dumps(encode(GOOD)))) == GOOD


def test_defaults_can_be_omitted_and_integers_serve_as_floats() -> None:
    data = encode(GOOD)
    del data["note"]
    data["inner"]["share"] = 1
    assert decode(Outer, data).inner.share == 1.0


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("count",), "3", "$.count: expected int, got '3'"),
        (("count",), True, "$.count: expected int, got True"),
        (("count",), None, "$.count: expected int, got None"),
        (("colour",), "blue", "$.colour: expected one of red, got 'blue'"),
        (("many", 0, "name"), 4, "$.many[0].name: expected str, got 4"),
        (("many",), {}, "$.many: expected a list, got {}"),
        (("inner",), [], "$.inner: expected an object, got []"),
        (("surprise",), 1, "$: unknown field 'surprise'"),
        (("table", "x"), [1], "$.table.x: expected int, got [1]"),
    ],
)
def test_each_deviation_is_named_by_its_path(path: tuple, value: object, message: str) -> None:
    data = encode(GOOD)
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ConfigError) as caught:
        decode(Outer, data)
    assert caught.value.message == message


def test_a_missing_field_is_an_error() -> None:
    data = encode(GOOD)
    del data["count"]
    with pytest.raises(ConfigError, match="missing field 'count'"):
        decode(Outer, data)


@pytest.mark.parametrize("data", [{"schema_version": 2}, {}, [], None])
def test_another_schema_is_refused(data: object) -> None:
    with pytest.raises(ConfigError, match="schema_version"):
        check_version(data, "result.json")
