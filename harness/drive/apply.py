"""Apply a layout step by step. Each step is recorded before and after, to resume after a kill.

Each destructive step is preceded by two checks: the drive has the planned serial number, and the
namespace to delete is not in use.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from harness.drive import precondition, survey
from harness.drive.layout import Layout, PlannedNamespace, Role, Wanted
from harness.drive.survey import Drive, Incarnation, Namespace
from harness.errors import GuardRefused, ToolFailed
from harness.machine.consent import Consent
from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Journal, JournalEntry, JournalEvent
from harness.machine.last_looks import LastLooks
from harness.machine.signals import Stop
from harness.store import checksums
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import dumps, load_record, write_atomic
from harness.store.spec import Device, DeviceContents
from harness.tools import nvme_cli

# Time in which udev and the kernel create the node of a namespace.
_NODE_SECONDS = 30.0
# Label in journal entries. zonelab writes it to no device, so it proves no ownership.
_LABEL = "zl-namespaces"


class Act(StrEnum):
    """A command to the drive.

    Deleting also detaches. There is no separate detach: if the drive then refused to delete, the
    namespace would be missing from the host.
    """

    DELETE = "delete"
    CREATE = "create"
    ATTACH = "attach"


@dataclass(frozen=True, slots=True)
class LayoutStep:
    """A step of a layout."""

    act: Act
    nsid: int | None = None  # namespace number; null until it is created
    role: Role | None = None
    begun: bool = False  # stored before the command is given
    done: bool = False  # stored after the drive has carried it out
    before: tuple[int, ...] = ()  # numbers that existed before a creation
    incarnation: Incarnation | None = None  # of the namespace to delete, or of the created one


@dataclass(frozen=True, slots=True)
class LayoutProgress:
    """``namespaces-<serial>.json``: the request, its layout, and the state of each step."""

    wanted: Wanted
    layout: Layout
    steps: tuple[LayoutStep, ...]
    schema_version: int = SCHEMA_VERSION


def steps_of(layout: Layout, drive: Drive) -> tuple[LayoutStep, ...]:
    """Return the steps of a layout of this drive, in order."""
    gone = [
        LayoutStep(Act.DELETE, nsid, incarnation=space.incarnation if space else None)
        for nsid in layout.delete
        for space in [drive.namespace(nsid)]
    ]
    new = [
        LayoutStep(act, role=one.role) for one in layout.create for act in (Act.CREATE, Act.ATTACH)
    ]
    return (*gone, *new)


def progress_file(state: Path, serial: str) -> Path:
    """Return the file that stores the progress of a drive, of that drive alone."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", serial)
    if name != serial:
        name += f"-{checksums.of_text(serial)[:8]}"
    return state / f"namespaces-{name}.json"


def unfinished(state: Path, serial: str) -> LayoutProgress | None:
    """Return the progress of an interrupted layout, or None."""
    path = progress_file(state, serial)
    if not path.exists():
        return None
    progress = load_record(LayoutProgress, path)
    return None if all(step.done for step in progress.steps) else progress


def require_unused(host: Host, guard: Guard, drive: Drive, layout: Layout) -> list[Consent]:
    """Ask the guard about each namespace that is to be deleted; return the consents it needs.

    Raises:
        GuardRefused: a namespace is in use, or holds foreign data without a consent.
    """
    consents = []
    for nsid in layout.delete:
        space = drive.namespace(nsid)
        if space is None:
            continue
        others = set(nvme_cli.controllers(drive.device, nsid)) - {drive.controller.number}
        if others:
            raise GuardRefused(
                f"namespace {nsid} of {layout.serial} is also attached to another controller",
                hint=f"detach it there: nvme list-ctrl {drive.device} --namespace-id={nsid}",
                code="shared",
            )
        if space.node:
            consents.append(guard.require(host.device(space.node)))
        else:
            consents.append(guard.require_unattached(f"{layout.serial}:{nsid}", space.size))
    return [consent for consent in consents if consent is not None]


def contents(host: Host, guard: Guard, drive: Drive, layout: Layout) -> list[DeviceContents]:
    """Return what the deletion of each namespace destroys."""
    spaces = [drive.namespace(nsid) for nsid in layout.delete]
    return [_contents(host, guard, drive, space) for space in spaces if space is not None]


def _contents(host: Host, guard: Guard, drive: Drive, space: Namespace) -> DeviceContents:
    if space.node:
        return guard.seen(host.device(space.node))
    consent = guard.contents.unattached(f"{drive.controller.serial}:{space.nsid}", space.size)
    return DeviceContents(
        path="",
        identity=consent.identity,
        model=drive.controller.model,
        serial=drive.controller.serial,
        size=space.size,
        signatures=("unknown, because it is not attached",),
        first_block="",
        zones_not_empty=None,
        consent=str(consent),
    )


@dataclass(frozen=True, slots=True)
class Execution:
    """Applies one layout.

    ``guard`` must allow each deletion; ``journal`` records each consent that a deletion uses.
    """

    host: Host
    guard: Guard
    journal: Journal
    device: str  # node of the controller
    state: Path  # folder of the progress file
    say: Callable[[str], None]  # receives a line per step
    stop: Stop  # installed by the caller

    def run(self, progress: LayoutProgress) -> Drive:
        """Carry out the remaining steps; return the new state of the drive.

        Raises:
            GuardRefused: it is another drive, or a namespace to be deleted is in use. Or a
                namespace can be a later one with the number of the planned one, or of an
                interrupted creation.
            Interrupted: a signal arrived; the drive and the progress agree.
            Refused: the firmware refuses a step; earlier steps stay done and recorded.
            ToolFailed: the drive did not create what was requested.
        """
        resumed = any(step.begun for step in progress.steps)
        for index in range(len(progress.steps)):
            if progress.steps[index].done:
                continue
            drive = self._read_drive(progress.layout)
            self._require_planned(progress, index, drive, resumed=resumed)
            progress = self._carry_out(progress, index, drive)
        nvme_cli.rescan(self.device)
        self._wait_for_nodes(progress)
        drive = self._read_drive(progress.layout)
        _check(drive, progress)
        return drive

    def _read_drive(self, layout: Layout) -> Drive:
        drive = survey.read(self.host, self.device)
        if drive.controller.serial != layout.serial:
            raise GuardRefused(
                f"{self.device} was {layout.serial}, now it is {drive.controller.serial}",
                hint="plan again for the present drive",
                code="identity-changed",
            )
        return drive

    def _require_planned(
        self, progress: LayoutProgress, index: int, drive: Drive, *, resumed: bool
    ) -> None:
        """Refuse a namespace that others created after the one of this step was deleted.

        After an interruption a deletion needs a proof. An attachment destroys nothing, and the
        kernel has no number for a namespace that is not attached.
        """
        step = progress.steps[index]
        if step.act is Act.ATTACH:
            step = progress.steps[index - 1]
        space = drive.namespace(step.nsid) if step.nsid is not None else None
        if space is None:
            return
        planned, present = step.incarnation, space.incarnation
        needs_proof = step.act is Act.DELETE and resumed
        differs = planned is not None and planned.differs(present)
        is_proved = planned is not None and planned.is_proved(present)
        if not differs and (is_proved or not needs_proof):
            return
        path = progress_file(self.state, progress.layout.serial)
        raise GuardRefused(
            f"namespace {space.nsid} of {progress.layout.serial} is not proved to be the planned"
            " one; it was left alone",
            hint=f"remove {path} to plan from the current namespaces",
            code="namespace-changed",
        )

    def _carry_out(self, progress: LayoutProgress, index: int, drive: Drive) -> LayoutProgress:
        """Carry out a step, unless the drive already did it before a kill."""
        step = progress.steps[index]
        if step.act is Act.ATTACH:  # the step before it created the namespace
            step = replace(step, nsid=progress.steps[index - 1].nsid)
        existing = tuple(namespace.nsid for namespace in drive.namespaces)
        creates = step.act is Act.CREATE
        if creates and step.begun:
            self._require_not_created(step, drive, progress.layout)
        elif not step.begun:
            step = replace(step, begun=True, before=existing if creates else ())
            progress = self._store(progress, index, step)
        # Nothing else than the record proves that a new namespace is this layout's.
        with self.stop.deferred() if creates else nullcontext():
            if _is_done(step, drive):
                self.say(f"{step.act} {step.nsid}: already done")
            else:
                step = self._command(step, drive, progress.layout)
            progress = self._store(progress, index, replace(step, done=True))
        self.stop.check()
        return progress

    def _command(self, step: LayoutStep, drive: Drive, layout: Layout) -> LayoutStep:
        if step.act is Act.CREATE:
            planned = _planned(layout, step)
            argv = create_argv(self.device, planned)
            created = nvme_cli.create(argv)
            self.say(f"created namespace {created}: {planned.role}, {planned.size} B")
            names = nvme_cli.namespace(self.device, created).names
            incarnation = Incarnation(names, self.host.boot_id(), None)
            return replace(step, nsid=created, incarnation=incarnation)
        assert step.nsid is not None  # noqa: S101 - only a create step has none
        if step.act is Act.ATTACH:
            nvme_cli.attach(self.device, step.nsid, drive.controller.number)
            self.say(f"attached namespace {step.nsid}")
        else:
            self._delete(drive, replace(layout, delete=(step.nsid,)), step.nsid)
            self.say(f"deleted namespace {step.nsid}")
        return step

    def _delete(self, drive: Drive, alone: Layout, nsid: int) -> None:
        """Delete one namespace, held from the guard's check on; ``alone`` deletes only it."""
        space = drive.namespace(nsid)
        node = space.node if space is not None else ""
        held = [self.host.device(node)] if node else []
        looks = LastLooks(self.host, self.guard, held)
        looks.listen()
        consents = require_unused(self.host, self.guard, drive, alone)

        def require(device: Device) -> None:
            nonlocal consents
            consent = self.guard.require(device, held=True)
            consents = [consent] if consent is not None else []

        with looks.held(require):
            for device in held:
                looks.require_as_seen(device)
            for consent in consents:
                self.journal.append(self._erase_entry(consent))
            for device in held:
                precondition.forget(self.state, device)
            nvme_cli.delete(self.device, nsid)

    def _erase_entry(self, consent: Consent) -> JournalEntry:
        return JournalEntry(
            event=JournalEvent.ERASE,
            identity=consent.identity,
            campaign="",
            run="namespaces",
            level="",
            label=_LABEL,
            partner="",
            fingerprint=None,
            time=self.host.now(),
            boot_id=self.host.boot_id(),
            consent=consent.digest,
        )

    def _require_not_created(self, step: LayoutStep, drive: Drive, layout: Layout) -> None:
        """Refuse if this step may have created a namespace just before a kill.

        Another program may have created it as well, and the drive does not show which one did.
        """
        planned = _planned(layout, step)
        for space in drive.namespaces:
            if space.nsid not in step.before and _can_be(space, planned):
                delete = f"nvme delete-ns {self.device} --namespace-id={space.nsid}"
                raise GuardRefused(
                    f"namespace {space.nsid} of {layout.serial} is of an interrupted creation, or"
                    " of another program; it was left alone",
                    hint=f"if no other program created it: {delete}; else attach it; then repeat",
                    code="namespace-unproved",
                )

    def _store(self, progress: LayoutProgress, index: int, step: LayoutStep) -> LayoutProgress:
        steps = (*progress.steps[:index], step, *progress.steps[index + 1 :])
        progress = replace(progress, steps=steps)
        self.state.mkdir(parents=True, exist_ok=True)
        path = progress_file(self.state, progress.layout.serial)
        write_atomic(path, dumps(progress))
        return progress

    def _wait_for_nodes(self, progress: LayoutProgress) -> None:
        wanted = {step.nsid for step in progress.steps if step.act is Act.ATTACH}
        deadline = self.host.monotonic() + _NODE_SECONDS
        while not wanted <= survey.block_nodes(self.host, self.device).keys():
            if self.host.monotonic() > deadline:
                missing = wanted - survey.block_nodes(self.host, self.device).keys()
                raise ToolFailed(
                    f"namespaces {sorted(n or 0 for n in missing)} have no block device",
                    hint="see the kernel log; mq-deadline may be missing",
                    code="no-block-device",
                )
            time.sleep(0.2)


def create_argv(device: str, planned: PlannedNamespace) -> list[str]:
    """Return the command that creates one namespace; its zone capacity is checked afterwards."""
    return nvme_cli.create_argv(
        device,
        blocks=planned.size // planned.block,
        format_=planned.format,
        csi=nvme_cli.ZNS if planned.zoned else nvme_cli.NVM,
        resources=planned.active,
    )


def _is_done(step: LayoutStep, drive: Drive) -> bool:
    """Whether the state of the drive shows that a step is done."""
    if step.nsid is None:
        return False
    space = drive.namespace(step.nsid)
    if step.act is Act.DELETE:
        return space is None
    return step.act is Act.ATTACH and space is not None and bool(space.node)


def _can_be(space: Namespace, planned: PlannedNamespace) -> bool:
    """Whether a namespace can be the created one, which no step has attached yet.

    A drive may not report the zones of a namespace that is not attached. ``_check`` compares the
    rest at the end.
    """
    return (
        not (space.node or space.metadata)
        and (space.size, space.block) == (planned.size, planned.block)
        and (planned.zoned or space.zone_size is None)
    )


def _planned(layout: Layout, step: LayoutStep) -> PlannedNamespace:
    return next(planned for planned in layout.create if planned.role is step.role)


def _check(drive: Drive, progress: LayoutProgress) -> None:
    """Raise ToolFailed if a created namespace is not as planned; a drive may round values."""
    for step in progress.steps:
        if step.act is not Act.CREATE:
            continue
        planned = _planned(progress.layout, step)
        space = drive.namespace(step.nsid or 0)
        wanted: dict[str, int | None] = {"size": planned.size, "block": planned.block}
        if planned.zones:
            wanted |= {"zones": planned.zones, "zone_capacity": planned.capacity // planned.zones}
        if planned.active is not None:
            wanted["active"] = planned.active
        for name, value in wanted.items():
            actual = getattr(space, name) if space else None
            if actual != value:
                raise ToolFailed(
                    f"namespace {step.nsid} ({planned.role}): {name} is {actual}, not {value}",
                    hint="name the zone capacity that the drive really has, and repeat the layout",
                    code="layout-differs",
                )
