"""Measured points of drives: one CSV file each, in ``analysis/references/points`` or a user's.

A row is a point of a curve: ``y`` is the statistic ``y_name`` at ``x``, in ``unit``. A model may
differ from it by ``tolerance``. ``source`` names the data set.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError
from harness.plan.load import nearest

FOLDER = Path(__file__).parents[1] / "references" / "points"
COLUMNS = ("curve", "x_name", "x", "y_name", "y", "unit", "tolerance", "source")
# Units of each statistic, and the factor to the first unit of its row.
UNITS: Mapping[str, Mapping[str, float]] = {
    "mean": {"us": 1, "ms": 1e3},
    "p50": {"us": 1, "ms": 1e3},
    "p95": {"us": 1, "ms": 1e3},
    "p99": {"us": 1, "ms": 1e3},
    "p99.9": {"us": 1, "ms": 1e3},
    "p99.99": {"us": 1, "ms": 1e3},
    "kiops": {"KIOPS": 1},
    "bw": {"MiB/s": 1},
    "rate": {"op/s": 1},
    "dlwa": {"-": 1},
}
# Words for points without a tolerance, which are printed but not judged.
UNJUDGED = ("info", "stretch")
# The tolerance of values from a closed formula, which have four digits.
_EXACT = 0.0005
_US_PER_MS = 1000
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%", re.ASCII)


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A measured point. ``tolerance`` is a share of ``y``; None: the point is not judged."""

    curve: str
    x: float
    statistic: str
    y: float
    unit: str
    tolerance: float | None
    source: str

    @property
    def value(self) -> float:
        """``y`` in the statistic's own unit: latencies in µs."""
        return self.y * UNITS[self.statistic][self.unit]


def load(path: Path, curves: Collection[str] | None = None) -> tuple[MeasuredPoint, ...]:
    """Return the points of a file; ``curves`` are the known names, None allows all.

    Raises:
        ConfigError: the file cannot be read, or a column, curve, unit or number is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            f"{path} cannot be read: {reason}", hint="name a CSV file", code="points"
        ) from None
    return tuple(parse(text.splitlines(), str(path), curves))


def means(points: Iterable[MeasuredPoint], curve: str) -> tuple[tuple[float, float], ...]:
    """Return x and the mean in ms of each point of a curve of latencies."""
    own = (p for p in points if (p.curve, p.statistic) == (curve, "mean"))
    return tuple((p.x, p.value / _US_PER_MS) for p in own)


def parse(
    lines: Iterable[str], where: str, curves: Collection[str] | None = None
) -> Iterator[MeasuredPoint]:
    """Yield the points of CSV lines; ``where`` names the file in messages. Raises as ``load``."""
    reader = csv.DictReader(lines)
    _check_columns(reader.fieldnames or (), where)
    seen = set()
    for row in reader:
        at = f"{where}, line {reader.line_num}"
        point = _point(row, at, curves)
        key = (point.curve, point.x, point.statistic)
        if key in seen:
            raise _error(f"{at}: {' '.join(map(str, key))} is repeated", "keep one of the rows")
        seen.add(key)
        yield point
    if not seen:
        raise _error(f"{where} has no points", "add at least one row")


def _check_columns(found: Collection[str], where: str) -> None:
    for name in COLUMNS:
        if name not in found:
            raise _error(f"{where} has no column {name!r}", f"its columns: {', '.join(COLUMNS)}")
    for name in found:
        if name not in COLUMNS:
            raise _error(
                f"{where} has an unknown column {name!r}",
                f"a newer zonelab may have written it; known: {', '.join(COLUMNS)}",
            )


def _point(row: Mapping[str, str | None], at: str, curves: Collection[str] | None) -> MeasuredPoint:
    if None in row or None in row.values():
        raise _error(f"{at} has not {len(COLUMNS)} cells", 'put text with commas in "quotes"')
    cells = {name: (row[name] or "").strip() for name in COLUMNS}
    curve, statistic, unit = cells["curve"], cells["y_name"], cells["unit"]
    if curves is not None:
        _known(curve, curves, f"{at}: unknown curve")
    _known(statistic, UNITS, f"{at}: unknown statistic")
    _known(unit, UNITS[statistic], f"{at}: {statistic} has the unknown unit")
    y = _number(cells["y"], f"{at}: y")
    if y <= 0:
        raise _error(f"{at}: y is {cells['y']}", "a time, rate or ratio is above 0")
    return MeasuredPoint(
        curve=curve,
        x=_number(cells["x"], f"{at}: x"),
        statistic=statistic,
        y=y,
        unit=unit,
        tolerance=_tolerance(cells["tolerance"], at),
        source=cells["source"],
    )


def _known(name: str, known: Collection[str], what: str) -> None:
    if name not in known:
        raise _error(f"{what} {name!r}", nearest(name, known))


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _error(f"{what} is {text!r}", "write a number such as 12.5")
    return number


def _tolerance(text: str, at: str) -> float | None:
    if text in UNJUDGED:
        return None
    if text == "exact":
        return _EXACT
    match = _PERCENT.fullmatch(text)
    if match is None or float(match[1]) == 0:
        known = f"a share such as 5%, exact, {' or '.join(UNJUDGED)}"
        raise _error(f"{at}: tolerance is {text!r}", f"write {known}")
    return float(match[1]) / 100


def _error(message: str, hint: str) -> ConfigError:
    return ConfigError(message, hint=hint, code="points")
