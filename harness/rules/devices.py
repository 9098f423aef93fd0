"""Rules about the devices and the machine."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import RunFacts
from harness.rules.rule import issue, rule, warning
from harness.store.result import Issue

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
            f"the clock jumped by {run.clock_jump:+.1f} s during the run",
            expected=0,
            actual=round(run.clock_jump, 3),
        )
