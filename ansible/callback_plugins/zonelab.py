"""Ansible's default output with two changes: campaign progress while waiting, and plain tables.

The wait task of the run role polls ``progress.json``; the default callback would print "FAILED -
RETRYING" for each poll. This one prints the runner's progress line when it changes. The clock of a
rig on the instruction clock runs at another speed, so the time left is converted to the
controller's clock. Until a run ends it is a prediction in seconds of this clock, and needs no
conversion. The default prints a message of several lines as a JSON list; this one prints it
line by line.
"""

from __future__ import annotations

import json
import time

from ansible.plugins.callback.default import CallbackModule as Default

DOCUMENTATION = """
name: zonelab
type: stdout
short_description: default output plus campaign progress and plain tables
description:
  - Prints the line of zonelab's progress file while a play waits for a campaign.
  - Prints a message that is a list of text line by line.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""

# Clocks are compared after this many seconds of the host. Within this error they count as equal.
_TELLING_SECONDS = 5
_SAME_CLOCK = 0.1


class CallbackModule(Default):
    """The default callback with campaign progress and plain text."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "zonelab"

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, str] = {}
        self._clocks: dict[str, tuple[float, float]] = {}
        self._done_before: dict[str, int] = {}

    def v2_runner_retry(self, result) -> None:  # noqa: ANN001 - Ansible's private TaskResult
        """Show the progress line of a poll; fall back to the default for other tasks."""
        try:
            text = result._result.get("stdout", "")
            around, _, _ = text.partition("{")
            record = json.loads(text[len(around) :])
            line, left, done = record["line"], record["eta_seconds"], record["runs_done"]
            uptime = float(around.split()[1])  # after the boot id
        except (ValueError, KeyError, TypeError, IndexError):
            super().v2_runner_retry(result)
            return
        host = result._host.get_name()
        if self._shown.get(host) != line:
            self._shown[host] = line
            self._display.display(f"  {host}: {self._in_our_time(host, line, left, done, uptime)}")

    def _in_our_time(
        self, host: str, line: str, left: float | None, done: int, uptime: float
    ) -> str:
        """Return the line with the seconds that are left on this machine's clock."""
        now = time.monotonic()
        first, first_uptime = self._clocks.setdefault(host, (now, uptime))
        if left is None or done == self._done_before.setdefault(host, done):
            return line
        if uptime - first_uptime < _TELLING_SECONDS:
            return line
        pace = (now - first) / (uptime - first_uptime)
        if abs(pace - 1) < _SAME_CLOCK:
            return line
        return f"{line.partition(', about ')[0]}, about {left * pace / 60:.0f} min left"

    def _dump_results(self, result, *args, **kwargs) -> str:  # noqa: ANN001, ANN002, ANN003 - theirs
        """Return the lines of a message, or the default's JSON for other results."""
        lines = result.get("msg")
        if isinstance(lines, list) and all(isinstance(line, str) for line in lines):
            return "\n".join(["", *lines])
        return super()._dump_results(result, *args, **kwargs)
