"""The common time of tenants: how they ended, when, and where they were."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.store.observed import TenantFacts
from harness.store.result import Metric
from harness.store.spec import Extent
from harness.verify import tenants

WELL = SimpleNamespace(ended_well=True, exit_code=0, signal=None, seconds=10.0)
KILLED = SimpleNamespace(ended_well=False, exit_code=None, signal=9, seconds=10.0)
FAILED = SimpleNamespace(ended_well=False, exit_code=3, signal=None, seconds=10.0)


def tenant(name: str, facts: Any = WELL, *, offset: float = 0.0, duration: float = 10.0) -> Any:
    spec = SimpleNamespace(
        name=name,
        start_offset=offset,
        duration=duration,
        zones=Extent(0, 4) if name == "a" else None,
        level="zlfs",
        weight=1.0,
    )
    return SimpleNamespace(spec=spec, phase=f"{name}.p", measured=facts)


def seen(*stopped: str, **facts: Any) -> Any:
    known = {name: SimpleNamespace(stopped=name in stopped) for name in ("a", "b")}
    return SimpleNamespace(tenants=known, together=TenantFacts(**facts))


@pytest.mark.parametrize(
    ("both", "known", "line"),
    [
        ((tenant("a"), tenant("b")), seen(), ""),
        ((tenant("a"), tenant("b", KILLED)), seen(), "no tenant died, raw/ has b"),
        (
            (tenant("a", FAILED), tenant("b", KILLED)),
            seen("a"),
            "tenants were stopped, and none died: a",
        ),
        (
            (tenant("a", KILLED), tenant("b", FAILED)),
            seen("a", died="tenant b ended with exit status 3 after 9.0 s"),
            "",
        ),
        (
            (tenant("a", KILLED), tenant("b", FAILED)),
            seen("a", died="tenant b ended with signal 9 after 9.0 s"),
            "raw/ gives tenant b ended with exit status 3",
        ),
        (
            (tenant("a"), tenant("b", KILLED)),
            seen(died="tenant b ended with signal 9 before it began"),
            "",
        ),
        ((tenant("a"), tenant("b")), seen(died="tenant b ended with signal 9 x"), "gives none"),
        ((tenant("a"), tenant("b")), seen(died="tenant b made no progress within 9 s"), ""),
        ((tenant("a"), tenant("b", None)), seen(died="tenant b did not end within 9 s"), ""),
    ],
)
def test_how_tenants_ended(tmp_path: Path, both: tuple[Any, ...], known: Any, line: str) -> None:
    found = list(tenants._ends(tmp_path, SimpleNamespace(), known, both))  # type: ignore[arg-type]
    texts = [one for one in found if line and line in one]
    assert bool(found) is bool(texts)


PLACES = [
    {"name": "a", "level": "zlfs", "phase": "p", "weight": 1.0, "zones": [0, 4]},
    {"name": "b", "level": "zlfs", "phase": "p", "weight": 1.0, "zones": None},
]


def times(
    folder: Path, ends: dict[str, tuple[float, float]], known: Any, *all_: Any, **window: Any
) -> list[str]:
    """Compare ``ends``, when each tenant was released and ended; the common time is 100 to 110."""
    places = [
        {**place, "unit": "", "start_offset": one.spec.start_offset}
        for place, one in zip(PLACES, all_, strict=True)
    ]
    record = {"began": 100.0, "ended": 110.0, "tenants": places} | window
    (folder / "raw").mkdir()
    (folder / tenants.WINDOW).write_text(json.dumps(record))
    level = {name: {"released": begin, "ended": end} for name, (begin, end) in ends.items()}
    result: Any = SimpleNamespace(manifest={"level": level})
    return list(tenants._ends(folder, result, known, all_))


BOTH = (tenant("a"), tenant("b"))
LATE = (tenant("a"), tenant("b", offset=2.0, duration=8.0))
ON_TIME = {"a": (100.0, 110.0), "b": (100.0, 110.0)}


@pytest.mark.parametrize(
    ("ends", "known", "all_", "window", "line"),
    [
        (ON_TIME, seen(), BOTH, {}, ""),
        (ON_TIME | {"b": (100.5, 110.5)}, seen(spread=0.5), BOTH, {}, ""),
        (ON_TIME | {"b": (100.5, 110.5)}, seen(spread=0.4), BOTH, {}, "spread: has 0.4, the man"),
        (ON_TIME, seen(spread=0.1), BOTH, {}, "spread: has 0.1, the manifest gives 0.000000"),
        (ON_TIME, seen(), BOTH, {"ended": 110.1}, "ended: has 110.1, the manifest gives 110.0"),
        (ON_TIME, seen(), BOTH, {"began": 100.1}, "manifest.level.a.released: is before"),
        (ON_TIME, seen(), BOTH, {"began": 99.0}, ""),
        (
            ON_TIME | {"b": (100.0, 110.1)},
            seen(spread=0.1),
            BOTH,
            {},
            "manifest.level.b: lasted 10.100000 s, raw/b.p.process.json has 10.000000",
        ),
        # A tenant that was stopped has no end of its own, and may never have begun.
        (
            {"a": (99.0, 109.0), "b": (100.0, 110.0)},
            seen("a", died="tenant b did not end within 9 s"),
            BOTH,
            {"ended": 109.0},
            "",
        ),
        (ON_TIME | {"b": (102.0, 112.0)}, seen(spread=2.0), LATE, {}, ""),
        (ON_TIME, seen(), LATE, {}, "manifest.level.b.released: is before"),
        # Only tenants that last to the end give the end of the common time.
        (
            ON_TIME | {"b": (95.0, 105.0)},
            seen(),
            (tenant("a"), tenant("b", offset=-5.0)),
            {},
            "",
        ),
    ],
)
def test_times_of_the_common_time(
    tmp_path: Path,
    ends: dict[str, tuple[float, float]],
    known: Any,
    *,
    all_: tuple[Any, ...],
    window: dict[str, Any],
    line: str,
) -> None:
    found = times(tmp_path, ends, known, *all_, **window)
    texts = [one for one in found if line and line in one]
    assert bool(found) is bool(texts), found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("level", "f2fs"),
        ("phase", "q"),
        ("weight", 2.0),
        ("zones", [0, 5]),
        ("zones", None),
        ("start_offset", 1.0),
        ("unit", "x.scope"),
    ],
)
def test_the_place_of_a_tenant_is_planned(tmp_path: Path, name: str, value: Any) -> None:
    places = [
        {**place, "unit": "", "start_offset": 0.0} | ({name: value} if at == 0 else {})
        for at, place in enumerate(PLACES)
    ]
    (line,) = times(tmp_path, ON_TIME, seen(), *BOTH, tenants=places)
    assert line.startswith(f"{tenants.WINDOW}: a: {name}")


def test_without_all_measured_phases_there_is_no_common_time(tmp_path: Path) -> None:
    known = seen(died="tenant b did not end within 9 s")
    assert times(tmp_path, {}, known, tenant("a"), tenant("b", None), ended=7.0) == []


@pytest.mark.parametrize(
    ("stored", "again", "kept"),
    [
        (Metric(1.0, "s"), Metric(1.001, "s"), True),
        (Metric(1.0, "s"), Metric(1.0011, "s"), False),
        (Metric(1.0, "1"), Metric(1.0005, "1"), False),
        (Metric(1.0, "1"), Metric(1.0005, "s"), False),
        (Metric(None, "s"), Metric(1.0, "s"), False),
        (Metric(1.0, "s"), Metric(None, "s"), False),
        (None, Metric(1.0, "s"), False),
    ],
)
def test_a_sum_of_times_has_rounding_errors(
    stored: Metric | None, again: Metric, *, kept: bool
) -> None:
    assert tenants._rounded(stored, again) is (stored if kept else again)


@pytest.mark.parametrize(
    ("changes", "denied"),
    [({}, 3), ({"zones": Extent(0, 4)}, None), ({"traced": None}, None), ({"host": None}, None)],
)
def test_denied_opens_are_of_whole_traced_namespaces(
    changes: dict[str, Any], denied: int | None
) -> None:
    commands = {
        ("nvme0n2", "write", 14): 3,
        ("nvme0n2", "write", 0): 9,
        ("nvme0n1", "write", 14): 1,
    }
    traced = changes.get("traced", SimpleNamespace(commands=commands))
    one: Any = SimpleNamespace(
        spec=SimpleNamespace(zones=changes.get("zones")),
        measured=SimpleNamespace(traced=traced),
        device="nvme0n2",
    )
    result: Any = SimpleNamespace(manifest={"host": changes.get("host", {"kernel": "6.12.1"})})
    assert tenants._denied(result, one) == denied
