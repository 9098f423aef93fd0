"""What happens when a level fails to format or mount: an error with a reason, and clean-up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness import cleanup
from harness.errors import Hung, TimedOut, ToolFailed
from harness.levels.level import Level, LevelContext, LevelUp
from harness.observe import kmsg
from harness.observe.kmsg import KernelLog

# The kernel gives its reason last. Results have the whole log in raw/kernel.log.
_LINES = 5


@contextmanager
def bring_up(level: Level, context: LevelContext, up: LevelUp) -> Iterator[None]:
    """On a failure of the block, quote the kernel's last lines and take the level down again.

    A program such as dmsetup prints only "Command failed."; the reason is in the kernel log.
    """
    log = context.kernel_log()
    try:
        yield
    except BaseException as error:
        if isinstance(error, ToolFailed | TimedOut | Hung):
            _quote(error, log)  # before the kernel logs the unmount
        cleanup.after(error, lambda: level.down(up))
        raise
    finally:
        log.close()


def _quote(error: ToolFailed | TimedOut | Hung, log: KernelLog) -> None:
    log.drain()
    lines = [line.partition(" ")[2] for line in kmsg.parse(log.text(())).lines]
    if lines:
        error.message += f"; kernel: {' | '.join(lines[-_LINES:])}"
