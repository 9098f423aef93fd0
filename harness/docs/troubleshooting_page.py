"""docs/troubleshooting.md: every refusal of zonelab and its cure, generated from the code.

``python -m harness.docs.troubleshooting_page`` prints the page, `make docs` writes it, and a test
compares it with the code. Messages and hints are read from the calls that raise them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError, ExitCode, GuardRefused, HostError, UsageError

ROOT = Path(__file__).parents[1]

# Title, consequence (may be empty) and files of each chapter; the first match decides. Errors in
# other files are no refusals: failures of programs, damaged files, zonelab's own tools.
_GUARD_FILES = ("guard", "device_contents", "in_use", "claim", "device_facts")
_GUARD = (*(f"machine/{name}.py" for name in _GUARD_FILES), "observe/")
_CHAPTERS = (
    ("The device", "The device was left alone.", _GUARD),
    ("The drive", "", ("drive/", "cli/layout.py")),
    ("The host", "", ("run/", "machine/", "store/adopted.py")),
    ("Integration levels", "With `-`, the level is skipped, the others run.", ("levels/",)),
    (
        "Study, workload and plan",
        "Nothing is written.",
        ("plan/", "workloads/", "cli/plan.py", "cli/power.py"),
    ),
    ("Rigs", "", ("rig/",)),
)
# Class of errors → their code, if the call names none, and their exit code.
_KINDS = {kind.__name__: kind for kind in (GuardRefused, HostError, ConfigError, UsageError)}
# A reason of the guard ends the command; other reasons are stored, for a level or for a run.
_STORED = "-"
_GAP = "…"
# Functions that make a hint from the known names.
_LISTING = ("nearest", "_inner")

# Cures of codes whose messages have no hint.
_CURES = {
    "root": "name another device",
    "read-only": "`blockdev --setrw` makes it writable; or name another one",
    "scheduler-lost": "stop other programs that set schedulers on this host (udev rules, tuned)",
    "tracing-missing": "`tracing: off` in the study, or a kernel with the probes (docs/runner.md)",
    "kernel-target": "load the module, or boot a kernel that has it",
    "bad-option": "give `finish_occupancy_pct` or `finish_remaining_pct`, one of them, 0 to 100",
    "kernel": "the inspection is damaged: inspect again",
    "inspection": "name each host once",
    "config": "change this field in the workload's file (docs/studies.md)",
}
# Cures of messages that share their code with others, by the start of the message.
_CURES_BY_START = {
    "rigs need an x86-64 host": "run it on an x86-64 machine",
    "QEMU does not answer": "`zonelab rig down`, then `up`; docs/rigs.md names its log",
    "cannot start": "the command after `--` must be a program on this host",
    "no study was given": "`zonelab plan --list` names them",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message and its hint. `…` stands for the parts that vary."""

    file: str
    code: str
    message: str
    hint: str
    ends: str  # exit code of the command; `-` if it goes on

    @property
    def cure(self) -> str:
        """The hint, or the cure in this file; empty when there is neither."""
        cures = (cure for start, cure in _CURES_BY_START.items() if self.message.startswith(start))
        return self.hint or next(cures, "") or _CURES.get(self.code, "")


def collect(root: Path = ROOT) -> list[Refusal]:
    """Return every refusal in the source, by file and line."""
    refusals = []
    for path in sorted(root.rglob("*.py")):
        file = str(path.relative_to(root))
        if chapter_of(file):
            refusals += list(_of_module(ast.parse(path.read_text()), file))
    return refusals


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
        "Each message with which zonelab refuses a command, and its cure. `…` stands for a name or",
        "number. Where the cure is `…`, the hint of the message lists the choices. Results and",
        "`--format json` contain the code. Issues of completed runs are in [rules.md](rules.md).",
        "`exit` is the command's exit code. With `-`, a result of a level or run has the code.",
    ]
    rows = tuple(refusals)
    for title, consequence, _ in _CHAPTERS:
        own = sorted(
            {(r.code, r.message, r.cure, r.ends) for r in rows if chapter_of(r.file) == title}
        )
        if own:
            lines += [
                "",
                f"## {title}",
                "",
                *([consequence, ""] if consequence else []),
                "| code | exit | message | cure |",
                "|---|---|---|---|",
            ]
            lines += [
                f"| `{code}` | {ends} | {_cell(message)} | {_cell(cure)} |"
                for code, message, cure, ends in own
            ]
    return "\n".join(lines) + "\n"


def _of_module(tree: ast.Module, file: str) -> Iterator[Refusal]:
    """Yield the refusals of a module. Names and calls stand for texts of the module."""
    texts = _returned(tree) | _literals(tree.body)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            inner = texts | _literals(function.body)
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and (refusal := _refusal(node, inner, file)):
                    yield refusal


def _refusal(call: ast.Call, texts: dict[str, str], file: str) -> Refusal | None:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    keywords = {word.arg: _text(word.value, texts) for word in call.keywords}
    arguments = [_text(value, texts) for value in call.args]
    if name == "Reason" and len(arguments) + len(keywords) > 1:
        code, message, hint = (
            *arguments,
            *(keywords.get(k, "") for k in ("code", "message", "hint")[len(arguments) :]),
        )
        ends = str(int(ExitCode.REFUSED)) if file.startswith(_GUARD) else _STORED
    elif name in _KINDS and arguments:
        message, hint = arguments[0], keywords.get("hint", "")
        code = keywords.get("code") or _KINDS[name].default_code
        ends = str(int(_KINDS[name].exit_code))
    else:
        return None
    # The call passes an error on; the original call is listed.
    if not message.strip(f"{_GAP} :;") or not code.strip(_GAP):
        return None
    return Refusal(file, code, message, hint, ends)


def _returned(tree: ast.Module) -> dict[str, str]:
    """Return by ``name()`` the texts that functions of a module return at their end."""
    return {
        f"{function.name}()": text
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and isinstance(last := function.body[-1], ast.Return)
        and last.value is not None
        and (text := _text(last.value, {})) != _GAP
    }


def _literals(body: Iterable[ast.stmt]) -> dict[str, str]:
    """Return the names with an assigned text in these statements, at any depth."""
    texts: dict[str, str] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                text = _text(node.value, texts)
                if text != _GAP:
                    texts.setdefault(node.targets[0].id, text)
    return texts


def _text(node: ast.expr, texts: Mapping[str, str]) -> str:
    """Return a literal, with a gap for each computed part. ``texts`` maps names to texts."""
    result = _GAP
    match node:
        case ast.Constant(value=str(text)):
            result = text
        case ast.JoinedStr(values=parts):
            # Variables are gaps, also those that a literal initialises; constants are texts.
            constants = {name: text for name, text in texts.items() if name.isupper()}
            result = "".join(_text(part, constants) for part in parts)
        case ast.FormattedValue(value=ast.Name() as name, conversion=-1, format_spec=None):
            result = _text(name, texts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            result = _text(left, texts) + _text(right, texts)
        case ast.IfExp(body=body, orelse=other):
            choices = dict.fromkeys((_text(body, texts), _text(other, texts)))
            result = " / ".join(text for text in choices if text)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _LISTING:
            result = "the hint lists the names"
        case ast.BoolOp(values=[*_, last]):
            result = _text(last, texts)
        case ast.Name(id=name):
            result = texts.get(name, _GAP)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            result = texts.get(f"{name}()", _GAP)
    return result


def _cell(text: str) -> str:
    one_gap = re.sub(f"{_GAP}+", _GAP, " ".join(text.split()))
    return one_gap.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(page(collect()))
