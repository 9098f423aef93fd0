"""Runs in the guest: commands of the runner, each in a fork of one process that has imported it.

``python3 forked.py ZIPAPP``. Each line on stdin is a command line as a JSON array; each line on
stdout is its exit code, output and errors. An emulated CPU imports the runner in several seconds.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import tempfile

sys.path.insert(0, sys.argv[1])

import harness
from harness.cli.main import main


def answer(words: list[str]) -> dict[str, int | str]:
    """Run a command in a process of its own, which inherits no state of an earlier one."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if not child:
            run(words, os.open(os.devnull, os.O_RDONLY), output.fileno(), errors.fileno())
        _, status = os.waitpid(child, 0)
        for file in (output, errors):
            file.seek(0)
        code = os.waitstatus_to_exitcode(status)
        return {"code": code, "stdout": output.read(), "stderr": errors.read()}


def run(words: list[str], *streams: int) -> None:
    """Run a command with these standard streams, and end the process."""
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        code = main(words)
        sys.stderr.flush()
    finally:
        os._exit(code)


for module in pkgutil.walk_packages(harness.__path__, "harness."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)  # noqa: T201
