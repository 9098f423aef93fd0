"""``docs/rules.md``: every rule, generated from the registry (``make docs``)."""

from __future__ import annotations

from harness.rules.registry import RULES

COLUMNS = ("issue", "severity", "fires when", "because", "rule")
_HEAD = """\
# Validity rules

<!-- Generated from harness/rules/registry.py by `make docs`. -->

What is looked at when a run has ended. An `error` makes an otherwise good run `invalid`, and it
enters no comparison; a `warning` stands in the notes of each comparison of that run; an `info` is
in the report. What was not observed fires nothing: it is null in the result.

Two things are judged where several runs are seen: whether the state was steady, and whether what is
compared differs in more than the contrasted factor ([methods.md](methods.md)).

"""


def records() -> list[dict[str, str]]:
    """Return one record per issue that a rule can raise, in the rules' order."""
    rows = [
        (code.name, " or ".join(code.severities), code.fires, code.why, _name(rule))
        for rule, codes in RULES.items()
        for code in codes
    ]
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def text() -> str:
    """Return the page."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [(f"`{one}`", *rest, f"`{rule}`") for one, *rest, rule in map(_values, records())]
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _values(record: dict[str, str]) -> tuple[str, ...]:
    return tuple(record[column] for column in COLUMNS)


def _name(rule: object) -> str:
    return f"{getattr(rule, '__module__', '').rpartition('.')[2]}.{getattr(rule, '__name__', '')}"
