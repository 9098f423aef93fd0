"""The callback plugin: progress lines of a wait, with the time left on the controller's clock."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

PLUGIN = Path(__file__).parents[2] / "ansible/callback_plugins/zonelab.py"
LINE = "c: running, 1/4 runs (1 ok), zlfs--r01 overwrite 50%, about 10m00s left"
SHOWN = LINE.partition(", about ")[0]


class Waited:
    """A play that polls: ``poll`` shows one answer, read at ``now`` with the host's uptime."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        spec = importlib.util.spec_from_file_location("zonelab_callback", PLUGIN)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.now = 0.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.plugin = module.CallbackModule()
        self.lines: list[str] = []
        self.plugin._display = SimpleNamespace(display=self.lines.append)

    def poll(
        self, now: float, uptime: float, line: str = LINE, eta: float | None = 600.0, done: int = 2
    ) -> str:
        self.now = now
        record = json.dumps({"line": line, "eta_seconds": eta, "runs_done": done})
        host = SimpleNamespace(get_name=lambda: "h")
        answer = {"stdout": f"boot-id\n{uptime} 3.00\n{record}"}
        self.plugin.v2_runner_retry(SimpleNamespace(_result=answer, _host=host))
        return self.lines[-1]


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> Waited:
    return Waited(monkeypatch)


def test_a_slow_clock_of_the_host_is_converted(waited: Waited) -> None:
    assert waited.poll(100, 50, done=1) == f"  h: {LINE}"  # one look shows no pace
    # 20 s of the host in 60 s here: 10 minutes there are 30 here.
    assert waited.poll(160, 70, LINE + " ") == f"  h: {SHOWN}, about 30 min left"


def test_a_prediction_is_in_seconds_of_this_clock(waited: Waited) -> None:
    waited.poll(40, 30, "c: starting", None, done=0)
    waited.poll(100, 50, done=1)
    # No run has ended since the first look, so the time left is a prediction.
    assert waited.poll(160, 70, LINE + " ", done=1) == f"  h: {LINE} "
    assert waited.poll(220, 90, LINE + "  ", done=2) == f"  h: {SHOWN}, about 30 min left"


def test_the_same_clock_changes_nothing(waited: Waited) -> None:
    waited.poll(100, 50, done=1)
    assert waited.poll(160, 111, LINE + " ") == f"  h: {LINE} "


def test_the_end_has_no_time_left(waited: Waited) -> None:
    waited.poll(100, 50, done=1)
    assert waited.poll(160, 70, "c: done, 4/4 runs", None) == "  h: c: done, 4/4 runs"


def test_a_line_is_shown_once(waited: Waited) -> None:
    waited.poll(100, 50)
    waited.poll(160, 70)
    assert len(waited.lines) == 1
