"""What values the options of levels take, so that a plan refuses what only mkfs or mount would."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import ConfigError
from harness.store.spec import Scalar

REMAINING, OCCUPANCY = "finish_remaining_pct", "finish_occupancy_pct"
_WHOLE = 100  # %
# ``on`` and ``off`` are words in our YAML, and words are true: never ask a switch with ``if``.
_SWITCH: dict[Scalar, bool] = {"on": True, "off": False}


class Option(ABC):
    """What values an option takes."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """What a value has to be, for people."""

    @abstractmethod
    def takes(self, value: Scalar) -> bool:
        """Whether ``value`` is one."""


@dataclass(frozen=True, slots=True)
class Whole(Option):
    """A whole number from ``least`` to ``most`` (None: as large as wanted)."""

    least: int = 0
    most: int | None = None

    @property
    def expected(self) -> str:
        """Its limits."""
        upto = f"to {self.most}" if self.most is not None else "or more"
        return f"a whole number, {self.least} {upto}"

    def takes(self, value: Scalar) -> bool:
        """No booleans, which Python counts among the numbers."""
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return value >= self.least and (self.most is None or value <= self.most)


@dataclass(frozen=True, slots=True)
class OneOf(Option):
    """One of some words, or numbers."""

    choices: tuple[Scalar, ...]

    @property
    def expected(self) -> str:
        """The choices."""
        return f"one of {', '.join(map(str, self.choices))}"

    def takes(self, value: Scalar) -> bool:
        """Exactly as they are written."""
        return any(type(value) is type(one) and value == one for one in self.choices)


@dataclass(frozen=True, slots=True)
class Switch(Option):
    """``on`` or ``off``, ``true`` or ``false``; :func:`is_on` reads it."""

    expected: str = "on or off"

    def takes(self, value: Scalar) -> bool:
        """Neither 0 nor 1."""
        return isinstance(value, bool) or (isinstance(value, str) and value in _SWITCH)


@dataclass(frozen=True, slots=True)
class Text(Option):
    """What a program of the level is given as it is, such as mount's ``-o``."""

    expected: str = "text"

    def takes(self, value: Scalar) -> bool:
        """A number, too: ``O: 64bit`` and ``m: 1`` are both told to a program in words."""
        return not isinstance(value, bool)


PERCENT = Whole(0, _WHOLE)
FINISH: Mapping[str, Option] = {OCCUPANCY: PERCENT, REMAINING: PERCENT}


def is_on(value: Scalar) -> bool:
    """Return what a switch says; ``value`` was checked."""
    return value if isinstance(value, bool) else _SWITCH[value]


def finish_remaining_pct(options: Mapping[str, Scalar]) -> int:
    """Return the share left (%) below which a zone is finished, told in either convention; else 0.

    ``options`` were checked.
    """
    if OCCUPANCY in options:
        return _WHOLE - int(options[OCCUPANCY])
    return int(options.get(REMAINING, 0))


def check(level: str, known: Mapping[str, Option], options: Mapping[str, Scalar]) -> None:
    """Refuse options of ``level`` that it does not know, or whose values it does not take.

    Raises:
        ConfigError: there is one; the hint says what is known, or accepted.
    """
    for name, value in options.items():
        option = known.get(name)
        if option is None:
            raise ConfigError(
                f"level {level} has no option {name!r}",
                hint=f"it knows: {', '.join(known) or 'none'}",
                code="unknown-level-option",
            )
        if not option.takes(value):
            raise ConfigError(
                f"level {level}: {name} is {value!r}", hint=option.expected, code="bad-option"
            )
    if REMAINING in options and OCCUPANCY in options:
        raise ConfigError(
            f"level {level}: {REMAINING} and {OCCUPANCY} say the same",
            hint="give one of them",
            code="bad-option",
        )
