"""``zonelab collect``: move finished runs from a host into a campaign; for roles/collect."""

from __future__ import annotations

import argparse
import json
import shutil
import tarfile
import tempfile
from pathlib import Path

from harness.errors import ExitCode, RunFailed, UsageError
from harness.store import checksums
from harness.store.bundle import require_plain
from harness.store.files import sync
from harness.store.rundir import completed, full_disk_is_clear, split_attempt

SUMMARY = "move finished run directories from a host into a campaign"
GROUP = "playbooks"
SHIPPED = True
HELP = """Read complete run directories from a folder or tar archive, check their checksums, and
move them into <host>/runs. A run that exists there is left alone.

Prints {"collected": […], "already": […]}.

examples:
  zonelab collect --from runs.tar --into results/first/hosts/rig0"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--from", dest="source", type=Path, required=True, help="folder or .tar")
    parser.add_argument("--into", type=Path, required=True, help="results/<campaign>/hosts/<host>")


def execute(arguments: argparse.Namespace) -> int:
    """Collect the runs and print their names.

    Raises:
        UsageError: there is no such source.
        RunFailed: a run arrived damaged; the others are stored.
    """
    if not arguments.source.exists():
        raise UsageError(f"{arguments.source} does not exist", hint="--from names runs/ or a .tar")
    runs = arguments.into / "runs"
    with full_disk_is_clear(runs):
        runs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".collect-", dir=arguments.into) as staging:
            folder = _unpack(arguments.source, Path(staging))
            record = _take(folder, runs)
    print(json.dumps({name: record[name] for name in ("collected", "already")}))
    if record["damaged"]:
        raise RunFailed(record["damaged"][0], hint="collect again", code="damaged")
    return ExitCode.OK


def _unpack(source: Path, staging: Path) -> Path:
    """Copy the runs to the destination's file system, so that the last step is a rename."""
    folder = staging / "runs"
    if source.is_dir():
        for run in completed(source):
            _copy(run, folder / run.name)
        return folder
    folder.mkdir()
    try:
        with tarfile.open(source, "r:") as archive:  # roles/collect does not compress
            for member in archive:
                require_plain(member)  # tarfile's own "data" filter is missing in Python 3.11.2
                archive.extract(member, folder, set_attrs=False)
    except tarfile.TarError as error:
        raise UsageError(
            f"{source} is not a complete tar archive: {error}", hint="collect again", code="archive"
        ) from None
    return folder


def _copy(source: Path, target: Path) -> None:
    """Copy a folder; unlike shutil.copytree, raise the first error unchanged."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise UsageError(f"{path} is not a plain file or folder", hint="move it away")
        copy = _copy if path.is_dir() else shutil.copyfile
        copy(path, target / path.name)


def _take(folder: Path, runs: Path) -> dict[str, list[str]]:
    record: dict[str, list[str]] = {"collected": [], "already": [], "damaged": []}
    for run in completed(folder):
        split_attempt(run.name)  # raises for a name that is not a run's
        if (runs / run.name).exists():
            record["already"].append(run.name)
            continue
        problems = checksums.problems(run)
        if problems:
            record["damaged"].append(f"run {run.name} arrived damaged: {problems[0]}")
            continue
        run.rename(runs / run.name)
        record["collected"].append(run.name)
    sync(runs)
    return record
