"""The commands behind ``make lint``, ``make docs``, ``make examples`` and ``make help``.

``help`` runs with the system's Python before there is a .venv, so nothing else is imported here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(".venv/bin")
SECTION = re.compile(r"^##@ (.*)$|^([a-z0-9-]+):.*?## (.*)$", re.MULTILINE)
# What a command prints goes into a file.
GENERATED = {
    "harness/zn540.py": [BIN / "python", "-m", "analysis.model.runner_constants"],
    "docs/rules.md": [BIN / "zonelab", "rules", "--format", "md"],
    "docs/troubleshooting.md": [BIN / "python", "-m", "harness.docs.troubleshooting_page"],
}
ANSIBLE = ["--offline", "--profile", "production", "-q", "site.yml", "ansible", "roles"]
CHECKS = [
    [BIN / "ruff", "format", "--check", "--quiet", "."],
    [BIN / "ruff", "check", "--quiet", "."],
    [BIN / "mypy"],
    ["env", "ANSIBLE_CONFIG=ansible/ansible.cfg", BIN / "ansible-lint", *ANSIBLE],
]
# Checks of files by pattern, where the program is installed.
OF_FILES = {
    ("shellcheck",): ["*.sh", ".ci/run"],
    ("clang-format", "--dry-run", "--Werror"): ["harness/native/*.cc", "harness/native/*.h"],
}


def output(command: list[str | Path]) -> str:
    """Return what a command prints."""
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def lint() -> int:
    """Run every check, also after one has failed; return 1 if one has."""
    commands: list[list[str | Path]] = [*CHECKS]
    for program, patterns in OF_FILES.items():
        files = output(["git", "ls-files", *patterns]).split()
        if shutil.which(program[0]) and files:
            commands.append([*program, *files])
    failed = [one for one in commands if subprocess.run(one, cwd=ROOT, check=False).returncode]
    for command in failed:
        print("lint: failed:", *command[:4], file=sys.stderr)
    if not failed:
        print("lint: clean")
    return int(bool(failed))


def docs() -> int:
    """Write the generated files; a file stays as it is where its command fails."""
    for name, command in GENERATED.items():
        (ROOT / name).write_text(output(command))
    return 0


def help_text(makefile: str) -> str:
    """Return the sections and targets of a makefile."""
    lines = (
        f"\n{title}" if title else f"  {target:<18} {text}"
        for title, target, text in SECTION.findall(makefile)
    )
    return "\n".join(lines)


def main(word: str, *arguments: str) -> int:
    """Run one of the commands."""
    if word == "examples":
        from tests import excerpts  # noqa: PLC0415 - not for ``help``

        return excerpts.write(*arguments)
    if word == "help":
        print(help_text((ROOT / "Makefile").read_text()))
        return 0
    return {"lint": lint, "docs": docs}[word]()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
