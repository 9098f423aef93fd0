"""``zonelab compare``: one side against another, with interval and verdict."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from harness.cli.output import add_format
from harness.errors import ExitCode, UsageError
from harness.store.campaign import find_campaign

if TYPE_CHECKING:
    from analysis.compare import Comparison

HELP = """\
Compare what was measured: ratio to a baseline, interval, n, verdict. Levels of a campaign by
default; with --contrast any factor, cells, hosts; of two campaigns one against the other.
Runs are paired with those that are the same in everything but what is contrasted.

examples:
  zonelab compare results/example
  zonelab compare example --metric 'overwrite.*' --format md
  zonelab compare example --baseline f2fs --against zlfs
  zonelab compare schedulers --contrast scheduler --baseline none --where level=f2fs
  zonelab compare example --contrast cell --baseline f2fs --against zlfs
  zonelab compare lab --contrast host --baseline lab1
  zonelab compare before after --threshold 5          # is "after" worse by more than 5 %?
  zonelab compare before after --contrast cell --baseline before/f2fs --against after/zlfs
  zonelab compare example --effect 5                   # how many repetitions would show 5 %?

What was recorded of both sides is diffed first; whatever matters and differs (CPUs, memory, builds,
sizes, direct I/O, the WAL's bytes that reached a device) leaves a row "not comparable", with why.

--format csv has one line per metric, level and stratum; json the same as "rows", with the
watermark, noise floors, drift, and how the runs of each cell ended.

exit: 0 ok, 1 a metric is worse by more than --threshold, 2 runs are of different builds of RocksDB,
4 no run is ok; with --threshold also: nothing could be judged, or runs are missing on one side"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "campaign", nargs="+", metavar="CAMPAIGN", help="folder, or name under ./results"
    )
    parser.add_argument("--baseline", metavar="VALUE", help="compare with this (study's choice)")
    parser.add_argument(
        "--against", action="append", default=[], metavar="VALUE",
        help="hold only this against the baseline; repeatable (default: all others)",
    )  # fmt: skip
    parser.add_argument(
        "--metric", action="append", default=[], metavar="NAME",
        help="metric or pattern such as 'overwrite.*'; repeatable (default: the study's metrics)",
    )  # fmt: skip
    parser.add_argument(
        "--contrast", metavar="FACTOR",
        help="level, cell, host, campaign or a factor (the study's choice; several: campaign)",
    )  # fmt: skip
    parser.add_argument(
        "--where", action="append", default=[], metavar="FACTOR=VALUE",
        help="only runs with this value of a factor; repeatable",
    )  # fmt: skip
    add_format(parser)
    parser.add_argument(
        "--threshold", type=float, metavar="PCT",
        help="exit 1 when a metric is worse by more than PCT percent (default: never)",
    )  # fmt: skip
    parser.add_argument(
        "--noise-floor", type=float, default=1.0, metavar="PCT",
        help="differences up to PCT percent get no verdict (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--effect", type=float, metavar="PCT",
        help="say how many repetitions would show a difference of PCT percent",
    )  # fmt: skip


def execute(arguments: argparse.Namespace) -> int:
    """Print the comparison; return the exit code.

    Raises:
        UsageError: an option is wrong, or runs are of different builds of RocksDB; all other rows
            are printed nevertheless.
    """
    from analysis.compare import compare  # noqa: PLC0415 - heavy libraries, only when used
    from analysis.load import load_pool  # noqa: PLC0415
    from analysis.render import render  # noqa: PLC0415

    for name in ("threshold", "noise_floor", "effect"):
        value = getattr(arguments, name)
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError(
                f"--{name.replace('_', '-')} {value:g} is not a percentage of 0 or more",
                hint="for example 5, which is 5 %",
            )
    comparison = compare(
        load_pool([find_campaign(name).root for name in arguments.campaign]),
        baseline=arguments.baseline,
        contrast=arguments.contrast,
        metrics=arguments.metric,
        noise_floor=arguments.noise_floor / 100,
        against=arguments.against,
        where=dict(_pair(text) for text in arguments.where),
    )
    effect = arguments.effect / 100 if arguments.effect else None
    sys.stdout.write(render(comparison, arguments.format, effect))
    if not comparison.any_ok:
        print("zonelab: no run of this campaign is ok, nothing to compare", file=sys.stderr)
        return ExitCode.RUNS_FAILED
    if comparison.mixed_builds:
        raise UsageError(
            f"different builds of RocksDB are not compared: {'; '.join(comparison.mixed_builds)}",
            hint="run all levels with one db_bench (docs/builds.md)",
            code="builds-differ",
        )
    return ExitCode.OK if arguments.threshold is None else _gate(comparison, arguments.threshold)


def _gate(comparison: Comparison, threshold: float) -> ExitCode:
    """Say what is worse by more than ``threshold`` percent; a gate that saw nothing stays shut."""
    found = comparison.regressions(threshold / 100)
    for row in found:
        stratum = f" ({row.stratum})" if row.stratum else ""
        print(
            f"zonelab: regression: {row.metric} of {row.level}{stratum} is worse than "
            f"{row.baseline} by more than {threshold:g} %",
            file=sys.stderr,
        )
    if found:
        return ExitCode.REGRESSION
    for name in comparison.absent:
        print(f"zonelab: {name}: {comparison.skipped[name]}", file=sys.stderr)
    if not comparison.any_judged:
        print("zonelab: no row has a verdict: nothing is known to be no worse", file=sys.stderr)
    blind = comparison.absent or not comparison.any_judged
    return ExitCode.RUNS_FAILED if blind else ExitCode.OK


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"--where {text}: not FACTOR=VALUE", hint="for example level=f2fs")
    return name, value
