"""The initrd of a replay's guest: the same bytes for the same run."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path

from harness.machine.paths import RUNTIME, STATE, Paths
from harness.plan import drive_files
from harness.rig import guest, qemu
from harness.rig.model import PROJECT, Rig
from harness.rig.recipe import Image
from harness.rig.replay import elf
from harness.rig.replay.cpio import Entry, archive
from harness.rig.replay.planned import PlannedRun
from harness.tools import proc

_FILES = Path(__file__).parent / "files"
# _HERE has the files of init.sh in the initial file system, _ROOT those of the system it starts.
_HERE, _ROOT = "replay", "replay/root"
_RUNNER = "/usr/local/lib/zonelab/zonelab.pyz"
_REPORT = f"""\
import json, sys
sys.path.insert(0, "{_RUNNER}")
from harness.observe import zoneblk
print(json.dumps(zoneblk.report(sys.argv[1]), indent=1))
"""
_TIMEOUT = 300.0


def initrd(planned: PlannedRun, image: Image) -> bytes:
    """Return the image's initrd with everything that the run needs.

    Raises:
        ToolFailed: the runner cannot be packed.
    """
    files = _system(planned)
    files[qemu.REPLAY_INIT] = Entry((_FILES / "init.sh").read_bytes(), executable=True)
    files[f"{_HERE}/busy"] = Entry(elf.busy_program(), executable=True)
    return image.initrd.read_bytes() + archive(files)


def _system(planned: PlannedRun) -> dict[str, Entry]:
    plan = Paths(STATE, RUNTIME).campaign(planned.plan.campaign) / "plan.json"
    command = ["python3", _RUNNER, "run", "--plan", str(plan), "--host", planned.host]
    command += ["--state-dir", str(STATE), "--runtime-dir", str(RUNTIME)]
    command += ["--only", planned.spec.run]
    return {
        f"{_ROOT}/{_HERE}/main.sh": Entry((_FILES / "main.sh").read_bytes(), executable=True),
        f"{_ROOT}/{_HERE}/prepare.sh": _text(guest.preparation(planned.rig)),
        f"{_ROOT}/{_HERE}/run.sh": _text(shlex.join(command)),
        f"{_ROOT}/{_HERE}/report.py": _text(_REPORT),
        f"{_ROOT}{_RUNNER}": Entry(_packed(), executable=True),
        f"{_ROOT}{plan}": Entry(planned.plan_file.read_bytes()),
        **_drives(planned.rig),
    }


def _drives(rig: Rig) -> dict[str, Entry]:
    """Return each drive's model, and the list of names and options of their servers."""
    found, lines = {}, []
    for number, drive in enumerate(rig.zoneblk):
        model, unit = drive.load(), f"zoneblk-{number}"
        found[f"{_ROOT}/{_HERE}/{unit}.json"] = _text(json.dumps(drive_files.program_input(model)))
        options = guest.serve_options(model, guest.drive_options(rig, drive))
        lines.append(f"{unit} {' '.join(options)}")
    return {**found, f"{_ROOT}/{_HERE}/drives": _text("\n".join(lines))}


def _packed() -> bytes:
    """Return the runner of this checkout as one file."""
    with tempfile.TemporaryDirectory(prefix="zonelab-replay-") as folder:
        target = Path(folder) / "zonelab.pyz"
        proc.run([sys.executable, "-m", "harness.pack", target], cwd=PROJECT, timeout=_TIMEOUT)
        return target.read_bytes()


def _text(text: str) -> Entry:
    return Entry(f"{text}\n".encode())
