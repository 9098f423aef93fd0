"""The part of ``zonelab verify`` that needs the analysis: it judges claims on a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from analysis.judge import claims
from analysis.judge.claims import ClaimOutcome, JudgedClaim
from analysis.read.load import load
from harness.cli.output import print_records
from harness.errors import UsageError
from harness.store import bundle

OF_CAMPAIGN = "claims.toml"


def print_outcomes(
    campaign: Path,
    file: Path | None,
    format_: str,
    *,
    slower: Sequence[str],
    different_code: bool,
) -> bool:
    """Print one record per claim and return whether none failed.

    Claims come from ``file``, or else from the campaign's ``claims.toml``, or else from its study.
    ``slower``: campaigns on modelled drives with twice the dilation. ``different_code``: claims are
    judged although different code produced the runs.

    Raises:
        UsageError: there are no claims.
    """
    data = load(campaign)
    if file is None and (campaign / OF_CAMPAIGN).is_file():
        file = campaign / OF_CAMPAIGN
    wanted = claims.read(file) if file else claims.of_plan(data.plan)
    if not wanted:
        raise UsageError(
            f"the study {data.plan.study} declares no claims",
            hint="give a file: --claims claims.toml",
        )
    with ExitStack() as stack:
        confirming = [load(stack.enter_context(bundle.opened(name)).root) for name in slower]
        judged = claims.judge(data, wanted, slower=confirming, different_code=different_code)
    print_records([_record(one) for one in judged], format_)
    return not any(one.outcome is ClaimOutcome.FAIL for one in judged)


def _record(judged: JudgedClaim) -> dict[str, str]:
    claim = judged.claim
    return {
        "claim": claim.id,
        "outcome": judged.outcome.value,
        "metric": claim.metric,
        "level": claim.level,
        "baseline": claim.baseline,
        "expected": claim.expected,
        "found": judged.found,
        "why": judged.why,
        "source": claim.source,
    }
