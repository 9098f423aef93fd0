"""One replay: start QEMU, wait for its end, keep what the guest wrote."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HostError, TimedOut, ToolFailed
from harness.quantities import parse_qemu_size
from harness.rig import guest, prerequisites, process, qemu
from harness.rig.recipe import Image, image_of, recipe_of
from harness.rig.replay import elf, payload
from harness.rig.replay.differences import RECORD
from harness.rig.replay.planned import PlannedRun
from harness.rig.talk import Talk
from harness.store import codec
from harness.store.bundle import extract
from harness.store.files import dumps, load_record, sync, write_atomic
from harness.tools import proc

_LOG = "qemu.log"
_CLOCK = "clock.so"  # elf.py explains it
_PROGRAMS = {
    "env": "coreutils",
    "qemu-system-x86_64": "qemu-system-x86",
    "setpriv": "util-linux",
}
# Guest seconds pass about as quickly as seconds of an idle host, and 3 times slower on a busy one.
_TIMEOUT = 4 * 3600.0
_POLL = 0.5
_ALL_LINES = 10_000
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class Replay:
    """``replay.json``. Replays with equal ``inputs`` must have equal files.

    ``inputs`` is a digest of the guest's memory at its start and of QEMU: kernel, initrd with the
    plan and the runner, image, command line, QEMU's version.
    """

    run: str
    inputs: str
    host_seconds: float
    schema_version: int = codec.SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run and all inputs of its replay."""

    planned: PlannedRun
    image: Image
    initrd: bytes
    inputs: str


def prepare(planned: PlannedRun) -> Prepared:
    """Return the inputs of a replay.

    Raises:
        HostError: the image is not built, or this machine lacks a program or memory.
        ToolFailed: the runner cannot be packed.
    """
    image = image_of(recipe_of(planned.rig))
    if not image.complete:
        raise HostError(
            f"the image of rig {planned.rig.name} is not built",
            hint=f"zonelab rig build {planned.rig.name}",
            code="no-image",
        )
    prerequisites.check_programs(_PROGRAMS)
    needed = planned.rig.memory + prerequisites.QEMU_MEMORY
    prerequisites.check_memory(needed, f"a replay on rig {planned.rig.name}")
    initrd = payload.initrd(planned, image)
    argv = qemu.replay_argv(planned.rig, image)
    version = proc.run([argv[0], "--version"], timeout=60).stdout
    # Each build of an image has a new host key, so the key stands for the root disk.
    inputs = [json.dumps([argv, version]).encode(), image.host_key.read_bytes()]
    inputs += [image.kernel.read_bytes(), initrd, elf.clock_library()]
    digest = hashlib.sha256(b"".join(inputs))
    return Prepared(planned, image, initrd, digest.hexdigest())


def replays(folder: Path, inputs: str) -> list[Path]:
    """Return the replays in a folder that began with these inputs, first to last.

    Raises:
        ConfigError: a record is damaged.
    """
    records = [path / RECORD for path in _numbered(folder)]
    return [path.parent for path in records if load_record(Replay, path).inputs == inputs]


def replay(prepared: Prepared, folder: Path, talk: Talk) -> Path:
    """Replay a run; return the new folder with its files, ``<folder>/<number>``.

    The folder appears when the replay is complete. QEMU ends with this process.

    Raises:
        TimedOut: the guest did not end within four hours.
        ToolFailed: QEMU failed, or the guest wrote no run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    talk.say(f"replaying {_described(prepared.planned)}")
    with process.workspace(folder, ".replay-") as work:
        (work / qemu.REPLAY_INITRD).write_bytes(prepared.initrd)
        with (work / qemu.REPLAY_RESULTS).open("wb") as file:
            os.ftruncate(file.fileno(), parse_qemu_size(qemu.REPLAY_RESULTS_SIZE))
        _execute(qemu.replay_argv(prepared.planned.rig, prepared.image), work, talk)
        _unpack(work, prepared.planned)
        seconds = round(time.monotonic() - begin, 1)
        record = Replay(prepared.planned.spec.run, prepared.inputs, seconds)
        write_atomic(work / RECORD, dumps(record))
        for name in (qemu.REPLAY_INITRD, qemu.REPLAY_RESULTS, qemu.PID_FILE, _LOG, _CLOCK):
            (work / name).unlink(missing_ok=True)
        last = int(_numbered(folder)[-1].name) if _numbered(folder) else 0
        target = folder / str(last + 1)
        work.rename(target)
        sync(folder)
    talk.say(f"replayed in {seconds:.0f} s: {target}")
    return target


def _described(planned: PlannedRun) -> str:
    run, recorded = planned.spec.run, planned.recorded
    took = f"; it took {recorded.seconds:.0f} seconds of the guest" if recorded else ""
    return f"{run} on rig {planned.rig.name}{took}"


def _numbered(folder: Path) -> list[Path]:
    """Return the folders of complete replays, first to last."""
    found = [path for path in folder.glob("*") if path.name.isdecimal()]
    return sorted(found, key=lambda path: int(path.name))


def _execute(argv: list[str], work: Path, talk: Talk) -> None:
    """Run QEMU to its end; print the guest's lines as they come."""
    (work / _CLOCK).write_bytes(elf.clock_library())
    prefix = ["setpriv", "--pdeathsig", "KILL", "--", "env", f"LD_PRELOAD=./{_CLOCK}"]
    child = process.start([*prefix, *argv], cwd=work, log=work / _LOG, one_processor=True)
    try:
        _wait(child, work, talk)
    finally:
        if child.poll() is None:
            proc.end(child)
    text = (work / _LOG).read_text(errors="replace").strip()
    # The loader warns about LD_PRELOAD if it cannot load the library: then QEMU has a real clock.
    if child.returncode or "LD_PRELOAD" in text:
        last = text.splitlines()[-1] if text else f"exit {child.returncode}"
        raise ToolFailed(f"QEMU failed: {last}")


def _wait(child: subprocess.Popen[bytes], work: Path, talk: Talk) -> None:
    deadline = time.monotonic() + _TIMEOUT
    printed = 0
    while child.poll() is None:
        lines = guest.console_lines(work / qemu.CONSOLE, _ALL_LINES)
        for line in lines[printed:]:
            if not line.startswith("["):  # a message of the kernel
                talk.say(line)
        printed = len(lines)
        if time.monotonic() > deadline:
            raise TimedOut(f"the replay did not end within {_TIMEOUT / 3600:.0f} h")
        time.sleep(_POLL)


def _unpack(work: Path, planned: PlannedRun) -> None:
    """Unpack what the guest wrote; its run directory must be there."""
    try:
        with tarfile.open(work / qemu.REPLAY_RESULTS, "r:") as archive:
            extract(archive, work)
    except tarfile.TarError:
        raise _no_run(work) from None
    if not (work / planned.spec.run / "result.json").is_file():
        raise _no_run(work)


def _no_run(work: Path) -> ToolFailed:
    last = guest.console_lines(work / qemu.CONSOLE, _LAST_LINES)
    return ToolFailed(f"the guest wrote no run; its last lines: {' | '.join(last) or 'none'}")
