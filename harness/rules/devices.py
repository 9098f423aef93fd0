"""Rules about the devices and the machine."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import RunFacts
from harness.rules.rule import error, issue, rule, warning
from harness.store.result import Issue, Severity

# NTP slews by at most 0.5 ms a second, so a second within a run of minutes is a jump.
_CLOCK_JUMP_SECONDS = 1.0


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
