"""A run ends before it is judged, which takes seconds on a slow host."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.read.load import load
from harness.machine.host import Host
from harness.run.ending import Ending
from harness.run.result_builder import ResultBuilder
from harness.store.result import Status
from tests.fixtures.campaigns import write_campaign


class SlowHost(Host):
    """A host whose clocks go on by hand."""

    seconds = 0.0

    def monotonic(self) -> float:
        """Return the time since the run began."""
        return self.seconds

    def realtime(self) -> float:
        """Return a clock that agrees with it."""
        return 1_800_000_000.0 + self.seconds

    def kernel_log(self) -> Any:  # type: ignore[override]
        """Return no log."""
        return SimpleNamespace(available=False)


class Tenant:
    """A tenant whose ledger takes a while."""

    spec = SimpleNamespace(name="")
    facts = alone = utilisation = None
    results = findings = ()

    def __init__(self, host: SlowHost) -> None:
        self.host = host

    def judged(self, _: None) -> None:
        """Judging is replaced."""

    def ledger(self) -> None:
        """Take 50 seconds."""
        self.host.seconds += 50


def test_judging_is_no_part_of_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = load(write_campaign(tmp_path / "c", series=False)).runs[0].spec
    host = SlowHost()
    replaced: dict[str, Any] = {
        "_metrics_of_plain_run": {},
        "note_host": None,
        "_level_manifest": {},
    }
    for name, value in replaced.items():
        monkeypatch.setattr(ResultBuilder, name, lambda *_, value=value, **__: value)
    monkeypatch.setattr("harness.run.result_builder.run_metrics.of_tenant", lambda *_, **__: {})
    monkeypatch.setattr("harness.run.result_builder.judging.issues", lambda *_: ())
    context: Any = SimpleNamespace(host=host)
    builder = ResultBuilder(context, spec, ())
    host.seconds = 100.0
    writer: Any = SimpleNamespace(path=tmp_path, write=lambda *_: None)
    tenant: Any = Tenant(host)
    result = builder.result(Ending(Status.OK), [tenant], writer)
    assert host.seconds == 150.0
    assert result.seconds == 100.0
    assert (result.started[-14:-6], result.finished[-14:-6]) == ("08:00:00", "08:01:40")
