"""Properties of expansion and derivation that must hold for every study and every device."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ConfigError
from harness.plan import load
from harness.plan.derive import USABLE_SHARE, derive
from harness.plan.expand import block_order, block_seed, expand
from harness.plan.phases import phase_spec
from harness.plan.reference import LEVELS, RIG
from harness.plan.study_models import MOST_REPETITIONS, Study
from harness.run import phase
from harness.store.files import dumps
from harness.store.spec import Bytes, Device

MIB = 2**20
BASE, WORKLOAD = load.load_study("smoke")

studies = st.builds(
    lambda levels, schedulers, repetitions, seed: BASE.model_copy(
        update={
            "levels": tuple(levels),
            "factors": {"scheduler": tuple(schedulers)} if schedulers else {},
            "repetitions": repetitions,
            "seed": seed,
            "baseline": levels[0],
        }
    ),
    # zenfs works with one scheduler only, and is refused where a study varies it.
    st.lists(
        st.sampled_from(
            [x for x in LEVELS if x not in ("zenfs", "raw-device", "raw-conventional")]
        ),
        min_size=1,
        max_size=5,
        unique=True,
    ),
    st.lists(st.sampled_from(["none", "mq-deadline"]), max_size=2, unique=True),
    st.integers(1, 12),
    st.integers(1, 2**31 - 1),
)


@st.composite
def devices(draw: st.DrawFn) -> Device:
    capacity = draw(st.integers(1, 1200)) * MIB
    size = capacity + draw(st.integers(0, 1024)) * MIB
    zones = draw(st.integers(32, 1024))
    return replace(
        RIG.device,
        zone_capacity=Bytes(capacity),
        zone_size=Bytes(size),
        zones=zones,
        size=Bytes(zones * size),
    )


@settings(max_examples=40)
@given(studies, st.integers(1, 3))
def test_expansion_is_complete_and_balanced(study: Study, hosts: int) -> None:
    plan = expand(study, WORKLOAD, [(f"h{i}", RIG) for i in range(hosts)], "c")
    runs = [(host.host, run) for host in plan.hosts for run in host.runs]
    cells = len(study.levels) * len(study.factors.get("scheduler", [1]))
    assert len({run.run for _, run in runs}) == len(runs) == cells * study.repetitions
    for block in range(1, study.repetitions + 1):
        members = [(host, run) for host, run in runs if run.block == block]
        assert Counter(run.cell for _, run in members) == Counter({r.cell for _, r in members})
        assert [run.position for _, run in members] == list(range(1, cells + 1))
        assert len({host for host, _ in members}) == 1
        assert len({run.seed for _, run in members}) == 1
    assert len({run.seed for _, run in runs}) == study.repetitions
    assert all(0 < run.seed < 2**32 for _, run in runs)


@pytest.mark.slow
@settings(max_examples=40)
@given(studies)
def test_the_same_study_gives_the_same_bytes(study: Study) -> None:
    again = Study.model_validate_json(study.model_dump_json())
    first, second = (dumps(expand(s, WORKLOAD, [("h", RIG)], "c")) for s in (study, again))
    assert first == second


@given(studies, st.permutations(LEVELS), st.integers(1, 12))
def test_order_depends_on_the_seed_alone(study: Study, cells: list[str], block: int) -> None:
    assert block_order(study, cells, block) == block_order(study, sorted(cells), block)


def test_no_two_phases_of_a_study_have_one_seed() -> None:
    (run, *_) = expand(BASE, WORKLOAD, [("h", RIG)], "c").hosts[0].runs
    phases = [replace(run.phases[0], name=f"p{at}") for at in range(300)]
    first = [phase.seed(block_seed(BASE, 1), phases, one) for one in phases]
    # Recorded runs have these.
    assert first[:100] == [BASE.seed + 10_000 + 100 * at for at in range(100)]
    blocks = [10_000 * block for block in range(MOST_REPETITIONS)]
    assert block_seed(BASE, MOST_REPETITIONS) == block_seed(BASE, 1) + blocks[-1]
    seeds = {seed + block for seed in first for block in blocks}
    assert len(seeds) == len(first) * len(blocks)


def test_blocks_are_not_all_in_one_order() -> None:
    orders = {tuple(block_order(BASE, LEVELS, block)) for block in range(1, 6)}
    assert len(orders) > 1


@settings(max_examples=200)
@given(devices(), st.floats(0.05, 0.9), st.floats(0.01, 0.3), st.integers(1, 16))
def test_whatever_is_planned_fits_the_capacity(
    device: Device, target: float, share: float, files: int
) -> None:
    changes = {"database_share": share, "largest_file": 64 * MIB, "files_per_zone": files}
    workload = WORKLOAD.model_copy(update=changes)
    try:
        derived = derive(workload, device, target, cold=True)
    except ConfigError as error:
        refusal = error
        derived = None
    if derived is None:
        assert refusal.exit_code == 2
        assert refusal.hint
        return
    capacity = device.zones * device.zone_capacity  # type: ignore[operator]
    live = derived.cold_bytes + derived.database_bytes
    assert derived.cold_bytes >= 0
    assert live + derived.free_bytes == capacity
    assert derived.cold_bytes + derived.peak_bytes <= USABLE_SHARE * capacity
    assert derived.target_file_size_base * files <= (device.zone_capacity or 0)
    assert derived.target_file_size_base <= workload.largest_file
    assert live / capacity == pytest.approx(target, abs=2 * MIB / capacity + 0.001)
    if capacity >= 1024 * MIB:
        assert abs(target - live / capacity) <= BASE.tolerance / 4


@given(devices())
def test_file_size_comes_from_capacity_and_never_from_size(device: Device) -> None:
    wider = replace(device, zone_size=Bytes((device.zone_size or 0) * 2))
    workload = WORKLOAD.model_copy(update={"database_share": 0.01})
    results: list[object] = []
    for one in (device, wider):
        try:
            results.append(derive(workload, one, 0.5, cold=True))
        except ConfigError as error:
            results.append(error.message)
    assert results[0] == results[1]


@settings(max_examples=40)
@given(st.integers(1, 5000), st.integers(1, 64))
def test_threads_do_at_least_the_requested_operations(count: int, threads: int) -> None:
    """db_bench takes operations per thread: a remainder is rounded up, never dropped."""
    phase = WORKLOAD.phases[-1]
    operations = type(phase.operations)(count=count)
    flags = {**phase.flags, "threads": threads}
    asked = phase.model_copy(update={"operations": operations, "flags": flags})
    workload = WORKLOAD.model_copy(update={"phases": (*WORKLOAD.phases[:-1], asked)})
    spec = phase_spec(workload, asked, derive(workload, RIG.device, 0.5, cold=True))
    per_thread = spec.flags.get("writes", spec.flags.get("reads"))
    assert isinstance(per_thread, int)
    assert spec.operations == per_thread * threads
    assert count <= spec.operations < count + threads
