"""docs/troubleshooting.md: every refusal of zonelab and its cure, generated from the code.

``python -m harness.docs.refusals`` prints the page; `make docs` writes it and a test holds it to
the code. Messages and hints are read from the source, where they stand beside what raises them, so
the page has each of them, in the words that people see, and none that is gone.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Who refuses → in which files; the first match decides. What is in none of them is no refusal to
# a user: faults of programs that ran, damaged files, zonelab's own tools.
_GUARD_FILES = ("guard", "contents", "in_use", "claim")
_GUARD = (*(f"machine/{name}.py" for name in _GUARD_FILES), "observe/")
_CHAPTERS = (
    ("The device", "exit 3, nothing was written", _GUARD),
    ("The drive's namespaces", "exit 3, or what firmware said", ("drive/",)),
    ("The host", "exit 2", ("run/", "machine/")),
    ("Integration levels", "the level is skipped, the others run", ("levels/",)),
    ("Study, workload and plan", "exit 2, before anything is written", ("plan/", "cli/plan.py")),
    ("Rigs", "exit 2", ("rig/",)),
)
_RAISED = frozenset({"GuardRefused", "HostError", "ConfigError", "UsageError"})
_GAP = "…"

# For what says no cure itself, because there is one sentence for it only.
_CURES = {
    "root": "name another device: this one has the running system",
    "read-only": "`blockdev --setrw` it if that was meant, or name another one",
    "scheduler-lost": "stop what else sets schedulers on this host (udev rules, tuned)",
    "tracing-missing": "`tracing: off` in the study, or a kernel with the probes (docs/runner.md)",
    "kernel-target": "load the module, or boot a kernel that has it",
    "bad-option": "give `finish_occupancy_pct` or `finish_remaining_pct`, one of them, 0 to 100",
    "kernel": "the inspection is damaged: inspect again",
    "inspection": "name each host once",
}
# The same for messages that share a code with others.
_BY_WORDS = {
    "rigs need an x86-64 host": "run it on an x86-64 machine",
    "QEMU does not answer": "`zonelab rig down`, then `up`; docs/rigs.md says where its log is",
    "cannot start": "what is behind `--` must be a program on this host",
    "no study named": "`zonelab plan --list` names them",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is said, `…` for what differs each time, and what helps."""

    file: str
    code: str
    message: str
    hint: str

    @property
    def cure(self) -> str:
        """The hint, or the sentence kept here; empty when there is neither."""
        words = (cure for start, cure in _BY_WORDS.items() if self.message.startswith(start))
        return self.hint or next(words, "") or _CURES.get(self.code, "")


def collect(root: Path = ROOT) -> list[Refusal]:
    """Return every refusal in the source, by file and place."""
    found = []
    for path in sorted(root.rglob("*.py")):
        file = str(path.relative_to(root))
        if chapter_of(file):
            found += list(_of_module(ast.parse(path.read_text()), file))
    return found


def chapter_of(file: str) -> str:
    """Return the title of the chapter a file's refusals belong to, empty for none."""
    return next((title for title, _, parts in _CHAPTERS if file.startswith(parts)), "")


def page(refusals: Iterable[Refusal]) -> str:
    """Return the whole page as Markdown."""
    lines = [
        "# Troubleshooting",
        "",
        "<!-- Generated from the messages in harness/ by `make docs`. -->",
        "",
        "What zonelab refuses, in its own words, and what helps; `…` stands for a name or number.",
        "Where the cure is `…`, the message's own hint names what there is. `code` is what results",
        "and `--format json` call it. Issues of runs that ended are in [rules.md](rules.md).",
    ]
    rows = tuple(refusals)
    for title, ends, _ in _CHAPTERS:
        own = sorted({(r.code, r.message, r.cure) for r in rows if chapter_of(r.file) == title})
        if own:
            lines += [
                "",
                f"## {title}",
                "",
                f"({ends})",
                "",
                "| code | says | cure |",
                "|---|---|---|",
            ]
            lines += [f"| `{code}` | {_cell(says)} | {_cell(cure)} |" for code, says, cure in own]
    return "\n".join(lines) + "\n"


def _of_module(tree: ast.Module, file: str) -> Iterator[Refusal]:
    """Yield a module's refusals; names are looked up among the literals of the same function."""
    texts = _literals(tree.body)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            inner = texts | _literals(function.body)
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and (one := _refusal(node, inner, file)):
                    yield one


def _refusal(call: ast.Call, texts: dict[str, str], file: str) -> Refusal | None:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    more = {word.arg: _text(word.value, texts) for word in call.keywords}
    given = [_text(value, texts) for value in call.args]
    if name == "Reason" and len(given) + len(more) > 1:
        code, message, hint = (
            *given,
            *(more.get(k, "") for k in ("code", "message", "hint")[len(given) :]),
        )
    elif name in _RAISED and given:
        message, hint = given[0], more.get("hint", "")
        code = more.get("code") or _DEFAULT[name]
    else:
        return None
    # Handed on from elsewhere: it is found where it comes from.
    if not message.strip(f"{_GAP} :;") or not code.strip(_GAP):
        return None
    return Refusal(file, code, message, hint)


_DEFAULT = {
    "GuardRefused": "guard-refused",
    "HostError": "host",
    "ConfigError": "config",
    "UsageError": "usage",
}


def _literals(body: Iterable[ast.stmt]) -> dict[str, str]:
    """Return names that are given a text, among these statements and those inside them."""
    found: dict[str, str] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                text = _text(node.value, found)
                if text != _GAP:
                    found.setdefault(node.targets[0].id, text)
    return found


def _text(node: ast.expr, texts: Mapping[str, str]) -> str:
    """Return a literal with a gap for whatever is computed; ``texts`` are those of names."""
    found = _GAP
    match node:
        case ast.Constant(value=str(text)):
            found = text
        case ast.JoinedStr(values=parts):
            found = "".join(_text(part, {}) for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            found = _text(left, texts) + _text(right, texts)
        case ast.IfExp(body=one, orelse=other):
            found = " / ".join(text for text in (_text(one, texts), _text(other, texts)) if text)
        case ast.BoolOp(values=[*_, last]):
            found = _text(last, texts)
        case ast.Name(id=name):
            found = texts.get(name, _GAP)
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(page(collect()))
