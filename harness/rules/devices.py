"""Rules about the devices and the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness import levels
from harness.rules.facts import RunFacts
from harness.rules.rule import error, issue, rule, warning
from harness.store.result import Issue, Severity

# block/blk-core.c and drivers/nvme print these; levels declare the messages of their file systems.
# Messages about zone limits (status 0xbd "Too Many Active Zones", 0xbe "… Open …") have a rule.
_DEVICE_ERRORS = (
    r"I/O error|critical medium error|critical target error|Buffer I/O"
    r"|nvme.*(?:timeout|resetting controller)"
)
_ACTIVE_LIMIT = re.compile(r"active zones exceeded|too many active zones", re.IGNORECASE)
_OPEN_LIMIT = re.compile(r"open zones exceeded|too many open zones", re.IGNORECASE)
# NTP slews by at most 0.5 ms a second, so a second within a run of minutes is a jump.
_CLOCK_JUMP_SECONDS = 1.0


@rule(
    warning(
        "kernel-log-missing",
        "the kernel log could not be read",
        "device errors cannot be excluded",
    )
)
def kernel_log_readable(run: RunFacts) -> Iterator[Issue]:
    """The kernel log can be read."""
    if run.kernel_log is None:
        yield issue("kernel-log-missing", Severity.WARNING, "the kernel log could not be read")


@rule(
    error(
        "io-errors",
        "the kernel logged an error of a device or file system during the run",
        "retries and remounts cost time, and data may be missing",
    )
)
def io_errors(run: RunFacts) -> Iterator[Issue]:
    """The kernel logs no error while the run is on."""
    pattern = re.compile("|".join((_DEVICE_ERRORS, *levels.kernel_errors())), re.IGNORECASE)
    lines = [line for line in (run.kernel_log or "").splitlines() if pattern.search(line)]
    if lines:
        yield issue(
            "io-errors",
            Severity.ERROR,
            f"the kernel reported errors: {lines[0].strip()}",
            expected=0,
            actual=len(lines),
        )


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
        if pattern.search(run.kernel_log or ""):
            yield issue(
                f"{name}-zones-exceeded",
                Severity.ERROR,
                f"the limit of {limit} {name} zones was exceeded",
                expected=limit,
            )


@rule(
    warning(
        "clock-jump",
        "real time and monotonic time differ by more than 1 s over the run",
        "measured times are monotonic and right, but logs with real time do not match them",
    )
)
def clock(run: RunFacts) -> Iterator[Issue]:
    """Real time does not jump during the run."""
    if abs(run.clock_jump) > _CLOCK_JUMP_SECONDS:
        yield issue(
            "clock-jump",
            Severity.WARNING,
            f"the clock jumped by {run.clock_jump:+.1f} s during the run",
            expected=0,
            actual=round(run.clock_jump, 3),
        )


@rule(
    error(
        "other-io",
        "a device received writes in the second before the run",
        "another program uses the device",
    )
)
def other_io(run: RunFacts) -> Iterator[Issue]:
    """No other program writes to a device."""
    for name, written in run.idle_written.items():
        if written:
            yield issue(
                "other-io",
                Severity.ERROR,
                f"another program wrote {written} B to {name} right before the run",
                expected=0,
                actual=written,
            )
