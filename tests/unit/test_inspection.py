"""``zonelab inspect``: which reason a level that cannot run has, and what a drive holds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import GuardRefused, HostError
from harness.machine.guard import Guard
from harness.machine.journal import Journal
from harness.machine.paths import Paths
from harness.run import inspection
from harness.store.spec import Inspection, Reason
from tests.runner import fakes

KERNEL, OWN, PROGRAM = Reason("kernel", "k"), Reason("own", "o"), Reason("program", "p")
MISSING = Reason("conventional-missing", "it needs one")
PARTNER = Reason("conventional-busy", "nvme0n1 is in use", "umount it")


class Probed:
    """A level whose probes find these reasons."""

    name = "l"

    def __init__(self, kernel: Any = None, own: Any = None, program: Any = None) -> None:
        self._found = kernel, own, program

    def _answer(self, number: int) -> Reason | None:
        answer = self._found[number]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def probe_kernel(self, _: object) -> Reason | None:
        return self._answer(0)

    def probe(self, *_: object) -> Reason | None:
        return self._answer(1)

    def probe_program(self, *_: object) -> Reason | None:
        return self._answer(2)


@pytest.mark.parametrize(
    ("level", "partner", "reason"),
    [
        (Probed(), None, None),
        (Probed(), PARTNER, None),
        (Probed(KERNEL, OWN, PROGRAM), None, KERNEL),
        (Probed(None, OWN, PROGRAM), None, OWN),
        (Probed(None, None, PROGRAM), None, PROGRAM),
        (Probed(HostError("h", code="gone")), PARTNER, Reason("gone", "h")),
        (Probed(None, MISSING), PARTNER, PARTNER),  # it names the device
        (Probed(None, MISSING), None, MISSING),
        (Probed(None, OWN), PARTNER, OWN),
    ],
)
def test_the_reason_of_a_level(
    monkeypatch: pytest.MonkeyPatch, level: Any, partner: Reason | None, reason: Reason | None
) -> None:
    monkeypatch.setattr(inspection, "_program", lambda: Path("/bin/db_bench"))
    device: Any = SimpleNamespace()
    found = inspection.probe(level, device, None, partner)
    assert (found.level, found.available, found.reason) == ("l", reason is None, reason)


def test_a_missing_db_bench_is_left_to_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_program", lambda: None)
    device: Any = SimpleNamespace()
    level: Any = Probed(None, None, PROGRAM)
    assert inspection.probe(level, device, None, None).available


def look(root: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Inspection:
    machine = fakes.FakeHost(root)
    for name, value in changes.pop("facts", {}).items():
        monkeypatch.setattr(machine, name, lambda _, value=value: value)
    guard = Guard(machine, Journal(Paths(root / "state", root / "run").journal))
    request = {"path": "nvme0n2", "conventional": None, "host_name": "h"} | changes
    return inspection.inspect(machine, guard, {}, **request)


@pytest.mark.parametrize("value", [None, 1 << 40])
def test_capacity_and_endurance_of_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: int | None
) -> None:
    fakes.make_machine(tmp_path)
    facts = {"drive_capacity": value, "endurance": value}
    found = look(tmp_path, monkeypatch, facts=facts)
    assert (found.drive_capacity, found.endurance) == (value, value)


@pytest.mark.parametrize("changes", [{"path": "nvme0n1"}, {"others": ("nvme0n1",)}])
def test_measured_zones_need_a_device_with_zones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    fakes.make_machine(tmp_path)
    with pytest.raises(GuardRefused, match="nvme0n1 is not a zoned block device"):
        look(tmp_path, monkeypatch, **changes)


@pytest.mark.parametrize(
    ("conventional", "usable", "shown"),
    [
        ("nvme0n1", True, ["nvme0n2", "nvme0n1"]),
        ("nvme0n1", False, ["nvme0n2", "nvme0n1"]),  # it is refused, and what it holds is shown
        ("nvme0n2", False, ["nvme0n2"]),  # zoned
        (None, False, ["nvme0n2"]),
    ],
)
def test_the_contents_of_the_companion_are_shown_although_it_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    conventional: str | None,
    usable: bool,
    shown: list[str],
) -> None:
    fakes.make_machine(tmp_path)

    def companion(host: Any, *_: object) -> Any:
        return (host.device("nvme0n1"), None) if usable else (None, PARTNER)

    monkeypatch.setattr(inspection, "companion", companion)
    found = look(tmp_path, monkeypatch, conventional=conventional)
    assert [Path(seen.path).name for seen in found.contents] == shown
