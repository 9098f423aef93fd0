"""``zonelab aa``: how much identical cells differ, which is the noise floor of a campaign."""

from __future__ import annotations

import argparse
import sys

from harness.cli.output import add_format, add_repeatable, print_records
from harness.errors import ExitCode, UsageError
from harness.store import bundle

SUMMARY = "print the noise floor of a campaign from its identical cells (A/A)"
GROUP = "users"
SHIPPED = False
HELP = """\
Print how much identical cells of a campaign differ, by metric. A study has identical cells if it
lists a level twice: levels: [f2fs, {name: f2fs, variant: twin}]. cell_sd is the standard deviation
between cells that the spread of their runs does not explain. It widens every interval of the
campaign. Differences up to floor get no verdict.

examples:
  zonelab aa results/first
  zonelab aa first --metric 'overwrite.*' --format csv

exit: 0 ok, 2 the campaign has no identical cells"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("campaign", metavar="CAMPAIGN", help="folder, or name under ./results")
    add_repeatable(
        parser, "--metric", "NAME", "metric or pattern; repeatable (default: the study's metrics)"
    )
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print one line per metric; return the exit code.

    Raises:
        UsageError: no two cells are identical, or a metric does not exist.
    """
    from analysis.judge import noise, stats  # noqa: PLC0415 - heavy libraries, only when used
    from analysis.judge.select import select_metrics  # noqa: PLC0415
    from analysis.read.load import load_pool  # noqa: PLC0415

    with bundle.opened(arguments.campaign) as campaign:
        pool = load_pool([campaign.root])
    if not noise.identical_cells([run for run in pool.latest if run.ok]):
        raise UsageError(
            "this campaign has no identical cells with ok runs",
            hint="list a level twice: levels: [f2fs, {name: f2fs, variant: twin}]",
            code="no-twins",
        )
    floors = noise.floors(pool.latest, select_metrics(pool, arguments.metric), stats.NOISE_FLOOR)
    rows = [
        {
            "metric": floor.metric,
            "identical cells": "; ".join(floor.twins),
            "cell_sd": "" if floor.cells is None else f"{floor.cells.cell_sd:.2%}",
            "floor": f"{floor.floor:.2%}",
        }
        for floor in floors.values()
        if floor.twins
    ]
    print_records(rows, arguments.format)
    if not rows:
        print("zonelab: no metric was measured twice in identical cells", file=sys.stderr)
    return ExitCode.OK
