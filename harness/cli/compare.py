"""``zonelab compare``: every level against the baseline, with interval and verdict."""

from __future__ import annotations

import argparse
import sys

from harness.cli.output import add_format
from harness.errors import ExitCode, UsageError
from harness.store.campaign import find_campaign

HELP = """\
Compare the levels of a campaign: ratio to the baseline, interval, n, verdict.

examples:
  zonelab compare results/example
  zonelab compare example --metric 'overwrite.*' --format md
  zonelab compare example --baseline f2fs --threshold 5

--format csv has one line per metric, level and stratum; json the same as "rows", with the watermark
and how the runs of each cell ended.

exit: 0 ok, 1 a metric is worse by more than --threshold, 2 runs are of different builds of RocksDB,
4 no run is ok"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("campaign", metavar="CAMPAIGN", help="folder, or name under ./results")
    parser.add_argument("--baseline", metavar="LEVEL", help="compare with this (study's choice)")
    parser.add_argument(
        "--metric", action="append", default=[], metavar="NAME",
        help="metric or pattern such as 'overwrite.*'; repeatable (default: the study's metrics)",
    )  # fmt: skip
    parser.add_argument("--contrast", metavar="FACTOR", help="factor to compare (study's choice)")
    add_format(parser)
    parser.add_argument(
        "--threshold", type=float, metavar="PCT",
        help="exit 1 when a metric is worse by more than PCT percent (default: never)",
    )  # fmt: skip
    parser.add_argument(
        "--noise-floor", type=float, default=1.0, metavar="PCT",
        help="differences up to PCT percent get no verdict (default: %(default)s)",
    )  # fmt: skip


def execute(arguments: argparse.Namespace) -> int:
    """Print the comparison; return the exit code.

    Raises:
        UsageError: an option is wrong, or runs are of different builds of RocksDB; all other rows
            are printed nevertheless.
    """
    from analysis.compare import compare  # noqa: PLC0415 - heavy libraries, only when used
    from analysis.load import load  # noqa: PLC0415
    from analysis.render import render  # noqa: PLC0415

    for name in ("threshold", "noise_floor"):
        value = getattr(arguments, name)
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError(
                f"--{name.replace('_', '-')} {value:g} is not a percentage of 0 or more",
                hint="for example 5, which is 5 %",
            )
    comparison = compare(
        load(find_campaign(arguments.campaign).root),
        baseline=arguments.baseline,
        contrast=arguments.contrast,
        metrics=arguments.metric,
        noise_floor=arguments.noise_floor / 100,
    )
    sys.stdout.write(render(comparison, arguments.format))
    if not comparison.any_ok:
        print("zonelab: no run of this campaign is ok, nothing to compare", file=sys.stderr)
        return ExitCode.RUNS_FAILED
    if comparison.mixed_builds:
        raise UsageError(
            f"different builds of RocksDB are not compared: {'; '.join(comparison.mixed_builds)}",
            hint="run all levels with one db_bench (docs/builds.md)",
            code="builds-differ",
        )
    if arguments.threshold is None:
        return ExitCode.OK
    found = comparison.regressions(arguments.threshold / 100)
    for row in found:
        print(
            f"zonelab: regression: {row.metric} of {row.level} is worse than {row.baseline} "
            f"by more than {arguments.threshold:g} %",
            file=sys.stderr,
        )
    return ExitCode.REGRESSION if found else ExitCode.OK
