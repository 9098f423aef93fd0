"""The guest of a rig: wait for ssh, run commands, find its devices."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from harness.errors import TimedOut, ToolFailed, ZonelabError
from harness.plan import drive_files, drive_values
from harness.plan.drive_models import DriveModel
from harness.rig import loop_target, process, qemu, state
from harness.rig.model import ModelledDrive, Rig
from harness.rig.state import GuestDevice, RigState
from harness.rig.talk import Talk
from harness.store.files import text_or_empty
from harness.tools import proc
from harness.tools.proc import Completed

_CONSOLE_LINES = 15
_ESCAPES = re.compile(r"\x1b(\[[0-9;?!]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[^\[\]])")
_TALK_EVERY = 10.0
_NODES_WITHIN = 60  # seconds

# One line per namespace, after udev has settled: kernel name, serial, nsid, links. Path nodes of
# multipath heads (nvme0c0n1) are skipped: they have the same serial and nsid, but no node in /dev.
_LIST_DEVICES = (
    "udevadm settle --timeout=60; for d in /sys/class/block/nvme*n*; do"
    " case ${d##*/} in nvme*c*n*) continue;; esac;"
    " echo ${d##*/} $(cat $d/device/serial) $(cat $d/nsid)"
    " $(udevadm info -q symlink -n ${d##*/}); done"
)
# Links that survive renumbering, best first. The kernel hides EUI-64 and UUID of QEMU's drives
# unless its quirk is off (docs/rigs.md). Without them the last link is used.
_LINKS = ("disk/by-id/nvme-eui.", "disk/by-id/nvme-uuid.", "disk/by-path/")


# After boot, a kernel task is busy for most of a guest second, so wait. A sleep of the guest costs
# no time of this host.
_PREPARE = (
    "modprobe ublk_drv && sleep 5 && "
    "sysctl -qw vm.dirty_expire_centisecs={expire} vm.dirty_writeback_centisecs={writeback} && "
    "modprobe xfs && sysctl -qw fs.xfs.xfssyncd_centisecs={xfs}"
)
# The kernel's defaults, in hundredths of a second (Documentation/admin-guide/sysctl/vm.rst).
_EXPIRE, _WRITEBACK = 3000, 500
# The same for flushes of an xfs log, and the largest value (Documentation/admin-guide/xfs.rst).
_XFS_SYNC, _LONGEST_XFS_SYNC = 3000, 720_000
# A systemd unit for each drive. The server prints its device when it is ready; the last word of the
# command's output is the device's name.
_SERVE = (
    "echo {model} > /run/{unit}.json && echo {down} > /run/{unit}.down && "
    "systemd-run --quiet --unit={unit} --property=StandardOutput=file:/run/{unit}.out "
    "--property=ExecStop='/bin/sh /run/{unit}.down' "
    "--property=ExecStopPost='/bin/sh /run/{unit}.down' "
    "/usr/local/lib/zonelab/native/bin/zoneblk serve --model /run/{unit}.json {options} && "
    "for _ in $(seq 600); do grep -q device /run/{unit}.out && break; "
    "systemctl --quiet is-active {unit} || break; sleep 0.1; done; "
    "grep -o 'ublkb[0-9]*' /run/{unit}.out || {{ journalctl -u {unit} -o cat >&2; exit 1; }}"
)


def ssh_argv(name: str, command: Sequence[str] = ()) -> list[str]:
    """Return the ssh command for a rig; ssh joins the words of ``command`` with spaces."""
    config = state.folder(name) / "ssh_config"
    return ["ssh", "-F", str(config), state.host_name(name), *command]


def run(name: str, command: str, *, timeout: float = 120.0, check: bool = True) -> Completed:
    """Run a shell command line in the guest.

    Raises:
        TimedOut: the command did not end in time.
        ToolFailed: ``check`` is set and the command failed (exit 255 is a failure of ssh).
    """
    return proc.run(ssh_argv(name, [command]), timeout=timeout, check=check)


def close_connections(name: str) -> None:
    """Close the shared ssh connection: after a reset the guest never answers on it.

    An ssh that is stuck or not installed is no reason to leave QEMU running.
    """
    if (state.folder(name) / "ssh_config").exists():
        with contextlib.suppress(ZonelabError):
            proc.run([*ssh_argv(name), "-O", "exit"], timeout=10, check=False)


def wait(name: str, port: int, machine: process.Process, talk: Talk, timeout: float) -> None:
    """Wait until the guest answers on ssh.

    Raises:
        ToolFailed: QEMU ended.
        TimedOut: the guest did not answer within ``timeout`` seconds; the message has the reason.

    Before both, the last lines of the console are printed.
    """
    console = state.folder(name) / qemu.CONSOLE
    deadline = time.monotonic() + timeout
    next_talk = time.monotonic() + _TALK_EVERY
    while problem := _problem(name, port):
        if not process.alive(machine):
            _print_console(console, talk)
            raise ToolFailed(f"QEMU of rig {name} ended", hint=_logs(name))
        if time.monotonic() > deadline:
            _print_console(console, talk)
            raise TimedOut(
                f"rig {name} did not answer on ssh within {timeout:.0f} s: {problem}",
                hint=_logs(name),
            )
        if time.monotonic() > next_talk:
            next_talk += _TALK_EVERY
            last = console_lines(console, 1)
            talk.say("waiting for ssh" + (f"; console: {last[0]}" if last else ""))
        time.sleep(0.2)


def wait_for_devices(running: RigState) -> None:
    """Wait until each namespace has its node: sshd can start before the kernel has read the zones.

    Raises:
        TimedOut: the guest does not see all of them within a minute.
    """
    paths = [device.path for device in running.devices]
    command = f"udevadm wait --settle --timeout={_NODES_WITHIN} {shlex.join(paths)}"
    done = run(running.rig, command, timeout=2 * _NODES_WITHIN, check=False)
    if not done.ok:
        raise TimedOut(f"rig {running.rig} does not see all of its namespaces: {_last_line(done)}")


def devices(rig: Rig) -> tuple[GuestDevice, ...]:
    """Return the rig's namespaces with the guest's current names, in the order of the rig's file.

    Raises:
        ToolFailed: the guest does not see all of them.
    """
    seen = parse_devices(run(rig.name, _LIST_DEVICES).stdout)
    found = []
    for number, controller in enumerate(rig.nvme):
        for ns in controller.namespaces:
            if (controller.serial, ns.nsid) not in seen:
                raise ToolFailed(f"the guest sees no namespace {controller.serial}:{ns.nsid}")
            node, path = seen[controller.serial, ns.nsid]
            found.append(
                GuestDevice(
                    nsid=ns.nsid,
                    eui64=ns.eui,
                    path=path,
                    node=node,
                    drive=qemu.drive_id(number, ns),
                    zoned=ns.zoned,
                    capacity=ns.capacity,
                )
            )
    return tuple(found)


def served(rig: Rig, talk: Talk) -> tuple[GuestDevice, ...]:
    """Start the servers of a rig's modelled drives; return the drives in the order of the file.

    Raises:
        ToolFailed: the guest cannot serve one.
    """
    run(rig.name, preparation(rig))
    found: list[GuestDevice] = []
    for drive in rig.zoneblk:
        talk.say(f"serving {drive.model}, {rig.dilation} times slower")
        found.append(serve(rig, drive, f"zoneblk-{len(found)}"))
    return tuple(found)


def serve(rig: Rig, drive: ModelledDrive, unit: str) -> GuestDevice:
    """Start the server of a modelled drive as a unit of the guest.

    Raises:
        ToolFailed: the guest cannot serve it.
    """
    model = drive.load()
    down = loop_target.down(drive.uuid) if drive.nvme else ""
    command = serving(model, unit, drive_options(rig, drive), down)
    name = run(rig.name, command).stdout.split()[-1]
    if drive.nvme:
        words = run(rig.name, loop_target.up(drive.uuid, name)).stdout.split()
        if not words:
            raise ToolFailed(f"the guest sees no NVMe namespace of drive {drive.uuid}")
        name = words[-1]
    return _served(drive, model, f"/dev/{name}")


def preparation(rig: Rig) -> str:
    """Return the command that prepares the guest for modelled drives."""
    k = rig.dilation
    xfs = min(_XFS_SYNC * k, _LONGEST_XFS_SYNC)
    return _PREPARE.format(expire=_EXPIRE * k, writeback=_WRITEBACK * k, xfs=xfs)


def drive_options(rig: Rig, drive: ModelledDrive) -> list[str]:
    """Return the options of a modelled drive's server that follow from the rig's file."""
    options = ["--uuid", drive.uuid, "--dilation", str(rig.dilation)]
    return [*options, "--overhead", rig.overhead, "--wakeup", rig.wakeup]


def serve_options(model: DriveModel, options: Sequence[str]) -> list[str]:
    """Return all options of a model's server except ``--model``."""
    return [*options, "--realtime", *(["--conventional"] if model.zones is None else [])]


def serving(model: DriveModel, unit: str, options: Sequence[str], down: str = "") -> str:
    """Return the command that serves a model in the guest; its last word is the device's name.

    The unit runs ``down`` before it stops the server, and after a server that was killed.
    """
    own = shlex.join(serve_options(model, options))
    text = json.dumps(drive_files.program_input(model))
    texts = {"model": shlex.quote(text), "down": shlex.quote(down)}
    return _SERVE.format(unit=unit, options=own, **texts)


def _served(drive: ModelledDrive, model: DriveModel, path: str) -> GuestDevice:
    ftl, zones = model.ftl, model.zones
    if zones is not None:
        capacity = zones.count.value * drive_values.size(zones.capacity.value)
    else:
        capacity = drive_values.size(ftl.capacity.value) if ftl is not None else 0
    return GuestDevice(
        nsid=0,
        eui64="",
        path=path,
        node=path,
        drive="",
        zoned=zones is not None,
        capacity=capacity,
        uuid=drive.uuid,
    )


def parse_devices(text: str) -> dict[tuple[str, int], tuple[str, str]]:
    """Return (node, lasting path) by (serial, nsid) from the output of ``_LIST_DEVICES``."""
    found = {}
    for line in text.splitlines():
        name, serial, nsid, *links = line.split()
        lasting = [link for start in _LINKS for link in links if link.startswith(start)]
        found[serial, int(nsid)] = (f"/dev/{name}", f"/dev/{[*lasting, name][0]}")
    return found


def console_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of the guest's console without control characters."""
    text = _ESCAPES.sub("", text_or_empty(path))
    clean = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
    return [line for line in clean if line][-count:]


def _print_console(path: Path, talk: Talk) -> None:
    talk.say("last lines of the console:")
    for line in console_lines(path, _CONSOLE_LINES):
        talk.say(f"  {line}")


def _logs(name: str) -> str:
    return f"read {state.folder(name)}/{{console,qemu}}.log"


def has_banner(port: int) -> bool:
    """Whether sshd sends its banner; QEMU accepts the connection long before the guest does."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
            sock.settimeout(3)
            return sock.recv(4) == b"SSH-"
    except OSError:
        return False


def _problem(name: str, port: int) -> str:
    """Return why the guest does not answer on ssh, '' when it does.

    A busy guest can answer the next ssh, so one that takes a minute is no error.
    """
    if not has_banner(port):
        return "sshd sends no banner"
    try:
        done = proc.run([*ssh_argv(name), "true"], timeout=60, check=False)
    except TimedOut:
        return "ssh did not end in time"
    return "" if done.ok else _last_line(done)


def _last_line(done: Completed) -> str:
    return (done.stderr.strip() or "no message").splitlines()[-1]
