"""``zonelab replay``: what other settings would have done with what was recorded."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.cli.output import add_format, portable, print_records
from harness.errors import ConfigError, ExitCode, UsageError
from harness.levels.zlfs import Zlfs
from harness.plan.units import parse_size
from harness.replay import campaign, grid, sources
from harness.replay.campaign import Done
from harness.run import replayed as counts
from harness.store.campaign import RESULTS
from harness.store.spec import Scalar

HELP = """\
Play the allocations that level zlfs recorded at other thresholds, zone sizes and policies, by its
own allocator and without a device. Deterministic; bytes and counts only, no times. At the recorded
setting the result equals the recorded ledger (or the command fails); any other is counterfactual:
what was written, deleted and synced is taken as it was (docs/replay.md).

Name a run's directory, several repetitions of one cell, or a trace that zlfs wrote (trace=PATH in
its URI). Every list of values is an axis of the grid; zones are as many as fit into the recorded
capacity. A setting that cannot hold the data is infeasible, which is a result.

examples:
  zonelab replay results/thresholds/hosts/rig/runs/zlfs--r01 --finish_occupancy_pct 0,50,100
  zonelab replay trace --finish_occupancy_pct 0,10,20,30,40,50,60,70,80,90,100 \\
    --zone_capacity 128MiB,64MiB,32MiB --jobs 2 --campaign thresholds-replayed
  zonelab replay trace --gc on,off --max_active 8,14 --format csv
  zonelab report thresholds-replayed        # its figures

exit: 0 ok (infeasible settings included), 2 the trace or an option is no good, 4 the allocator
decides otherwise than when the trace was recorded"""

_MIB = 2**20
_GEOMETRY = {
    "zone_capacity": "bytes of a zone, such as 64MiB",
    "zones": "number of zones",
    "max_active": "limit of active zones, of the drive or of zlfs alone, 0: none",
}
_POLICIES = tuple(name for name in Zlfs.options if name not in _GEOMETRY)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "source", nargs="+", type=Path, metavar="TRACE", help="run directory or trace file"
    )
    for name, what in _GEOMETRY.items():
        parser.add_argument(f"--{name}", metavar="A,B", help=what)
    for name in _POLICIES:
        parser.add_argument(f"--{name}", metavar="A,B", help="as of zlfs (docs/zlfs.md)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N",
        help="settings played at once (default: all processors)",
    )  # fmt: skip
    parser.add_argument(
        "--campaign", metavar="NAME", help="keep the results below ./results, labelled replayed"
    )
    parser.add_argument(
        "--own-rules", action="store_true",
        help="play the recorded setting by the rules of all others, too: what these are worth",
    )  # fmt: skip
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Play, keep and print; 4 when the recorded setting does not give the recorded ledger."""
    if arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs} is less than 1", hint="--jobs 2")
    if arguments.campaign is not None:
        campaign.check_name(arguments.campaign, RESULTS)
    axes = _axes(arguments)
    with sources.opened(arguments.source) as found:
        todo = grid.jobs(found, axes)
        played = grid.play(
            todo,
            at_once=arguments.jobs,
            own_rules=arguments.own_rules,
            tell=lambda done, seconds: _tell(done, len(todo), seconds),
        )
        done = [Done(job, one) for job, one in zip(todo, played, strict=True)]
        if arguments.campaign is not None:
            command = portable(sys.argv, Path.cwd())
            folder = campaign.save(arguments.campaign, done, RESULTS, command)
            print(f"kept in {folder}; see: zonelab report {folder}", file=sys.stderr)
    print_records(_rows(done, arguments.format), arguments.format)
    differences = [line for one in done for line in one.replayed.differences]
    for line in differences:
        print(f"zonelab: differs from the recorded ledger: {line}", file=sys.stderr)
    return ExitCode.RUNS_FAILED if differences else ExitCode.OK


def _axes(arguments: argparse.Namespace) -> dict[str, list[Scalar]]:
    """Return the values of each option that was given."""
    axes: dict[str, list[Scalar]] = {}
    for name in (*_GEOMETRY, *_POLICIES):
        text = getattr(arguments, name)
        if text is None:
            continue
        values = [_value(name, part) for part in text.split(",")]
        if len(set(values)) != len(values):
            raise UsageError(f"--{name} {text}: a value is there twice", hint="name each once")
        axes[name] = values
    if {"finish_occupancy_pct", "finish_remaining_pct"} <= axes.keys():
        raise UsageError(
            "--finish_occupancy_pct and --finish_remaining_pct are one thing",
            hint="each is 100 less the other: name one",
        )
    return axes


def _value(name: str, text: str) -> Scalar:
    words = {"zone_capacity", "gc", "gc_victim", "lifetimes", "on_active_limit"}
    try:
        if name == "zone_capacity":
            return parse_size(text)
        if name in words:
            return _word(text)
        return int(text)
    except (ConfigError, ValueError) as error:
        hint = error.hint if isinstance(error, ConfigError) else "whole numbers, commas in between"
        raise UsageError(f"--{name} {text!r} is no good", hint=hint) from None


def _word(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _tell(done: int, total: int, seconds: float) -> None:
    """Move the bar; not on a terminal, a line each tenth."""
    line = grid.bar(done, total, seconds)
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)
    elif done == total or done * 10 // total != (done - 1) * 10 // total:
        print(line, file=sys.stderr)


def _rows(done: Sequence[Done], format_: str) -> list[dict[str, Any]]:
    """Return what is printed: for people some columns in MiB, for programs all there is."""
    found = [{key.removeprefix("run."): metric.value for key, metric in counts.metrics(
        one.replayed).items()} for one in done]  # fmt: skip
    if format_ in ("json", "csv"):
        names = dict.fromkeys(name for values in found for name in values)
        return [
            {"trace": one.job.source.name, **_setting(one), **names, **values, "why": _why(one)}
            for one, values in zip(done, found, strict=True)
        ]
    return [
        _setting(one)
        | {"zone_capacity": f"{int(one.replayed.setting['zone_capacity']) / _MIB:g} MiB"}
        | {title: _shown(values, name, form) for name, title, form in _COLUMNS}
        | {"why": _why(one)}
        for one, values in zip(done, found, strict=True)
    ]


def _setting(one: Done) -> dict[str, Any]:
    shown = ("zone_capacity", "zones", "finish_occupancy_pct", "finish_remaining_pct")
    names = dict.fromkeys((*shown, *one.job.changes))
    return {
        "label": one.label,
        **{name: one.replayed.setting[name] for name in names},
        "status": "infeasible" if one.replayed.infeasible else "ok",
    }


def _why(one: Done) -> str:
    return next(grid.sentence(one.replayed), "")


def _shown(
    values: Mapping[str, float | None], name: str, form: Callable[[float], str]
) -> str | None:
    value = values.get(name)
    return None if value is None else form(value)


def _mib(value: float) -> str:
    return f"{value / _MIB:.1f}"


def _plain(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# Metric, title, how it is written.
_COLUMNS = (
    ("pad_bytes", "pad MiB", _mib),
    ("zone_finishes", "finishes", _plain),
    ("zone_resets", "resets", _plain),
    ("gc_bytes", "gc MiB", _mib),
    ("wa_pad", "wa_pad", _plain),
    ("space_amplification", "A/V", _plain),
    ("sa_host", "sa_host", _plain),
    ("finish_occupancy_p50", "at finish %", _plain),
    ("wear_cv", "wear cv", _plain),
)
