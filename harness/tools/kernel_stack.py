"""Where the threads of a hung process wait in the kernel (proc_pid_stack(5))."""

from __future__ import annotations

import re
from pathlib import Path

from harness.store.files import text_or_empty

PROC = Path("/proc")


def stacks(pid: int, proc: Path = PROC) -> str:
    """Return name, state, wait channel and kernel stack of each thread; '' after its end.

    Only files are read that never wait for the lock of the process's memory map. Reads of cmdline
    and maps can wait for it.
    """
    blocks = []
    for task in sorted(proc.glob(f"{pid}/task/*"), key=lambda path: int(path.name)):
        name, state = _name_and_state(_text(task / "stat"))
        lines = [f"thread {task.name} ({name}): state {state}, in {_text(task / 'wchan') or '?'}"]
        stack = _text(task / "stack") or "the kernel stack is not readable"
        blocks.append("\n".join([*lines, *(f"  {line}" for line in stack.splitlines())]) + "\n")
    return "".join(blocks)


def waits(text: str) -> str:
    """Return the kernel functions in which threads wait uninterruptibly, from ``stacks``."""
    return ", ".join(dict.fromkeys(re.findall(r": state D, in (\S+)$", text, re.MULTILINE)))


def alive(text: str) -> bool:
    """Whether any thread lives, from ``stacks``: the first can be a zombie before others end."""
    return re.search(r"^thread \d+ \(.*\): state [^ZX],", text, re.MULTILINE) is not None


def name(pid: int, proc: Path = PROC) -> str:
    """Return the name of a process."""
    return _name_and_state(_text(proc / str(pid) / "stat"))[0]


def start(pid: int, proc: Path = PROC) -> int:
    """Return when a process started, in clock ticks since boot; 0 after its end.

    With the boot id this identifies a process, as process ids are used again.
    """
    fields = _text(proc / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0  # noqa: PLR2004 - proc_pid_stat(5): field 22


def _name_and_state(stat: str) -> tuple[str, str]:
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return name or "?", (rest.split() or ["?"])[0]


def _text(path: Path) -> str:
    return text_or_empty(path).strip()
