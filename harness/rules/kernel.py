"""Rules about the kernel log: errors of the run's devices, and faults of the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness import levels
from harness.observe import kmsg
from harness.rules.facts import RunFacts
from harness.rules.rule import error, issue, rule, warning
from harness.store.result import Issue, IssueInfo, Severity
from harness.store.spec import DeviceKind

# block/blk-core.c, drivers/nvme, drivers/scsi, drivers/ata and fs/jbd2 print these. Levels declare
# the messages of their file systems. Some drivers refuse discards as "operation not supported".
_DEVICE = (
    r"I/O [Ee]rror|(?<!not supported) error, dev "
    r"|rejecting I/O to (?:offline|dead) device|nvme.* timeout, "
    r"|nvme.*(?:reset(?:ting)? controller|controller is down|Device not ready"
    r"|after (?:probe|reset) failure)|FAILED Result|ata\d+.*(?:exception Emask|failed command)"
    r"|PCIe Bus Error: severity=Uncorrected|JBD2: (?:Error|Detected IO)|Aborting journal on"
)
# drivers/md/dm-zap prints "write failed! bi_status 10". The others are of writeback, md and swap.
_WRITE = (
    r"\bwrite failed\b|lost a?sync page write|writeback error on|super_written gets error"
    r"|Write-error on swap-device|loop: Write error|errs: wr [1-9]"
)
# "traps: PROGRAM general protection fault ip:…" is a fault of a program.
_OOPS = (
    r"\bOops\b|\bBUG: |kernel BUG at |Kernel panic|[Uu]nable to handle kernel"
    r"|general protection fault[,:]"
)
_LOCKUP = (
    r"soft lockup|hard LOCKUP|workqueue lockup|rcu.*detected (?:expedited )?stall|kthread starved"
)
_HUNG = r"INFO: task .* blocked (?:in I/O wait )?for more than \d+ seconds"
_MACHINE_CHECK = (
    r"\[Hardware Error\]|Machine [Cc]heck|MCE MEMORY ERROR|CMCI storm detected|Memory failure: 0x"
    r"|EDAC \w+: \d+ [CU]E |Uncorrected hardware memory error"
)
_UNCORRECTED = (
    r"\d+ UE |Uncorrected|Machine Check Exception|Memory failure: 0x|severity: (?:fatal|recov)"
    r"|System Fatal error"
)
_THROTTLED = r"clock throttled|power limit notification|critical temperature reached"
# Status 0xbd "Too Many Active Zones", 0xbe "Too Many Open Zones": as the block layer prints them,
# and as nvme does, with or without their names (CONFIG_NVME_VERBOSE_ERRORS).
_ACTIVE_LIMIT = r"active zones exceeded|sct 0x1 / sc 0xbd"
_OPEN_LIMIT = r"open zones exceeded|sct 0x1 / sc 0xbe"
_ZONE_LIMIT = r"(?:active|open) zones exceeded"


@rule(
    warning(
        "kernel-log-missing",
        "the kernel log could not be read",
        "device errors cannot be excluded",
    ),
    warning(
        "kernel-log-lost",
        "the kernel overwrote records of its log before they were read",
        "device errors cannot be excluded",
    ),
)
def kernel_log_whole(run: RunFacts) -> Iterator[Issue]:
    """The kernel log was read without a gap."""
    if run.kernel_log is None and run.spec.device.native:
        return  # there is no device whose errors the kernel could log
    if run.kernel_log is None:
        yield issue("kernel-log-missing", "the kernel log could not be read")
        return
    lost = kmsg.parse(run.kernel_log).lost
    if lost:
        yield issue(
            "kernel-log-lost",
            f"the kernel overwrote {lost} records of its log before they were read",
            expected=0,
            actual=lost,
        )


@rule(
    error(
        "io-errors",
        "the kernel logged an error of a device or file system of the run",
        "retries and remounts cost time, and data may be missing",
    )
)
def io_errors(run: RunFacts) -> Iterator[Issue]:
    """The kernel logs no error of the run's devices. Errors of other devices do not count."""
    other = re.compile(f"{_ZONE_LIMIT}|{_WRITE}")
    lines = _of_run(run, "|".join((_DEVICE, *levels.kernel_errors())))
    yield from _found("io-errors", [line for line in lines if not other.search(line)], "errors")


@rule(
    error(
        "kernel-write-failed",
        "the kernel logged that a write of the run failed",
        "data is missing, and the level may have repeated the write",
    )
)
def failed_writes(run: RunFacts) -> Iterator[Issue]:
    """No write below the database fails."""
    yield from _found("kernel-write-failed", _of_run(run, _WRITE), "failed writes")


@rule(
    error(
        "kernel-oops",
        "the kernel logged a fault in its own code: Oops, BUG, panic",
        "nothing that runs on a damaged kernel can be trusted",
    )
)
def oops(run: RunFacts) -> Iterator[Issue]:
    """The kernel has no fault."""
    lockup = re.compile(_LOCKUP)
    lines = [line for line in _matching(run, _OOPS) if not lockup.search(line)]
    yield from _found("kernel-oops", lines, "a fault in its own code")


@rule(
    IssueInfo(
        "kernel-lockup",
        (Severity.ERROR, Severity.WARNING),
        "a processor did not schedule for seconds (soft or hard lockup, RCU stall);"
        " a warning on emulated devices",
        "times of the run are too long",
    )
)
def lockups(run: RunFacts) -> Iterator[Issue]:
    """Every processor keeps scheduling. An emulated machine may stall: its times do not count."""
    lines = _matching(run, _LOCKUP)
    yield from _found("kernel-lockup", lines, "a stalled processor", _of_times(run))


@rule(
    IssueInfo(
        "hung-task",
        (Severity.ERROR, Severity.WARNING),
        "a task waited for minutes without being interruptible; a warning on emulated devices",
        "a device or file system hung, and times of the run are too long",
    )
)
def hung_tasks(run: RunFacts) -> Iterator[Issue]:
    """No task hangs."""
    yield from _found("hung-task", _matching(run, _HUNG), "a hung task", _of_times(run))


@rule(
    IssueInfo(
        "machine-check",
        (Severity.ERROR, Severity.WARNING),
        "the hardware reported an error of processor or memory; a warning if it was corrected",
        "results may be wrong, and corrections cost time",
    )
)
def machine_checks(run: RunFacts) -> Iterator[Issue]:
    """Processor and memory report no error."""
    uncorrected = re.compile(_UNCORRECTED)
    lines = _matching(run, _MACHINE_CHECK)
    severe = [line for line in lines if uncorrected.search(line)]
    severity = Severity.ERROR if severe else Severity.WARNING
    yield from _found("machine-check", severe or lines, "a machine check", severity)


@rule(
    warning(
        "cpu-throttled",
        "the kernel logged that the processor was slowed down by heat or a power limit",
        "times of the run are too long",
    )
)
def throttling(run: RunFacts) -> Iterator[Issue]:
    """The processor is not throttled."""
    lines = _matching(run, _THROTTLED)
    yield from _found("cpu-throttled", lines, "throttling")


@rule(
    error(
        "active-zones-exceeded",
        "the device refused to activate a zone (status 0xbd)",
        "the level ignores the device's limit, and writes failed",
    ),
    error(
        "open-zones-exceeded",
        "the device refused to open a zone (status 0xbe)",
        "the level ignores the device's limit, and writes failed",
    ),
)
def zone_limits(run: RunFacts) -> Iterator[Issue]:
    """The level respects the device's limits of active and open zones."""
    device = run.spec.device
    for name, pattern, limit in (
        ("active", _ACTIVE_LIMIT, device.max_active_zones),
        ("open", _OPEN_LIMIT, device.max_open_zones),
    ):
        if _of_run(run, pattern):
            yield issue(
                f"{name}-zones-exceeded",
                f"the limit of {limit} {name} zones was exceeded",
                expected=limit,
            )


def _found(
    code: str, lines: list[str], what: str, severity: Severity | None = None
) -> Iterator[Issue]:
    """Yield one issue for all lines; it quotes the first one."""
    if lines:
        message = f"the kernel reported {what}: {lines[0].strip()}"
        yield issue(code, message, severity=severity, expected=0, actual=len(lines))


def _of_times(run: RunFacts) -> Severity:
    """Return the severity of an issue that makes times worthless and leaves bytes right."""
    emulated = run.spec.device.kind is not DeviceKind.HARDWARE
    return Severity.WARNING if emulated else Severity.ERROR


def _matching(run: RunFacts, pattern: str) -> list[str]:
    compiled = re.compile(pattern)
    return [line for line in kmsg.parse(run.kernel_log or "").lines if compiled.search(line)]


def _of_run(run: RunFacts, pattern: str) -> list[str]:
    """Return the matching lines that do not name other devices only."""
    records = kmsg.parse(run.kernel_log or "")
    return [line for line in _matching(run, pattern) if records.concerns_run(line)]
