"""Checks the root hash in a bundle's record, and its signature."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import HostError, ZonelabError
from harness.store import bundle
from harness.store.campaign import CampaignPaths
from harness.store.files import read_json
from harness.store.root import SIGNATURE, message, root_hash
from harness.tools import ssh_keygen


@dataclass(frozen=True, slots=True)
class SignedRoot:
    """The root hash, problems of record or signature, and the signer."""

    root: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def check(paths: CampaignPaths, signers: Path | None) -> SignedRoot:
    """Check the record of a bundle, and its signature if there is one.

    ``signers`` is a file of allowed signers; null: any key is accepted, and the result names it.
    """
    root = root_hash(paths)
    problems = _record(paths.root / bundle.RECORD, root)
    file = paths.root / SIGNATURE
    if not file.is_file():
        if signers is not None:
            problems.append(f"{SIGNATURE}: is missing, and --signers names allowed signers")
        return SignedRoot(root, tuple(problems))
    lines: list[str] = []
    try:
        lines.append(f"signed with {ssh_keygen.key_of(file, message(root))}")
        if signers is not None:
            lines.append(f"signed by {ssh_keygen.signer_of(file, message(root), signers)}")
    except HostError as error:
        return SignedRoot(root, tuple(problems), (f"{SIGNATURE}: {error.message}",))
    except ZonelabError:
        whose = "of an allowed signer for" if lines else "of"
        problems.append(f"{SIGNATURE}: is no signature {whose} the root hash {root}")
    return SignedRoot(root, tuple(problems), (), tuple(lines))


def _record(path: Path, root: str) -> list[str]:
    """Return a line if a bundle's record has another root hash."""
    if not path.is_file():
        return []
    try:
        record = read_json(path)
    except ZonelabError as error:
        return [error.message]
    stored = record.get("root") if isinstance(record, dict) else None
    if stored == root:
        return []
    return [f"{bundle.RECORD}: root: has {stored}, the files give {root}"]
