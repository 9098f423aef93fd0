"""What tells whose machine and drive a campaign is of, and hashes in its place.

Host names and the identifiers of drives are found in the records and in RocksDB's LOG, which names
the host, too; then every file is searched for them, whatever wrote it. A hash hides a name from
readers; who guesses a name can still confirm it, because equal names have equal hashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.store import packed
from harness.store.campaign import CampaignPaths, load_plan
from harness.store.files import read_json

# Keys of records whose values name one machine or drive in the world.
_KEYS = frozenset({"serial", "eui64", "nguid", "uuid", "boot_id", "machine_id"})
_LOG_HOST = re.compile(rb"Host name \(Env\):\s+(\S+)")
# In a kernel's command line: identifiers of machines and file systems.
_IN_CMDLINE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\b[0-9a-f]{32}\b")
_HEX = re.compile(r"[0-9A-Fa-f-]+")
# Shorter ones are replaced only where they stand alone: as part of a word they are no identity.
# So are names of hosts. Neither is a field of a record: a host may be called "rig".
_SHORT = 6
_ALONE = rb"(?<![0-9A-Za-z])%s(?![0-9A-Za-z])"
_NO_FIELD = rb'(?![^"\n]*"\s*:)'


class Masks:
    """Identities and what stands in their place. Longer ones are replaced first."""

    def __init__(self, hosts: Iterable[str], serials: Iterable[str]) -> None:
        names = {name: f"host-{_hash(name)[:8]}" for name in hosts if name}
        for serial in filter(None, serials):
            names.setdefault(serial, _alike(serial))
            for form in _forms(serial):
                names.setdefault(form, _alike(form))
        self._masks: Mapping[bytes, bytes] = {
            name.lower().encode(): mask.encode() for name, mask in names.items()
        }
        alone = {name.lower().encode() for name in hosts} | {
            name for name in self._masks if len(name) < _SHORT
        }
        ordered = sorted(self._masks, key=len, reverse=True)
        self._text = _pattern(ordered, alone, b"")
        self._records = _pattern(ordered, alone, _NO_FIELD)

    def bytes(self, content: bytes, *, record: bool = False) -> bytes:
        """Return a content with every identity replaced; ``record``: it is JSON."""
        pattern = self._records if record else self._text
        return pattern.sub(lambda found: self._masks[found[0].lower()], content)

    def name(self, name: str) -> str:
        """Return a file's or folder's name with every identity replaced."""
        return self.bytes(name.encode()).decode()


def _pattern(names: Sequence[bytes], alone: Collection[bytes], behind: bytes) -> re.Pattern[bytes]:
    parts = [
        (_ALONE % re.escape(one)) + behind if one in alone else re.escape(one) for one in names
    ]
    return re.compile(b"|".join(parts) or rb"(?!)", re.IGNORECASE)


def of_campaign(paths: CampaignPaths) -> Masks:
    """Find the identities of a campaign.

    Raises:
        ConfigError: the plan or a record is missing or damaged.
    """
    plan = load_plan(paths.plan)
    hosts = {host.host for host in plan.hosts} | {host.inspection.host.name for host in plan.hosts}
    hosts |= set(paths.hosts())
    serials: set[str] = set()
    for file in sorted(paths.root.rglob("*")):
        name = file.name.removesuffix(".xz").removesuffix(".gz")
        if file.suffix == ".json" and paths.report not in file.parents:
            serials |= set(_of_record(read_json(file)))
        elif name.endswith(".LOG"):
            log = packed.text(file.with_name(name)).encode()
            hosts |= {found.decode(errors="replace") for found in _LOG_HOST.findall(log)}
    return Masks(hosts, serials)


def _of_record(record: Any) -> Iterator[str]:
    if isinstance(record, dict):
        for key, value in record.items():
            if key in _KEYS and isinstance(value, str):
                yield value
            elif key == "cmdline" and isinstance(value, str):
                yield from _IN_CMDLINE.findall(value)
            else:
                yield from _of_record(value)
    elif isinstance(record, list):
        for value in record:
            yield from _of_record(value)


def _forms(identity: str) -> Iterator[str]:
    """Return how else programs write it: without dashes, and as sysfs does, byte by byte."""
    plain = identity.replace("-", "")
    if len(plain) in (16, 32) and _HEX.fullmatch(plain):
        yield plain
        yield " ".join(plain[i : i + 2] for i in range(0, len(plain), 2))


def _alike(identity: str) -> str:
    """Return a hash that looks like the identity: hexadecimal, as long, with the same dashes.

    All forms of one identity have the same digits. Zeros alone mean that there is none.
    """
    if not identity.strip("0- "):
        return identity
    digits = iter(_hash(identity.replace("-", "").replace(" ", "")) * 4)
    return "".join(char if char in "- ." else next(digits) for char in identity)


def _hash(name: str) -> str:
    return hashlib.sha256(b"zonelab identity " + name.lower().encode()).hexdigest()
