"""``zonelab model guidelines``: compare guidelines of block-level studies with models."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from analysis.judge import agreement, block_level
from analysis.judge.block_level import GuidelineEvidence, JudgedGuideline
from analysis.model import sweeps
from analysis.read.block import BlockPoint
from harness.cli.output import add_action, add_format, print_records
from harness.errors import ConfigError, ExitCode, UsageError
from harness.plan import model_verdicts
from harness.plan.drive_files import load_model
from harness.plan.load import load_study
from harness.store.spec import DeviceKind
from harness.tools import fio

_STUDY = "block-level"
_REPETITIONS = 3  # the least number with which values that do not vary are exact


def add_arguments(actions: Any) -> argparse.ArgumentParser:
    """Declare the action and its own options; return its parser."""
    action = add_action(actions, "guidelines", "compare published guidelines with models")
    action.add_argument(
        "model", nargs="+", metavar="MODEL", help="one with zones, a conventional one, or both"
    )
    action.add_argument(
        "--study", default=_STUDY, metavar="NAME", help=f"study of fio (default: {_STUDY})"
    )
    action.add_argument("--each", action="store_true", help="print a row for each point")
    add_format(action)
    action.set_defaults(do=_guidelines)
    parser: argparse.ArgumentParser = action
    return parser


def _guidelines(arguments: argparse.Namespace) -> int:
    study, workload = load_study(arguments.study)
    work = getattr(workload, fio.PROGRAM, None)
    if work is None:
        raise ConfigError(
            f"study {study.name} has no workload of fio", hint=f"--study {_STUDY}", code="bad-field"
        )
    models = {model.name: model for model in map(load_model, arguments.model)}
    if len(models) != len(arguments.model):
        raise UsageError("a model is named twice", hint="name each model once")
    schedulers = [str(one) for one in study.factors.get("scheduler", ("none",))]
    points: list[BlockPoint] = []
    for model in models.values():
        print(f"{model.name}: core {model_verdicts.core(model)}", file=sys.stderr)
        swept = sweeps.sweep(model, work, schedulers, _REPETITIONS, arguments.threads)
        points += swept.points
        if swept.left_out:
            names = ", ".join(swept.left_out)
            print(
                f"left out: {names}: the model plays one write to a zone at a time",
                file=sys.stderr,
            )
    if arguments.each:
        print_records([*_points(points)], arguments.format)
        return ExitCode.OK
    evidence = GuidelineEvidence(points, {DeviceKind.MODELLED}, exact=True)
    judged = block_level.judge_on(evidence)
    print_records([*_rows(judged)], arguments.format)
    summary = agreement.tally(one.outcome.agreement for one in judged)
    print(f"{summary}; times are results of the models", file=sys.stderr)
    return ExitCode.OK


def _rows(judged: Sequence[JudgedGuideline]) -> Iterator[dict[str, Any]]:
    for one in judged:
        outcome = one.outcome
        yield {
            "guideline": one.guideline.id,
            "curve": outcome.where,
            "published": one.guideline.published,
            "found": outcome.found,
            "verdict": outcome.agreement.value,
            "why": outcome.why,
        }


def _points(points: Sequence[BlockPoint]) -> Iterator[dict[str, Any]]:
    for one in points:
        yield {
            "model": one.row,
            "scheduler": one.scheduler,
            "operation": one.operation,
            "bs": one.bs,
            "iodepth": one.iodepth,
            "jobs": one.jobs,
            "seed": one.block,
            "IOPS": None if one.iops is None else round(one.iops),
            "p50 us": _rounded(one.p50),
            "p95 us": _rounded(one.p95),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
