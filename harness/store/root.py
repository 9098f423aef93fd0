"""The root hash of a campaign: one number that depends on every byte of plan, hosts and runs.

It is the SHA-256 of a list of checksums in the form of ``sha256sum``, sorted by name: plan.json,
campaign.json, each host.json, and the SHA256SUMS of each run directory, which covers its files.
"""

from __future__ import annotations

from harness.store import checksums, rundir
from harness.store.campaign import CampaignPaths

PREFIX = "sha256:"
# Detached signature of the root hash, as ssh-keygen writes it.
SIGNATURE = "root.sig"


def listing(paths: CampaignPaths) -> str:
    """Return the list that is hashed; files that do not exist are not in it."""
    files = [paths.plan, paths.record]
    for host in paths.hosts():
        files.append(paths.host(host) / "host.json")
        files += [folder / checksums.NAME for folder in rundir.completed(paths.runs(host))]
    names = {file.relative_to(paths.root).as_posix(): file for file in files if file.is_file()}
    return "".join(f"{checksums.digest(names[name])}  {name}\n" for name in sorted(names))


def root_hash(paths: CampaignPaths) -> str:
    """Return ``sha256:<hexadecimal>``."""
    return PREFIX + checksums.of_text(listing(paths))


def message(root: str) -> str:
    """Return the text that is signed."""
    return f"{root}\n"
