"""mount and umount, with retries: a closing program or udev may hold a file system briefly."""

from __future__ import annotations

import time
from pathlib import Path

from harness.tools import proc
from harness.tools.virtual_clock import patience

# udev and blkid hold a device for well under a second; 20 s allows for software emulation.
_PATIENCE_SECONDS = 20.0
_PAUSE_SECONDS = 0.25
# Unmounting writes back all dirty data.
_UMOUNT_TIMEOUT_SECONDS = 300.0
_MOUNT_TIMEOUT_SECONDS = 120.0


def argv(source: Path, target: Path, filesystem: str, options: str) -> list[str]:
    """Return mount's argument list; ``options`` is -o and may be empty."""
    extra = ["-o", options] if options else []
    return ["mount", "-t", filesystem, *extra, str(source), str(target)]


def mount(source: Path, target: Path, filesystem: str, options: str = "") -> None:
    """Mount ``source`` at ``target``, an existing directory.

    Raises:
        ToolFailed: mount(8) refused.
    """
    proc.run(argv(source, target, filesystem, options), timeout=_MOUNT_TIMEOUT_SECONDS)


def umount(target: Path) -> None:
    """Unmount ``target``; retry while it is busy.

    Raises:
        ToolFailed: it is still busy after 20 s, or umount(8) failed for another reason.
    """
    retry(["umount", str(target)], timeout=_UMOUNT_TIMEOUT_SECONDS)


def retry(argv: list[str], *, timeout: float) -> None:
    """Run a program until it succeeds, while its error message contains "busy".

    Raises:
        ToolFailed: it failed for another reason, or is still busy after 20 s.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS * patience()
    while True:
        done = proc.run(argv, timeout=timeout, check=False)
        if done.ok:
            return
        if "busy" not in done.stderr.lower() or time.monotonic() > deadline:
            raise proc.failure(done)
        time.sleep(_PAUSE_SECONDS)
