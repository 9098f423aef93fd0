"""Phases of kvmix under the whole runner, with a fake kvmix that prints captured output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.store.result import Status
from harness.store.spec import PhaseRole
from harness.verify import recompute
from tests.runner import fakes
from tests.runner.conftest import Machine

pytestmark = pytest.mark.slow  # every test starts the runner

RUN = "fake--r01"


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    native = tmp_path / "native"
    native.mkdir()
    (native / "kvmix").symlink_to(Path(__file__).parent / "fake_kvmix.py")
    monkeypatch.setenv("ZONELAB_NATIVE", str(native))
    machine = Machine(tmp_path)
    common = {"benchmark": "mix", "program": "kvmix", "expects_gc": False}
    flags = {"statistics": True, "insert": 1.0}
    machine.change_runs(
        phases=(
            fakes.phase("fill", PhaseRole.FILL, operations=5000, flags=flags, **common),
            fakes.phase("mix", PhaseRole.MEASURED, flags=flags, **common),
        )
    )
    return machine


def test_a_run(mixed: Machine) -> None:
    done = mixed.run("--only", RUN)
    assert done.returncode == 0, done.stderr
    found = mixed.result
    assert found.status is Status.OK, found.issues
    assert [phase.benchmark for phase in found.phases] == ["mix", "mix"]
    assert found.phases[1].operations_done == 20_000
    assert found.metrics["mix.user_bytes"].value == 6_242_928
    written = found.metrics["mix.write_amplification"].value
    assert written == pytest.approx((32 << 20) / 6_242_928)
    assert found.metrics["mix.intended_latency_p50"].value is not None
    assert "fill.intended_latency_p50" not in found.metrics
    # Phases have seeds of their own, and mean the same keys.
    assert (mixed.root / "started").read_text() == "run fill 7 7\nrun mix 107 7\n"
    assert recompute.of_run(mixed.runs / RUN) == []


def test_measurements_are_stored(mixed: Machine) -> None:
    mixed.run("--only", RUN)
    folder = mixed.runs / RUN
    stored = {path.name for path in (folder / "histograms").iterdir() if "mix." in path.name}
    kinds = ("insert", "update", "delete", "absent_query")
    assert stored == {f"mix.{kind}{late}.json" for kind in kinds for late in ("", "-intended")}
    one = json.loads((folder / "histograms" / "mix.insert.json").read_text())
    assert one["unit"] == "us"
    header, *rows = (folder / "series" / "mix.csv").read_text().splitlines()
    assert header.startswith("t,operations,insert,update,")
    assert sum(int(row.split(",")[1]) for row in rows) == 20_000


def test_a_series_that_was_changed_is_found(mixed: Machine) -> None:
    mixed.run("--only", RUN)
    path = mixed.runs / RUN / "series" / "mix.csv"
    path.write_text(path.read_text().replace("15031", "15032"))
    assert any("series/mix.csv" in line for line in recompute.of_run(mixed.runs / RUN))


@pytest.mark.parametrize(
    ("mode", "code"),
    [("exit", "no-space"), ("truncate", "output-malformed"), ("crash", "exit-status")],
)
def test_a_failure_gives_no_result(mixed: Machine, mode: str, code: str) -> None:
    mixed.behave(mix=mode)
    assert mixed.run("--only", RUN).returncode == 4
    found = mixed.result
    assert found.status is not Status.OK
    assert code in {issue.code for issue in found.issues}


def test_wrong_data_is_named(mixed: Machine) -> None:
    mixed.behave(mix="wrong")
    assert mixed.run("--only", RUN).returncode == 4
    found = mixed.result
    assert found.status is Status.FAILED
    assert [i.actual for i in found.issues if i.code == "data-wrong"] == [2]
    assert found.reason is not None
    assert "kvmix ended with exit status 1" in found.reason.message
    assert "key 7 is missing" in found.reason.message


def test_without_kvmix_the_run_is_skipped(mixed: Machine) -> None:
    (mixed.root / "native" / "kvmix").unlink()
    mixed.run("--only", RUN)
    found = mixed.result
    assert found.status is Status.SKIPPED
    assert found.reason is not None
    assert found.reason.code == "program-missing"
