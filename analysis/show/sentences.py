"""The parts of generated sentences: their record, the names of metrics, lists and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.judge import stats, wording
from analysis.judge.rows import Row
from analysis.judge.stats import Method
from harness.metrics.catalogue import Better

_MOST = 4  # names in one sentence
_WORDS = {
    "wa_total": "media bytes per user byte",
    "wa_dev": "write amplification of the device",
    "wa_lsm": "write amplification of RocksDB",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A sentence; ``topic`` is its question, ``metric`` the proving row's metric or ''."""

    topic: str
    text: str
    metric: str = ""


def gain(row: Row) -> float:
    """Return the relative difference, positive where it favours the level."""
    change = stats.relative_change(row.estimate)
    return change if row.info.better is Better.HIGHER else -change


def by_gain(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, those that favour their level most first."""
    return sorted(rows, key=gain, reverse=True)


def intervals(rows: Sequence[Row], name: Callable[[Row], str] = wording.level) -> str:
    """Return the sentences on how sure these rows are, in their order."""
    parts = listed([f"{name(row)} {interval(row)}" for row in rows])
    word = "ratios" if all(row.estimate.is_ratio for row in rows) else "differences"
    return f"The 95 % intervals of these {word}: {parts}, {evidence(rows)}"


def interval(row: Row) -> str:
    """Return a row's interval in words, also if its values do not vary."""
    if row.estimate.method is Method.EXACT:
        return "does not vary"
    return wording.interval(row).replace(" .. ", " to ")


def evidence(rows: Sequence[Row]) -> str:
    """Return the number of runs behind these rows, and the differences without a verdict."""
    runs = sorted({row.estimate.n for row in rows})
    count = " or ".join(str(n) for n in runs)
    floors = dict.fromkeys(wording.share(floor) for floor in sorted({row.floor for row in rows}))
    return f"from {count} runs a side. Differences up to {' or '.join(floors)} get no verdict."


def listed(parts: Sequence[str], between: str = ", ") -> str:
    """Return the first parts, and how many are left out."""
    more = len(parts) - _MOST
    return between.join([*parts[:_MOST], *([f"{more} more"] if more > 0 else [])])


def in_words(metric: str) -> str:
    """Return a metric's key as words, for example ``write amplification in overwrite``."""
    phase, _, name = metric.rpartition(".")
    words = _WORDS.get(name, name.replace("_", " "))
    return words if phase in ("", "run") else f"{words} in {phase}"
