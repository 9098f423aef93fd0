"""``zonelab model``: models of drives, which play jobs in virtual time."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis.model import fit, validation
from analysis.model.validation import CurveError
from analysis.read import points
from analysis.read.points import MeasuredPoint
from analysis.show import model_figure
from harness.cli import model_devices, model_guidelines
from harness.cli.output import add_action, add_format, add_repeatable, print_records
from harness.errors import ConfigError, ExitCode, UsageError
from harness.plan import drive_files, model_verdicts
from harness.plan.curve_models import CurveSet
from harness.plan.drive_files import load_curves, load_job, load_model
from harness.plan.drive_models import DriveModel
from harness.plan.drive_values import sourced
from harness.plan.load import names
from harness.plan.model_verdicts import ModelVerdict
from harness.store.files import write_atomic
from harness.tools import zonemodel
from harness.tools.zonemodel import Played

SUMMARY = "play jobs on the model of a drive, and compare the model with measured points"
GROUP = "users"
SHIPPED = False
HELP = """\
Play jobs on the model of a drive. Time is virtual: the result is the same on every machine. Models
are files in configs/models, jobs are files in configs/jobs (docs/model.md).

MODEL and JOB are names, or paths that end in .yml. `make build/native-release` builds the program
that plays jobs.

examples:
  zonelab model list
  zonelab model show zn540-1tb
  zonelab model validate zn540-1tb
  zonelab model run zn540-1tb --job randread-4k
  zonelab model run zn540-1tb --job configs/jobs/read-under-write.yml --format json
  zonelab model run conventional-7op --capacity 10848MiB --job overwrite-four-times
  zonelab model guidelines zn540-1tb conventional-7op
  zonelab model up zn540-1tb --capacity 8GiB
  zonelab model export zones-4m --output zones-4m.json
  zonelab model fit zn540-1tb --points mine.csv --output configs/models/mine.yml

exit: 0 ok, 2 a model, job, curve or points file is wrong, or this machine cannot serve devices,
3 the device is in use (down), 4 a core curve fails (validate)"""

_US = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = add_action(actions, "list", "list the models, with their drives")
    show = add_action(actions, "show", "print every number of a model with its origin")
    validate = add_action(actions, "validate", "print each curve's error to measured points")
    run = add_action(actions, "run", "play jobs")
    fitting = add_action(actions, "fit", "adjust the numbers marked fitted to measured points")
    for action in (show, validate, run, fitting):
        action.add_argument("model", metavar="MODEL", help="name, or path of a .yml file")
    each = {listing: _list, show: _show, validate: _validate, run: _run, fitting: _fit}
    for action, do in each.items():
        action.set_defaults(do=do)
        add_format(action)
    run.add_argument(
        "--job", action="append", required=True, metavar="JOB", help="name or path; repeatable"
    )
    run.add_argument(
        "--capacity", metavar="SIZE", help="scale a conventional drive to this, e.g. 10848MiB"
    )
    for action in (validate, fitting):
        action.add_argument(
            "--points",
            type=Path,
            metavar="FILE",
            help="CSV of measured points (default: published)",
        )
        action.add_argument("--curves", metavar="NAME", help="set of curves (default: MODEL's)")
    validate.add_argument("--each", action="store_true", help="print a row for each point")
    validate.add_argument("--figure", type=Path, metavar="FILE.svg", help="draw model and points")
    validate.add_argument("--save", action="store_true", help="store the result beside MODEL")
    fitting.add_argument(
        "--output", type=Path, required=True, metavar="FILE.yml", help="file of the new model"
    )
    fitting.add_argument(
        "--parameter",
        action="append",
        metavar="NAME",
        help="number to adjust; repeatable (default: all numbers marked fitted)",
    )
    add_repeatable(fitting, "--leave-out", "CURVE", "fit without this curve")
    fitting.add_argument(
        "--rounds", type=int, default=4, metavar="N", help="rounds of the search (default: 4)"
    )
    model_devices.add_arguments(actions)
    guidelines = model_guidelines.add_arguments(actions)
    for action in (validate, run, fitting, guidelines):
        action.add_argument(
            "--threads",
            type=int,
            default=os.cpu_count() or 1,
            metavar="N",
            help="jobs to play at once (default: one per processor)",
        )


def execute(arguments: argparse.Namespace) -> int:
    """Do the action; 4 when a core curve fails in validate."""
    for option, usual in (("threads", 2), ("rounds", 4)):
        given = getattr(arguments, option, usual)
        if given < 1:
            hint = f"for example --{option} {usual}"
            raise UsageError(f"--{option} {given} is less than 1", hint=hint)
    return int(arguments.do(arguments))


def _list(arguments: argparse.Namespace) -> int:
    models = [load_model(name) for name in names("models")]
    print_records(
        [
            {
                "model": model.name,
                "namespaces": ", ".join(_namespaces(model)),
                "core": model_verdicts.core(model),
                "description": model.description,
            }
            for model in models
        ],
        arguments.format,
    )
    return ExitCode.OK


def _namespaces(model: DriveModel) -> list[str]:
    parts = {"zoned": model.zones, "conventional": model.ftl}
    return [name for name, part in parts.items() if part is not None]


def _show(arguments: argparse.Namespace) -> int:
    model = load_model(arguments.model)
    print_records(list(_numbers(drive_files.program_input(model))), arguments.format)
    return ExitCode.OK


def _numbers(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, part in sourced(data):
        value = part["value"]
        if isinstance(value, list):
            value = ", ".join(f"{x:g} %: {y}" for x, y in value)
        yield {"parameter": name, **part, "value": value}


def _run(arguments: argparse.Namespace) -> int:
    model = load_model(arguments.model)
    if arguments.capacity is not None:
        model = drive_files.scaled(model, model_devices.capacity(arguments.capacity))
    jobs = [drive_files.job_input(load_job(job)) for job in arguments.job]
    played = zonemodel.run(drive_files.program_input(model), jobs, arguments.threads)
    core = model_verdicts.core(model)
    rows: Iterable[Mapping[str, Any]] = (one.document for one in played)
    if arguments.format != "json":
        rows = (row for one in played for row in _job_rows(one))
    print_records([{**row, "core": core} for row in rows], arguments.format)
    return ExitCode.OK


def _job_rows(played: Played) -> Iterator[dict[str, Any]]:
    for client, commands in played.clients.items():
        for command, values in commands.items():
            yield {
                "job": played.job,
                "model": played.model,
                "client": client,
                "command": command,
                "count": values["count"],
                **{f"{name} us": _us(values.get(f"{name}_ns")) for name in _LATENCIES},
                # Refused commands alone have no rate.
                "per s": values.get("per_second"),
                "MiB/s": values.get("mib_per_second"),
                "errors": sum(values["errors"].values()),
            }


_LATENCIES = ("mean", "p50", "p95", "p99", "p99_9")


def _us(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else round(nanoseconds / _US, 2)


def _measured(
    arguments: argparse.Namespace, model: DriveModel
) -> tuple[CurveSet, tuple[MeasuredPoint, ...]]:
    """Return the curves and the points of a validation or a fit."""
    named = arguments.curves or model.curves
    if named is None:
        raise ConfigError(
            f"model {model.name} names no curves",
            hint="give --curves and --points; see configs/models/curves",
            code="curves",
        )
    curves = load_curves(named)
    path = arguments.points or points.FOLDER / f"{curves.points}.csv"
    return curves, points.load(path, curves.curves)


def _validate(arguments: argparse.Namespace) -> int:
    model = load_model(arguments.model)
    curves, measured = _measured(arguments, model)
    errors = validation.validate(model, curves, measured, arguments.threads)
    # A stored result is for all core curves, so one that no point judges does not pass.
    unjudged = validation.core_unjudged(errors, curves) if arguments.save else []
    rows = _point_rows(errors) if arguments.each else _curve_rows(errors)
    print_records(list(rows), arguments.format)
    if arguments.figure is not None:
        write_atomic(arguments.figure, model_figure.draw(model.name, errors))
    if arguments.save:
        verdict = ModelVerdict(
            drive_files.digest(model),
            (*validation.core_failed(errors), *unjudged),
            tuple(validation.core_missed(errors)),
            round(validation.core_mean(errors), 4),
        )
        print(f"stored: {model_verdicts.save(model, verdict)}", file=sys.stderr)
    status = _summary(errors)
    if not unjudged:
        return status
    print(f"zonelab: stored as failed, not judged: {', '.join(unjudged)}", file=sys.stderr)
    print("hint: measure points with a tolerance for each core curve", file=sys.stderr)
    return ExitCode.RUNS_FAILED


def _summary(errors: Sequence[CurveError]) -> int:
    failed, missed = validation.core_failed(errors), validation.core_missed(errors)
    core = [one for one in errors if one.grade == "core" and one.passed is not None]
    print(
        f"core: {len(core) - len(failed) - len(missed)} of {len(core)} curves pass, "
        f"mean error {validation.core_mean(errors):.1%}; "
        f"tails: {validation.tails_within(errors):.0%} of points within tolerance",
        file=sys.stderr,
    )
    for one in core:
        if one.missed:
            print(f"known miss: {one.curve} {one.statistic}: {one.why}", file=sys.stderr)
    if failed:
        print(f"zonelab: core curves fail: {', '.join(failed)}", file=sys.stderr)
        print("hint: docs/model.md lists known misses", file=sys.stderr)
    return ExitCode.RUNS_FAILED if failed else ExitCode.OK


_RESULT = {True: "pass", False: "fail", None: "not judged"}


def _curve_rows(errors: Sequence[CurveError]) -> Iterator[dict[str, Any]]:
    for one in errors:
        worst = one.worst
        yield {
            "curve": one.curve,
            "statistic": one.statistic,
            "grade": one.grade,
            "points": len(one.points),
            "mean error %": _percent(one.mean),
            "largest error %": _percent(worst.error),
            "at": worst.point.x,
            "tolerance %": _percent(worst.point.tolerance),
            "result": "known miss" if one.missed else _RESULT[one.passed],
        }


def _point_rows(errors: Sequence[CurveError]) -> Iterator[dict[str, Any]]:
    for curve in errors:
        for one in curve.points:
            yield {
                "curve": curve.curve,
                "statistic": curve.statistic,
                "grade": curve.grade,
                "x": one.point.x,
                "measured": one.point.value,
                "modelled": None if one.modelled is None else float(f"{one.modelled:.5g}"),
                "error %": _percent(one.error),
                "tolerance %": _percent(one.point.tolerance),
            }


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)


def _fit(arguments: argparse.Namespace) -> int:
    if arguments.output.exists():
        raise UsageError(f"{arguments.output} exists", hint="name a new file")
    model = load_model(arguments.model)
    curves, measured = _measured(arguments, model)
    for curve in arguments.leave_out:
        if curve not in curves.curves:
            raise UsageError(f"there is no curve {curve!r}", hint=f"{', '.join(curves.curves)}")
    chosen = arguments.parameter or fit.parameters(model)
    if not chosen:
        raise UsageError(
            f"model {model.name} has no number marked fitted",
            hint="zonelab model show lists the origin of each number",
        )
    source = f"fit to {arguments.points or curves.points}"
    result = fit.fit(
        model,
        curves,
        [point for point in measured if point.curve not in arguments.leave_out],
        names=chosen,
        source=source,
        threads=arguments.threads,
        rounds=arguments.rounds,
        on_progress=_show_fit,
    )
    data = {**result.data, "name": arguments.output.stem}
    write_atomic(arguments.output, yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    print_records(
        [
            {"parameter": name, "before": result.before[name], "after": result.after[name]}
            for name in result.before
        ],
        arguments.format,
    )
    _summary(result.errors)
    print(f"written: {arguments.output}", file=sys.stderr)
    return ExitCode.OK


def _show_fit(evaluations: int, mean: float) -> None:
    print(f"evaluation {evaluations}: core mean error {mean:.2%}", file=sys.stderr)
