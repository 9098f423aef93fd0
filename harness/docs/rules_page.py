"""``docs/rules.md``: every validity rule, generated from the rules (``make docs``)."""

from __future__ import annotations

from harness.rules import RULES
from harness.tables import markdown

COLUMNS = ("issue", "severity", "fires when", "because", "rule")
_HEAD = """\
# Validity rules

<!-- Generated from harness/rules/ by `make docs`. -->

zonelab checks these rules at the end of each run:

- An `error` makes the run `invalid`, or `failed` if a program crashed or did not end in time.
  Comparisons leave both out.
- A `warning` appears in the notes of each comparison of the run.
- An `info` appears in the report.

A rule does not fire on a value that was not observed; such a value is null in the result.

Two more checks need several runs: steady state, and differences beyond the contrasted factor
([methods.md](methods.md)).

"""


def records() -> list[dict[str, str]]:
    """Return one record per issue that a rule can raise, in the rules' order."""
    rows = [
        (issue.code, " or ".join(issue.severities), issue.fires, issue.why, rule.name)
        for rule in RULES
        for issue in rule.issues
    ]
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def text() -> str:
    """Return the page."""
    cells = (record.values() for record in records())
    rows = [(f"`{code}`", *rest, f"`{rule}`") for code, *rest, rule in cells]
    return f"{_HEAD}{markdown(COLUMNS, rows)}\n"
