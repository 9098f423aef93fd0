"""The words of a verdict."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The verdict of a row. Only claims are better or worse; others are lower or higher."""

    BETTER = "better"
    WORSE = "worse"
    LOWER = "lower"
    HIGHER = "higher"
    NO_DIFFERENCE = "no difference shown"
    NOT_A_RESULT = "not a result"
    HOST_BOUND = "host-bound"
    TIMING_DEPENDENT = "timing-dependent"
    NOT_COMPARABLE = "not comparable"
    NOTHING = "nothing to compare"
    TOO_FEW = "too few"
    DESCRIPTIVE = "descriptive"

    @property
    def differs(self) -> bool:
        """Whether a difference is shown."""
        return self in (Verdict.BETTER, Verdict.WORSE, Verdict.LOWER, Verdict.HIGHER)

    @property
    def is_judged(self) -> bool:
        """Whether the row was tested: a difference is shown, or not shown."""
        return self.differs or self is Verdict.NO_DIFFERENCE

    @property
    def is_silent(self) -> bool:
        """Whether the row has no meaningful ratio."""
        return not self.is_judged and self is not Verdict.DESCRIPTIVE
