"""What is on a device: signatures, data, and the proof that zonelab wrote it. It never writes."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from harness import levels
from harness.machine.consent import Consent, digest_of
from harness.machine.host import Host
from harness.machine.journal import Journal, JournalEntry, JournalEvent
from harness.observe import foreign, signatures, zone_reports
from harness.observe.direct_reads import Range
from harness.observe.signatures import Signature
from harness.observe.zone_reports import Zone
from harness.quantities import format_size
from harness.store.spec import Device, DeviceContents, Reason

Say = Callable[[str], None]

_FORM = "2"  # version of the fingerprint's form; an older form proves nothing
_BLOCK = 4096
_MOST_ZONES = 4096  # a fingerprint reads samples from at most this many zones
_TELL_SECONDS = 10.0
_UNREADABLE = "unreadable"


class Contents:
    """Reads devices, and the journal of what zonelab wrote.

    ``say`` receives the progress of long reads.
    """

    def __init__(self, host: Host, journal: Journal, say: Say = lambda _: None) -> None:
        self._host = host
        self._journal = journal
        self._say = say
        self._blank: dict[str, str] = {}  # identity → fingerprint when found blank
        self._wholes: dict[str, tuple[str, str]] = {}  # → fingerprint and digest

    def refusals(self, device: Device) -> list[Reason]:
        """Return why the contents of a device forbid its use; nothing if it is blank.

        It is for devices that ``are_ours`` did not prove to be zonelab's.
        """
        try:
            return [*self._foreign_reasons(device)]
        except OSError as error:
            why = error.strerror or error
            return [
                Reason(
                    "unreadable",
                    f"{device.path} cannot be read ({why}), so its contents are unknown",
                    self._hint(device),
                )
            ]

    def are_ours(self, device: Device, partner: Device | None) -> bool:
        """Whether the journal and the contents prove that zonelab wrote the device last."""
        try:
            return self._are_ours(device, partner)
        except OSError:
            return False  # what cannot be read proves nothing

    def signatures(self, device: Device) -> list[Signature]:
        """Return the signatures on a device: those that zonelab knows, then libblkid's."""
        read = partial(self._read, device)
        found = foreign.signatures(read, device.zone_size, levels.signatures(), device.size)
        return found + [Signature(m.kind, m.label) for m in self._host.magics(device.path)]

    def fingerprint(self, device: Device) -> str:
        """Return form, digest of samples, boot ID and writes since boot, as one text."""
        writes = self._host.write_count(device.name)
        return f"{_FORM}:{self.digest(device)}:{self._host.boot_id()}:{writes}"

    def digest(self, device: Device) -> str:
        """Return a digest of samples: of a zoned device, the zone report and data in zones."""
        hasher = hashlib.sha256()
        spots = signatures.samples(device.size)
        if device.zoned:
            zones = self._host.zones(device.path)
            hasher.update(zone_reports.digest(zones).encode())
            spots = self._zone_samples(zones)
        for data in self._host.read_each(device.path, spots):
            hasher.update(data)
        return hasher.hexdigest()

    # --- consent ----------------------------------------------------------------------------

    def seen(self, device: Device) -> DeviceContents:
        """Return the contents of a device, as the user sees them before a consent."""
        counts = zone_reports.count(self._host.zones(device.path)) if device.zoned else None
        labelled, first_block = [_UNREADABLE], _UNREADABLE
        with suppress(OSError):
            found = self.signatures(device)
            labelled = [f"{s.kind} labelled {s.label!r}" if s.label else s.kind for s in found]
            first_block = hashlib.sha256(self._read(device, 0, _BLOCK)).hexdigest()
        return DeviceContents(
            path=device.path,
            identity=device.identity.key,
            model=device.model,
            serial=device.identity.serial,
            size=device.size,
            signatures=tuple(dict.fromkeys(labelled)),
            first_block=first_block,
            zones_not_empty=counts.full + counts.active if counts else None,
        )

    def consent(self, device: Device) -> Consent:
        """Return the consent to destroy the present contents of a device."""
        seen, contents = self.seen(device), _UNREADABLE
        with suppress(OSError):
            contents = self.digest(device)
        wipes = len(self._journal.erasures(seen.identity))
        named = (seen.identity, seen.size, seen.signatures, seen.first_block, contents)
        return Consent(seen.identity, digest_of(*named, wipes=wipes))

    def unattached(self, identity: str, size: int) -> Consent:
        """Return the consent to destroy a namespace that no host can read."""
        wipes = len(self._journal.erasures(identity))
        return Consent(identity, digest_of(identity, size, "not attached", wipes=wipes))

    def was_used(self, consent: Consent) -> bool:
        """Whether an earlier wipe used this consent."""
        return consent.digest in self._journal.erasures(consent.identity)

    # --- ours -------------------------------------------------------------------------------

    def _are_ours(self, device: Device, partner: Device | None) -> bool:
        last = self._journal.last(device.identity.key)
        if last is None:
            return False
        now = self.fingerprint(device)
        if last.fingerprint is not None and _still_valid(last.fingerprint, now):
            # Unchanged since a clean end or since the claim. No write happened between the samples
            # if the kernel counted writes, or if zones with a write pointer prevent such writes.
            if _was_counted(last.fingerprint, now) or not self._host.writable_in_place(device):
                return True
            return bool(last.whole) and last.whole == self.whole(device)
        ended = last.event in (JournalEvent.RELEASE, JournalEvent.ERASE)
        return not ended and self._is_labelled(device, partner, last)

    def _is_labelled(self, device: Device, partner: Device | None, last: JournalEntry) -> bool:
        """Whether the label of an unfinished run, here or on the partner, proves ownership."""
        found = self.signatures(device)
        if self.is_unproved(device, last.boot_id) or any(s.label != last.label for s in found):
            return False
        if found:
            return True
        return (
            partner is not None
            and partner.identity.key == last.partner
            and any(s.label == last.label for s in self.signatures(partner))
        )

    def is_unproved(self, device: Device, boot_id: str) -> bool:
        """Whether others may have written in place since a run that ended with an earlier boot.

        A label does not show such writes. Zones with a write pointer cannot be written in place.
        """
        return boot_id != self._host.boot_id() and bool(self._host.writable_in_place(device))

    def plain_bytes(self, device: Device) -> int:
        """Return how many bytes of a device can be written in place."""
        return sum(length for _, length in self._host.writable_in_place(device))

    def whole(self, device: Device) -> str:
        """Return a digest of every byte that can be written in place; '' if there are none.

        The digest of an earlier read is used until the fingerprint changes.
        """
        ranges, fingerprint = self._host.writable_in_place(device), self.fingerprint(device)
        if not ranges:
            return ""
        known, digest = self._wholes.get(device.identity.key, ("", ""))
        if known != fingerprint:
            tell = self._progress(device, ranges, "read")
            digest = self._host.whole_digest(device.path, ranges, tell)
        if self._host.write_count(device.name) is not None:
            self._wholes[device.identity.key] = (fingerprint, digest)
        return digest

    def _zone_samples(self, zones: list[Zone]) -> list[Range]:
        """Return both ends of the data in each zone; of some zones if there are very many."""
        filled = [(zone.start, _end(zone)) for zone in zones if _end(zone) > zone.start]
        step = -(-len(filled) // _MOST_ZONES) or 1
        return [
            (offset, min(_BLOCK, end - offset))
            for start, end in filled[::step]
            for offset in (start, max(end - _BLOCK, start))
        ]

    # --- foreign ----------------------------------------------------------------------------

    def _hint(self, device: Device) -> str:
        """Return the hint of a refusal. It contains a consent, for which the device is read."""
        text = self.consent(device)
        return f"if nothing on it is needed: -e erase={text} (zonelab: --erase {text})"

    def _foreign_reasons(self, device: Device) -> Iterator[Reason]:
        found = self.signatures(device)
        if found:
            yield self._signature_reason(device, found)
            return
        if not device.zoned:
            if not self._is_blank(device, [(0, device.size)]):
                yield Reason(
                    "not-blank",
                    f"{device.path} holds data that zonelab did not write",
                    self._hint(device),
                )
            return
        zones = self._host.zones(device.path)
        counts = zone_reports.count(zones)
        if counts.full or counts.active:
            yield Reason(
                "not-empty",
                f"{device.path} has {counts.full + counts.active} zones that are not empty"
                " and that zonelab did not write",
                self._hint(device),
            )
            return
        # No zone report shows whether a zone without a write pointer holds data.
        plain = self._host.writable_in_place(device)
        if plain and not self._is_blank(device, plain):
            yield Reason(
                "not-blank",
                f"{device.path} has data in its conventional zones",
                self._hint(device),
            )

    def _signature_reason(self, device: Device, found: list[Signature]) -> Reason:
        first, last = found[0], self._journal.last(device.identity.key)
        label = f" labelled {first.label!r}" if first.label else ""
        carries = f"{device.path} carries {first.kind}{label}"
        own = (
            last is not None
            and last.event is JournalEvent.UP
            and {s.label for s in found} == {last.label}
        )
        if own:
            return Reason(
                "unproved",
                f"{carries} of a run that a restart ended: others may have written to it since",
                self._hint(device),
            )
        return Reason(
            "foreign-signature", f"{carries} that zonelab did not write", self._hint(device)
        )

    def _is_blank(self, device: Device, ranges: list[Range]) -> bool:
        """Whether every byte is zero. A whole read is valid until the fingerprint changes."""
        fingerprint = self.fingerprint(device)
        if self._blank.get(device.identity.key) == fingerprint:
            return True
        if self._first_data(device, ranges) is not None:
            return False
        if self._host.write_count(device.name) is not None:
            self._blank[device.identity.key] = fingerprint
        return True

    def _first_data(self, device: Device, ranges: list[Range]) -> int | None:
        tell = self._progress(device, ranges, "read, all blank")
        return self._host.first_data(device.path, ranges, tell)

    def _progress(self, device: Device, ranges: list[Range], what: str) -> Callable[[int], None]:
        whole = format_size(sum(length for _, length in ranges))
        last_report = self._host.monotonic()

        def progress(done: int) -> None:
            nonlocal last_report
            if self._host.monotonic() - last_report >= _TELL_SECONDS:
                last_report = self._host.monotonic()
                self._say(f"{device.path}: {format_size(done)} of {whole} {what}")

        return progress

    def _read(self, device: Device, offset: int, length: int) -> bytes:
        """Read, up to the write pointer if a zoned device refuses to read beyond it."""
        try:
            return self._host.read(device.path, offset, length)
        except OSError as error:
            if not device.zoned or error.errno != errno.EIO:
                raise
        zones = self._host.zones(device.path)
        zone = next((z for z in zones if z.start <= offset < z.start + z.size), None)
        end = _end(zone) if zone else 0
        return (
            self._host.read(device.path, offset, min(length, end - offset)) if end > offset else b""
        )


def _end(zone: Zone) -> int:
    """Return the offset behind the last byte of a zone that may hold data."""
    return zone.start + (zone.size if zone.in_place else zone.allocated)


def _was_counted(recorded: str, now: str) -> bool:
    """Whether the kernel counted every write between two fingerprints."""
    _, _, boot, writes = now.split(":")
    return recorded.split(":")[2] == boot and writes != str(None)


def _still_valid(recorded: str, now: str) -> bool:
    """Whether a fingerprint is still valid. Within one boot, write counts must be equal."""
    was, present = recorded.split(":"), now.split(":")
    if was[0] != _FORM or len(was) != len(present):
        return False
    return was[1] == present[1] and (was[2] != present[2] or was[3] == present[3])
