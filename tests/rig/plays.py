"""``ansible-playbook`` against a rig, as a user types it; all of its output is in one folder."""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.rig import state
from harness.tools import proc

from .conftest import RigHandle

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv" / "bin"


@dataclass(frozen=True)
class Played:
    """A finished play: exit code, output, and the rig's line of the recap."""

    code: int | None
    text: str
    recap: Mapping[str, int]

    @property
    def fatal(self) -> str:
        """The one message it failed with; more than one is a defect of the playbook."""
        assert "Traceback" not in self.text
        assert self.text.count("fatal:") == 1, self.text
        return self.text.partition("fatal:")[2].partition("PLAY RECAP")[0]


class Plays:
    """An inventory of one rig; host variables win over ``ansible/group_vars``.

    Args:
        rig: the rig.
        folder: gets the inventory, the results and what is built.
        variables: further host variables.
    """

    def __init__(self, rig: RigHandle, folder: Path, **variables: str) -> None:
        self._rig = rig
        self._host = state.host_name(rig.name)
        self.results = folder / "results"
        self.inventory = folder / "inventory.yml"
        known: dict[str, Any] = yaml.safe_load(rig.inventory.read_text())
        host: dict[str, Any] = known["all"]["hosts"][self._host]
        del host["device"]  # named on the command line
        host |= {"zonelab_results": str(self.results), "zonelab_build": str(folder / "build")}
        host |= {"study": "smoke", "run_poll_seconds": "3"} | variables
        folder.mkdir(parents=True, exist_ok=True)
        self.inventory.write_text(yaml.safe_dump(known))

    def play(self, folder: Path, argv: Sequence[str], timeout: float = 3000.0) -> Played:
        """Run a command line in ``folder``, the rig's virtual environment on PATH."""
        env = {"PATH": f"{BIN}:/usr/bin:/bin", "ANSIBLE_INVENTORY": str(self.inventory)}
        done = proc.run(argv, cwd=folder, env=env, timeout=timeout, check=False)
        line = re.search(rf"^{self._host}\s+: (.*)$", done.stdout, re.MULTILINE)
        pairs = re.findall(r"(\w+)=(\d+)", line[1]) if line else []
        text = done.stdout + done.stderr
        return Played(done.exit_code, text, {name: int(count) for name, count in pairs})


def copy(rig: RigHandle, file: Path, target: str) -> None:
    """Copy a file into the guest."""
    config = state.folder(rig.name) / "ssh_config"
    there = f"{state.host_name(rig.name)}:{target}"
    proc.run(["scp", "-q", "-F", config, file, there], timeout=300)


def install(rig: RigHandle, folder: Path, target: str) -> None:
    """Pack the runner in ``folder`` and copy it into the guest."""
    zipapp = folder / "zonelab.pyz"
    proc.run([sys.executable, "-m", "harness.pack", zipapp], cwd=ROOT, timeout=300)
    copy(rig, zipapp, target)


def zonelab(*arguments: str | Path) -> proc.Completed:
    """Run the command of this checkout."""
    return proc.run([BIN / "zonelab", *arguments], timeout=600, check=False)


def files(folder: Path) -> dict[str, tuple[int, str]]:
    """Return modification time (ns) and digest of every file below a folder."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def guest_files(rig: RigHandle) -> str:
    """Return name, time and length of every zonelab file in the guest."""
    folders = "/var/lib/zonelab /usr/local/lib/zonelab"
    return rig.ssh(f"find {folders} -type f -printf '%p %T@ %s\\n' 2>/dev/null | sort").stdout


def written(rig: RigHandle) -> list[int]:
    """Return the bytes written to each namespace by QEMU's count."""
    return [rig.counters(device).wr_bytes for device in rig.state.devices]


def sectors_written(rig: RigHandle) -> list[int]:
    """Return the bytes written to each namespace by the guest kernel's count."""
    nodes = [rig.node(device) for device in rig.state.devices]
    return [int(rig.ssh(f"cat /sys/block/{n}/stat").stdout.split()[6]) * 512 for n in nodes]


@contextmanager
def watched(rig: RigHandle) -> Iterator[list[tuple[str, str]]]:
    """Look at swappiness and for db_bench every few seconds; the list is filled at the end."""
    look = "echo $(cat /proc/sys/vm/swappiness) $(pgrep -xc db_bench)"
    # A first look while nothing has happened yet.
    loop = f"({look}; while sleep 4; do {look}; done) > /run/watch-tuning"
    rig.ssh(f"systemd-run --quiet --collect --unit=watch-tuning sh -c '{loop}'")
    seen: list[tuple[str, str]] = []
    try:
        yield seen
    finally:
        text = rig.ssh(
            f"systemctl stop watch-tuning; {look} >> /run/watch-tuning; cat /run/watch-tuning"
        )
        seen += [(line.split()[0], line.split()[1]) for line in text.stdout.splitlines()]


def assert_tuned_for_runs_only(
    rig: RigHandle, seen: Sequence[tuple[str, str]], before: str
) -> None:
    """Swappiness was changed before db_bench ran, and restored after it."""
    values = [value for value, _ in itertools.groupby(value for value, _ in seen)]
    assert values == [before, "0", before]
    assert {value for value, working in seen if working != "0"} == {"0"}
    rig.ssh("test ! -e /var/lib/zonelab/saved/tuning.json")
