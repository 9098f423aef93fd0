"""The commands behind ``make lint``, ``make docs``, ``make examples`` and ``make help``.

``help`` runs with the system's Python before there is a .venv, so nothing else is imported here.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Excerpt:
    """The part of a page that comes from a campaign; a comment with the study's name begins it.

    Attributes:
        page: path.
        numbers: file of all rows in docs/figures.
        shown: metric → head of its column, and format of its values.
        drawn: figure of the report whose copy the page shows; empty for none.
        answers: whether the page has the report's answers in words.
        keys: heads of the columns that name a row: its level, or its stratum and its value of the
            contrasted factor.
        values: of that factor; others are left out. Empty for all.
    """

    page: str
    numbers: str
    shown: dict[str, tuple[str, str]]
    drawn: str = ""
    answers: bool = False
    keys: tuple[str, ...] = ("level",)
    values: tuple[str, ...] = ()

    def row(self, row: dict[str, str]) -> str:
        """Return a row of ``zonelab compare --format csv`` as a row of the page's tables."""
        from analysis.judge.verdicts import Verdict  # noqa: PLC0415 - not for ``help``

        form = self.shown[row["metric"]][1]
        base, value = (form.format(float(row[name])) for name in ("baseline_mean", "level_mean"))
        ratio = "-"
        if row["center"] and not Verdict(row["verdict"]).is_silent:
            ratio = f"{float(row['center']):.2f}"
            if row["low"]:
                ratio += f" ({float(row['low']):.2f} to {float(row['high']):.2f})"
        stratum = row["stratum"].rpartition(" ")[2]  # without the factor's name
        level = f"{stratum} | {row['level']}" if len(self.keys) > 1 else row["level"]
        return f"| {level} | {base} | {value} | {ratio} | {row['verdict']} |"

    def rows(self, numbers: str) -> list[dict[str, str]]:
        """Return the shown rows of ``zonelab compare --format csv``."""
        rows = [row for row in csv.DictReader(numbers.splitlines()) if row["metric"]]
        return [row for row in rows if not self.values or row["level"] in self.values]

    def table(self, metric: str, rows: list[dict[str, str]]) -> list[str]:
        """Return the lines of a metric's table."""
        own = [row for row in rows if row["metric"] == metric]
        base = own[0]["baseline"].removeprefix("conventional-")
        value = f"{self.shown[metric][0]}, {base}"
        head = f"| {' | '.join(self.keys)} | {value} | this row | ratio (95 % interval) | verdict |"
        return [head, "|---" * (head.count("|") - 1) + "|", *map(self.row, own), ""]


EXCERPTS = {
    "integration-levels": Excerpt(
        "README.md",
        "first-study.csv",
        {
            "overwrite.wa_total": ("media bytes per user byte", "{:.1f}"),
            "overwrite.throughput": ("overwrites per second", "{:,.0f}"),
        },
        drawn="amplification.svg",
        answers=True,
    ),
    "zlfs-speed": Excerpt(
        "docs/zlfs.md",
        "zlfs-speed.csv",
        {
            "overwrite.wa_total": ("media bytes per user byte", "{:.1f}"),
            "overwrite.throughput": ("overwrites per second", "{:,.0f}"),
            "readrandom.throughput": ("reads per second", "{:,.0f}"),
            "syncwrite.latency_p50": ("median of a synced write in µs", "{:,.1f}"),
            "syncwrite.latency_p99": ("99th percentile of a synced write in µs", "{:,.1f}"),
            "syncwrite.throughput": ("synced writes per second", "{:,.0f}"),
        },
    ),
    "utilisation": Excerpt(
        "docs/results.md",
        "utilisation.csv",
        {"overwrite.wa_total": ("media bytes per user byte", "{:.1f}")},
        drawn="amplification-over-utilisation.svg",
        keys=("level", "utilisation"),
    ),
    "finish-thresholds-small": Excerpt(
        "docs/results.md",
        "finish-thresholds.csv",
        {"run.wa_total": ("media bytes per user byte", "{:.1f}")},
        drawn="finish-threshold-run-pad_bytes-zlfs.svg",
        keys=("zone size", "threshold"),
        values=("0", "20", "50", "80"),
    ),
}
BEGIN, END = "<!-- {}: make examples -->", "<!-- end -->"


def examples(campaign: str) -> int:
    """Write the excerpt, the numbers and the figure of a campaign's study.

    A campaign CAMPAIGN-slow beside it checks the times.
    """
    folder = Path(campaign) if Path(campaign).is_dir() else ROOT / "results" / campaign
    study = json.loads((folder / "plan.json").read_text())["study"]
    if study not in EXCERPTS:
        print(f"examples: no page shows {study}, but {', '.join(EXCERPTS)}", file=sys.stderr)
        return 1
    excerpt = EXCERPTS[study]
    slow = folder.with_name(f"{folder.name}-slow")
    both = [str(folder), *(["--slower", str(slow)] if slow.is_dir() else [])]
    metrics = [word for metric in excerpt.shown for word in ("--metric", metric)]
    numbers = output([BIN / "zonelab", "compare", *both, *metrics, "--format", "csv"])
    rows = excerpt.rows(numbers)
    answers: list[str] = []
    if excerpt.answers:
        page = output([BIN / "zonelab", "report", *both, "--format", "md"])
        answers = [line for line in page.splitlines() if line.startswith("- **")]
    lacks_answers = excerpt.answers and not answers
    if lacks_answers or {row["metric"] for row in rows} != excerpt.shown.keys():
        print(f"examples: {campaign} lacks rows of {', '.join(excerpt.shown)}", file=sys.stderr)
        return 1
    lines = [line for metric in excerpt.shown for line in excerpt.table(metric, rows)] + answers
    if excerpt.drawn:
        output([BIN / "zonelab", "report", *both])
        drawn = (folder / "report/figures" / excerpt.drawn).read_text()
        # A page sets its own colours; some programs that show a file alone know no variables.
        drawn = drawn.replace("var(--grid, #dddddd)", "#dddddd")
        (FIGURES / excerpt.drawn).write_text(drawn)
    (FIGURES / excerpt.numbers).write_text(numbers)
    before, begin, rest = (ROOT / excerpt.page).read_text().partition(BEGIN.format(study))
    text = "\n".join(lines).rstrip()
    (ROOT / excerpt.page).write_text(
        "".join((before, begin, f"\n{text}\n", END, rest.partition(END)[2]))
    )
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
