"""A consent permits one wipe of the contents that the user saw, and nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.errors import GuardRefused, UsageError
from harness.machine.claim import DeviceClaim, run_label
from harness.machine.consent import Consent, digest_of, notices, parse
from harness.machine.guard import Guard
from harness.machine.journal import JournalEntry, JournalEvent
from harness.machine.signals import Stop
from harness.observe import signatures
from harness.store.spec import Device
from tests.fixtures.claims import TwoDevices
from tests.runner.conftest import Machine
from tests.runner.fakes import put_btrfs, set_zones

A, B = Consent("eui.a", "0123abcd"), Consent("SERIAL 1@x:3", "ffffffff")


class Killed(BaseException):
    """The process is killed here."""


class Lab(TwoDevices):
    """A zoned device and a companion, both with data of others."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.spec = Machine(root / "plan").plan.hosts[0].runs[0]
        self.foreign()

    def foreign(self) -> None:
        """Put data of others on both devices, the same data each time."""
        put_btrfs(self.root / "dev/nvme0n2", "precious")
        set_zones(self.root, {0: 8192, 5: 4096})
        put_btrfs(self.root / "dev/nvme0n1", "precious")

    def consent(self, device: Device) -> Consent:
        (consent,) = parse(Guard(self.host, self.journal).seen(device).consent)
        return consent

    def guard(self, *consents: Consent) -> Guard:
        return Guard(self.host, self.journal, consents)

    def code(self, device: Device, *consents: Consent) -> str:
        reasons = self.guard(*consents).examine(device)
        return reasons[0].code if reasons else ""

    def codes(self, *consents: Consent) -> tuple[str, str]:
        return self.code(self.zoned, *consents), self.code(self.conventional, *consents)

    def claim(self, *consents: Consent) -> DeviceClaim:
        return DeviceClaim(
            self.spec,
            [self.zoned, self.conventional],
            host=self.host,
            guard=self.guard(*consents),
            journal=self.journal,
            stop=Stop(),
        )

    @contextmanager
    def taken(self, *consents: Consent) -> Iterator[DeviceClaim]:
        """Go as far as a run that clears its devices next."""
        claim = self.claim(*consents)
        claim.require_allowed()
        with claim.exclusively(), claim.held():
            yield claim

    def events(self) -> list[tuple[JournalEvent, str]]:
        names = {self.zoned.identity.key: "zoned", self.conventional.identity.key: "other"}
        return [(entry.event, names[entry.identity]) for entry in self.journal.entries()]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


# --- the text ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (str(A), (A,)),
        (f"{A},{B}", (A, B)),
        (f" {B} , {A},", (B, A)),
    ],
)
def test_consents_are_parsed(text: str, expected: tuple[Consent, ...]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "eui.a",
        "eui.a@",
        "@0123abcd",
        "eui.a@0123abc",
        "eui.a@0123ABCD",
        f"{A},x",
        f"x,{A}",
        f"{A}{B}x",
    ],
)
def test_a_consent_without_a_digest_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert (caught.value.code, caught.value.exit_code) == ("consent-form", 2)


def test_a_consent_without_effect_is_named() -> None:
    assert notices([A, B], needed=[A], identities=["eui.a", "SERIAL 1@x:3"]) == [
        f"erase={B} was not needed: no data of others is destroyed there"
    ]
    assert notices([A, B], needed=[A], identities=["eui.a"]) == [
        f"erase={B} names no device of this command (eui.a)"
    ]


def test_the_digest_depends_on_everything_that_was_seen() -> None:
    seen = ("eui.a", 4096, ("ext",), "00", "11")
    others = [
        ("eui.b", 4096, ("ext",), "00", "11"),
        ("eui.a", 8192, ("ext",), "00", "11"),
        ("eui.a", 4096, ("ext", "md"), "00", "11"),
        ("eui.a", 4096, ("ext",), "01", "11"),
        ("eui.a", 4096, ("ext",), "00", "12"),
    ]
    digests = {digest_of(*one, wipes=0) for one in (seen, *others)} | {digest_of(*seen, wipes=1)}
    assert len(digests) == len(others) + 2


# --- the guard --------------------------------------------------------------------------------


def test_a_consent_covers_one_device_as_it_was_seen(lab: Lab) -> None:
    consent = lab.consent(lab.zoned)
    assert lab.codes() == ("foreign-signature", "foreign-signature")
    assert lab.codes(consent) == ("", "foreign-signature")
    assert lab.codes(consent, lab.consent(lab.conventional)) == ("", "")
    guard = lab.guard(consent)
    assert guard.require(lab.zoned) == consent
    assert guard.notices([consent.identity]) == []
    wrong = Consent(consent.identity, "00000000")
    assert lab.code(lab.zoned, wrong) == "consent-differs"
    assert lab.code(lab.zoned, wrong, consent) == ""


def poke(lab: Lab, name: str, offset: int) -> None:
    with (lab.root / "dev" / name).open("r+b") as file:
        file.seek(offset)
        file.write(b"\1")


def relabelled(lab: Lab) -> None:
    for name in ("nvme0n1", "nvme0n2"):
        put_btrfs(lab.root / "dev" / name, "another")


def first_block(lab: Lab) -> None:
    for name in ("nvme0n1", "nvme0n2"):
        poke(lab, name, 3000)


def later_data(lab: Lab) -> None:
    """Data that neither a signature nor the first block shows."""
    set_zones(lab.root, {0: 8192, 5: 8192})
    poke(lab, "nvme0n1", 1 << 20)


@pytest.mark.parametrize("change", [relabelled, first_block, later_data])
def test_other_contents_need_another_consent(lab: Lab, change: Callable[[Lab], None]) -> None:
    consents = [lab.consent(device) for device in (lab.zoned, lab.conventional)]
    change(lab)
    assert lab.codes(*consents) == ("consent-differs", "consent-differs")
    reason = lab.guard(*consents).examine(lab.zoned)[0]
    now = lab.consent(lab.zoned)
    assert f"erase={now} " in reason.hint
    assert lab.code(lab.zoned, now) == ""


def second_signature(lab: Lab) -> None:
    """An md superblock behind the first block."""
    for name in ("nvme0n1", "nvme0n2"):
        with (lab.root / "dev" / name).open("r+b") as file:
            file.seek(4096)
            file.write(b"\xfc\x4e\x2b\xa9")


@pytest.mark.parametrize("change", [first_block, second_signature])
def test_other_contents_need_another_consent_also_where_samples_cannot_be_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, change: Callable[[Lab], None]
) -> None:
    def fail(*_: object) -> Iterator[bytes]:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(lab.host, "read_each", fail)
    consents = both(lab)
    assert lab.codes(*consents) == ("", "")
    change(lab)
    assert lab.codes(*consents) == ("consent-differs", "consent-differs")


def test_a_consent_does_not_cover_use(lab: Lab) -> None:
    consent = lab.consent(lab.zoned)
    (lab.root / "busy-nvme0n2").touch()
    assert lab.code(lab.zoned, consent) == "busy"
    assert lab.guard().seen(lab.zoned).consent == ""


def test_blank_devices_need_no_consent(lab: Lab) -> None:
    consent = lab.consent(lab.zoned)
    lab.host.reset_zones(lab.zoned)
    assert lab.guard().seen(lab.zoned).consent == ""
    guard = lab.guard(consent)
    assert guard.require(lab.zoned) is None
    assert guard.notices([consent.identity]) == [
        f"erase={consent} was not needed: no data of others is destroyed there"
    ]


def test_what_is_destroyed_is_shown(lab: Lab) -> None:
    seen = lab.guard().seen(lab.zoned)
    assert (seen.model, seen.serial) == ("QEMU NVMe Ctrl", "fake0")
    assert seen.signatures == ("btrfs labelled 'precious'",)
    assert seen.zones_not_empty == 2
    assert len(seen.first_block) == 64
    assert lab.guard().seen(lab.conventional).zones_not_empty is None


# --- the claim: a consent is used once --------------------------------------------------------


def both(lab: Lab) -> tuple[Consent, Consent]:
    return lab.consent(lab.zoned), lab.consent(lab.conventional)


def test_a_consent_is_recorded_before_the_wipe(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    consents, steps = both(lab), list[str]()
    append, reset, wipe = lab.journal.append, lab.host.reset_zones, lab.host.wipe

    def noted(entry: JournalEntry) -> None:
        steps.append(entry.event.value)
        append(entry)

    monkeypatch.setattr(lab.journal, "append", noted)
    monkeypatch.setattr(lab.host, "reset_zones", lambda *a: (steps.append("reset"), reset(*a)))
    monkeypatch.setattr(lab.host, "wipe", lambda *a: (steps.append("wipe"), wipe(*a)))
    with lab.taken(*consents) as claim:
        assert steps == []  # a claim on data of others would make it zonelab's
        claim.clear()
    assert steps[:7] == ["erase", "reset", "wipe", "erase", "wipe", "claim", "claim"]
    used = [entry.consent for entry in lab.journal.entries() if entry.event is JournalEvent.ERASE]
    assert used == [consent.digest for consent in consents]


def test_the_same_data_is_refused_after_the_wipe(lab: Lab) -> None:
    consents = both(lab)
    with lab.taken(*consents) as claim:
        claim.clear()
    assert lab.codes() == ("", "")  # zonelab's
    lab.foreign()
    assert lab.codes() == ("foreign-signature", "foreign-signature")
    assert lab.codes(*consents) == ("consent-used", "consent-used")
    other = Consent(lab.zoned.identity.key, "00000000")
    assert lab.code(lab.zoned, other, consents[0]) == "consent-used"
    before = lab.contents()
    with pytest.raises(GuardRefused) as caught:
        lab.claim(*consents).require_allowed()
    assert caught.value.code == "consent-used"
    assert lab.contents() == before
    again = both(lab)
    assert set(again).isdisjoint(consents)
    assert lab.codes(*again) == ("", "")


def test_a_wipe_goes_on_after_a_short_write(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: whole(fd, data[: 64 << 10], at))
    path = Path(lab.conventional.path)
    path.write_bytes(b"x" * path.stat().st_size)
    lab.host.wipe(lab.conventional)
    content = path.read_bytes()
    for offset, length in signatures.wipe_spots(len(content)):
        assert not any(content[offset : offset + length])


def test_data_that_comes_after_the_claim_is_not_wiped(lab: Lab) -> None:
    lab.host.reset_zones(lab.zoned)
    lab.host.wipe(lab.conventional)
    with lab.taken() as claim:
        lab.foreign()
        before = lab.contents()
        with pytest.raises(GuardRefused) as caught:
            claim.clear()
    assert caught.value.code == "contents-changed"
    assert lab.contents() == before


def test_one_refused_device_keeps_the_data_of_both(lab: Lab) -> None:
    consents, before = both(lab), lab.contents()
    with lab.taken(*consents) as claim:
        (lab.root / "sys/class/block/nvme0n1/holders/dm-7").mkdir()
        with pytest.raises(GuardRefused):
            claim.clear()
    assert lab.contents() == before
    assert lab.events() == []


def test_an_unnamed_companion_with_data_needs_a_consent_too(lab: Lab) -> None:
    lab.host.wipe(lab.conventional)
    poke(lab, "nvme0n1", 9 << 20)
    consent = lab.consent(lab.zoned)
    with pytest.raises(GuardRefused) as caught:
        lab.claim(consent).require_allowed()
    assert caught.value.code == "not-blank"
    seen = lab.guard().seen(lab.conventional, lab.zoned)
    lab.claim(consent, *parse(seen.consent)).require_allowed()


def test_an_interrupt_before_the_first_write_destroys_nothing(lab: Lab) -> None:
    consents, before = both(lab), lab.contents()
    with pytest.raises(KeyboardInterrupt), lab.taken(*consents):
        raise KeyboardInterrupt
    assert lab.contents() == before
    assert lab.codes() == ("foreign-signature", "foreign-signature")
    assert lab.codes(*consents) == ("", "")


# --- a kill at each step, and the same command again ------------------------------------------


def kill_at(lab: Lab, step: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Consent, Consent]:
    """Run, and be killed instead of the given step: an append to the journal, a reset or a wipe."""
    consents, left = both(lab), [step]

    def counted(method: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            method(*arguments)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(lab.journal, "append", counted(lab.journal.append))
        patch.setattr(lab.host, "reset_zones", counted(lab.host.reset_zones))
        patch.setattr(lab.host, "wipe", counted(lab.host.wipe))
        patch.setattr(DeviceClaim, "_release", lambda _: None)
        with pytest.raises(Killed), lab.taken(*consents) as claim:
            claim.clear()
    return consents


@pytest.mark.parametrize(
    ("step", "without", "again"),
    [
        # Nothing was recorded: the consents are valid.
        (0, ("foreign-signature", "foreign-signature"), ("", "")),
        # The zoned device's consent was used, and nothing proves how far the wipe came.
        (1, ("foreign-signature", "foreign-signature"), ("consent-used", "")),
        # Its zones are empty: blank devices need no consent.
        (2, ("", "foreign-signature"), ("", "")),
        (3, ("", "foreign-signature"), ("", "")),
        (4, ("", "foreign-signature"), ("", "consent-used")),
        (5, ("", ""), ("", "")),
        (6, ("", ""), ("", "")),
    ],
)
def test_a_kill_needs_no_second_consent_where_ownership_is_proved(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    without: tuple[str, str],
    again: tuple[str, str],
) -> None:
    consents = kill_at(lab, step, monkeypatch)
    assert lab.codes() == without
    assert lab.codes(*consents) == again


def test_a_labelled_format_needs_no_second_consent(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        DeviceClaim, "_release", lambda _: None
    )  # a kill leaves the device as it is
    with lab.taken(*both(lab)) as claim:
        claim.clear()
    put_btrfs(lab.root / "dev/nvme0n2", run_label(lab.spec))
    set_zones(lab.root, {0: 8192})
    assert lab.codes() == ("", "")


def test_a_used_consent_never_proves_ownership(lab: Lab) -> None:
    """Data with the run's own label, where the wipe was recorded and the claim was not."""
    consents = both(lab)
    key = lab.zoned.identity.key
    label = run_label(lab.spec)
    lab.journal.append(
        JournalEntry(
            JournalEvent.ERASE, key, "c", "r", "fake", label, "", None, "t", "b", consents[0].digest
        )
    )
    put_btrfs(lab.root / "dev/nvme0n2", label)
    assert lab.code(lab.zoned) == "foreign-signature"
