"""Pack a campaign into one archive ``<campaign>.tar.xz`` with checksums, and unpack it.

Archives are reproducible: names are sorted; times, owners and modes are fixed.
"""

from __future__ import annotations

import lzma
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from harness.errors import RunFailed, UsageError
from harness.store import checksums
from harness.store.campaign import CampaignPaths, find_archive, find_campaign
from harness.store.rundir import full_disk_is_clear

RECORD = "bundle.json"
# The default of xz. Most files are compressed already, so a higher preset gains nothing.
_PRESET = 6
_DAMAGED = "damaged-archive"


def pack(folder: Path, output: Path) -> None:
    """Write checksums into a campaign's folder, then write the folder into an archive.

    Raises:
        HostError: the disk is full; no archive is left behind.
    """
    checksums.write(folder)
    partial = output.with_name(f".{output.name}.partial")
    try:
        with (
            full_disk_is_clear(output.parent),
            lzma.open(partial, "wb", preset=_PRESET) as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in sorted(folder.rglob("*")):
                archive.add(
                    path,
                    f"{folder.name}/{path.relative_to(folder)}",
                    recursive=False,
                    filter=_plain,
                )
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() else 0o644
    member.pax_headers = {}
    return member


def unpack(archive: Path, into: Path) -> Path:
    """Unpack an archive and return the campaign's folder.

    Raises:
        UsageError: it is not a tar archive of one folder of plain files.
        RunFailed: it is truncated or damaged.
    """
    try:
        with tarfile.open(archive, "r:*") as stream:
            extract(stream, into)
    except tarfile.ReadError:
        raise UsageError(
            f"{archive} is not a tar archive", hint="zonelab bundle makes one", code="archive"
        ) from None
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise RunFailed(
            f"{archive} is damaged: {error}", hint="copy it again", code=_DAMAGED
        ) from None
    folders = [path for path in into.iterdir() if path.is_dir()]
    if len(folders) != 1 or not (folders[0] / "plan.json").is_file():
        raise UsageError(
            f"{archive} holds no campaign: expected one folder with a plan.json",
            hint="zonelab bundle makes such an archive",
            code="archive",
        )
    return folders[0]


def extract(archive: tarfile.TarFile, into: Path) -> None:
    """Unpack files and folders without their owners and times.

    Raises:
        UsageError: the archive holds something else, or a name that leads out of the folder.
    """
    for member in archive:
        _require_plain(member)  # tarfile's own "data" filter is missing in Python 3.11.2
        archive.extract(member, into, set_attrs=False)


def _require_plain(member: tarfile.TarInfo) -> None:
    name = PurePosixPath(member.name)
    if not (member.isfile() or member.isdir()) or name.is_absolute() or ".." in name.parts:
        raise UsageError(
            f"the archive holds {member.name!r}, which is not a plain file or folder inside it",
            hint="archives may hold only plain files and folders",
            code="archive",
        )


def unpacked(archive: Path, into: Path) -> tuple[Path, list[str]]:
    """Unpack an archive; return the campaign's folder and one line per checksum problem."""
    with full_disk_is_clear(into):
        folder = unpack(archive, into)
    return folder, checksums.problems(folder)


@contextmanager
def opened(name: str) -> Iterator[CampaignPaths]:
    """Yield the paths of a campaign, named by folder or archive, or by name below ``results``.

    An archive is unpacked into a temporary folder, which is removed at the end.

    Raises:
        UsageError: there is no such campaign, or the file is not an archive of one.
        RunFailed: a file of the archive differs from its checksum.
    """
    archive = find_archive(name)
    if archive is None:
        yield find_campaign(name)
        return
    with tempfile.TemporaryDirectory(prefix="zonelab-") as folder:
        root, differing = unpacked(archive, Path(folder))
        if differing:
            raise RunFailed(
                f"{name} differs from its checksums: {differing[0]}",
                hint=f"zonelab verify {name} lists all differences",
                code=_DAMAGED,
            )
        yield CampaignPaths(root)
