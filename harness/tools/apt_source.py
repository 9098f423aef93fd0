"""A source package of this host's distribution, fetched without touching the host's apt.

A host seldom has ``deb-src`` lines. Its own lists of sources are read, turned into such lines and
used with a state of apt's that lies beside the source.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.errors import HostError, ToolFailed
from harness.tools import proc

_APT_TIMEOUT_SECONDS = 900.0
_TIMEOUT_SECONDS = 300.0
_TYPES = re.compile(r"^Types:.*$", re.MULTILINE | re.IGNORECASE)
_DEB_LINE = re.compile(r"^\s*deb(?:-src)?(?=\s)(.*)$", re.MULTILINE)
_SHELL = re.compile(r"^(\w+)='(.*)'$", re.MULTILINE)


def source_lines(name: str, text: str) -> str:
    """Return a file of apt's sources with its entries turned into sources of source packages.

    ``name`` decides the form: ``*.sources`` has stanzas (deb822), all others one line per entry.
    """
    if name.endswith(".sources"):
        return _TYPES.sub("Types: deb-src", text)
    lines = dict.fromkeys(f"deb-src{entry.rstrip()}\n" for entry in _DEB_LINE.findall(text))
    return "".join(lines)


def host_sources() -> dict[str, str]:
    """Return this host's apt sources, as sources of source packages: file name → text.

    Raises:
        HostError: there is no apt here.
    """
    argv = ["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f"]
    argv += ["PARTS", "Dir::Etc::sourceparts/d"]
    where = dict(_SHELL.findall(proc.run(argv, timeout=_TIMEOUT_SECONDS).stdout))
    parts = Path(where.get("PARTS", "/nonexistent"))
    files = [Path(where.get("LIST", "/nonexistent")), *sorted(parts.glob("*.list"))]
    files += sorted(parts.glob("*.sources"))
    return {
        file.name: source_lines(file.name, file.read_text(encoding="utf-8"))
        for file in files
        if file.is_file()
    }


def installed_version(package: str) -> str:
    """Return the version of the source package that an installed package was built from.

    Raises:
        HostError: it is not installed, so there is no version to ask for.
    """
    argv = ["dpkg-query", "--show", "--showformat", "${source:Version} ${db:Status-Status}"]
    done = proc.run([*argv, package], timeout=_TIMEOUT_SECONDS, check=False)
    version, _, state = done.stdout.partition(" ")
    if not done.ok or state != "installed":
        raise HostError(
            f"{package} is not installed, so there is no version of its source to fetch",
            hint=f"apt-get install {package}, or name a source tree: -e rocksdb_source=FOLDER",
            code="program-missing",
        )
    return version


def download(
    package: str, into: Path, sources: Mapping[str, str], *, tar_only: bool = False
) -> list[Path]:
    """Download a source package (``name`` or ``name=version``) into a folder; return its files.

    ``tar_only`` leaves the distribution's own changes out.

    Raises:
        HostError: apt is not there.
        ToolFailed: the archive cannot be reached, or does not have it.
    """
    state = into / ".apt"
    for folder in ("parts", "lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    for name, text in sources.items():
        (state / "parts" / name).write_text(text, encoding="utf-8")
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": state / "parts",
        "Dir::State::lists": state / "lists",
        "Dir::Cache": state / "cache",
        "Acquire::Languages": "none",
        # apt would only warn of an index that it could not fetch, and use an older one
        "APT::Update::Error-Mode": "any",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    try:
        _apt([*apt, "update"], into)
        tar = ["--tar-only"] if tar_only else []
        _apt([*apt, "source", "--only-source", "--download-only", *tar, package], into)
    finally:
        shutil.rmtree(state)
    return sorted(file for file in into.iterdir() if file.is_file())


def fetch(package: str, version: str, tree: Path) -> None:
    """Fetch a source package and unpack it, the distribution's changes applied, as ``tree``.

    Raises:
        HostError: a program is missing.
        ToolFailed: the archive cannot be reached or does not have it, or it cannot be unpacked.
    """
    work = tree.with_name(f".{tree.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        files = download(f"{package}={version}", work, host_sources())
        description = next(file for file in files if file.suffix == ".dsc")
        # apt has checked every file against the archive's signature; dpkg-source would want the
        # uploader's key, which hosts do not have.
        unpack = ["dpkg-source", "--no-check", "--extract", str(description), str(work / "tree")]
        proc.run(unpack, timeout=_TIMEOUT_SECONDS)
        (work / "tree").rename(tree)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _apt(argv: list[str], folder: Path) -> None:
    """Run apt; of several errors the first one says most."""
    done = proc.run(argv, timeout=_APT_TIMEOUT_SECONDS, cwd=folder, check=False)
    if done.ok:
        return
    errors = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
    raise ToolFailed(
        f"apt-get failed (exit {done.exit_code}): {errors[0] if errors else done.stderr.strip()}",
        hint="a mirror that carries source packages, or -e rocksdb_source=FOLDER",
        code="source-unreachable",
    )
