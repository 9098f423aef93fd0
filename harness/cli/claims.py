"""The part of ``zonelab verify`` that needs the analysis: claims held against a campaign."""

from __future__ import annotations

from pathlib import Path

from analysis import claims
from analysis.claims import Outcome
from analysis.load import load
from harness.cli.output import print_records
from harness.errors import UsageError

_COLUMNS = ("claim", "outcome", "metric", "level", "baseline", "expected", "found", "why", "source")
OF_CAMPAIGN = "claims.toml"


def print_outcomes(campaign: Path, file: Path | None, format_: str) -> bool:
    """Print one record per claim; return whether none failed.

    Claims are those of ``file``, else of the campaign's ``claims.toml``, else of its study.

    Raises:
        UsageError: there is no claim.
    """
    data = load(campaign)
    if file is None and (campaign / OF_CAMPAIGN).is_file():
        file = campaign / OF_CAMPAIGN
    wanted = claims.read(file) if file else claims.of_plan(data.plan)
    if not wanted:
        raise UsageError(
            f"the study {data.plan.study} claims nothing", hint="give a file: --claims claims.toml"
        )
    judged = claims.judge(data, wanted)
    print_records(
        [
            dict(zip(_COLUMNS, (
                one.claim.id, one.outcome.value, one.claim.metric, one.claim.level,
                one.claim.baseline, one.claim.expected, one.found, one.why, one.claim.source,
            ), strict=True))
            for one in judged
        ],
        format_,
    )  # fmt: skip
    return not any(one.outcome is Outcome.FAIL for one in judged)
