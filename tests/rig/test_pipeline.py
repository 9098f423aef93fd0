"""The pipeline as a user starts it, ``ansible-playbook site.yml -e device=…``, twice.

Every count of bytes and commands in the one campaign: QEMU, kernel, tracer, sysfs, zlfs.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.store import packed
from harness.store.files import load_record
from harness.store.ledger import ClosureState, Ledger
from harness.store.result import Result, Status
from harness.store.rundir import completed, load_result
from harness.verify import recompute

from . import plays
from .conftest import RigHandle
from .plays import ROOT, Played, Plays

# New for each session: a rig that is kept may have finished an equal campaign already.
STAMP = time.strftime("%m%d%H%M%S")
ZONED = ("f2fs", "zlfs")


class Links(HTMLParser):
    """Collects the resources that a page loads, and the links that it only contains."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.led_to: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        links = self.led_to if tag == "a" else self.loaded
        links += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "data")]


def site(rig: RigHandle, *more: str) -> list[str]:
    return ["ansible-playbook", "site.yml", "-e", f"device={rig.node(rig.zoned)}", *more]


@dataclass(frozen=True)
class Campaign:
    """A campaign played from the root of the checkout.

    Attributes:
        qemu: the bytes written to each namespace (by its number), as QEMU counts them.
        guest: the same, as the guest's kernel counts them.
        swappiness: of the guest before the play.
        seen: swappiness, and the number of db_benches, every few seconds of the play.
    """

    plays: Plays
    first: Played
    qemu: dict[int, int]
    guest: dict[int, int]
    swappiness: str
    seen: list[tuple[str, str]]

    @property
    def folder(self) -> Path:
        return self.plays.results / f"root-{STAMP}"

    @property
    def results(self) -> dict[str, Result]:
        """The results by level."""
        loaded = [load_result(path) for path in completed(self.folder / "hosts" / "rig" / "runs")]
        return {result.level: result for result in loaded}

    @property
    def zoned(self) -> dict[str, Result]:
        """The results of the levels that use the zoned device."""
        return {name: result for name, result in self.results.items() if result.level in ZONED}

    def run(self, result: Result) -> Path:
        return self.folder / "hosts" / "rig" / "runs" / result.run

    def rows(self, result: Result, name: str) -> list[dict[str, str]]:
        """Return the rows of a table in a run's folder."""
        text = packed.text(self.run(result) / name)
        return list(csv.DictReader(text.splitlines()))

    def mounts(self) -> list[dict[str, Any]]:
        """Return what zlfs counted at the end of each mount: the import, then each phase."""
        opened = packed.opened(self.run(self.results["zlfs"]) / "raw" / "ledger.jsonl")
        assert opened is not None
        with opened as file:
            return [line for line in map(json.loads, file) if line["event"] == "close"]


@pytest.fixture(scope="module")
def campaign(rig: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    own = Plays(
        rig,
        tmp_path_factory.mktemp("root"),
        campaign=f"root-{STAMP}",
        levels="f2fs,conventional-ext4,zlfs",
        repetitions="1",
        tuning_name="bench",
    )
    swappiness = rig.ssh("cat /proc/sys/vm/swappiness").stdout.strip()
    assert swappiness != "0"
    numbers = [device.nsid for device in rig.state.devices]
    before = plays.written(rig), plays.sectors_written(rig)
    with plays.watched(rig) as seen:
        first = own.play(ROOT, site(rig))
    after = plays.written(rig), plays.sectors_written(rig)
    qemu, guest = (
        {nsid: b - a for nsid, a, b in zip(numbers, *pair, strict=True)}
        for pair in zip(before, after, strict=True)
    )
    yield Campaign(own, first, qemu, guest, swappiness, seen)
    rig.ssh(f"rm -rf /var/lib/zonelab/campaigns/root-{STAMP}")


def test_it_goes_through_from_the_root(campaign: Campaign) -> None:
    assert campaign.first.code == 0, campaign.first.text
    assert campaign.first.recap["failed"] == campaign.first.recap["unreachable"] == 0
    assert {level: result.status for level, result in campaign.results.items()} == {
        "f2fs": Status.OK,
        "conventional-ext4": Status.OK,
        "zlfs": Status.OK,
    }
    for level in campaign.results:
        assert level in campaign.first.text  # the comparison is shown


def test_the_machine_is_tuned_for_the_runs_only(rig: RigHandle, campaign: Campaign) -> None:
    plays.assert_tuned_for_runs_only(rig, campaign.seen, campaign.swappiness)


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
    written = campaign.qemu[rig.zoned.nsid]
    assert written == campaign.guest[rig.zoned.nsid]
    assert campaign.qemu[rig.tenants.nsid] == campaign.guest[rig.tenants.nsid] == 0
    ledger = 0.0
    for result in campaign.zoned.values():
        phases = written_in_phases(result)
        assert phases["fillrandom"] > 0
        assert phases["overwrite"] > 0
        assert result.utilisation is not None
        ledger += sum(phases.values()) + result.utilisation.cold_bytes
    # The ledger leaves out formatting and taking down, which is little.
    assert 0.9 * written < ledger <= written
    assert written > 0
    baseline = campaign.results["conventional-ext4"].metrics
    assert baseline["overwrite.zoned_written"].value is None  # not measured is null, never 0


def written_in_phases(result: Result) -> dict[str, float]:
    """Bytes to the zoned device by phase, from the guest's counters."""
    return {
        name.partition(".")[0]: metric.value or 0
        for name, metric in result.metrics.items()
        if name.endswith(".zoned_written")
    }


def test_the_tracer_saw_every_byte(rig: RigHandle, campaign: Campaign) -> None:
    """Over all runs, from before a level is made until it is taken down."""
    traced = 0
    for result in campaign.zoned.values():
        for row in campaign.rows(result, "raw/zones_traced.csv"):
            traced += int(row["written"]) + int(row["zeroed"]) + int(row["appended"])
    assert traced == campaign.qemu[rig.zoned.nsid] > 0


def test_no_command_is_lost_and_all_layers_agree(campaign: Campaign) -> None:
    """The ledger compares bytes with sysfs, and zone commands and pad with zlfs's own counts."""
    for result in campaign.zoned.values():
        for entry in load_record(Ledger, campaign.run(result) / "ledger.json").entries:
            closures = [closure for closure in entry.closures if "driver" in closure.lower]
            states = {closure.upper: closure.state for closure in closures}
            used = [f"kernel {name}" for name in entry.submitted]
            own = [f"zlfs {name}" for name in ("finishes", "resets", "pad")]
            assert set(states) == {*used, *(own if result.level == "zlfs" else ())}, entry.name
            broken = [one for one in closures if one.state is not ClosureState.EXACT]
            assert not broken, (result.run, entry.name, broken)
            assert entry.pad is not None
        assert recompute.of_run(campaign.run(result)) == []
        assert result.manifest["level"]["tracing"]["source"] == "bpftrace", result.manifest
        codes = {issue.code for issue in result.issues}
        assert not [code for code in codes if code.startswith(("closure", "trace", "not-traced"))]


def test_zlfs_counts_equal_the_devices_in_each_phase(campaign: Campaign) -> None:
    """Each mount's own count is the kernel's delta between two barriers, to the byte."""
    cold, *mounts = campaign.mounts()
    result = campaign.results["zlfs"]
    assert result.utilisation is not None
    assert cold["written"]["import"]["payload"] == result.utilisation.cold_bytes
    counted = [
        sum(part["payload"] + part["pad"] for part in line["written"].values()) for line in mounts
    ]
    assert counted == list(written_in_phases(result).values())
    assert counted[0] > 0


def test_zone_commands_equal_zlfs_ledger(campaign: Campaign) -> None:
    """Import and each phase mount it once. No ledger counts mkfs, which resets no empty zone."""
    rows = campaign.rows(campaign.results["zlfs"], "series/zone_commands.csv")
    mounts = campaign.mounts()
    done = [row["action"] for row in rows if row["status"] == "0" and row["zone"]]
    finishes = [cause for line in mounts for cause in line["finishes"].values()]
    assert done.count("finish") == sum(cause["count"] for cause in finishes) > 0
    assert done.count("reset") == sum(sum(line["resets"].values()) for line in mounts)
    given_up = sum(int(row["unwritten"]) for row in rows if row["action"] == "finish")
    assert given_up == sum(cause["given_up"] for cause in finishes)


def test_every_run_has_its_series(campaign: Campaign) -> None:
    for result in campaign.zoned.values():
        for name in ("diskstats", "zones", "system", "level"):
            lines = packed.text(campaign.run(result) / f"series/{name}.csv").splitlines()
            assert len(lines) > 1, name
            assert lines[0].count(",") == lines[-1].count(",")
        states = ("empty", "implicit_open", "explicit_open", "closed", "full")
        for row in campaign.rows(result, "series/zones.csv"):
            assert sum(int(row[name]) for name in states) == result.device.zones


def test_the_cost_of_watching_is_known(campaign: Campaign) -> None:
    """Of runs of seconds; ``make bench-overhead`` has the real figure."""
    for result in campaign.results.values():
        share = result.metrics["run.harness_cpu_share"].value
        assert isinstance(share, float)
        assert 0 < share < 0.25


def test_rocksdb_names_the_threads_that_flush(campaign: Campaign) -> None:
    for result in campaign.results.values():
        computed = result.metrics["overwrite.flush_cpu_share"].value
        assert computed is not None
        assert 0 < computed < 1.05
