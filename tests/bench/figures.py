"""The files that benchmarks leave behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "build/bench"


def store(name: str, report: Mapping[str, Any]) -> None:
    """Write the figures of a benchmark to ``build/bench/<name>.json``."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n")
