"""Links from the numbers of the report to the files from which they were computed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from analysis.read.grouping import grouped
from analysis.read.load import CampaignData, RunRecord
from harness.metrics.catalogue import RESULT, source_patterns
from harness.store import packed


def files(run: RunRecord, key: str) -> list[Path]:
    """Return the stored files behind a metric; ``result.json`` if there is no other."""
    stored: list[Path] = []
    for pattern in source_patterns(key):
        if "*" in pattern:
            stored += sorted(run.path.glob(pattern))
        elif (file := packed.find(run.path / pattern)) is not None:
            stored.append(file)
    return stored or [run.path / RESULT]


@lru_cache(maxsize=4096)  # resolving a path takes one system call per part
def _relative(folder: Path, to: Path) -> str:
    return Path(os.path.relpath(folder.resolve(), to)).as_posix()


@dataclass(frozen=True, slots=True)
class Links:
    """Relative links from the report's folder to files of the campaign, percent-encoded.

    Without a folder all links are empty, because the campaign's files will not exist.
    """

    folder: Path | None
    runs: Mapping[str, Sequence[RunRecord]]

    @classmethod
    def of(cls, campaign: CampaignData, folder: Path | None) -> Links:
        """Return the links of a campaign's report in ``folder``."""
        return cls(folder and folder.resolve(), grouped(campaign.runs, lambda run: run.name))

    def to(self, path: Path) -> str:
        """Return the link to a file, '' without a folder."""
        if self.folder is None:
            return ""
        return quote(f"{_relative(path.parent, self.folder)}/{path.name}")

    def of_row(self, name: str, values: Mapping[str, str], source: str) -> str:
        """Return the link of a table row about a run; empty if the run is not known.

        Args:
            name: the run.
            values: the row's cells by column; ``host`` distinguishes runs of the same name.
            source: the file below the run's folder, with columns in braces.
        """
        host = values.get("host")
        runs = [run for run in self.runs.get(name, ()) if host in (None, run.host)]
        if not runs:
            return ""
        if len(runs) > 1:  # the table of runs has a column for the host
            return "#runs"
        file = source
        for column, value in values.items():
            file = file.replace(f"{{{column}}}", value)
        folder = runs[0].path
        return self.to(packed.find(folder / file) or folder / RESULT)
