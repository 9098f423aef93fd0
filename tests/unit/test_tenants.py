"""Tenants of a mix: slowdown, fairness, ownership of zones, attribution (SYNTHETIC runs)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.judge.compare import compare
from analysis.read.load import RunRecord, load
from analysis.show import render
from analysis.show.report import write_report
from analysis.tenants import aligned, attribution, fairness, recovery, usage, words
from analysis.tenants.aligned import Line
from analysis.tenants.attribution import AlignedRun, Peak
from analysis.tenants.mix import Mix, mixes, read
from analysis.tenants.recovery import Burst
from harness.errors import RunFailed
from harness.store import checksums
from harness.store.result import Status
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import with_status, write_campaign
from tests.fixtures.tenants import BEGAN, HEADER, PAIR, Made, write_tenants

SHARED = "hosts/rig/runs/zlfs-mix-shared--r01"


def mix_of(folder: Path) -> Mix:
    (found,) = mixes(load(folder).latest)
    return found


def changed(folder: Path, change: Callable[[Path], None], run: str = SHARED) -> RunRecord:
    """Change files of a run and return it."""
    change(folder / run)
    checksums.write(folder / run)
    return next(one for one in load(folder).runs if one.path == folder / run)


def with_values(folder: Path, values: dict[str, float | None]) -> None:
    """Replace metrics of the first shared run."""

    def change(path: Path) -> None:
        result = json.loads((path / "result.json").read_text())
        for name, value in values.items():
            result["metrics"][name]["value"] = value
        (path / "result.json").write_text(json.dumps(result))

    changed(folder, change)


def retold(folder: Path, **fields: object) -> RunRecord:
    """Give the first shared run's tenants other fields, tenant by tenant."""

    def change(path: Path) -> None:
        record = json.loads((path / "raw/tenants.json").read_text())
        for index, one in enumerate(record["tenants"]):
            one.update({name: values[index] for name, values in fields.items()})  # type: ignore[index]
        (path / "raw/tenants.json").write_text(json.dumps(record))

    return changed(folder, change)


@pytest.mark.parametrize(
    ("shares", "index"),
    [([1, 1, 1], 1.0), ([0.3, 0.3], 1.0), ([1, 0], 0.5), ([1, 0, 0, 0], 0.25), ([2, 1], 0.9)],
)
def test_jains_index(shares: list[float], index: float) -> None:
    assert fairness.jain(shares) == pytest.approx(index)


def test_slowdowns_are_against_alone_in_the_same_block(tmp_path: Path) -> None:
    mix = mix_of(write_tenants(tmp_path / "c", noise=0.0))
    found = {(one.tenant, one.column): one.estimate for one in fairness.slowdowns(mix)}
    assert found["victim", "throughput"].center == pytest.approx(2.5)
    assert found["victim", "p99"].center == pytest.approx(2.5)
    assert found["victim", "p99.9"].center == pytest.approx(2.5**1.5)
    assert found["aggressor", "throughput"].center == pytest.approx(1.2)
    noisy = fairness.slowdowns(mix_of(write_tenants(tmp_path / "n", blocks=5)))
    for one in noisy:
        low, high = one.estimate.low, one.estimate.high
        true = {made.name: made.slowdown for made in PAIR}[one.tenant]
        assert one.estimate.method.value == "paired t"
        if one.column != "p99.9":
            assert low is not None and high is not None and low < true < high  # noqa: PT018


def test_numbers_of_the_whole_mix(tmp_path: Path) -> None:
    mix = mix_of(write_tenants(tmp_path / "c", noise=0.0))
    maximum, index, worth, device = fairness.indexes(mix)
    assert maximum.center == pytest.approx(2.5)
    x = [1 / 1.2, 1 / 2.5]
    assert index.center == pytest.approx(fairness.jain(x))
    assert worth.center == pytest.approx(sum(x))
    # The devices move in proportion to operations, so to 4000 / 1.2 + 900 / 2.5 against 4000.
    assert device.center == pytest.approx((4000 / 1.2 + 900 / 2.5) / 4000, rel=1e-3)
    assert [one.n for one in (maximum, index, worth, device)] == [3] * 4


def test_a_tenant_with_a_smaller_weight_is_not_treated_unfairly(tmp_path: Path) -> None:
    made = (Made("a", (0, 192), slowdown=1.5, weight=2.0), Made("b", (192, 192), slowdown=3.0))
    assert fairness.indexes(mix_of(write_tenants(tmp_path / "c", made, noise=0.0)))[
        1
    ].center == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("shares", "weights", "fair"),
    [
        ((1.0, 1.0), (2.0, 1.0), (1.0, 1.0)),  # no contention: weights do not matter
        ((0.5, 0.5), (2.0, 1.0), (2 / 3, 1 / 3)),
        ((0.9, 0.6), (9.0, 1.0), (1.0, 0.5)),  # the heavy tenant can use no more than 1
        ((0.4, 0.5, 1.0), (1.0, 1.0, 8.0), (0.45, 0.45, 1.0)),
        ((1.1, 0.95), (1.0, 1.0), (1.0, 1.0)),  # noise above 1
    ],
)
def test_a_fair_division_gives_no_tenant_more_than_alone(
    shares: tuple[float, ...], weights: tuple[float, ...], fair: tuple[float, ...]
) -> None:
    names = "abc"[: len(shares)]
    found = fairness.entitled(
        dict(zip(names, shares, strict=True)), dict(zip(names, weights, strict=True))
    )
    assert tuple(found[name] for name in names) == pytest.approx(fair)


def test_weights_are_not_unfair_without_contention(tmp_path: Path) -> None:
    made = (Made("a", (0, 192), slowdown=1.0, weight=2.0), Made("b", (192, 192), slowdown=1.0))
    index = fairness.indexes(mix_of(write_tenants(tmp_path / "c", made, noise=0.0)))[1]
    assert index.center == pytest.approx(1.0)


def test_a_block_without_one_of_its_runs_is_left_out(tmp_path: Path) -> None:
    folder = write_tenants(tmp_path / "c")

    def failed(path: Path) -> None:
        result = json.loads((path / "result.json").read_text())
        result["status"] = "failed"
        (path / "result.json").write_text(json.dumps(result))

    changed(folder, failed, "hosts/rig/runs/zlfs-mix-solo-victim--r02")
    mix = mix_of(folder)
    assert [one.n for one in fairness.indexes(mix)] == [2] * 4
    (slow,) = [
        one
        for one in fairness.slowdowns(mix)
        if (one.tenant, one.column) == ("victim", "throughput")
    ]
    assert (slow.estimate.n_base, slow.estimate.n_level) == (2, 2)


def test_a_starved_tenant_has_no_factor(tmp_path: Path) -> None:
    folder = write_tenants(tmp_path / "c")
    with_values(folder, {"victim.overwrite.throughput": 0.0})
    mix = mix_of(folder)
    losses = fairness.slowdowns(mix)
    found = {(one.tenant, one.column) for one in losses}
    assert ("victim", "throughput") not in found
    assert {("victim", "p99"), ("aggressor", "throughput")} <= found
    text = words.summary(mix, losses, [], [], not_hardware=False)
    assert not any("victim" in one and "its throughput is" in one for one in text)
    assert any("victim did no operation beside the others in 1 of 3 blocks" in one for one in text)
    lines = words.lines(load(folder).latest, not_hardware=False)
    assert any("slowdown of aggressor, throughput" in one for one in lines)
    assert not any("slowdown of victim, throughput" in one for one in lines)


def test_a_block_in_which_a_tenant_starved_is_the_least_fair(tmp_path: Path) -> None:
    """Without the starved block, both tenants lose alike and the index is 1."""
    made = (Made("a", (0, 192), slowdown=2.0), Made("b", (192, 192), slowdown=2.0))
    folder = write_tenants(tmp_path / "c", made, noise=0.0)
    with_values(folder, {"b.overwrite.throughput": 0.0})
    maximum, index, worth, _ = fairness.indexes(mix_of(folder))
    assert (maximum.center, maximum.low, maximum.n) == (math.inf, None, 3)
    assert sorted(index.values.values()) == pytest.approx([0.5, 1.0, 1.0])
    assert sorted(worth.values.values()) == pytest.approx([0.5, 1.0, 1.0])


def test_a_starved_tenant_of_an_open_loop_has_no_share(tmp_path: Path) -> None:
    """Its latency is null in that block, so that its goal has no value there."""
    folder = with_intended_latency(write_tenants(tmp_path / "c", noise=0.0), alone=True)
    with_values(
        folder, {"victim.overwrite.throughput": 0.0, "victim.overwrite.intended_latency_p99": None}
    )
    maximum, index, *_ = fairness.indexes(mix_of(folder))
    assert (maximum.center, index.n) == (math.inf, 3)
    assert min(index.values.values()) == pytest.approx(0.5)


def test_a_mix_in_which_no_tenant_did_anything_has_no_index(tmp_path: Path) -> None:
    folder = write_tenants(tmp_path / "c", blocks=1)

    names = ("victim", "aggressor")
    with_values(folder, {f"{name}.overwrite.throughput": 0.0 for name in names})
    assert [one.center for one in fairness.indexes(mix_of(folder))][:3] == [None] * 3


def test_a_block_that_lacks_a_value_is_said(tmp_path: Path) -> None:
    folder = write_tenants(tmp_path / "c")
    with_values(folder, {"victim.overwrite.throughput": None})
    mix = mix_of(folder)
    text = words.summary(mix, [], fairness.indexes(mix), [], not_hardware=False)
    assert any(one.startswith("Fairness has 2 of 3 blocks") for one in text)


def test_the_goal_of_an_open_loop_is_its_tail(tmp_path: Path) -> None:
    """The victim keeps its rate and loses in its p99: its throughput would show no slowdown."""
    made = (Made("aggressor", (192, 192), slowdown=1.2), Made("victim", (0, 192), slowdown=2.5))
    folder = write_tenants(tmp_path / "c", made, noise=0.0)
    rates: dict[str, float] = {}

    def open_loop(path: Path) -> None:
        result = json.loads((path / "result.json").read_text())
        metrics = result["metrics"]
        if "victim.overwrite.latency_p99" in metrics:
            block = str(result["repetition"])
            metrics["victim.overwrite.throughput"]["value"] = rates.setdefault(block, 900.0)
            metrics["victim.overwrite.intended_latency_p99"] = metrics[
                "victim.overwrite.latency_p99"
            ]
        (path / "result.json").write_text(json.dumps(result))

    for run in sorted(folder.glob("hosts/rig/runs/*")):
        changed(folder, open_loop, str(run.relative_to(folder)))
    mix = mix_of(folder)
    aggressor, victim = mix.tenants
    assert fairness.goal(mix, aggressor) == "throughput"
    assert fairness.goal(mix, victim) == "intended_latency_p99"
    maximum, index, worth, _ = fairness.indexes(mix)
    assert maximum.center == pytest.approx(2.5)
    assert index.center == pytest.approx(fairness.jain([1 / 1.2, 1 / 2.5]))
    assert worth.center == pytest.approx(1 / 1.2 + 1.0)  # the work that was done


@pytest.mark.parametrize("tenants", [2, 4])
def test_the_maximum_slowdown_of_noise_is_one(tenants: int) -> None:
    """Of 2000 mixes without interference the mean is 1, and few intervals exclude 1.

    The largest of each block would be 1.03 to 1.05, and its interval excludes 1 in most mixes.
    """
    rng = np.random.default_rng(tenants)
    names = [str(tenant) for tenant in range(tenants)]
    found = []
    for _ in range(2000):
        logs = 0.05 * rng.normal(size=(5, tenants))
        shares = {
            str(block): dict(zip(names, np.exp(own), strict=True)) for block, own in enumerate(logs)
        }
        found.append(fairness.maximum(shares))
    centers = [math.log(index.center or 0.0) for index in found]
    assert math.exp(np.mean(centers)) == pytest.approx(1.0, abs=0.002)
    assert sum((index.low or 0.0) > 1 for index in found) / 2000 <= 0.035


def test_a_large_slowdown_is_in_its_interval() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(500):
        logs = rng.normal([[-math.log(2.0), 0.0, 0.0]] * 5, 0.05)
        index = fairness.maximum(
            {str(b): dict(zip("abc", np.exp(own), strict=True)) for b, own in enumerate(logs)}
        )
        assert index.low is not None
        assert index.high is not None
        held += index.low <= 2.0 <= index.high
    assert held / 500 >= 0.95


def test_the_maximum_slowdown_needs_two_blocks(tmp_path: Path) -> None:
    mix = mix_of(write_tenants(tmp_path / "c", blocks=1, noise=0.0))
    assert fairness.indexes(mix)[0].center is None


def with_intended_latency(folder: Path, *, alone: bool) -> Path:
    """Add the victim's latency from the intended start to shared runs, and to ``alone`` ones."""
    for run in sorted(folder.glob("hosts/rig/runs/*")):

        def intend(path: Path) -> None:
            result = json.loads((path / "result.json").read_text())
            shared = "shared" in path.name
            if "victim.overwrite.latency_p99" in result["metrics"] and (shared or alone):
                value = 9000.0 if shared else 1000.0
                metric = {"value": value, "unit": "us"}
                result["metrics"]["victim.overwrite.intended_latency_p99"] = metric
            (path / "result.json").write_text(json.dumps(result))

        changed(folder, intend, str(run.relative_to(folder)))
    return folder


def test_open_loops_count_from_the_intended_start(tmp_path: Path) -> None:
    folder = with_intended_latency(write_tenants(tmp_path / "c", noise=0.0), alone=True)
    found = {(one.tenant, one.column): one for one in fairness.slowdowns(mix_of(folder))}
    assert found["victim", "p99"].metric == "intended_latency_p99"
    assert found["victim", "p99"].estimate.center == pytest.approx(9.0)
    assert found["aggressor", "p99"].metric == "latency_p99"


def test_an_intended_start_on_one_side_only_is_not_used(tmp_path: Path) -> None:
    """Both sides of a slowdown must count from the same start."""
    folder = with_intended_latency(write_tenants(tmp_path / "c", noise=0.0), alone=False)
    mix = mix_of(folder)
    found = {(one.tenant, one.column): one for one in fairness.slowdowns(mix)}
    assert found["victim", "p99"].metric == "latency_p99"
    assert [fairness.goal(mix, tenant) for tenant in mix.tenants] == ["throughput"] * 2


def test_commands_belong_to_the_owner_of_the_zone(tmp_path: Path) -> None:
    folder = write_tenants(tmp_path / "c", effect=0.0)
    end = BEGAN + 60
    mib = 1024**2
    lines = [
        "1.0,nvme0n2,,reset-all,1,0,python3,,",
        f"{BEGAN - 5},nvme0n2,200,first-write,,0,,,",
        f"{BEGAN + 5},nvme0n2,200,finish,1,0,w,{4 * mib},{2 * mib}",  # half of it before all began
        f"{BEGAN + 6},nvme0n2,200,reset,1,0,w,{4 * mib},",
        f"{BEGAN + 7},nvme0n2,200,finish,1,5,w,,",  # refused
        f"{BEGAN + 8},nvme0n2,3,first-write,,0,,,",
        f"{BEGAN + 9},nvme0n2,3,last-write,,0,,,",
        f"{BEGAN + 10},nvme0n2,3,finish,1,0,w,{6 * mib},0",  # full already
        f"{end + 1},nvme0n2,3,reset,1,0,w,{6 * mib},",  # after the end
        f"{BEGAN + 11},nvme0n2,4,first-write,,0,,,",  # never reset: its bytes are the table's
        f"{BEGAN + 12},nvme0n2,4,last-write,,0,,,",
        f"{BEGAN + 13},nvme0n2,4,fin",  # the runner was killed here
    ]
    table = "zone,written,zeroed,appended,opens,closes,finishes,resets\n" + "".join(
        f"{zone},{size},0,0,0,0,0,0\n" for zone, size in ((200, 4 * mib), (3, 6 * mib), (4, mib))
    )

    def change(path: Path) -> None:
        (path / "series/zone_commands.csv").write_text(HEADER + "\n".join(lines) + "\n")
        (path / "raw/zones_traced.csv").write_text(table)

    aggressor, victim = usage.uses(changed(folder, change))
    assert (aggressor.tenant, aggressor.finishes, aggressor.resets) == ("aggressor", 1, 1)
    assert aggressor.written == pytest.approx(2 * mib)
    assert (victim.tenant, victim.finishes, victim.resets) == ("victim", 0, 0)
    assert victim.written == pytest.approx(7 * mib)


@pytest.mark.parametrize(("noted", "written"), [(True, 4 * 1024**2), (False, None)])
def test_appends_to_a_zone_that_never_began_are_unknown(
    tmp_path: Path, noted: bool, written: int | None
) -> None:
    """Older traces note no first write for appends: their zones seemed unused, with 0 bytes."""
    first = f"{BEGAN + 2},nvme0n2,200,first-write,,0,,,\n" if noted else ""
    reset = f"{BEGAN + 6},nvme0n2,200,reset,1,0,w,{4 * 1024**2},\n"
    columns = "zone,written,zeroed,appended,opens,closes,finishes,resets"

    def change(path: Path) -> None:
        (path / "series/zone_commands.csv").write_text(HEADER + first + reset)
        (path / "raw/zones_traced.csv").write_text(f"{columns}\n200,0,0,{4 * 1024**2},0,0,0,1\n")

    aggressor, victim = usage.uses(changed(write_tenants(tmp_path / "c", effect=0.0), change))
    assert (aggressor.written, aggressor.resets) == (written, 1)
    assert victim.written == 0


def test_a_device_of_its_own_is_counted_by_the_kernel(tmp_path: Path) -> None:
    folder = write_tenants(tmp_path / "c")
    run = retold(folder, device=["/dev/nvme0n2", "/dev/nvme0n3"], zones=[None, None])
    aggressor, victim = usage.uses(run)
    assert aggressor.written == pytest.approx(60 * 4000 * (4000 / 1.2 + 900 / 2.5), rel=1e-3)
    assert victim.written is None  # no such column: not 0


def test_tenants_in_one_file_system_are_not_separated(tmp_path: Path) -> None:
    run = retold(write_tenants(tmp_path / "c"), zones=[None, None])
    assert [(one.written, one.finishes, one.resets) for one in usage.uses(run)] == [(None,) * 3] * 2
    together = read(run)
    assert together is not None
    assert not any(aligned.events(run, together).values())


def test_an_untraced_run_has_no_counts(tmp_path: Path) -> None:
    run = changed(
        write_tenants(tmp_path / "c"), lambda p: (p / "series/zone_commands.csv").unlink()
    )
    assert [(one.finishes, one.resets) for one in usage.uses(run)] == [(None, None)] * 2


def test_the_last_part_of_an_interval_is_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,operations\n1.0,100\n2.0,100\n3.0,90\n3.2,20\n")
    found = aligned.read_series(path)
    assert found is not None
    assert list(found.throughput) == [100, 100, 90]
    assert found.latency[2] == pytest.approx(1e6 / 90)
    assert found.source == "time per operation"
    path.write_text("t,operations\n1.0,100\n")
    assert aligned.read_series(path) is None


def test_a_rate_is_over_the_time_since_the_line_before(tmp_path: Path) -> None:
    """db_bench prints no line in a stall; the next line has the operations of the whole gap."""
    path = tmp_path / "a.csv"
    seconds = [*range(1, 11), *range(16, 25)]
    path.write_text("t,operations\n" + "".join(f"{t}.0,1000\n" for t in seconds))
    found = aligned.read_series(path)
    assert found is not None
    rates = dict(zip(found.t, found.throughput, strict=True))
    assert rates.pop(16.0) == pytest.approx(1000 / 6)
    assert set(rates.values()) == {1000.0}
    assert found.latency[10] == pytest.approx(6000)


def test_intervals_without_operations_are_kept(tmp_path: Path) -> None:
    """With --report_latency, kvmix leaves the latencies of such an interval empty."""
    path = tmp_path / "a.csv"
    header = "t,operations,reads,latency_mean_us,latency_max_us"
    lines = [f"{t}.0,0,0,," if 10 < t <= 20 else f"{t}.0,100,9,50.0,{t}.5" for t in range(1, 31)]
    path.write_text("\n".join([header, *lines]) + "\n")
    found = aligned.read_series(path)
    assert found is not None
    assert len(found.t) == 30
    assert set(found.throughput[10:20]) == {0.0}
    assert np.isnan(found.latency[10:20]).all()
    assert np.isfinite(found.latency[[*range(10), *range(20, 30)]]).all()
    assert recovery.recover(found, Burst(10.0, 20.0), 100.0) == (1.0, 0.0)
    on_grid = aligned.on_grid(found, np.arange(32.0))
    assert np.isnan(on_grid[[0, 2, 30]]).all()
    assert list(on_grid[[3, 9, 10, 19, 20, 29]]) == [4.5, 10.5, 21.5, 21.5, 21.5, 30.5]
    path.write_text("\n".join([header, *lines[10:20]]) + "\n")
    idle = aligned.read_series(path)
    assert idle is not None
    assert np.isnan(aligned.on_grid(idle, np.arange(32.0))).all()


def test_a_tenant_with_stalls_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_tenants(tmp_path / "c")
    seen: list[np.ndarray] = []

    def peaks(latency: np.ndarray) -> list[Peak]:
        seen.append(latency)
        return attribution.peaks(latency)

    monkeypatch.setattr("analysis.show.tenant_figures.peaks", peaks)

    def stall(path: Path) -> None:
        for name, first in (("victim", 20), ("aggressor", 1)):
            file = path / f"series/{name}.overwrite.csv"
            rows = [line.split(",") for line in file.read_text().splitlines()]
            lines = [f"{row[0]},0,," if i >= first else ",".join(row) for i, row in enumerate(rows)]
            file.write_text("\n".join(lines) + "\n")

    changed(folder, stall)
    assert write_report(compare(load(folder)), tmp_path / "report")[1]
    assert len(seen) == 2
    assert all(np.isfinite(latency).all() for latency in seen)


def series(rates: list[float]) -> Line:
    rate = np.array(rates)
    return Line(np.arange(1.0, len(rates) + 1), rate, 1e6 / np.maximum(rate, 1), "")


def test_bursts_lie_between_quiet_times() -> None:
    one = series([0, 0, 90, 100, 80, 0, 0, 0, 95, 100, 90])
    assert recovery.bursts(one, ended=20.0) == [Burst(2.0, 5.0), Burst(8.0, 11.0)]
    assert recovery.bursts(one, ended=11.0) == [Burst(2.0, 5.0)]  # busy until all ended
    assert recovery.bursts(series([100] * 30), ended=30.0) == []
    assert recovery.bursts(series([0] * 5), ended=30.0) == []


@pytest.mark.parametrize(
    ("after", "seconds"),
    [([100] * 6, 0.0), ([50, 50, 100, 100, 100, 100, 100], 2.0), ([50] * 8, None)],
)
def test_recovery_is_until_it_stays_back(after: list[float], seconds: float | None) -> None:
    one = series([100] * 5 + [40] * 5 + after)
    lost, found = recovery.recover(one, Burst(5.0, 10.0), 100.0)
    assert lost == pytest.approx(0.6)
    assert found == seconds


def test_a_tenant_that_stops_early_is_recovered_from(tmp_path: Path) -> None:
    made = (Made("burst", (0, 192), start=20, stop=40), Made("steady", (192, 192)))
    found = recovery.recoveries(mix_of(write_tenants(tmp_path / "c", made)))
    assert {(one.tenant, one.burst_of) for one in found} == {("steady", "burst")}
    assert all(BEGAN + 15 <= one.burst.begin < one.burst.end <= BEGAN + 40 for one in found)


def test_recoveries_of_a_modelled_drive_are_on_its_models_clock(tmp_path: Path) -> None:
    made = (Made("burst", (0, 192), start=20, stop=40), Made("steady", (192, 192)))
    folder = write_tenants(tmp_path / "c", made, kind=DeviceKind.MODELLED, blocks=5)
    mix = mix_of(folder)
    found = {}
    for dilation in (1, 8):
        runs = tuple(
            replace(
                run,
                result=replace(
                    run.result,
                    device=replace(run.result.device, model=f"zoneblk zones-4m x{dilation}"),
                ),
            )
            for run in mix.shared
        )
        assert {run.result.device.dilation for run in runs} == {dilation}
        found[dilation] = recovery.recoveries(replace(mix, shared=runs))
    assert any(one.seconds for one in found[1])
    for real, modelled in zip(found[1], found[8], strict=True):
        assert modelled.burst == Burst(real.burst.begin / 8, real.burst.end / 8)
        assert modelled.seconds == (None if real.seconds is None else real.seconds / 8)
        assert modelled.lost == real.lost


def steps(n: int, *high: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    values = np.exp(0.01 * rng.normal(size=n))  # less than what a peak needs at least
    values[list(high)] *= 8
    return values


def test_peaks_are_excursions_and_drift_is_not() -> None:
    values = steps(60, 10, 30, 31)
    values[31] *= 2
    assert attribution.peaks(values) == [Peak(10, 10), Peak(30, 31)]
    rising = steps(60, 40) * np.exp(np.linspace(0, 3, 60))
    assert [peak.first for peak in attribution.peaks(rising)] == [40]
    assert attribution.peaks(np.full(60, 5.0)) == []
    assert attribution.peaks(steps(14, 3)) == []
    late = np.concatenate((np.full(20, np.nan), steps(40, 10), np.full(5, np.nan)))
    assert [peak.first for peak in attribution.peaks(late)] == [30]


def test_events_before_peaks_are_named_and_others_are_not() -> None:
    at = (7, 19, 33, 48, 61, 75)
    before = np.zeros(90)
    before[[moment - 1 for moment in at]] = 1
    elsewhere = np.zeros(90)
    elsewhere[[3, 14, 26, 41, 55, 69]] = 1
    latency = steps(90, *at)
    quiet = AlignedRun(np.full(90, 5.0), {"guilty": {"reset": before}, "innocent": {}})
    found = {
        one.name: one
        for one in attribution.attribute(
            {
                "victim": [
                    AlignedRun(
                        latency,
                        {
                            "guilty": {"reset": before, "gc": elsewhere},
                            "innocent": {"reset": elsewhere},
                        },
                    )
                ]
                * 2,
                "idle": [quiet] * 2,
            }
        )
    }
    (one,) = [one for one in found["guilty"].findings if one.tenant == "victim"]
    assert found["guilty"].named
    assert (one.kind, one.peaks, one.with_events, one.named) == ("reset", 12, 12, True)
    assert one.expected < 4
    assert not found["innocent"].named
    (idle,) = [one for one in found["guilty"].findings if one.tenant == "idle"]
    assert (idle.peaks, idle.p_value, idle.named) == (0, None, False)


def test_without_events_no_tenant_is_tested() -> None:
    (one,) = attribution.attribute({"a": [AlignedRun(steps(60, 5, 20, 40), {"b": {}})]})
    assert (one.named, one.whole.p_value, one.whole.peaks) == (False, None, 3)
    assert attribution.attribute({"a": [], "b": []}) == []


@pytest.mark.slow
def test_the_report_has_the_finding_in_words_and_numbers(tmp_path: Path) -> None:
    folder = write_tenants(tmp_path / "c")
    page, _ = write_report(compare(load(folder)), tmp_path / "out")
    text = page.read_text()
    assert '<h2 id="tenants">Tenants</h2>' in text
    assert "victim loses most: alone, its throughput is" in text
    assert "aggressor is named for latency peaks of others:" in text
    assert "coincide with its zone resets" in text
    assert {path.stem for path in (tmp_path / "out/tables").glob("tenants-*")} == {
        f"tenants-{name}" for name in ("fairness", "slowdown", "use", "recovery", "blame")
    }
    svg = (tmp_path / "out/figures/tenants-blame.svg").read_text()
    assert "whose peaks" in svg
    assert not write_report(compare(load(folder)), tmp_path / "out")[1]  # the same bytes


@pytest.mark.slow
def test_emulated_times_are_not_a_result(tmp_path: Path) -> None:
    folder = write_tenants(tmp_path / "c", kind=DeviceKind.EMULATED)
    page, _ = write_report(compare(load(folder)), tmp_path / "out")
    assert "Times on this device get no verdict. On hardware they would mean:" in page.read_text()
    rows = (tmp_path / "out/tables/tenants-slowdown.csv").read_text().splitlines()[1:]
    assert rows
    assert all(row.endswith(",not a result") for row in rows)
    for name in ("slowdown", "series", "blame"):
        assert (
            "emulated: not a result" in (tmp_path / f"out/figures/tenants-{name}.svg").read_text()
        )


@pytest.mark.slow
def test_a_fair_mix_has_no_finding(tmp_path: Path) -> None:
    made = (Made("a", (0, 192)), Made("b", (192, 192)))
    folder = write_tenants(tmp_path / "c", made, effect=0.0, noise=0.001)
    page, _ = write_report(compare(load(folder)), tmp_path / "out")
    text = page.read_text()
    assert "a: no loss of throughput shown" in text
    assert "No tenant is named" in text
    section = text[text.index('id="tenants"') :].split("<h2")[0]
    assert not re.search(r"\b(loses|gains)\b", section)


@pytest.mark.slow
def test_tenants_are_held_against_themselves_alone(tmp_path: Path) -> None:
    """Tenants are not compared with the baseline's cell, which lacks the other tenants' metrics."""
    comparison = compare(load(write_tenants(tmp_path / "c")))
    page, _ = write_report(comparison, tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    assert "Each tenant is compared with itself running alone." in text
    assert 'id="verdicts"' not in text
    table = render.to_table(comparison)
    assert re.search(r"slowdown of victim, p99: [\d.]+ \([\d.]+ \.\. [\d.]+\), n \d", table)
    assert "NOT COMPARABLE" not in table


def test_a_mix_without_shared_runs_cannot_be_compared(tmp_path: Path) -> None:
    campaign = load(write_tenants(tmp_path / "c", blocks=1))
    failed = tuple(
        replace(run, result=with_status(run.result, Status.FAILED))
        if run.result.factors["mix"] == "shared"
        else run
        for run in campaign.runs
    )
    table = render.to_table(compare(replace(campaign, runs=failed)))
    assert "Nothing could be compared: no run in which tenants share a drive is ok." in table


@pytest.mark.slow
def test_other_campaigns_have_no_such_section(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", repetitions=2)
    page, _ = write_report(compare(load(folder)), tmp_path / "out")
    assert 'id="tenants"' not in page.read_text()


def test_without_series_there_are_sentences(tmp_path: Path) -> None:
    folder = write_tenants(tmp_path / "c", blocks=1)

    def bare(path: Path) -> None:
        for file in path.glob("series/*.csv"):
            file.unlink()

    for run in sorted(folder.glob("hosts/rig/runs/*")):
        changed(folder, bare, str(run.relative_to(folder)))
    page, _ = write_report(compare(load(folder)), tmp_path / "out")
    text = page.read_text()
    assert "No shared run has a series of any tenant." in text
    assert "too few blocks for a verdict." in text


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"schema_version": 9, "began": 1, "ended": 2, "tenants": []}',
        '{"schema_version": 1, "began": 1, "ended": 2, "tenants": [{"name": "a"}]}',
    ],
)
def test_a_damaged_list_of_tenants_is_named(tmp_path: Path, text: str) -> None:
    folder = write_tenants(tmp_path / "c", blocks=1)
    changed(folder, lambda path: (path / "raw/tenants.json").write_text(text) and None)
    with pytest.raises(RunFailed, match=r"mix-shared--r01/raw/tenants\.json"):
        mixes(load(folder).latest)
