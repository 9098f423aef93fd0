"""The pipeline as a user starts it: ``ansible-playbook site.yml -e device=…``, twice each."""

from __future__ import annotations

import itertools
import json
import lzma
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness.store.result import Result, Status
from harness.store.rundir import completed, load_result

from . import plays
from .conftest import RigHandle
from .plays import ROOT, Played, Plays

ANSIBLE = ROOT / "ansible"
# New for each session: a rig that is kept may have finished an equal campaign already.
STAMP = time.strftime("%m%d%H%M%S")


class Links(HTMLParser):
    """Collects the resources that a page loads, and the links that it only contains."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.led_to: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = self.led_to if tag == "a" else self.loaded
        found += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "data")]


def site(rig: RigHandle, *more: str) -> list[str]:
    return ["ansible-playbook", "site.yml", "-e", f"device={rig.node(rig.zoned)}", *more]


@dataclass(frozen=True)
class Campaign:
    """A campaign played from the root of the checkout, with the counters around it."""

    plays: Plays
    first: Played
    qemu: list[int]
    guest: list[int]

    @property
    def folder(self) -> Path:
        return self.plays.results / f"root-{STAMP}"

    @property
    def results(self) -> dict[str, Result]:
        found = [load_result(path) for path in completed(self.folder / "hosts" / "rig" / "runs")]
        return {result.level: result for result in found}


@pytest.fixture(scope="module")
def campaign(rig: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    own = Plays(
        rig,
        tmp_path_factory.mktemp("root"),
        campaign=f"root-{STAMP}",
        levels="f2fs,conventional-ext4,zlfs",
        repetitions="1",
    )
    before = plays.written(rig), plays.sectors_written(rig)
    first = own.play(ROOT, site(rig))
    after = plays.written(rig), plays.sectors_written(rig)
    deltas = [
        [b - a for a, b in zip(*pair, strict=True)] for pair in zip(before, after, strict=True)
    ]
    yield Campaign(own, first, *deltas)
    rig.ssh(f"rm -rf /var/lib/zonelab/campaigns/root-{STAMP}")


def test_it_goes_through_from_the_root(campaign: Campaign) -> None:
    assert campaign.first.code == 0, campaign.first.text
    assert campaign.first.recap["failed"] == campaign.first.recap["unreachable"] == 0
    assert {level: found.status for level, found in campaign.results.items()} == {
        "f2fs": Status.OK,
        "conventional-ext4": Status.OK,
        "zlfs": Status.OK,
    }
    for level in campaign.results:
        assert level in campaign.first.text  # the comparison is shown


def test_a_second_time_runs_nothing(rig: RigHandle, campaign: Campaign) -> None:
    before = plays.files(campaign.plays.results), plays.guest_files(rig), plays.written(rig)
    again = campaign.plays.play(ROOT, site(rig))
    assert again.code == 0, again.text
    assert again.recap["changed"] == 0, again.text
    after = plays.files(campaign.plays.results), plays.guest_files(rig), plays.written(rig)
    assert after == before


def test_the_results_are_whole(campaign: Campaign) -> None:
    verified = plays.zonelab("verify", campaign.folder)
    first, root = verified.stdout.splitlines()
    assert (verified.exit_code, first) == (0, f"{campaign.folder}: whole")
    assert (
        root.removeprefix("root hash: ") in (campaign.folder / "report" / "index.html").read_text()
    )
    compared = plays.zonelab("compare", campaign.folder)
    assert compared.exit_code == 0, compared.stderr
    for word in ("f2fs", "conventional-ext4", "zlfs", "overwrite.write_amplification"):
        assert word in compared.stdout


def test_the_page_needs_no_other_file_and_its_links_lead_somewhere(campaign: Campaign) -> None:
    report = campaign.folder / "report"
    page = (report / "index.html").read_text()
    links = Links()
    links.feed(page)
    assert [link for link in links.loaded if not link.startswith(("#", "data:"))] == []
    assert "@import" not in page
    files = {link.partition("#")[0] for link in links.led_to if not link.startswith(("#", "http"))}
    assert {"tables/verdicts.csv", "figures/user-to-media.svg"} <= files
    assert [link for link in files if not (report / link).exists()] == []


def test_the_bytes_equal_qemus_count(rig: RigHandle, campaign: Campaign) -> None:
    """Two independent witnesses, over format, fill, runs and clean-up."""
    of = dict(zip((device.nsid for device in rig.state.devices), campaign.qemu, strict=True))
    guest = dict(zip((device.nsid for device in rig.state.devices), campaign.guest, strict=True))
    assert of[rig.zoned.nsid] == guest[rig.zoned.nsid]
    assert of[rig.tenants.nsid] == guest[rig.tenants.nsid] == 0
    ledger = 0.0
    for level in ("f2fs", "zlfs"):
        found = campaign.results[level]
        phases = written_in_phases(found)
        assert phases["fillrandom"] > 0
        assert phases["overwrite"] > 0
        assert found.utilisation is not None
        ledger += sum(phases.values()) + found.utilisation.cold_bytes
    assert 0 < ledger <= of[rig.zoned.nsid]
    # What the ledger leaves out is formatting and taking down: little.
    assert ledger > 0.9 * of[rig.zoned.nsid]
    baseline = campaign.results["conventional-ext4"].metrics
    assert baseline["overwrite.zoned_written"].value is None  # not measured is null, never 0


def written_in_phases(found: Result) -> dict[str, float]:
    """Bytes to the zoned device by phase, from the guest's counters."""
    return {
        name.partition(".")[0]: metric.value or 0
        for name, metric in found.metrics.items()
        if name.endswith(".zoned_written")
    }


def test_zlfs_counts_equal_the_devices_in_each_phase(campaign: Campaign) -> None:
    """Each mount's own count is the kernel's delta between two barriers, to the byte."""
    (run,) = (campaign.folder / "hosts" / "rig" / "runs").glob("zlfs--r01")
    with lzma.open(run / "raw" / "ledger.jsonl.xz", "rt") as file:
        lines = [json.loads(line) for line in file]
    cold, *mounts = [line for line in lines if line["event"] == "close"]
    found = campaign.results["zlfs"]
    assert found.utilisation is not None
    assert cold["written"]["import"]["payload"] == found.utilisation.cold_bytes
    told = [
        sum(part["payload"] + part["pad"] for part in line["written"].values()) for line in mounts
    ]
    assert told == list(written_in_phases(found).values())
    assert told[0] > 0


def test_the_cost_of_watching_is_known(campaign: Campaign) -> None:
    for found in campaign.results.values():
        share = found.metrics["run.harness_cpu_share"].value
        assert isinstance(share, float)
        assert 0 < share < 0.25


def test_from_the_ansible_folder_with_tuning(rig: RigHandle, tmp_path: Path) -> None:
    name = f"ansible-{STAMP}"
    own = Plays(rig, tmp_path, campaign=name, levels="conventional-ext4", tuning_name="bench")
    swappiness = rig.ssh("cat /proc/sys/vm/swappiness").stdout.strip()
    assert swappiness != "0"
    with watched(rig) as seen:
        first = own.play(ANSIBLE, site(rig))
    assert first.code == 0, first.text
    runs = completed(own.results / name / "hosts" / "rig" / "runs")
    assert [load_result(run).status for run in runs] == [Status.OK]
    # Changed before db_bench ran, put back behind it.
    assert [value for value, _ in itertools.groupby(line[0] for line in seen)] == [
        swappiness,
        "0",
        swappiness,
    ]
    assert {value for value, working in seen if working != "0"} == {"0"}
    rig.ssh("test ! -e /var/lib/zonelab/saved/tuning.json")

    before = plays.files(own.results), plays.guest_files(rig), plays.written(rig)
    again = own.play(ANSIBLE, site(rig))
    assert again.code == 0, again.text
    assert again.recap["changed"] == 0, again.text
    assert (plays.files(own.results), plays.guest_files(rig), plays.written(rig)) == before
    rig.ssh(f"rm -rf /var/lib/zonelab/campaigns/{name}")


@contextmanager
def watched(rig: RigHandle) -> Iterator[list[tuple[str, str]]]:
    """Look at swappiness and for db_bench every few seconds; the list is filled at the end."""
    look = "echo $(cat /proc/sys/vm/swappiness) $(pgrep -xc db_bench)"
    # A first look while nothing has happened yet.
    loop = f"({look}; while sleep 4; do {look}; done) > /run/watch-tuning"
    rig.ssh(f"systemd-run --quiet --collect --unit=watch-tuning sh -c '{loop}'")
    seen: list[tuple[str, str]] = []
    try:
        yield seen
    finally:
        text = rig.ssh(
            f"systemctl stop watch-tuning; {look} >> /run/watch-tuning; cat /run/watch-tuning"
        )
        seen += [(line.split()[0], line.split()[1]) for line in text.stdout.splitlines()]
