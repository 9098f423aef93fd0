"""What a planned study can find, and how many repetitions a wanted difference needs.

Both come from the spread of an earlier campaign's runs. Without ``--earlier`` this is the README's
campaign or the shipped example, if it has the study's question.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigError, UsageError
from harness.quantities import parse_share
from harness.store.spec import Plan

if TYPE_CHECKING:
    from analysis.judge.forecast import EarlierSpread

FIND = "find:"
_ROOT = Path(__file__).parents[2]
_EXAMPLE = _ROOT / "results" / "example.tar.xz"
# The README's campaign is too large for the repository; this has the numbers of its comparison.
_FIRST_STUDY = _ROOT / "docs" / "figures" / "first-study.csv"


@dataclass(frozen=True, slots=True)
class Asked:
    """What ``--repetitions`` and ``--effect`` ask for.

    Attributes:
        repetitions: a number; None: the study's, or as many as ``effect`` needs.
        effect: the relative difference that the study should show.
        effect_decides: whether ``effect`` decides the number of repetitions.
    """

    repetitions: int | None
    effect: float
    effect_decides: bool


def wanted(arguments: argparse.Namespace) -> Asked:
    """Read ``--repetitions N|find:PCT`` and ``--effect PCT``.

    Raises:
        UsageError: a value has another form.
    """
    if not 0 < arguments.effect < math.inf:
        raise UsageError(
            f"--effect {arguments.effect:g} is not a percentage above 0", hint="for example 5"
        )
    text = arguments.repetitions
    if text is None:
        return Asked(None, arguments.effect / 100, effect_decides=False)
    try:
        if not text.startswith(FIND):
            return Asked(int(text), arguments.effect / 100, effect_decides=False)
        effect = parse_share(text.removeprefix(FIND))
    except (ValueError, ConfigError):
        effect = 0.0
    if effect > 0:
        return Asked(None, effect, effect_decides=True)
    raise UsageError(
        f"--repetitions {text!r} is neither a number nor {FIND}PCT",
        hint=f"for example 5, or {FIND}2% for as many as show a difference of 2 %",
        code="repetitions",
    )


def enough(plan: Plan, effect: float, planned: int, earlier: str | None) -> int:
    """Return the repetitions with which every claim shows ``effect``, at least ``planned``.

    Claims for which no practical number is enough do not count: the plan's forecast names them. In
    a study without claims, every metric counts instead.

    Raises:
        UsageError: no earlier campaign shows the spread of its runs.
    """
    from harness.plan.study_models import MOST_REPETITIONS  # noqa: PLC0415

    claimed = {(claim.metric, claim.level) for claim in plan.claims}
    _, spreads = _spreads_of(plan, earlier)
    spreads = tuple(one for one in spreads if not claimed or (one.metric, one.level) in claimed)
    if not spreads:
        raise UsageError(
            f"cannot estimate the spread of this study's {'claims' if claimed else 'metrics'} from "
            f"{earlier or 'a shipped campaign'}",
            hint="name a campaign of the study with --earlier, or give a number of --repetitions",
            code="repetitions",
        )
    found = [one.needed(effect) for one in spreads]
    return max([planned, *(n for n in found if n is not None and n <= MOST_REPETITIONS)])


def lines(plan: Plan, effect: float, repetitions: int, earlier: str | None) -> list[str]:
    """Return what the study can find; empty without an earlier campaign."""
    from analysis.judge import forecast  # noqa: PLC0415 - heavy libraries, only when used

    longest = max(sum(run.predicted.seconds for run in host.runs) for host in plan.hosts)
    name, spreads = _spreads_of(plan, earlier)
    text = forecast.lines(spreads, name, repetitions, effect, longest / max(1, repetitions))
    if not text and earlier:
        return [
            f"the spread of these metrics and levels cannot be estimated from {earlier}: the power "
            "is unknown"
        ]
    return text


def _spreads_of(plan: Plan, earlier: str | None) -> tuple[str, Sequence[EarlierSpread]]:
    """Return the name of the earlier campaign, and its spreads of the plan's rows."""
    metrics = tuple(claim.metric for claim in plan.claims) or plan.metrics
    levels = tuple(sorted({run.row for host in plan.hosts for run in host.runs}))
    shipped = [str(file) for file in (_FIRST_STUDY, _EXAMPLE) if file.is_file()]
    for one in [earlier] if earlier else shipped:
        name, spreads = _spreads(one, "" if earlier else plan.question, metrics, levels)
        if spreads:
            return name, spreads
    return "", ()


@cache
def _spreads(
    earlier: str, question: str, metrics: tuple[str, ...], levels: tuple[str, ...]
) -> tuple[str, Sequence[EarlierSpread]]:
    """Return the name and the spreads of a campaign; none if it has another question.

    A later release can give a study of the same name another workload, and another question.
    """
    from analysis.judge import forecast  # noqa: PLC0415 - heavy libraries, only when used
    from analysis.read.load import load_pool  # noqa: PLC0415
    from harness.store import bundle  # noqa: PLC0415

    if question and earlier == str(_FIRST_STUDY):
        name = str(_FIRST_STUDY.relative_to(_ROOT))
        return name, forecast.spreads_in(_FIRST_STUDY, question, metrics, levels)
    with bundle.opened(earlier) as campaign:
        pool = load_pool([campaign.root])
        if question not in ("", pool.first.plan.question):
            return "", ()
        return pool.first.plan.campaign, forecast.spreads_of(pool, metrics, levels)
