"""The commands behind ``make lint``, ``make docs``, ``make examples`` and ``make help``.

``help`` runs with the system's Python before there is a .venv, so nothing else is imported here.
"""

from __future__ import annotations

import csv
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
FIGURES = ROOT / "docs" / "figures"
EXCERPT = ("<!-- first study: make examples -->", "<!-- end -->")
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


# Metrics in the README, with the head of their column and the format of a value.
SHOWN = {
    "overwrite.wa_total": ("media bytes per user byte", "{:.1f}"),
    "overwrite.throughput": ("overwrites per second", "{:,.0f}"),
}


def table_row(row: dict[str, str]) -> str:
    """Return a row of ``zonelab compare --format csv`` as a row of the README's tables."""
    from analysis.judge.verdicts import Verdict  # noqa: PLC0415 - not for ``help``

    form = SHOWN[row["metric"]][1]
    base, value = (form.format(float(row[name])) for name in ("baseline_mean", "level_mean"))
    ratio = "-"
    if row["center"] and not Verdict(row["verdict"]).is_silent:
        ratio = f"{float(row['center']):.2f}"
        if row["low"]:
            ratio += f" ({float(row['low']):.2f} to {float(row['high']):.2f})"
    return f"| {row['level']} | {base} | {value} | {ratio} | {row['verdict']} |"


def _table(metric: str, rows: list[dict[str, str]]) -> list[str]:
    title, _ = SHOWN[metric]
    head = f"| level | {title}, ext4 | its own | ratio (95 % interval) | verdict |"
    own = [table_row(row) for row in rows if row["metric"] == metric]
    return [head, "|---|---|---|---|---|", *own, ""]


def examples(campaign: str) -> int:
    """Write the README's excerpt of the first study, its numbers and its figure from a campaign.

    Times come with the campaign CAMPAIGN-slow beside it.
    """
    folder = Path(campaign) if Path(campaign).is_dir() else ROOT / "results" / campaign
    both = [str(folder), "--slower", f"{folder}-slow"]
    metrics = [word for metric in SHOWN for word in ("--metric", metric)]
    numbers = output([BIN / "zonelab", "compare", *both, *metrics, "--format", "csv"])
    page = output([BIN / "zonelab", "report", *both, "--format", "md"])
    answers = [line for line in page.splitlines() if line.startswith("- **")]
    rows = [row for row in csv.DictReader(numbers.splitlines()) if row["metric"]]
    if not answers or {row["metric"] for row in rows} != SHOWN.keys():
        print(f"examples: {campaign} lacks rows of {', '.join(SHOWN)}", file=sys.stderr)
        return 1
    excerpt = "\n".join([line for metric in SHOWN for line in _table(metric, rows)] + answers)
    readme = (ROOT / "README.md").read_text()
    begin, end = EXCERPT
    parts = (readme.partition(begin)[0], begin, f"\n{excerpt}\n", end, readme.partition(end)[2])
    output([BIN / "zonelab", "report", *both])
    drawn = (folder / "report/figures/amplification.svg").read_text()
    # A page sets its own colours; some programs that show a file alone know no variables.
    (FIGURES / "amplification.svg").write_text(drawn.replace("var(--grid, #dddddd)", "#dddddd"))
    (FIGURES / "first-study.csv").write_text(numbers)
    (ROOT / "README.md").write_text("".join(parts))
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
        return examples(*arguments)
    if word == "help":
        print(help_text((ROOT / "Makefile").read_text()))
        return 0
    return {"lint": lint, "docs": docs}[word]()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
