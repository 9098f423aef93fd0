"""Values that the options of levels accept. The plan refuses bad values before mkfs or mount do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import ConfigError
from harness.store.spec import Scalar

REMAINING, OCCUPANCY = "finish_remaining_pct", "finish_occupancy_pct"
_ALL = 100  # %
# ``on`` and ``off`` are strings in our YAML, and both are true: never test a switch with ``if``.
_SWITCH: dict[Scalar, bool] = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from ``least`` to ``most`` (None: no upper limit)."""

    least: int = 0
    most: int | None = None

    @property
    def expected(self) -> str:
        """Its limits."""
        upto = f"to {self.most}" if self.most is not None else "or more"
        return f"a whole number, {self.least} {upto}"

    def takes(self, value: Scalar) -> bool:
        """Accept integers within the limits, and no booleans (integers in Python)."""
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return value >= self.least and (self.most is None or value <= self.most)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several words or numbers."""

    choices: tuple[Scalar, ...]

    @property
    def expected(self) -> str:
        """The choices."""
        return f"one of {', '.join(map(str, self.choices))}"

    def takes(self, value: Scalar) -> bool:
        """Accept values of the same type only."""
        return any(type(value) is type(choice) and value == choice for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Switch:
    """``on`` or ``off``, ``true`` or ``false``; :func:`is_on` reads it."""

    expected: str = "on or off"

    def takes(self, value: Scalar) -> bool:
        """Accept booleans and the two words, but neither 0 nor 1."""
        return isinstance(value, bool) or (isinstance(value, str) and value in _SWITCH)


@dataclass(frozen=True, slots=True)
class Text:
    """Text that a program of the level gets unchanged, such as mount's ``-o``."""

    expected: str = "text"

    def takes(self, value: Scalar) -> bool:
        """Accept numbers as well: YAML reads ``m: 1`` as one."""
        return not isinstance(value, bool)


# The values that an option accepts: ``expected`` describes them, ``takes`` checks one.
Option = Whole | OneOf | Switch | Text

PERCENT = Whole(0, _ALL)
FINISH: Mapping[str, Option] = {OCCUPANCY: PERCENT, REMAINING: PERCENT}


def is_on(value: Scalar) -> bool:
    """Return the state of a switch; ``value`` was checked."""
    return value if isinstance(value, bool) else _SWITCH[value]


def finish_remaining_pct(options: Mapping[str, Scalar]) -> int:
    """Return the finish threshold as the share left in a zone (%), 0 if it is not set.

    ``options`` were checked.
    """
    if OCCUPANCY in options:
        return _ALL - int(options[OCCUPANCY])
    return int(options.get(REMAINING, 0))


def check(level: str, known: Mapping[str, Option], options: Mapping[str, Scalar]) -> None:
    """Refuse unknown options of a level, and bad values.

    Raises:
        ConfigError: the hint lists the known options or the accepted values.
    """
    for name, value in options.items():
        option = known.get(name)
        if option is None:
            raise ConfigError(
                f"level {level} has no option {name!r}",
                hint=f"it has: {', '.join(known) or 'none'}",
                code="unknown-level-option",
            )
        if not option.takes(value):
            raise ConfigError(
                f"level {level}: {name} is {value!r}", hint=option.expected, code="bad-option"
            )
    if REMAINING in options and OCCUPANCY in options:
        raise ConfigError(
            f"level {level}: {REMAINING} and {OCCUPANCY} exclude each other",
            hint="give one of them",
            code="bad-option",
        )
