"""The parts of pages that come from campaigns: tables, figures and answers (``make examples``)."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from analysis.read.steady import SteadyLabel
from harness.store.numbers_version import KEY
from tests.upkeep import BIN, ROOT, output

FIGURES = ROOT / "docs" / "figures"


@dataclass(frozen=True)
class Excerpt:
    """The part of a page that comes from a campaign; a comment with its name begins it.

    Attributes:
        page: path.
        numbers: file of all rows in docs/figures.
        shown: metric → head of its column, and format of its values.
        drawn: figure of the report whose copy the page shows; empty for none.
        lead: topics of the report's answers that an own block shows, for example below the figure.
        answers: whether the page has the other answers below the tables.
        keys: heads of the columns that name a row: its level, or its stratum and its value of the
            contrasted factor.
        values: of that factor; others are left out. Empty for all.
    """

    page: str
    numbers: str
    shown: dict[str, tuple[str, str]]
    drawn: str = ""
    lead: tuple[str, ...] = ()
    answers: bool = False
    keys: tuple[str, ...] = ("level",)
    values: tuple[str, ...] = ()

    def row(self, row: dict[str, str]) -> str:
        """Return a row of ``zonelab compare --format csv`` as a row of the page's tables."""
        form = self.shown[row["metric"]][1]
        means = (row[name] for name in ("baseline_mean", "level_mean"))
        base, value = (form.format(float(mean)) if mean else "-" for mean in means)
        ratio = "-"
        if row["center"] and row["is_ratio"] == "true" and not Verdict(row["verdict"]).is_silent:
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
        value = f"{self.shown[metric][0]}, baseline {base}"  # a bare name looks like a unit
        head = f"| {' | '.join(self.keys)} | {value} | this row | ratio (95 % interval) | verdict |"
        return [head, "|---" * (head.count("|") - 1) + "|", *map(self.row, own), ""]


def unsteady(rows: Iterable[dict[str, str]]) -> list[str]:
    """Return one item per label of phases that are not steady, for example ``too short``."""
    found: dict[str, dict[str, dict[str, None]]] = {}  # label → phase → levels, in order
    for row in rows:
        phase = row["metric"].rpartition(".")[0]
        for side in ("baseline", "level"):
            label = row[f"steady_{side}"]
            if label not in ("", SteadyLabel.STEADY):
                found.setdefault(label, {}).setdefault(phase, {})[row[side]] = None
    lines = []
    for label, phases in found.items():
        parts = [f"{phase} ({', '.join(levels)})" for phase, levels in phases.items()]
        lines.append(f"- {SteadyLabel(label).words.capitalize()}: {'; '.join(parts)}")
    return lines


_MEDIA_AND_RATE = {
    "overwrite.wa_total": ("media bytes per user byte", "{:.1f}"),
    "overwrite.throughput": ("overwrites per second", "{:,.0f}"),
}
# The name is a study, or "<study> on <rig>" for a campaign on another rig than the study's.
EXCERPTS = {
    "integration-levels": Excerpt(
        "README.md",
        "first-study.csv",
        _MEDIA_AND_RATE,
        drawn="amplification.svg",
        lead=("Which", "Why"),
        answers=True,
    ),
    "integration-levels on timed-28op": Excerpt(
        "docs/results.md",
        "over-provisioning.csv",
        {**_MEDIA_AND_RATE, "overwrite.wa_dev": ("media bytes per device byte", "{:.2f}")},
    ),
    "xfs-zones": Excerpt(
        "docs/results.md",
        "xfs-zones.csv",
        _MEDIA_AND_RATE,
    ),
    "zlfs-speed": Excerpt(
        "docs/zlfs.md",
        "zlfs-speed.csv",
        {
            **_MEDIA_AND_RATE,
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
# A block of a page; its name is an excerpt's, or an excerpt's with "answer".
BEGIN, END = "<!-- {}: make examples -->", "<!-- end -->"


def write(campaign: str) -> int:
    """Write the blocks, the numbers and the figure of a campaign.

    A campaign CAMPAIGN-slow beside it checks the times.
    """
    folder = Path(campaign) if Path(campaign).is_dir() else ROOT / "results" / campaign
    plan = json.loads((folder / "plan.json").read_text())
    name = name_of(plan["study"], [host["host"] for host in plan["hosts"]])
    if name not in EXCERPTS:
        print(f"examples: no page shows {name}, but {', '.join(EXCERPTS)}", file=sys.stderr)
        return 1
    excerpt = EXCERPTS[name]
    slow = folder.with_name(f"{folder.name}-slow")
    both = [str(folder), *(["--slower", str(slow)] if slow.is_dir() else [])]
    metrics = [word for metric in excerpt.shown for word in ("--metric", metric)]
    numbers = output([BIN / "zonelab", "compare", *both, *metrics, "--format", "csv"])
    rows = excerpt.rows(numbers)
    lead, answers = _answers(both, excerpt)
    lacks_answers = excerpt.answers and not answers
    if lacks_answers or {row["metric"] for row in rows} != excerpt.shown.keys():
        print(f"examples: {campaign} lacks rows of {', '.join(excerpt.shown)}", file=sys.stderr)
        return 1
    if excerpt.drawn:
        output([BIN / "zonelab", "report", *both])
        drawn = (folder / "report/figures" / excerpt.drawn).read_text()
        # A page sets its own colours; some programs that show a file alone know no variables.
        drawn = drawn.replace("var(--grid, #dddddd)", "#dddddd")
        (FIGURES / excerpt.drawn).write_text(drawn)
    (FIGURES / excerpt.numbers).write_text(numbers)
    tables = [line for metric in excerpt.shown for line in excerpt.table(metric, rows)]
    page = ROOT / excerpt.page
    below = [*unsteady(rows), *answers]
    lines = [*tables, *below, *([""] if below else []), _origin(folder)]
    text = replaced(page.read_text(), name, lines)
    page.write_text(replaced(text, f"{name} answer", lead) if lead else text)
    return 0


def name_of(study: str, hosts: Sequence[str]) -> str:
    """Return the name of the excerpt of a study's campaign; a rig's hosts have its name."""
    for name in EXCERPTS:
        own, on, rig = name.partition(" on ")
        if on and own == study and all(host.startswith(f"rig-{rig}") for host in hosts):
            return name
    return study


def replaced(page: str, name: str, lines: Sequence[str]) -> str:
    """Return a page with another text in one of its blocks."""
    before, begin, rest = page.partition(BEGIN.format(name))
    text = "\n".join(lines).rstrip()
    return "".join((before, begin, f"\n{text}\n", END, rest.partition(END)[2]))


def _answers(campaigns: Sequence[str], excerpt: Excerpt) -> tuple[list[str], list[str]]:
    """Return the lines of a report's answers: those of the lead, and the others."""
    if not excerpt.answers:
        return [], []
    page = output([BIN / "zonelab", "report", *campaigns, "--format", "md"])
    found = [line for line in page.splitlines() if line.startswith("- **")]
    heads = tuple(f"- **{topic}.**" for topic in excerpt.lead)
    lead = [line for line in found if line.startswith(heads)]
    return lead, [line for line in found if line not in lead]


def _origin(folder: Path) -> str:
    """Return when a campaign ran, and the version of its numbers."""
    campaign = load(folder)
    versions = {run.result.manifest.get("host", {}).get(KEY) for run in campaign.runs if run.ok}
    version = " or ".join(sorted(map(str, versions)))
    day = json.loads((folder / "campaign.json").read_text())["created"][:10]
    return f"Recorded on {day}, with version {version} of the numbers."
