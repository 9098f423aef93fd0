"""Ansible's own output, with one change: waiting for a campaign shows how far it is.

The wait task of the run role polls ``progress.json``; the default callback would print "FAILED -
RETRYING" for every poll. This one prints the runner's line for people, when it has changed.
"""

from __future__ import annotations

import json

from ansible.plugins.callback.default import CallbackModule as Default

DOCUMENTATION = """
name: zonelab
type: stdout
short_description: default output plus campaign progress
description:
  - Prints the line of zonelab's progress file while a play waits for a campaign.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""


class CallbackModule(Default):
    """The default callback, with campaign progress in place of retry messages."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "zonelab"

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, str] = {}

    def v2_runner_retry(self, result) -> None:  # noqa: ANN001 - Ansible's private TaskResult
        """Show the progress line of a poll; fall back to the default for other tasks."""
        try:
            line = json.loads(result._result.get("stdout", ""))["line"]
        except (ValueError, KeyError, TypeError):
            super().v2_runner_retry(result)
            return
        host = result._host.get_name()
        if self._shown.get(host) != line:
            self._shown[host] = line
            self._display.display(f"  {host}: {line}")
