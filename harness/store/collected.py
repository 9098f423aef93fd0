"""Store finished runs of another machine in a campaign."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError
from harness.store import checksums
from harness.store.adopted import require_same
from harness.store.bundle import extract
from harness.store.campaign import CampaignPaths, load_plan
from harness.store.files import sync, sync_tree
from harness.store.rundir import completed, full_disk_is_clear, split_attempt


@dataclass(frozen=True, slots=True)
class Collected:
    """Names of runs that were stored or existed already, and a line for each damaged run."""

    new: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def collect(source: Path, into: Path) -> Collected:
    """Store the complete runs of a folder or tar archive in ``into/runs``; skip those it has.

    ``into`` is the folder of a host in a campaign.

    Raises:
        UsageError: there is no such source, or it is no archive of runs.
        ConfigError: the host has runs of another study, or of a machine that has changed.
        HostError: the disk is full.
    """
    if not source.exists():
        raise UsageError(
            f"{source} does not exist", hint="give --from a folder runs/ or a .tar file"
        )
    runs = into / "runs"
    with full_disk_is_clear(runs):
        runs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".collect-", dir=into) as staging:
            folder, adopted = _unpack(source, Path(staging))
            own = CampaignPaths(into.parent.parent).plan
            if adopted.exists() and own.exists() and completed(folder):
                require_same(load_plan(adopted), load_plan(own), into.name)
            return _store_runs(folder, runs)


def _unpack(source: Path, staging: Path) -> tuple[Path, Path]:
    """Copy the runs to the destination's file system, so that the last step is a rename.

    Returns:
        The folder of the runs, and the file with the host's plan, which can be missing.
    """
    folder = staging / "runs"
    if source.is_dir():
        for run in completed(source):
            _copy(run, folder / run.name)
        return folder, source.parent / "plan.json"
    folder.mkdir()
    try:
        with tarfile.open(source, "r:") as archive:  # roles/collect does not compress
            extract(archive, folder)
    except tarfile.TarError as error:
        raise UsageError(
            f"{source} is not a complete tar archive: {error}", hint="collect again", code="archive"
        ) from None
    return folder, folder / "plan.json"


def _copy(source: Path, target: Path) -> None:
    """Copy a folder; unlike shutil.copytree, raise the first error unchanged."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise UsageError(f"{path} is not a plain file or folder", hint="move it away")
        copy = _copy if path.is_dir() else shutil.copyfile
        copy(path, target / path.name)


def _store_runs(folder: Path, runs: Path) -> Collected:
    found = Collected()
    for run in completed(folder):
        split_attempt(run.name)  # raises for a name that is not a run's
        if (runs / run.name).exists():
            found.already.append(run.name)
            continue
        problems = checksums.problems(run)
        if problems:
            found.damaged.append(f"run {run.name} arrived damaged: {problems[0]}")
            continue
        sync_tree(run)
        try:
            run.rename(runs / run.name)
        except OSError:  # another process has stored it since
            if not (runs / run.name).exists():
                raise
            found.already.append(run.name)
        else:
            found.new.append(run.name)
    sync(runs)
    return found
