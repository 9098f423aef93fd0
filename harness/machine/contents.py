"""What is on a device: signatures, data, and the proof that zonelab wrote it. It never writes."""

from __future__ import annotations

import hashlib

from harness import levels
from harness.machine.host import Host
from harness.machine.journal import Event, Journal
from harness.observe import signatures, zone_reports
from harness.observe.signatures import Read, Signature
from harness.store.spec import Device, Reason

_SAMPLE = 1 << 20  # bytes read at the start of each conventional zone


class Contents:
    """Reads devices, and the journal of what zonelab wrote."""

    def __init__(self, host: Host, journal: Journal) -> None:
        self._host = host
        self._journal = journal

    def fingerprint(self, device: Device) -> str:
        """Return a digest that changes with a write: of the zone report, or of signature areas."""
        if device.zoned:
            return zone_reports.digest(self._host.zones(device.path))
        hasher = hashlib.sha256()
        # Also between the wiped areas: data without a signature can begin anywhere.
        for offset, length in signatures.zero_spots(device.size):
            hasher.update(self._host.read(device.path, offset, length))
        return hasher.hexdigest()

    def refusals(self, device: Device, *, named: bool) -> list[Reason]:
        """Return every reason why the contents of a device forbid its use."""
        key = device.identity.key
        erase = f"if nothing on it is needed: -e erase={key} (zonelab: --erase {key})"
        found = self.signatures(device)
        if found:
            kind = found[0].kind
            label = f" labelled {found[0].label!r}" if found[0].label else ""
            return [
                Reason(
                    "foreign-signature",
                    f"{device.path} carries {kind}{label} that zonelab did not write",
                    erase,
                )
            ]
        if device.zoned:
            counts = zone_reports.count(self._host.zones(device.path))
            if counts.allocated or counts.full or counts.active:
                return [
                    Reason(
                        "not-empty",
                        f"{device.path} has {counts.full + counts.active} zones that are not empty"
                        " and that zonelab did not write",
                        erase,
                    )
                ]
            if self._conventional_zones_hold(device):
                return [
                    Reason(
                        "not-blank",
                        f"{device.path} has conventional zones, and data in them",
                        erase,
                    )
                ]
        elif not named and not signatures.is_blank(self._reader(device), device.size):
            return [
                Reason(
                    "not-blank",
                    f"{device.path} is not blank, so it is not used unless you name it",
                    f"-e conventional_device={device.path}",
                )
            ]
        return []

    def _conventional_zones_hold(self, device: Device) -> bool:
        """Whether zones without a write pointer hold data, which no zone report shows."""
        kinds = self._host.zones(device.path)
        plain = [zone for zone in kinds if zone.type is zone_reports.ZoneType.CONVENTIONAL]
        return any(self._host.read(device.path, z.start, _SAMPLE).strip(b"\0") for z in plain)

    def are_ours(self, device: Device, partner: Device | None) -> bool:
        """Whether the journal and the contents prove that zonelab wrote the device last."""
        last = self._journal.last(device.identity.key)
        if last is None:
            return False
        if last.fingerprint is not None and last.fingerprint == self.fingerprint(device):
            return True  # unchanged since a clean end or since the claim
        if last.event is Event.RELEASE:
            return False
        found = self.signatures(device)
        if any(s.label != last.label for s in found):
            return False
        if found:
            return True
        return (
            partner is not None
            and partner.identity.key == last.partner
            and any(s.label == last.label for s in self.signatures(partner))
        )

    def signatures(self, device: Device) -> list[Signature]:
        """Return the signatures on a device, of the levels and of other programs."""
        return signatures.find(self._reader(device), device.zone_size, levels.signatures())

    def _reader(self, device: Device) -> Read:
        return lambda offset, length: self._host.read(device.path, offset, length)
