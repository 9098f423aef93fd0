"""dmzadm (dm-zoned-tools): formats and starts dm-zoned targets."""

from __future__ import annotations

from pathlib import Path

from harness.tools import proc

PROGRAM = "dmzadm"
# Zones reserved for reclaim by default (dmzadm(8), --seq).
DEFAULT_SEQ = 16
# Formatting resets every zone one by one.
_FORMAT_TIMEOUT_SECONDS = 600.0
_START_TIMEOUT_SECONDS = 120.0


def format_argv(conventional: Path, zoned: Path, *, label: str, seq: int) -> list[str]:
    """Return the argument list of ``--format``; the conventional device comes first."""
    options = ["--force", f"--label={label}", f"--seq={seq}"]
    return [PROGRAM, "--format", str(conventional), str(zoned), *options]


def format_(conventional: Path, zoned: Path, *, label: str, seq: int) -> None:
    """Write dm-zoned's metadata.

    Raises:
        ToolFailed: dmzadm refused, for example because the zone capacity is below the zone size.
    """
    argv = format_argv(conventional, zoned, label=label, seq=seq)
    proc.run(argv, timeout=_FORMAT_TIMEOUT_SECONDS)


def start(conventional: Path, zoned: Path) -> None:
    """Map the target; it is named after the label.

    Raises:
        ToolFailed: dmzadm or the kernel refused.
    """
    argv = [PROGRAM, "--start", str(conventional), str(zoned)]
    proc.run(argv, timeout=_START_TIMEOUT_SECONDS)
