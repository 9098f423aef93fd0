"""Fetch a source package of this host's distribution without changing the host's apt.

Few hosts have ``deb-src`` lines. The host's own sources are converted to ``deb-src`` lines, which
are used with a separate apt state beside the source.
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
    """Turn the entries of an apt sources file into entries for source packages.

    ``name`` decides the format: ``*.sources`` is deb822, other files have one line per entry.
    """
    if name.endswith(".sources"):
        return _TYPES.sub("Types: deb-src", text)
    lines = dict.fromkeys(f"deb-src{entry.rstrip()}\n" for entry in _DEB_LINE.findall(text))
    return "".join(lines)


def host_sources() -> dict[str, str]:
    """Return the host's apt sources as entries for source packages: file name → text.

    Raises:
        HostError: apt is not installed.
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
        HostError: the package is not installed.
    """
    argv = ["dpkg-query", "--show", "--showformat", "${source:Version} ${db:Status-Status}"]
    done = proc.run([*argv, package], timeout=_TIMEOUT_SECONDS, check=False)
    version, _, state = done.stdout.partition(" ")
    if not done.ok or state != "installed":
        raise HostError(
            f"{package} is not installed, so the version of its source is unknown",
            hint=f"apt-get install {package}, or name a source tree: -e rocksdb_source=FOLDER",
            code="program-missing",
        )
    return version


def download(package: str, into: Path, sources: Mapping[str, str]) -> list[Path]:
    """Download a source package (``name`` or ``name=version``) into a folder; return its files.

    Raises:
        HostError: apt is not installed.
        ToolFailed: the archive cannot be reached or lacks the package.
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
        # by default apt only warns about an index it cannot fetch, and uses an older one
        "APT::Update::Error-Mode": "any",
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    try:
        _apt([*apt, "update"], into)
        _apt([*apt, "source", "--only-source", "--download-only", package], into)
    finally:
        shutil.rmtree(state)
    return sorted(file for file in into.iterdir() if file.is_file())


def fetch(package: str, version: str, tree: Path) -> None:
    """Fetch a source package and unpack it as ``tree``, with the distribution's changes applied.

    Raises:
        HostError: a program is missing.
        ToolFailed: the package cannot be fetched or unpacked.
    """
    work = tree.with_name(f".{tree.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        files = download(f"{package}={version}", work, host_sources())
        description = next(file for file in files if file.suffix == ".dsc")
        # apt has checked every file against the archive's signature. dpkg-source would need the
        # uploader's key, which hosts lack.
        unpack = ["dpkg-source", "--no-check", "--extract", str(description), str(work / "tree")]
        proc.run(unpack, timeout=_TIMEOUT_SECONDS)
        (work / "tree").rename(tree)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _apt(argv: list[str], folder: Path) -> None:
    """Run apt; report the first of its errors."""
    done = proc.run(argv, timeout=_APT_TIMEOUT_SECONDS, cwd=folder, check=False)
    if done.ok:
        return
    errors = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
    raise ToolFailed(
        f"apt-get failed (exit {done.exit_code}): {errors[0] if errors else done.stderr.strip()}",
        hint="use a mirror with source packages, or name a source tree: -e rocksdb_source=FOLDER",
        code="source-unreachable",
    )
