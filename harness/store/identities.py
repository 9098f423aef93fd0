"""Replace the identities of hosts and drives in a campaign by hashes.

Records and RocksDB's LOG give the host names and drive identifiers. Every file is then searched for
them. Equal names have equal hashes, so a reader who guesses a name can confirm it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.store import packed
from harness.store.campaign import CampaignPaths, load_plan
from harness.store.files import read_json

# Keys of records whose values identify a machine or drive.
_KEYS = frozenset({"serial", "eui64", "nguid", "uuid", "boot_id", "machine_id"})
_LOG_HOST = re.compile(rb"Host name \(Env\):\s+(\S+)")
# Identifiers of machines and file systems in a kernel's command line.
_IN_CMDLINE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\b[0-9a-f]{32}\b")
_HEX = re.compile(r"[0-9A-Fa-f-]+")
# Shorter names and host names are replaced only as whole words, and never where they are the name
# of a JSON field: a host may be called "rig".
_SHORT = 6
_WHOLE_WORD = rb"(?<![0-9A-Za-z])%s(?![0-9A-Za-z])"
_NOT_A_FIELD = rb'(?![^"\n]*"\s*:)'


class Masks:
    """Replaces identities by hashes, longer identities first."""

    def __init__(self, hosts: Iterable[str], serials: Iterable[str]) -> None:
        names = {name: f"host-{_hash(name)[:8]}" for name in hosts if name}
        for serial in filter(None, serials):
            names.setdefault(serial, _same_form(serial))
            for spelling in _spellings(serial):
                names.setdefault(spelling, _same_form(spelling))
        self._masks: Mapping[bytes, bytes] = {
            name.lower().encode(): mask.encode() for name, mask in names.items()
        }
        whole_words = {name.lower().encode() for name in hosts} | {
            name for name in self._masks if len(name) < _SHORT
        }
        ordered = sorted(self._masks, key=len, reverse=True)
        self._text = _pattern(ordered, whole_words, b"")
        self._records = _pattern(ordered, whole_words, _NOT_A_FIELD)

    def bytes(self, content: bytes, *, record: bool = False) -> bytes:
        """Return content with every identity replaced; ``record`` means that it is JSON."""
        pattern = self._records if record else self._text
        return pattern.sub(lambda match: self._masks[match[0].lower()], content)

    def name(self, name: str) -> str:
        """Return the name of a file or folder with every identity replaced."""
        return self.bytes(name.encode()).decode()


def _pattern(
    names: Sequence[bytes], whole_words: Collection[bytes], condition: bytes
) -> re.Pattern[bytes]:
    """Return a pattern of all names; ``condition`` follows names that must be whole words."""
    parts = [
        (_WHOLE_WORD % re.escape(name)) + condition if name in whole_words else re.escape(name)
        for name in names
    ]
    return re.compile(b"|".join(parts) or rb"(?!)", re.IGNORECASE)


def of_campaign(paths: CampaignPaths) -> Masks:
    """Return masks for all identities in a campaign.

    Raises:
        ConfigError: the plan or a record is missing or damaged.
    """
    plan = load_plan(paths.plan)
    hosts = {host.host for host in plan.hosts} | {host.inspection.host.name for host in plan.hosts}
    hosts |= set(paths.hosts())
    serials: set[str] = set()
    for file in sorted(paths.root.rglob("*")):
        name = file.name.removesuffix(".xz")
        if file.suffix == ".json" and paths.report not in file.parents:
            serials |= set(_of_record(read_json(file)))
        elif name.endswith(".LOG"):
            log = packed.text(file.with_name(name)).encode()
            hosts |= {name.decode(errors="replace") for name in _LOG_HOST.findall(log)}
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


def _spellings(identity: str) -> Iterator[str]:
    """Return other spellings: without dashes, and byte by byte as in sysfs."""
    plain = identity.replace("-", "")
    if len(plain) in (16, 32) and _HEX.fullmatch(plain):
        yield plain
        yield " ".join(plain[i : i + 2] for i in range(0, len(plain), 2))


def _same_form(identity: str) -> str:
    """Return a hexadecimal hash with the length and the dashes of the identity.

    All spellings of one identity get the same digits. Zeros identify nothing and stay.
    """
    if not identity.strip("0- "):
        return identity
    digits = iter(_hash(identity.replace("-", "").replace(" ", "")) * 4)
    return "".join(char if char in "- ." else next(digits) for char in identity)


def _hash(name: str) -> str:
    return hashlib.sha256(b"zonelab identity " + name.lower().encode()).hexdigest()
