"""Files of a rig that is up, in ``build/rigs/<name>/``: state, ssh configuration, inventory."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.errors import ConfigError, HostError
from harness.rig.model import DEFAULT, PROJECT, Rig
from harness.rig.process import Process, alive
from harness.rig.recipe import Image, cache
from harness.store import codec
from harness.store.files import write_atomic

# Test processes that run side by side each have rigs of their own.
BUILD = Path(os.environ.get("ZONELAB_RIGS", PROJECT / "build" / "rigs"))
_LONGEST_SOCKET = 107  # bytes of a path in unix(7), without the NUL
_SOCKET_NAME = 58  # "/", %C of 40 digits, and "." with 16 characters, which ssh appends at first


@dataclass(frozen=True, slots=True)
class GuestDevice:
    """A namespace as the guest sees it. ``path`` survives renumbering, ``node`` does not.

    ``drive`` is the id of its counters in QMP. A modelled drive has a ``uuid`` instead of
    ``nsid``, ``eui64`` and ``drive``.
    """

    nsid: int
    eui64: str
    path: str
    node: str
    drive: str
    zoned: bool
    capacity: int
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class RigState:
    """``state.json``, written when the rig answers on ssh.

    ``lease_seconds`` is null for a rig that ends with its supervisor.
    """

    rig: str
    pid: int
    began: int
    port: int
    accelerator: str
    image: str
    started: str
    boot_seconds: float
    lease_seconds: int | None
    devices: tuple[GuestDevice, ...]
    schema_version: int = codec.SCHEMA_VERSION

    @property
    def process(self) -> Process:
        """QEMU's process."""
        return Process(self.pid, self.began)


def folder(name: str) -> Path:
    """Return the state folder of a rig."""
    return BUILD / name


def host_name(name: str) -> str:
    """Return the name of a rig for Ansible and ssh; the NVMe rig is ``rig``."""
    return "rig" if name == DEFAULT else f"rig-{name}"


def read(name: str) -> RigState | None:
    """Return the state of a rig, or None when it is down.

    Raises:
        ConfigError: the state file is from another release or damaged.
    """
    path = folder(name) / "state.json"
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        raise ConfigError(f"{path} is damaged", hint=f"rm {path}, and end its QEMU") from None
    codec.check_version(data, str(path))
    state = codec.decode(RigState, data)
    return state if alive(state.process) else None


def require(name: str) -> RigState:
    """Return the state of a rig.

    Raises:
        HostError: the rig is down.
    """
    state = read(name)
    if state is None:
        raise HostError(f"rig {name} is down", hint=f"zonelab rig up {name}", code="rig-down")
    return state


def write(state: RigState) -> None:
    """Write ``state.json`` atomically."""
    text = json.dumps(codec.encode(state), indent=2) + "\n"
    write_atomic(folder(state.rig) / "state.json", text, durable=False)


def write_access(rig: Rig, image: Image, port: int) -> None:
    """Write known_hosts and ssh_config."""
    here = folder(rig.name)
    name = host_name(rig.name)
    key = image.host_key.read_text().split()
    (here / "known_hosts").write_text(f"zonelab-{name} {key[0]} {key[1]}\n")
    sockets = cache().parent / "ssh"
    sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
    (here / "ssh_config").write_text(
        f"Host {name}\n"
        "  HostName 127.0.0.1\n"
        f"  Port {port}\n"
        "  User root\n"
        f'  IdentityFile "{here / "key"}"\n'
        "  IdentitiesOnly yes\n"
        f"  HostKeyAlias zonelab-{name}\n"
        f'  UserKnownHostsFile "{here / "known_hosts"}"\n'
        "  StrictHostKeyChecking yes\n"
        "  LogLevel ERROR\n"
        "  ConnectTimeout 30\n"
        f"{_shared_connection(sockets)}"
        # a reset guest never answers on its old connections: notice within 30 s
        "  ServerAliveInterval 5\n"
        "  ServerAliveCountMax 6\n"
    )


def _shared_connection(sockets: Path) -> str:
    """Return the lines that keep a connection open: a new one takes a second under emulation.

    Without room for the socket's name, ssh would refuse every connection, so each is a new one.
    """
    if len(os.fsencode(sockets)) + _SOCKET_NAME > _LONGEST_SOCKET:
        return ""
    return f'  ControlMaster auto\n  ControlPersist 300\n  ControlPath "{sockets}/%C"\n'


def write_inventory(running: RigState) -> None:
    """Write an Ansible inventory with this host; its devices are the zoned namespaces.

    A modelled drive has no controller by which its conventional companion could be found.
    """
    here = folder(running.rig)
    name = host_name(running.rig)
    host = {
        "ansible_host": name,
        # Ansible names shared ssh connections by host and port. Without the port, rigs of the same
        # name (of another checkout, or of an earlier boot) would share a dead connection.
        "ansible_port": running.port,
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": f"-F '{here / 'ssh_config'}'",
        "zonelab_rig": True,
        # Under emulation a connection and Python on it can take half a minute on a busy machine.
        "run_unreachable_seconds": 180,
        # This host knows at once that QEMU has ended.
        "run_rig": str(here.resolve()),
        "device": ",".join(device.path for device in running.devices if device.zoned),
    }
    companions = [one.path for one in running.devices if one.uuid and not one.zoned]
    if companions:
        host["conventional_device"] = companions[0]
    inventory = {"all": {"hosts": {name: host}}}
    text = "# Written by `zonelab rig up`.\n" + yaml.safe_dump(inventory, sort_keys=False)
    (here / "inventory.yml").write_text(text)
