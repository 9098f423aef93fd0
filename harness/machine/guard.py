"""The device guard: checks every reason to refuse a device. It never writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import GuardRefused
from harness.machine import in_use
from harness.machine.consent import Consent, notices
from harness.machine.device_contents import Contents
from harness.machine.device_facts import require_geometry
from harness.machine.host import Host
from harness.machine.journal import Journal
from harness.store.spec import Device, DeviceContents, Reason


class Guard:
    """Decides whether a device may be overwritten.

    ``journal`` names the devices that zonelab wrote to. ``erase`` are the consents that the user
    gave with ``-e erase=``; each permits one wipe of one device. ``say`` receives the progress of
    long reads.
    """

    def __init__(
        self,
        host: Host,
        journal: Journal,
        erase: Collection[Consent] = (),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._host = host
        self.contents = Contents(host, journal, say)
        self._erase = tuple(erase)
        self._needed: set[Consent] = set()

    def examine(self, device: Device, partner: Device | None = None) -> list[Reason]:
        """Return every reason against using ``device``; empty if it can be overwritten.

        ``partner`` is the other device of the same run; some levels write their label only there.
        """
        return self._examine(device, partner, held=False)[0]

    def require(
        self,
        device: Device,
        partner: Device | None = None,
        *,
        held: bool = False,
    ) -> Consent | None:
        """Return the consent that permits overwriting ``device``; None if none is needed.

        Raises:
            GuardRefused: with the first reason against the device.
        """
        reasons, consent = self._examine(device, partner, held=held)
        refuse(reasons)
        return consent

    def require_unattached(self, identity: str, size: int) -> Consent:
        """Return the consent to delete a namespace that is not attached.

        Raises:
            GuardRefused: the user gave none; zonelab cannot read an unattached namespace.
        """
        consent = self.contents.unattached(identity, size)
        if consent not in self._erase:
            raise GuardRefused(
                f"namespace {identity} is not attached: its contents are unknown",
                hint=f"attach it, so that it can be checked, or -e erase={consent}",
                code="not-attached",
            )
        self._needed.add(consent)
        return consent

    def _examine(
        self, device: Device, partner: Device | None, *, held: bool
    ) -> tuple[list[Reason], Consent | None]:
        reasons = in_use.reasons(self._host, device, held=held)
        if reasons:
            return reasons, None  # the contents of a device in use always belong to its user
        if self.contents.are_ours(device, partner):
            return [], None
        reasons = self.contents.refusals(device)
        given = [consent for consent in self._erase if consent.identity == device.identity.key]
        if not reasons or not given:
            return reasons, None
        self._needed.update(given)
        consent = self.contents.consent(device)
        if consent in given:
            return [], consent
        return [self._mismatch(reasons[0], consent, given)], None

    def _mismatch(self, reason: Reason, consent: Consent, given: Collection[Consent]) -> Reason:
        """Return why the given consents do not permit destroying the present contents."""
        erase = f"if nothing on it is needed now: -e erase={consent} (zonelab: --erase {consent})"
        if any(self.contents.was_used(other) for other in given):
            used = f"{reason.message}; an earlier wipe has used the consent"
            return Reason("consent-used", used, erase)
        other = f"{reason.message}; the consent names other contents"
        return Reason("consent-differs", other, erase)

    def seen(self, device: Device, partner: Device | None = None) -> DeviceContents:
        """Return what is on a device, with the consent to type if a wipe needs one."""
        seen = self.contents.seen(device)
        if in_use.reasons(self._host, device) or self.contents.are_ours(device, partner):
            return seen
        if not self.contents.refusals(device):
            return seen
        return replace(seen, consent=str(self.contents.consent(device)))

    def notices(self, identities: Collection[str]) -> list[str]:
        """Return a line about each given consent that had no effect on these devices."""
        return notices(self._erase, self._needed, identities)

    def require_unused(self, device: Device, held: Path | None = None) -> None:
        """Check right before a destructive step that it is the planned device, and not in use.

        ``held`` is its node if this process has it open exclusively.
        """
        self.check_identity(device, held)
        refuse(in_use.reasons(self._host, device, held=held is not None))

    def is_as_left(self, device: Device) -> bool:
        """Whether a device is proved to be as zonelab left it, and is not in use."""
        unused = not in_use.reasons(self._host, device)
        return unused and self.contents.are_ours(device, None)

    def proves(
        self, label: str, boot_id: str, devices: Collection[Device], *, held: bool = False
    ) -> bool:
        """Whether the devices of a run are still as that run left them.

        That means: one carries ``label``, none carries another signature, and none is in use. If
        the machine restarted since ``boot_id``, none can be written in place. ``held``: this
        process has the devices open exclusively.
        """
        if any(self.contents.is_unproved(device, boot_id) for device in devices):
            return False
        if any(in_use.reasons(self._host, device, held=held) for device in devices):
            return False
        try:
            found = {s.label for device in devices for s in self.contents.signatures(device)}
        except OSError:
            return False  # what cannot be read proves nothing
        return found == {label}

    def check_identity(self, device: Device, held: Path | None = None) -> None:
        """Check again that the node is the planned device; ``held`` as for require_unused.

        Raises:
            GuardRefused: the device is gone or has another geometry, another device has its name,
                or the node has another number.
        """
        name = device.name
        found = self._host.identity(name).key if self._host.sysfs.block(name).is_dir() else "gone"
        if found != device.identity.key:
            raise GuardRefused(
                f"{device.path} was {device.identity.key}, now it is {found}; it was left alone",
                hint="plan again for the present device",
                code="identity-changed",
            )
        require_geometry(device, self._host.device(device.path))
        (number,) = in_use.nodes([self._host.sysfs.text(name, "dev")], block=True)
        nodes = [Path(device.path), *([held] if held else [])]
        if any(self._host.node(node) != number for node in nodes):
            raise GuardRefused(
                f"{device.path} is no longer the node of {name}; it was left alone",
                hint=f"compare ls -l {device.path} with /sys/class/block/{name}/dev",
                code="node-changed",
            )

    def fingerprint(self, device: Device) -> str:
        """Return a digest that changes with a write."""
        return self.contents.fingerprint(device)


def refuse(reasons: Sequence[Reason]) -> None:
    """Raise GuardRefused with the first reason, if there is one."""
    if reasons:
        first = reasons[0]
        raise GuardRefused(first.message, hint=first.hint, code=first.code)


def companion(
    host: Host,
    guard: Guard,
    device: Device,
    named: str | None,
    remainder: Device | None = None,
) -> tuple[Device | None, Reason | None]:
    """Choose the conventional device: the named one, else a blank sibling namespace.

    The ``remainder`` is never chosen: it is filled or purged before the runs, and must stay so.

    Returns:
        The device, or the reason why there is none, with a hint about the option to use.
    """
    hint = "-e conventional_device=<device> names one; its contents will be destroyed"
    other = "-e conventional_device=<device> names another one"
    if named is not None:
        found = host.device(named)
        if found.zoned:
            return None, Reason(
                "conventional-zoned", f"{found.path} is zoned, not conventional", hint
            )
        reasons = guard.examine(found, device)
        return (None, reasons[0]) if reasons else (found, None)
    refused: Reason | None = None
    for name in host.sysfs.siblings(device.name):
        if host.sysfs.text(name, "queue/zoned") not in ("none", ""):
            continue
        candidate = host.device(str(host.sysfs.dev / name))
        if remainder is not None and candidate.identity.key == remainder.identity.key:
            why = f"{candidate.path} is the remainder, so runs cannot use it as conventional device"
            refused = Reason("conventional-remainder", why, other)
            continue
        reasons = guard.examine(candidate, device)
        if not reasons:
            return candidate, None
        first = reasons[0]
        refused = replace(first, hint=f"{other}, or {first.hint}" if first.hint else other)
    return None, refused or Reason(
        "no-conventional", "no conventional device was named, and the drive has none", hint
    )
