"""A run's claim on two devices: the checks before the first wipe, and its release."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import GuardRefused, Interrupted
from harness.machine.claim import DeviceClaim, clear
from harness.machine.hold import Hold
from harness.machine.journal import JournalEntry, JournalEvent
from harness.observe.zone_reports import Zone, ZoneType
from harness.store.spec import Device
from tests.fixtures.claims import Lab, spy
from tests.runner import fakes
from tests.runner.fakes import (
    namespace,
    put_btrfs,
    set_diskstats,
    set_zones,
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def come_into_use(lab: Lab, name: str) -> None:
    (lab.root / f"busy-{name}").touch()


@pytest.mark.parametrize("changed", ["nvme0n1", "nvme0n2"])
@pytest.mark.parametrize(
    ("change", "code"),
    [(Lab.replace_by_another_drive, "identity-changed"), (come_into_use, "busy")],
    ids=["exchanged", "in-use"],
)
def test_every_device_is_checked_before_the_first_wipe(
    lab: Lab, change: Callable[[Lab, str], None], code: str, changed: str
) -> None:
    set_zones(lab.root, {5: 4096})
    put_btrfs(lab.root / "dev/nvme0n1", "precious")
    before = lab.contents()
    change(lab, changed)
    with pytest.raises(GuardRefused) as caught:
        clear(lab.host, lab.guard, [lab.zoned, lab.conventional])
    assert caught.value.code == code
    assert lab.contents() == before


def test_a_wipe_ends_with_a_flush(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal records a release next; the signatures must not come back after a power cut."""
    steps: list[str] = []
    spy(monkeypatch, os, "pwrite", lambda: steps.append("write"))
    spy(monkeypatch, os, "fsync", lambda: steps.append("flush"))
    lab.host.wipe(lab.conventional)
    assert (set(steps[:-1]), steps[-1]) == ({"write"}, "flush")


@pytest.mark.parametrize("swapped", ["nvme0n1", "nvme0n2"])
def test_a_drive_exchanged_before_the_claim_stops_the_run(lab: Lab, swapped: str) -> None:
    claim = lab.claim()
    claim.require_allowed()
    with claim.exclusively():
        lab.replace_by_another_drive(swapped)
        with pytest.raises(GuardRefused) as caught, claim.held():
            pytest.fail("the run began")
    assert caught.value.code == "identity-changed"


def test_each_entry_names_the_other_device_as_partner(lab: Lab) -> None:
    zoned, conventional = lab.zoned.identity.key, lab.conventional.identity.key
    with lab.taken() as claim:
        claim.clear()
    partners = {(entry.identity, entry.partner) for entry in lab.journal.entries()}
    assert partners == {(zoned, conventional), (conventional, zoned)}


@pytest.mark.parametrize("busy", ["nvme0n1", "nvme0n2"])
def test_one_busy_device_keeps_the_claim_on_both(lab: Lab, busy: str) -> None:
    with lab.taken() as claim:
        claim.clear()
        set_zones(lab.root, {5: 4096})
        (lab.root / f"busy-{busy}").touch()
        before = lab.contents()
    assert lab.contents() == before
    assert {entry.event for entry in lab.journal.entries()} == {JournalEvent.CLAIM}


def test_the_claim_is_released_on_both_when_none_is_busy(lab: Lab) -> None:
    with lab.taken() as claim:
        claim.clear()
        set_zones(lab.root, {5: 4096})
        with Path(lab.conventional.path).open("r+b") as file:
            file.seek(lab.conventional.size // 4)
            file.write(b"data of the run")
    assert [entry.event for entry in lab.journal.entries()] == [
        *[JournalEvent.CLAIM] * 4,
        JournalEvent.RELEASE,
        JournalEvent.RELEASE,
    ]
    assert lab.contents()[0] == "{}"
    assert b"data of the run" in lab.contents()[1]  # far from every signature
    assert lab.guard.examine(lab.conventional) == []


def test_the_claim_is_released_after_an_error_too(lab: Lab) -> None:
    def fail(claim: DeviceClaim) -> None:
        claim.clear()
        set_zones(lab.root, {5: 4096})
        raise ValueError("the run's own")

    with pytest.raises(ValueError, match="the run's own"), lab.taken() as claim:
        fail(claim)
    events = [entry.event for entry in lab.journal.entries()]
    assert events[-2:] == [JournalEvent.RELEASE] * 2
    assert lab.contents()[0] == "{}"


def test_an_interrupt_during_the_clearing_leaves_no_device_without_an_owner(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy(monkeypatch, lab.host, "wipe", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted), lab.stop.installed(), lab.taken() as claim:
        claim.clear()
    events = [entry.event for entry in lab.journal.entries()]
    assert events == [JournalEvent.CLAIM] * 4 + [JournalEvent.RELEASE] * 2
    assert lab.guard.examine(lab.conventional, lab.zoned) == []


def test_recovery_clears_through_the_descriptors_that_it_holds(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name can belong to another device by then."""
    written: list[str] = []
    for name in ("reset_zones", "wipe"):
        monkeypatch.setattr(lab.host, name, lambda _, node: written.append(str(node)))
    hold, devices = Hold(lab.host), [lab.zoned, lab.conventional]
    with hold.taken(devices):
        zoned, conventional = (str(hold.node(device)) for device in devices)
        clear(lab.host, lab.guard, devices, hold)
    assert written == [zoned, zoned, conventional]
    assert zoned.startswith("/proc/self/fd/")


@pytest.mark.parametrize(
    ("gone", "released"), [("nvme0n1", ["nvme0n2"]), ("nvme0n2", [])], ids=["plain", "zoned"]
)
def test_a_device_that_goes_away_keeps_its_own_claim_only(
    lab: Lab, gone: str, released: list[str]
) -> None:
    """Otherwise nothing would prove what is on the other one; a label can be on one only."""
    with lab.taken() as claim:
        claim.clear()
        claim.formatted()
        set_zones(lab.root, {5: 4096})
        shutil.rmtree(lab.root / "sys/class/block" / gone)
    ended = [one for one in lab.journal.entries() if one.event is JournalEvent.RELEASE]
    names = {lab.zoned.identity.key: "nvme0n2", lab.conventional.identity.key: "nvme0n1"}
    assert [names[entry.identity] for entry in ended] == released
    assert (lab.contents()[0] == "{}") == bool(released)
    if released:
        assert lab.guard.examine(lab.zoned) == []


def test_a_label_proves_ownership_only_on_the_partner_of_the_claim(lab: Lab) -> None:
    """A third device with the same label is not the device that the run formatted."""
    namespace(lab.root, 3, {"queue/zoned": "none", "size": str(32 * fakes.MIB // 512)})
    third = lab.host.device("nvme0n3")
    set_zones(lab.root, {5: 4096})
    entry = _entry(lab.zoned, lab.conventional)
    lab.journal.append(entry)
    put_btrfs(lab.root / "dev/nvme0n3", entry.label)
    assert [one.code for one in lab.guard.examine(lab.zoned, third)] == ["not-empty"]
    put_btrfs(lab.root / "dev/nvme0n1", entry.label)
    assert lab.guard.examine(lab.zoned, lab.conventional) == []
    other = replace(_entry(lab.conventional, lab.zoned), boot_id=lab.host.boot_id())
    lab.journal.append(other)
    lab.claim().require_allowed()  # the next run has the same pair


def test_nothing_is_written_before_the_claim_is_journalled(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    spy(monkeypatch, lab.journal, "append", lambda: steps.append("journal"))
    spy(monkeypatch, lab.host, "reset_zones", lambda: steps.append("reset"))
    spy(monkeypatch, lab.host, "wipe", lambda: steps.append("wipe"))
    with lab.taken() as claim:
        claim.clear()
    assert steps[:2] == ["journal", "journal"]
    assert {"reset", "wipe"} <= set(steps)


def test_signatures_in_conventional_zones_are_wiped(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset of zones leaves them as they are. Data of zones with a write pointer is not wiped."""
    zones, size = lab.host.zones, lab.host.zones(lab.zoned.path)[0].size

    def with_some(path: str, limit: int | None = None) -> list[Zone]:
        plain = {0, 1, fakes.ZONES - 1} if path == lab.zoned.path else set()
        return [
            replace(one, type=ZoneType.CONVENTIONAL) if number in plain else one
            for number, one in enumerate(zones(path, limit))
        ]

    monkeypatch.setattr(lab.host, "zones", with_some)
    monkeypatch.setattr(lab.host, "reset_zones", lambda *_: None)
    end = fakes.ZONES * size
    places = (0, size, 2 * size - 1, 2 * size, end - size, end - 1)
    with Path(lab.zoned.path).open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(b"x")
    clear(lab.host, lab.guard, [lab.zoned])
    content = Path(lab.zoned.path).read_bytes()
    assert [place for place in places if content[place]] == [2 * size]


def _entry(device: Device, partner: Device) -> JournalEntry:
    return JournalEntry(
        JournalEvent.UP,
        device.identity.key,
        "c",
        "r",
        "fake",
        "zl-1",
        partner.identity.key,
        None,
        "t",
        "b",
    )


@pytest.mark.parametrize("devices", [(4096, 0), (0, 4096)])
def test_a_writer_that_was_seen_stops_the_format(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, devices: tuple[int, int]
) -> None:
    """Its bytes are counted from the first look to the last one."""
    claim = lab.claim()
    claim.require_allowed()
    before = lab.contents()
    monkeypatch.setattr(lab.host, "pause", lambda _: set_diskstats(lab.root, *devices))
    with pytest.raises(GuardRefused, match="wrote 4096 B to") as caught, claim.exclusively():
        raise AssertionError("the devices are not quiet")
    assert caught.value.code == "written-by-others"
    assert (lab.contents(), lab.journal.entries()) == (before, [])


def test_a_write_between_clearing_and_formatting_is_noticed(lab: Lab) -> None:
    with lab.taken() as claim:
        claim.clear()
        set_diskstats(lab.root, 0, 4096)
        with pytest.raises(GuardRefused) as caught:
            claim.check()
    assert caught.value.code == "written-by-others"


def test_contents_that_change_between_clearing_and_formatting_are_noticed(lab: Lab) -> None:
    """Commands through a character node are in no counter of the kernel."""
    with lab.taken() as claim:
        claim.clear()
        set_zones(lab.root, {3: 4096})
        with pytest.raises(GuardRefused) as caught:
            claim.check()
    assert caught.value.code == "contents-changed"


def test_the_descriptors_are_kept_from_the_guard_to_the_format(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {lab.zoned.path, lab.conventional.path}
    written: list[Path | None] = []
    spy(monkeypatch, lab.journal, "append", lambda: held.append(open_nodes(lab)))
    for name in ("reset_zones", "wipe"):
        method = getattr(lab.host, name)
        monkeypatch.setattr(
            lab.host, name, lambda d, h=None, m=method: (written.append(h), m(d, h))
        )
    held: list[set[str]] = []
    with lab.taken() as claim:
        claim.clear()
        assert open_nodes(lab) == both
        claim.check([lab.zoned])
        assert open_nodes(lab) == {lab.conventional.path}
        claim.check([lab.conventional])
        assert open_nodes(lab) == set()
    assert held == [both] * 6  # claims, claims after the clearing, releases
    through_descriptors = [str(path).startswith("/proc/self/fd/") for path in written]
    assert through_descriptors == [True] * 6


def test_all_devices_are_looked_at_before_the_first_is_released(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look takes seconds, in which another program could use a device that is free already."""
    held: list[set[str]] = []
    with lab.taken() as claim:
        claim.clear()
        spy(monkeypatch, lab.guard, "require_unused", lambda: held.append(open_nodes(lab)))
        claim.check()
        assert held == [{lab.zoned.path, lab.conventional.path}] * 2
        assert open_nodes(lab) == set()


@pytest.mark.parametrize("exchanged", ["nvme0n1", "nvme0n2"])
def test_no_device_of_a_run_is_formatted_when_one_was_exchanged(lab: Lab, exchanged: str) -> None:
    """Levels of tenants format one device after the other; each time all are looked at."""
    name = lab.root / "sys/class/block" / exchanged / "eui"
    with lab.taken() as claim:
        claim.clear()
        before = name.read_text()
        lab.replace_by_another_drive(exchanged)
        for device in (lab.zoned, lab.conventional):
            with pytest.raises(GuardRefused) as caught:
                claim.check([device])
            assert caught.value.code == "identity-changed"
        name.write_text(before)


@pytest.mark.parametrize("busy", ["nvme0n1", "nvme0n2"])
def test_a_device_that_a_program_holds_is_refused_at_once(lab: Lab, busy: str) -> None:
    """Before the minutes in which a warm drive cools."""
    (lab.root / f"busy-{busy}").touch()
    with pytest.raises(GuardRefused) as caught:
        lab.claim().require_allowed()
    assert caught.value.code == "busy"


def test_a_node_with_another_number_is_not_the_device(lab: Lab) -> None:
    """Somebody made the node again, for another drive."""
    Path(f"{lab.zoned.path}.node").write_text("b 8:16")
    with pytest.raises(GuardRefused) as caught:
        lab.guard.check_identity(lab.zoned)
    assert caught.value.code == "node-changed"


@pytest.mark.parametrize(
    ("held", "named"), [("b 8:16", "b 259:2"), ("b 259:2", "b 8:16")], ids=["held", "named"]
)
def test_the_held_node_and_the_name_are_both_the_device(lab: Lab, held: str, named: str) -> None:
    """A drive that is pulled and put back has its name again, but the descriptor is the old one.

    Programs that format open the name, which can be another drive's by then.
    """
    node, pulled = Path(lab.zoned.path), lab.root / "pulled"
    marker = Path(f"{node}.node")
    with lab.taken() as claim:
        claim.clear()
        node.rename(pulled)
        Path(f"{pulled}.node").write_text(held)
        node.write_bytes(pulled.read_bytes())
        marker.write_text(named)
        with pytest.raises(GuardRefused) as caught:
            claim.check()
        marker.unlink()
    assert caught.value.code == "node-changed"


def test_a_user_keeps_the_claim_though_the_lock_is_free(lab: Lab) -> None:
    """The holder of a partition, or a mount, is no exclusive opener of the fake machine."""
    with lab.taken() as claim:
        claim.clear()
        set_zones(lab.root, {5: 4096})
        (lab.root / "sys/class/block/nvme0n1/holders/dm-7").mkdir()
        before = lab.contents()
    assert lab.contents() == before
    assert {entry.event for entry in lab.journal.entries()} == {JournalEvent.CLAIM}


def test_a_program_that_takes_a_device_right_before_its_last_clearing_keeps_the_claim(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lab.taken() as claim:
        claim.clear()
        set_zones(lab.root, {5: 4096})
        before = lab.contents()
        spy(monkeypatch, Hold, "taken", lambda: come_into_use(lab, "nvme0n1"))
    assert lab.contents() == before
    assert {entry.event for entry in lab.journal.entries()} == {JournalEvent.CLAIM}
    assert open_nodes(lab) == set()


def open_nodes(lab: Lab) -> set[str]:
    """Return the fake nodes that this process has open."""
    paths = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    return {path for path in paths if path.startswith(f"{lab.root}/dev/")}
