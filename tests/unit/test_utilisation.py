"""Utilisation: the bytes and the capacity that it is computed from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.drive import precondition
from harness.run.measure import utilisation
from harness.store.spec import Bytes, ColdSpec

GIB = 1 << 30
DEVICE = SimpleNamespace(path="/dev/nvme0n2", name="nvme0n2", capacity=10 * GIB)


def tenant(cold: int) -> Any:
    return SimpleNamespace(
        running=SimpleNamespace(device=DEVICE),
        spec=SimpleNamespace(cold=ColdSpec(0.8, 0.02, Bytes(cold))),
        snapshots=[SimpleNamespace(allocated=[9 * GIB], counters=SimpleNamespace(cold_bytes=cold))],
        max_utilisation=0.95,
    )


def context(drive: int | None) -> Any:
    host = SimpleNamespace(drive_capacity=lambda _name: drive)
    return cast("Any", SimpleNamespace(host=host, paths=SimpleNamespace(state=Path("/state"))))


@pytest.fixture
def remainder(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Put 20 GiB into the drive's other namespaces; return the calls that asked for them."""
    calls: list[Any] = []

    def kept(*arguments: Any) -> int:
        calls.append(arguments)
        return 20 * GIB

    monkeypatch.setattr(precondition, "kept_bytes", kept)
    return calls


def test_the_drives_utilisation_includes_its_remainder(remainder: list[Any]) -> None:
    found = utilisation(context(40 * GIB), tenant(7 * GIB), database=GIB, others={"eui.1"})
    assert found.u_ns == pytest.approx(0.8)
    assert found.u_drive == pytest.approx(28 / 40)
    assert remainder[0][-1] == {"eui.1"}  # what the run uses itself is not counted twice


def test_an_unknown_drive_has_no_utilisation(remainder: list[Any]) -> None:
    found = utilisation(context(None), tenant(7 * GIB), database=GIB, others=set())
    assert found.u_drive is None
    assert found.live_bytes == 8 * GIB
