"""Host manifest: properties of the machine that can explain differences between runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import levels
from harness.machine.host import Host
from harness.observe import rocksdb_build
from harness.store.codec import encode
from harness.store.numbers_version import KEY, NUMBERS
from harness.store.spec import Bytes, Device, HostFacts
from harness.tools import proc, virtual_clock

# In addition to the packages of programs and levels.
_PACKAGES = ("nvme-cli",)
# The module of modelled devices, in addition to those of levels.
_UBLK = "ublk_drv"


def host_facts(host: Host, name: str, program: Path | None) -> HostFacts:
    """Return the part of the manifest for planning. ``program`` is db_bench, if installed."""
    return HostFacts(
        name=name,
        kernel=os.uname().release,
        os=_os_name(),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=Bytes(_memory_bytes(host)),
        rocksdb=rocksdb_build.of_program(program)["id"] if program else "",
    )


def packages(programs: Iterable[str]) -> dict[str, str]:
    """Return the installed versions of relevant packages; empty without dpkg.

    ``programs`` are the packages of the programs that run phases.
    """
    if proc.which("dpkg-query") is None:
        return {}
    names = [*programs, *_PACKAGES, *levels.packages()]
    argv = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", *names]
    lines = proc.run(argv, timeout=60, check=False).stdout.splitlines()
    fields = [line.split() for line in lines]
    return {f[0]: f[1] for f in fields if len(f) == 3 and f[2] == "installed"}  # noqa: PLR2004


def manifest(
    host: Host, devices: Sequence[Device], program: Path | None, installed: Mapping[str, str]
) -> dict[str, Any]:
    """Return the manifest as plain data; unknown values are null.

    ``program`` is db_bench, ``installed`` the versions of packages.
    """
    cpuinfo = host.proc_text("cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    governor = _sys(host, "devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        KEY: NUMBERS,
        "kernel": os.uname().release,
        "os": _os_name(),
        "machine": os.uname().machine,
        "boot_id": host.boot_id(),
        "cmdline": host.proc_text("cmdline").strip(),
        # The clock counts instructions (docs/rigs.md), so numbers do not depend on a host's speed.
        "virtual_time": virtual_clock.FLAG in host.proc_text("cmdline"),
        "cpu_model": model[1].strip() if model else None,
        "cpus": len(os.sched_getaffinity(0)),
        "cpus_allowed": _allowed(host),
        "governor": governor,
        "turbo_disabled": _sys(host, "devices/system/cpu/intel_pstate/no_turbo"),
        "boost": _sys(host, "devices/system/cpu/cpufreq/boost"),
        "swappiness": host.proc_text("sys/vm/swappiness").strip() or None,
        "swaps": [line.split()[0] for line in host.proc_text("swaps").splitlines()[1:]],
        "numa_balancing": host.proc_text("sys/kernel/numa_balancing").strip() or None,
        "numa_nodes": _sys(host, "devices/system/node/online"),
        "loadavg": host.proc_text("loadavg").split()[:3],
        "memory_bytes": _memory_bytes(host),
        "transparent_hugepage": _sys(host, "kernel/mm/transparent_hugepage/enabled"),
        "nvme_multipath": _sys(host, "module/nvme_core/parameters/multipath"),
        "modules": modules(host),
        "packages": dict(installed),
        "db_bench": str(program) if program else None,
        "rocksdb_build": rocksdb_build.of_program(program) if program else None,
        "devices": [_device(host, device) for device in devices],
    }


def modules(host: Host) -> dict[str, dict[str, str]]:
    """Return the readable parameters of the loaded modules; built-in ones have a folder too."""
    found = {}
    for name in sorted([*levels.modules(), _UBLK]):
        folder = host.sysfs.root / "module" / name
        if folder.is_dir():
            values = {
                path.name: _sys(host, f"module/{name}/parameters/{path.name}")
                for path in sorted(folder.glob("parameters/*"))
            }
            found[name] = {key: value for key, value in values.items() if value is not None}
    return found


def _device(host: Host, device: Device) -> dict[str, Any]:
    name = device.name
    queue = {}
    for node in host.sysfs.queue_nodes(host.sysfs.disk(name)):
        folder = host.sysfs.block(node) / "queue"
        names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
        values = {n: host.sysfs.text(node, f"queue/{n}") for n in names if (folder / n).is_file()}
        queue[node] = values
    record: dict[str, Any] = encode(device)
    numa = host.sysfs.text(name, "device/device/numa_node") or None  # of the controller's slot
    return {**record, "key": device.identity.key, "queue": queue, "numa_node": numa}


def _sys(host: Host, name: str) -> str | None:
    try:
        return (host.sysfs.root / name).read_text().strip()
    except OSError:
        return None


def _allowed(host: Host) -> str | None:
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", host.proc_text("self/status"), re.MULTILINE)
    return match[1] if match else None


def _memory_bytes(host: Host) -> int:
    match = re.search(r"^MemTotal:\s+(\d+) kB", host.proc_text("meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _os_name() -> str:
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return match[1] if match else ""
