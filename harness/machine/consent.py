"""Consent to destroy data of others: the identity of a device, and a digest of its contents.

The digest covers the contents that the user saw, and the number of earlier wipes by consent. So a
consent permits one wipe of these contents, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.errors import UsageError
from harness.store import checksums

_DIGITS = 8
_DIGEST = re.compile(rf"[0-9a-f]{{{_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class Consent:
    """``IDENTITY@DIGEST``: the contents of this device may be destroyed once."""

    identity: str
    digest: str

    def __str__(self) -> str:
        """Return the text to type."""
        return f"{self.identity}@{self.digest}"


def parse(text: str) -> tuple[Consent, ...]:
    """Return the consents of a comma-separated list.

    Raises:
        UsageError: a part is not ``IDENTITY@DIGEST``.
    """
    consents = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        identity, _, digits = part.rpartition("@")
        if not identity or not _DIGEST.fullmatch(digits):
            raise UsageError(
                f"erase={part} is not IDENTITY@DIGEST",
                hint="the refusal and `zonelab inspect` print the complete text, with the digest",
                code="consent-form",
            )
        consents.append(Consent(identity, digits))
    return tuple(consents)


def digest_of(*seen: str | int | Sequence[str], wipes: int) -> str:
    """Return the digest of a device's contents after a number of wipes by consent."""
    text = json.dumps([wipes, *seen])
    return checksums.of_text(text)[:_DIGITS]


def notices(
    given: Collection[Consent], needed: Collection[Consent], identities: Collection[str]
) -> list[str]:
    """Return a line about each given consent that had no effect on the command's devices.

    ``needed`` are the consents that permitted a wipe, or that the guard refused.
    """
    lines = []
    for consent in given:
        if consent.identity not in identities:
            devices = ", ".join(sorted(identities)) or "none"
            lines.append(f"erase={consent} names no device of this command ({devices})")
        elif consent not in needed:
            lines.append(f"erase={consent} was not needed: no data of others is destroyed there")
    return lines
