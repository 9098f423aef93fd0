"""A campaign can be kept on the processors of the drive's node."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.machine import numa
from harness.observe import perf
from tests.runner.fakes import FakeHost, make_machine, write_tree


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    make_machine(tmp_path)
    nodes = {"node0/cpulist": "0-1,4\n", "node1/cpulist": "2-3,5-7\n"}
    write_tree(tmp_path / "sys/devices/system/node", nodes)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)))
    return FakeHost(tmp_path)


@pytest.mark.parametrize(
    ("node", "bound", "words"),
    [
        ("1", {2, 3, 5, 6}, "bound to 4 processors of node 1"),  # 7 is not allowed
        ("0", {0, 1, 4}, "bound to 3 processors of node 0"),
        ("-1", None, "is unknown"),
        (None, None, "is unknown"),
    ],
)
def test_binding(
    host: FakeHost,
    node: str | None,
    bound: set[int] | None,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if node is not None:
        write_tree(host.root / "sys/devices/nvme0/device", {"numa_node": node})
    calls: list[set[int]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: calls.append(cpus))
    assert words in numa.bind(host, host.device("nvme0n2"))
    assert calls == ([bound] if bound else [])


def test_one_node_is_no_choice(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(host.root / "sys/devices/nvme0/device", {"numa_node": "0"})
    nodes = host.root / "sys/devices/system/node"
    (nodes / "node1").rename(nodes / "gone")
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("bound"))
    assert "only one NUMA node" in numa.bind(host, host.device("nvme0n2"))


def test_the_kernels_lists() -> None:
    assert [*perf.processors("0-2,8\n")] == [0, 1, 2, 8]
    assert not [*perf.processors("\n")]
