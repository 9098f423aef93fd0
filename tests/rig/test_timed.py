"""The timed rig: modelled drives that count their own bytes, and numbers that repeat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.judge import modelled
from analysis.read.drives import drive_of
from harness.plan import drive_files
from harness.run.ledger import MODELLED_MEDIA
from harness.store import packed
from harness.store.campaign import load_plan
from harness.store.files import load_record
from harness.store.ledger import RUN, ClosureState, Ledger
from harness.store.result import Result, Status
from harness.store.rundir import completed, load_result
from harness.store.spec import DeviceKind
from tests.fixtures.native_build import build

from . import zone_times
from .against_model import CASES, DEPTHS, WITHIN, beyond, left_over, median_lateness, served
from .conftest import WHOLE, RigHandle, booted
from .plays import ROOT, Plays, zonelab

CAMPAIGN = "timed"
# The largest error of a request that the calibrated overhead may leave.
GOAL = 3.0
# The slowest of a hundred reads of the root disk past the page cache, in seconds of the guest.
_SLOWEST_READ = """\
import mmap, os, time
disk = os.open("/dev/pmem0", os.O_RDONLY | os.O_DIRECT)
page, slowest = mmap.mmap(-1, 4096), 0.0
for number in range(100):
    begin = time.monotonic()
    os.preadv(disk, [page], number << 20)
    slowest = max(slowest, time.monotonic() - begin)
print(slowest)
"""
# f2fs uses both drives, with zones and without.
LEVELS = ("f2fs", *(("conventional-ext4", "zlfs") if WHOLE else ()))


@pytest.fixture(scope="module")
def timed() -> Iterator[RigHandle]:
    with booted("timed") as handle:
        yield handle


@pytest.fixture(scope="module")
def campaign(timed: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small campaign as the playbook runs it."""
    own = Plays(
        timed,
        tmp_path_factory.mktemp("timed"),
        campaign=CAMPAIGN,
        levels=",".join(LEVELS),
        repetitions="1",
        settings="workload.database_share=4%",
    )
    device = f"device={timed.zoned.path}"
    played = own.play(ROOT, ["ansible-playbook", "site.yml", "-e", device], timeout=1500)
    assert played.code == 0, played.text
    return own.results / CAMPAIGN


@pytest.fixture(scope="module")
def runs(campaign: Path) -> dict[str, tuple[Path, Result, Ledger]]:
    found = {}
    for path in completed(campaign / "hosts" / "rig-timed" / "runs"):
        result = load_result(path)
        found[result.level] = (path, result, load_record(Ledger, path / "ledger.json"))
    return found


def test_the_guest_never_waits_for_a_disk_of_this_host(timed: RigHandle) -> None:
    """Its clock runs ahead until this host answers: a read from a disk of QEMU took up to 6 s."""
    assert float(timed.ssh(f"python3 -c '{_SLOWEST_READ}'").stdout) < 0.01


@pytest.mark.parametrize("level", LEVELS)
def test_the_servers_agree_with_the_kernel_and_count_media(
    runs: dict[str, tuple[Path, Result, Ledger]], level: str
) -> None:
    path, result, ledger = runs[level]
    assert result.status is Status.OK, (result.reason, result.issues)
    assert result.device.kind is DeviceKind.MODELLED
    assert result.manifest["host"]["virtual_time"] is True
    queues = result.manifest["host"]["devices"][0]["queue"].values()
    assert {one["wbt_lat_usec"] for one in queues} == {str(2000 * result.device.dilation)}
    if level == "conventional-ext4":
        commits = f"commit={5 * result.device.dilation}"
        assert commits in result.manifest["level"]["mount_options"].split(",")
    run = next(entry for entry in ledger.entries if entry.name == RUN)
    assert run.media_source.startswith(f"{MODELLED_MEDIA} ")
    assert run.witness == "zoneblk write and append bytes"
    closures = [one for one in run.closures if one.upper.startswith("kernel")]
    assert closures
    assert {one.state for one in closures} == {ClosureState.EXACT}
    assert run.media.keys() == run.accepted.keys()
    for drive, accepted in run.accepted.items():
        media = run.media[drive]
        assert media is not None
        assert media >= accepted > 0
    series = packed.text(path / "series" / "media.csv").splitlines()
    assert series[0].startswith("t,ublkb")
    assert len(series) > 1


def test_collection_is_timed(runs: dict[str, tuple[Path, Result, Ledger]]) -> None:
    """f2fs's by two events of the kernel, zlfs's by its own clock."""
    for level in set(LEVELS) - {"conventional-ext4"}:
        metrics = runs[level][1].metrics
        for name in ("fillrandom", "overwrite"):
            took = metrics[f"{name}.gc_seconds"].value
            assert took is not None
            assert 0 <= took < (metrics[f"{name}.seconds"].value or 0)


def test_runs_count_what_ended_on_time_and_name_the_models(
    timed: RigHandle, campaign: Path, runs: dict[str, tuple[Path, Result, Ledger]]
) -> None:
    (planned, *_) = load_plan(campaign / "plan.json").hosts[0].runs
    assert planned.conventional is not None
    drives = {"zones-4m": planned.device, "conventional-4m": planned.conventional}
    for drive, device in drives.items():
        named = drive_of(device.model)
        assert named is not None
        assert named.served == drive_files.served_name(drive_files.load_model(drive))
        assert f"{named.overhead_us:g}us" == timed.model.overhead
    for _, result, _ in runs.values():
        for name, least, most in (
            ("on_time_share", 0.9, 1.0),
            ("late_share", 0.0, modelled.LATE),
            ("busy_cpus", 0.001, 2 * modelled.BUSY),  # the small study's fill is short
        ):
            shares = [m.value for key, m in result.metrics.items() if key.endswith(f".{name}")]
            assert shares
            assert all(share is not None and least <= share <= most for share in shares), result


def test_requests_take_the_time_of_the_model(timed: RigHandle) -> None:
    """``overhead``, ``wakeup`` and ``overhead_left_pct`` of the rig are measured again."""
    build()
    device = served(timed.name, timed.model.overhead, timed.model.dilation)
    most = timed.model.overhead_left_pct
    assert most is not None
    assert most <= GOAL
    left = left_over(timed.name, device, CASES, timed.model.dilation)
    # A service of the guest can run during a case, but hardly twice during the same one.
    again = [case for case, error in left.items() if abs(error) > most]
    if again:
        left |= left_over(timed.name, device, again, timed.model.dilation)
    assert all(abs(error) <= most for error in left.values()), left
    # More than the server needs would hide late requests.
    late = median_lateness(timed.name, device)
    assert late - 2 < float(timed.model.wakeup.removesuffix("us")) < late


@pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
def test_requests_at_depths_take_the_time_of_the_model(timed: RigHandle) -> None:
    build()
    device = served(timed.name, timed.model.overhead, timed.model.dilation)
    assert not beyond(timed.name, device, DEPTHS, timed.model.dilation)


@pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
def test_resets_and_finishes_take_the_time_of_the_model(timed: RigHandle) -> None:
    build()
    device = served(timed.name, timed.model.overhead, timed.model.dilation)
    found = zone_times.measured(timed.name, device, timed.model.dilation)
    assert found.keys() == set(zone_times.CASES)
    left = {case.name: us / zone_times.nominal(case) - 1 for case, us in found.items()}
    assert all(abs(share) <= WITHIN[0] for share in left.values()), left


def test_the_campaign_is_whole(campaign: Path) -> None:
    checked = zonelab("verify", campaign)
    assert checked.ok, checked.stdout + checked.stderr
