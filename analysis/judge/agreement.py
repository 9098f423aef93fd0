"""The words of a comparison with published results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum


class Relation(StrEnum):
    """How a value compares with the baseline's."""

    MORE = "more"
    LESS = "less"
    EQUAL = "equal"


class Agreement(StrEnum):
    """Whether a campaign agrees with a published result."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    NOT_SHOWN = "not shown"
    NOT_ASKED = "not asked"  # the campaign does not measure it


def tally(found: Iterable[Agreement]) -> str:
    """Return the number of each word, the most frequent first: ``8 agrees, 2 not shown``."""
    return ", ".join(f"{count} {one.value}" for one, count in Counter(found).most_common())
