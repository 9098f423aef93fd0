"""Announce what a long command installs, downloads and uses, and ask whether to continue.

It also refuses to clean up under a rig that runs.

``make`` runs this module with the system's Python before there is a .venv; it uses nothing newer
than Python 3.7 and nothing of zonelab.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

INTERRUPTED = 130
USAGE = 2
# Measured on two cores, with and without other work on the machine.
_STUDY_MINUTES = {"integration-levels": "30 to 60", "block-level": "20 to 30"}
_TEST_MINUTES = "40 to 75 minutes on two cores"
_COSTS = """\
  installs  QEMU, mmdebstrap and an ssh client with apt (as root)
            Python packages into .venv (0.7 GB)
  downloads about 0.6 GB of distribution and Python packages, the first time
  uses      6 GB of disk while building, 1 GB for the image in ~/.cache/zonelab
            7 GB of memory while running
  touches   no drive of this machine
"""


def announce_study(study: str, rig: str) -> None:
    """Describe a study; ``rig`` is empty when the study's own rigs are used."""
    where = f"on the rig {rig}" if rig else "on its rigs, which are virtual machines"
    minutes = _STUDY_MINUTES.get(study)
    takes = f"{minutes} minutes on two cores" if minutes else "a while (the time left is shown)"
    _announce(f"run the study {study} {where}", f"{takes}, 4 to 12 minutes more for a new image")


def agreed() -> bool:
    """Ask on a terminal, unless ``YES`` is set in the environment; elsewhere return True."""
    if os.environ.get("YES") or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    try:
        answer = input("Continue? [y/N] ")
    except EOFError:
        answer = ""
    if answer.lower().startswith("y"):
        return True
    print("zonelab: nothing was done", file=sys.stderr)
    return False


def _announce(what: str, takes: str) -> None:
    print(f"This will {what}. It takes {takes}, and:\n{_COSTS}", end="", flush=True)


def _rigs_up() -> list[str]:
    """Return the rigs in ``build/rigs`` whose QEMU runs: nobody could stop it without its files."""
    up = []
    for path in sorted(Path("build/rigs").glob("*/qemu.pid")):
        with suppress(OSError, ValueError):  # a pid file can be empty, and its process gone
            if Path(f"/proc/{int(path.read_text())}/cwd").resolve() == path.parent.resolve():
                up.append(path.parent.name)
    return up


def main(words: list[str]) -> int:
    """Announce ``study NAME [RIG]`` or ``test``; return 130 when the answer is no.

    With ``clean``, return 2 and print how to stop rigs if some are up.
    """
    if words[0] == "clean":
        up = _rigs_up()
        for rig in up:
            print(f"zonelab: rig {rig} is up\nhint: zonelab rig down {rig}", file=sys.stderr)
        return USAGE if up else 0
    if words[0] == "study":
        announce_study(words[1], "".join(words[2:]))
    else:
        _announce("run every test, also on virtual machines", _TEST_MINUTES)
    return 0 if agreed() else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
