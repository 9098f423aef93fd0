"""A run of the timed rig is replayed on a quiet and on a busy host: the same to the bit."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import cpu_count
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.rig import control, model
from harness.rig.replay import planned
from harness.rig.talk import Talk
from harness.store.codec import decode
from harness.store.spec import Inspection
from tests.fixtures.planner import FIXTURES, Planner

from .conftest import WHOLE

HOST = "rig-timed-1"
# zlfs is our own code; the others are in the kernel.
LEVELS = ("zlfs", *(("f2fs", "conventional-ext4") if WHOLE else ()))


@contextmanager
def busy_host() -> Iterator[None]:
    """Keep each processor of this host busy."""
    loop = ["sh", "-c", "while :; do :; done"]
    children = [subprocess.Popen(loop) for _ in range(cpu_count() or 1)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def inspection() -> Inspection:
    """Return the rig as inspected, with the drives that its file gives today."""
    text = (FIXTURES / "captured-timed-1.json").read_text()
    found = decode(Inspection, json.loads(text))
    served = planned.served_drives(model.load(HOST.removeprefix("rig-")))
    assert found.conventional is not None
    zoned, plain = (
        replace(one, model=served[one.identity.serial])
        for one in (found.device, found.conventional)
    )
    return replace(found, device=zoned, conventional=plain)


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    control.build(model.load("timed"), Talk())


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_a_replay_repeats_to_the_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], level: str
) -> None:
    planner = Planner(tmp_path, capsys)
    assert planner("smoke", "--levels", level, planner.inspection(inspection(), HOST)) == 0
    run = planner.results / "c" / "hosts" / HOST / "runs" / f"{level}--r01"
    words = ["rig", "replay", str(run), "--output", str(tmp_path / "out"), "--format", "json"]
    assert main([*words, "--once"]) == 0
    capsys.readouterr()
    with busy_host():
        code = main(words)
    facts = json.loads(capsys.readouterr().out)
    assert (code, facts["verdict"], facts["differences"]) == (0, "identical", [])
    assert facts["status"] == "ok"
    assert facts["files"] > 50
