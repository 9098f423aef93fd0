"""``zonelab replay``: play recorded zone allocations again with other settings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.cli.output import add_format, portable, print_records
from harness.errors import ConfigError, ExitCode, UsageError
from harness.levels.zlfs import Zlfs
from harness.plan import model_verdicts
from harness.plan.drive_files import load_model, program_input
from harness.quantities import parse_size
from harness.replay import campaign_writer, grid, sources
from harness.replay.campaign_writer import ReplayOutcome
from harness.run import replayed as counts
from harness.store.campaign import RESULTS
from harness.store.spec import Scalar

SUMMARY = "replay the allocations that zlfs recorded, with other settings"
GROUP = "users"
SHIPPED = False
HELP = """\
Play the allocations that level zlfs recorded again, with other finish thresholds, zone sizes and
policies. The allocator of zlfs decides; no device is needed. The result is deterministic and holds
bytes and counts. With --model it also holds times: those of a modelled drive (docs/model.md).

With the recorded settings the result must equal the recorded ledger, otherwise the command fails.
Every other setting is counterfactual: the writes, deletes and syncs stay as they were recorded
(docs/replay.md).

TRACE is a run directory, or a trace file that zlfs wrote (trace=PATH in its URI). Several traces
are repetitions of one cell. A list of values is an axis of the grid. The number of zones follows
from the recorded capacity. A setting that cannot hold the data is infeasible; this is a result.

examples:
  zonelab replay results/thresholds/hosts/rig/runs/zlfs--r01 --finish-occupancy-pct 0,50,100
  zonelab replay trace --finish-occupancy-pct 0,10,20,30,40,50,60,70,80,90,100 \\
    --zone-capacity 128MiB,64MiB,32MiB --jobs 2 --campaign thresholds-replayed
  zonelab replay trace --model zn540-1tb --zone-capacity 128MiB,64MiB,32MiB
  zonelab replay trace --gc on,off --max-active 8,14 --format csv
  zonelab report thresholds-replayed        # figures of the campaign above

exit: 0 ok (infeasible settings included), 2 a trace or an option is wrong, 4 the allocator decides
differently from the recording"""

_MIB = 2**20
_GEOMETRY = {
    "zone_capacity": "bytes of a zone, for example 64MiB",
    "zones": "number of zones",
    "max_active": "limit of active zones, set by the drive or by an option of zlfs; 0: no limit",
}
_OPTIONS = {
    **_GEOMETRY,
    **{name: "option of zlfs (docs/zlfs.md)" for name in Zlfs.options if name not in _GEOMETRY},
}
# Options whose values are words; the values of all others are whole numbers.
_WORDS = frozenset({"gc", "gc_victim", "lifetimes", "on_active_limit"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "source", nargs="+", type=Path, metavar="TRACE", help="run directory or trace file"
    )
    for name, what in _OPTIONS.items():
        parser.add_argument(_option(name), metavar="A,B", help=what)
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of settings to play at once (default: one per processor)",
    )
    parser.add_argument(
        "--campaign", metavar="NAME", help="store the results in ./results/NAME, marked as replayed"
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="add times on this drive (see: zonelab model list)"
    )
    parser.add_argument(
        "--dilation",
        type=int,
        default=1,
        metavar="K",
        help="seconds of a trace file per second of its drive, for --model (run directories know)",
    )
    parser.add_argument(
        "--own-rules",
        action="store_true",
        help="play the recorded setting with the rules for other settings, to check these rules",
    )
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Play the grid, store and print it; 4 if a recorded setting gives another ledger."""
    if arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs} is less than 1", hint="--jobs 2")
    if arguments.dilation < 1:
        raise UsageError(f"--dilation {arguments.dilation} is less than 1", hint="--dilation 256")
    if arguments.campaign is not None:
        campaign_writer.check_name(arguments.campaign, RESULTS)
    axes = _axes(arguments)
    model = None if arguments.model is None else load_model(arguments.model)
    with sources.opened(arguments.source, arguments.dilation) as traces:
        jobs = grid.jobs(traces, axes)
        played = grid.play(
            jobs,
            at_once=arguments.jobs,
            own_rules=arguments.own_rules,
            model=None if model is None else program_input(model),
            on_progress=lambda done, seconds: _show_progress(done, len(jobs), seconds),
        )
        outcomes = [
            ReplayOutcome(job, replayed) for job, replayed in zip(jobs, played, strict=True)
        ]
    print_records(_rows(outcomes, arguments.format), arguments.format)
    if arguments.campaign is not None:  # after the table, which a full disk does not lose
        command = portable(sys.argv, Path.cwd())
        folder = campaign_writer.save(arguments.campaign, outcomes, RESULTS, command, model)
        print(f"stored in {folder}; see: zonelab report {folder}", file=sys.stderr)
    if model is not None:
        core = model_verdicts.core(model)
        print(f"times are modelled: {model.name}, core {core}", file=sys.stderr)
    differences = [line for outcome in outcomes for line in outcome.replayed.differences]
    for line in differences:
        print(f"zonelab: differs from the recorded ledger: {line}", file=sys.stderr)
    return ExitCode.RUNS_FAILED if differences else ExitCode.OK


def _option(name: str) -> str:
    """Return the command line's spelling of an option of zlfs: with hyphens."""
    return f"--{name.replace('_', '-')}"


def _axes(arguments: argparse.Namespace) -> dict[str, list[Scalar]]:
    """Return the values of each option that was given, by the option's upstream name."""
    axes: dict[str, list[Scalar]] = {}
    for name in _OPTIONS:
        text = getattr(arguments, name)
        if text is None:
            continue
        values = [_value(name, part) for part in text.split(",")]
        if len(set(values)) != len(values):
            raise UsageError(f"{_option(name)} {text} repeats a value", hint="give each value once")
        axes[name] = values
    if {"finish_occupancy_pct", "finish_remaining_pct"} <= axes.keys():
        raise UsageError(
            "--finish-occupancy-pct and --finish-remaining-pct set the same threshold",
            hint="give one of them; each is 100 minus the other",
        )
    return axes


def _value(name: str, text: str) -> Scalar:
    try:
        if name == "zone_capacity":
            return parse_size(text)
        if name in _WORDS and text:
            return text
        return int(text)
    except (ConfigError, ValueError) as error:
        hint = error.hint if isinstance(error, ConfigError) else ""
        raise UsageError(
            f"{_option(name)}: {text!r} is not a valid value",
            hint=hint or "separate whole numbers with commas: 0,50,100",
        ) from None


def _show_progress(done: int, total: int, seconds: float) -> None:
    """Redraw the bar; if stderr is no terminal, print a line for each tenth of the settings."""
    line = grid.bar(done, total, seconds)
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)
    elif done == total or done * 10 // total != (done - 1) * 10 // total:
        print(line, file=sys.stderr)


def _rows(outcomes: Sequence[ReplayOutcome], format_: str) -> list[dict[str, Any]]:
    """Return the records to print: every metric for programs, the main ones for people."""
    metrics = [
        {
            key.removeprefix("run."): metric.value
            for key, metric in counts.metrics(outcome.replayed).items()
        }
        for outcome in outcomes
    ]
    pairs = list(zip(outcomes, metrics, strict=True))
    if format_ in ("json", "csv"):
        columns = dict.fromkeys(name for values in metrics for name in values)
        return [
            {"trace": outcome.job.source.name, **_setting(outcome), **columns, **values}
            | {"why": grid.why_infeasible(outcome.replayed)}
            for outcome, values in pairs
        ]
    return [
        _setting(outcome)
        | {"zone_capacity": f"{int(outcome.replayed.setting['zone_capacity']) / _MIB:g} MiB"}
        | {
            title: None if (value := values.get(name)) is None else write(value)
            for name, title, write in (*_COLUMNS, *(_TIMED if outcome.replayed.modelled else ()))
        }
        | {"why": grid.why_infeasible(outcome.replayed)}
        for outcome, values in pairs
    ]


def _setting(outcome: ReplayOutcome) -> dict[str, Any]:
    shown = ("zone_capacity", "zones", "finish_occupancy_pct", "finish_remaining_pct")
    names = dict.fromkeys((*shown, *outcome.job.changes))
    return {
        "label": outcome.label,
        **{name: outcome.replayed.setting[name] for name in names},
        "status": "infeasible" if outcome.replayed.infeasible else "ok",
    }


def _mib(value: float) -> str:
    return f"{value / _MIB:.1f}"


def _plain(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# Metric, column title, and how a value is written.
_COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
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
# With --model.
_TIMED: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("modelled_seconds", "modelled s", _plain),
    ("modelled_bandwidth", "modelled MiB/s", _mib),
    ("modelled_append_wal_p99_9", "wal append p99.9 us", _plain),
    ("modelled_sync_flush_p50", "flush sync p50 us", _plain),
    ("modelled_sync_compaction_p50", "compaction sync p50 us", _plain),
    ("modelled_finish_device_seconds", "finish s", _plain),
    ("modelled_reset_device_seconds", "reset s", _plain),
)
