"""Rules for every test: what ``-m`` can select, how processes share the work, Hypothesis's profile.

``pytest`` alone boots no machine: pyproject.toml deselects ``rig``. ``-m ""`` selects every test.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from harness.machine import paths

RIG = Path(__file__).parent / "rig"
# A test on an emulated CPU boots, plays and waits; 1,300 s were measured on a busy machine.
RIG_TIMEOUT_SECONDS = 3600

MEMORY, MEMORY_BYTES = Path("/dev/shm"), 2 << 30

# Each process that gets tests of the rig boots one of its own. QEMU's sockets lie in this folder.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["ZONELAB_RIGS"] = str(RIG.parents[1] / "build" / f"rigs-{worker}")

# Scripts with "env python3" get this Python; a version manager's shim would take 0.1 s each time.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
# Tests start hundreds of Python programs; each would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Tests do not take the machine's lock: each process has its own.
_LOCKS = tempfile.TemporaryDirectory(prefix="zonelab-lock-")
vars(paths).update(LOCK=Path(_LOCKS.name, "lock", "machine"))
# Other tests use the same cores: the time of one example is no property of the code.
hypothesis.settings.register_profile("zonelab", deadline=None)
hypothesis.settings.load_profile("zonelab")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of ``make check`` in memory if there is room: a disk takes a fifth longer."""
    room = shutil.disk_usage(MEMORY).free if os.access(MEMORY, os.W_OK) else 0
    if "not slow" in config.option.markexpr and room > MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test below tests/rig, before ``-m`` is applied."""
    for item in items:
        if RIG in item.path.parents:
            item.add_marker(pytest.mark.rig)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(RIG_TIMEOUT_SECONDS))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose ``needs`` marker names a program that this machine lacks."""
    for marker in item.iter_markers("needs"):
        for program in marker.args:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")


class FilesTogether(LoadScopeScheduling):
    """Gives each process whole files, so that a module's fixtures are built once."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesTogether:
    """Use it for every ``-n``, with any ``--dist``."""
    return FilesTogether(config, log)


def pytest_xdist_auto_num_workers() -> int:
    """Use three processes on two cores: tests wait for the programs that they start."""
    return max(1, 3 * len(os.sched_getaffinity(0)) // 2)
