"""Carry a layout out, step by step: each is journalled before and after, so a kill is resumed.

What has to be true before each destructive step is looked up again: the drive's serial number, and
that nobody uses what is about to be deleted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from harness.drive import facts
from harness.drive.facts import Drive
from harness.drive.layout import Layout, Planned, Role, Wanted
from harness.errors import GuardRefused, ToolFailed
from harness.run.guard import Guard
from harness.run.host import Host
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import dumps, load_record, write_atomic
from harness.tools import nvme_cli

# udev and the kernel take a moment until a namespace's node is there.
_NODE_SECONDS = 30.0


class Act(StrEnum):
    """One command to the drive.

    Deleting detaches, too. Detached first, a namespace would be gone from the host although its
    drive then refused to delete it.
    """

    DELETE = "delete"
    CREATE = "create"
    ATTACH = "attach"


@dataclass(frozen=True, slots=True)
class Step:
    """``nsid`` is null until a namespace is created; ``before`` are those that were there then.

    ``begun`` is written before the command is given, ``done`` after the drive said yes.
    """

    act: Act
    nsid: int | None = None
    role: Role | None = None
    begun: bool = False
    done: bool = False
    before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """``namespaces-<serial>.json``: what was asked for, the layout, and how far it is."""

    wanted: Wanted
    layout: Layout
    steps: tuple[Step, ...]
    schema_version: int = SCHEMA_VERSION

    @property
    def finished(self) -> bool:
        """Whether every step is done."""
        return all(step.done for step in self.steps)


def steps_of(layout: Layout) -> tuple[Step, ...]:
    """Return the commands of a layout, in order."""
    gone = [Step(Act.DELETE, nsid) for nsid in layout.delete]
    new = [Step(act, role=one.role) for one in layout.create for act in (Act.CREATE, Act.ATTACH)]
    return (*gone, *new)


def progress_file(state: Path, serial: str) -> Path:
    """Return where the progress of a drive is kept."""
    return state / f"namespaces-{re.sub(r'[^A-Za-z0-9._-]', '_', serial)}.json"


def unfinished(state: Path, serial: str) -> Progress | None:
    """Return what an interrupted call left to be done, None when there is nothing."""
    path = progress_file(state, serial)
    if not path.exists():
        return None
    found = load_record(Progress, path)
    return None if found.finished else found


def require_unused(host: Host, guard: Guard, drive: Drive, layout: Layout) -> None:
    """Ask the guard about everything that is to be deleted.

    Raises:
        GuardRefused: one is in use, or holds what zonelab did not write and ``-e erase=`` does not
            name.
    """
    for nsid in layout.delete:
        space = drive.of(nsid)
        if space is None:
            continue
        others = set(nvme_cli.controllers(drive.device, nsid)) - {drive.controller.number}
        if others:
            raise GuardRefused(
                f"namespace {nsid} of {layout.serial} is attached to another controller, too",
                hint=f"detach it there: nvme list-ctrl {drive.device} --namespace-id={nsid}",
                code="shared",
            )
        if space.node:
            guard.require(host.device(space.node), named=False)
        elif f"{layout.serial}:{nsid}" not in guard.erase:
            raise GuardRefused(
                f"namespace {nsid} of {layout.serial} is not attached: its contents are unseen",
                hint=f"attach it to be looked at, or -e erase={layout.serial}:{nsid}",
                code="not-attached",
            )


class Execution:
    """Carries out one layout.

    Args:
        host: the machine.
        guard: asked before each deletion.
        device: the controller's node.
        state: folder of the progress file.
        say: gets a line per step.
    """

    def __init__(
        self, host: Host, guard: Guard, device: str, state: Path, say: Callable[[str], None]
    ) -> None:
        self._host = host
        self._guard = guard
        self._device = device
        self._state = state
        self._say = say

    def run(self, progress: Progress) -> Drive:
        """Do what is left of a layout; return the drive as it is then.

        Raises:
            GuardRefused: another drive is there, or what is to be deleted is in use.
            Refused: the firmware refuses a step; what is done stays done, and is journalled.
            ToolFailed: what the drive made is not what was asked for.
        """
        for index in range(len(progress.steps)):
            if progress.steps[index].done:
                continue
            drive = self._look(progress.layout)
            progress = self._do(progress, index, drive)
        nvme_cli.rescan(self._device)
        self._wait_for_nodes(progress)
        drive = self._look(progress.layout)
        _check(drive, progress)
        return drive

    def _look(self, layout: Layout) -> Drive:
        drive = facts.read(self._host, self._device)
        if drive.controller.serial != layout.serial:
            raise GuardRefused(
                f"{self._device} was {layout.serial}, now it is {drive.controller.serial}",
                hint="plan again for the drive that is there now",
                code="identity-changed",
            )
        return drive

    def _do(self, progress: Progress, index: int, drive: Drive) -> Progress:
        """Do a step, unless it is found done: the kill may have come behind the command."""
        step = progress.steps[index]
        there = tuple(one.nsid for one in drive.namespaces)
        if step.act is Act.CREATE and step.begun:
            step = self._found(step, drive, progress.layout)
        elif not step.begun:
            step = replace(step, begun=True, before=there if step.act is Act.CREATE else ())
            progress = self._note(progress, index, step)
        if not step.done and not _is_done(step, drive):
            step = self._command(step, drive, progress.layout)
        else:
            self._say(f"{step.act} {step.role or step.nsid}: done before")
        progress = self._note(progress, index, replace(step, done=True))
        if step.act is Act.CREATE:  # the step that attaches it has to know its number
            after = progress.steps[index + 1]
            progress = self._note(progress, index + 1, replace(after, nsid=step.nsid))
        return progress

    def _command(self, step: Step, drive: Drive, layout: Layout) -> Step:
        if step.act is Act.CREATE:
            planned = _planned(layout, step)
            argv = create_argv(self._device, planned)
            created = nvme_cli.create(argv)
            self._say(f"created namespace {created}: {planned.role}, {planned.size} B")
            return replace(step, nsid=created)
        assert step.nsid is not None  # noqa: S101 - only a create step has none
        if step.act is Act.ATTACH:
            nvme_cli.attach(self._device, step.nsid, drive.controller.number)
            self._say(f"attached namespace {step.nsid}")
        else:
            alone = replace(layout, delete=(step.nsid,))
            require_unused(self._host, self._guard, drive, alone)
            nvme_cli.delete(self._device, step.nsid)
            self._say(f"deleted namespace {step.nsid}")
        return step

    def _found(self, step: Step, drive: Drive, layout: Layout) -> Step:
        """Recognise a namespace that was created right before a kill: new, and of that size."""
        planned = _planned(layout, step)
        new = [one for one in drive.namespaces if one.nsid not in step.before]
        match = [one for one in new if (one.size, one.block) == (planned.size, planned.block)]
        return replace(step, nsid=match[0].nsid, done=True) if len(match) == 1 else step

    def _note(self, progress: Progress, index: int, step: Step) -> Progress:
        steps = (*progress.steps[:index], step, *progress.steps[index + 1 :])
        progress = replace(progress, steps=steps)
        self._state.mkdir(parents=True, exist_ok=True)
        path = progress_file(self._state, progress.layout.serial)
        write_atomic(path, dumps(progress))
        return progress

    def _wait_for_nodes(self, progress: Progress) -> None:
        wanted = {step.nsid for step in progress.steps if step.act is Act.ATTACH}
        deadline = self._host.monotonic() + _NODE_SECONDS
        while not wanted <= facts.block_nodes(self._host, self._device).keys():
            if self._host.monotonic() > deadline:
                missing = wanted - facts.block_nodes(self._host, self._device).keys()
                raise ToolFailed(
                    f"namespaces {sorted(n or 0 for n in missing)} have no block device",
                    hint="the kernel log says why; mq-deadline may be missing",
                    code="no-block-device",
                )
            time.sleep(0.2)


def create_argv(device: str, planned: Planned) -> list[str]:
    """Return the command for one namespace.

    Of a zoned one size and capacity are both given as its size: what a zone holds is the drive's
    own (NVMe Zoned Namespace Command Set, "Zone Capacity"), and it is checked afterwards.
    """
    blocks = planned.size // planned.block
    return nvme_cli.create_argv(
        device,
        blocks=blocks,
        capacity=blocks,
        format_=planned.format,
        csi=nvme_cli.ZNS if planned.zoned else nvme_cli.NVM,
        resources=planned.active,
    )


def _is_done(step: Step, drive: Drive) -> bool:
    """Whether the drive shows a step as done already."""
    if step.nsid is None:
        return False
    space = drive.of(step.nsid)
    if step.act is Act.DELETE:
        return space is None
    return step.act is Act.ATTACH and space is not None and bool(space.node)


def _planned(layout: Layout, step: Step) -> Planned:
    return next(one for one in layout.create if one.role is step.role)


def _check(drive: Drive, progress: Progress) -> None:
    """Read everything back; a drive may round, or take no heed."""
    for step in progress.steps:
        if step.act is not Act.CREATE:
            continue
        planned = _planned(progress.layout, step)
        space = drive.of(step.nsid or 0)
        wanted: dict[str, int | None] = {"size": planned.size, "block": planned.block}
        if planned.zoned and planned.zones:
            wanted |= {"zones": planned.zones, "zone_capacity": planned.capacity // planned.zones}
        if planned.active is not None:
            wanted["active"] = planned.active
        for name, value in wanted.items():
            found = getattr(space, name) if space else None
            if found != value:
                raise ToolFailed(
                    f"namespace {step.nsid} ({planned.role}): {name} is {found}, not {value}",
                    hint="name the zone capacity that the drive really has, and lay it out again",
                    code="layout-differs",
                )
