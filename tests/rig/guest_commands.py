"""The runner's commands in a guest, from one process that has imported them (``forked.py``)."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.rig import guest

from . import plays
from .conftest import RigHandle

SCRIPT = Path(__file__).with_name("forked.py")


@dataclass(frozen=True)
class Answer:
    """What a command left."""

    code: int
    stdout: str
    stderr: str


class GuestCommands:
    """Starts commands of a zipapp that lies in the guest.

    Args:
        rig: the rig.
        zipapp: its path in the guest.
    """

    def __init__(self, rig: RigHandle, zipapp: str) -> None:
        target = f"/root/{SCRIPT.name}"
        plays.copy(rig, SCRIPT, target)
        self._process = subprocess.Popen(
            guest.ssh_argv(rig.name, [f"exec python3 {target} {shlex.quote(zipapp)}"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, words: str) -> Answer:
        """Run ``zonelab WORDS`` and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(shlex.split(words)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the connection ended"
        return Answer(**json.loads(line))

    def close(self) -> None:
        """End the process in the guest: its input ends."""
        self._process.communicate(timeout=60)
