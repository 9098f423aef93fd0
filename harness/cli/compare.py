"""``zonelab compare``: compare two sides, with ratio, interval and verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from harness.cli.output import add_different_code, add_format, add_repeatable, add_slower
from harness.errors import ExitCode, UsageError
from harness.store import bundle

if TYPE_CHECKING:
    from analysis.judge.compare import Comparison
    from analysis.read.load import CampaignData, Pool

SUMMARY = "compare levels with the baseline: ratio, interval and verdict"
GROUP = "users"
SHIPPED = False
HELP = """\
Compare measurements with a baseline: ratio, interval, n, verdict. By default compares the levels of
a campaign; --contrast selects a factor, cells or hosts; two campaigns are compared with each other.
Runs are paired with runs that differ only in the contrasted factor.

examples:
  zonelab compare results/first
  zonelab compare example --metric 'overwrite.*' --format md
  zonelab compare example --baseline f2fs --against zlfs
  zonelab compare schedulers --contrast scheduler --baseline none --where level=f2fs
  zonelab compare example --contrast cell --baseline f2fs --against zlfs
  zonelab compare lab --contrast host --baseline lab1
  zonelab compare before after --threshold 5          # is "after" worse by more than 5 %?
  zonelab compare before after --contrast cell --baseline before/f2fs --against after/zlfs
  zonelab compare monday tuesday friday --over campaigns  # one interval over all campaigns
  zonelab compare example --slower example-slow        # modelled drives: verdicts on times
  zonelab compare example --effect 5                   # how many repetitions would show 5 %?
  zonelab compare example.tar.xz --format csv          # an archive of zonelab bundle

The records of both sides are compared first. A row is "not comparable" if a recorded condition
differs that is part of neither the contrasted factor nor the level. Its notes give the reason.

--format csv prints one line per metric, level and stratum. json has these as "rows", and also the
watermark, noise floors, drift and the status of each cell's runs. Where the table has a dash,
center, low, high and p_value are null (JSON) or empty (CSV).

exit: 0 ok, 1 a metric is worse by more than --threshold, 2 RocksDB builds differ, 4 no run is ok;
with --threshold also 4 if nothing could be judged or runs are missing on one side"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "campaign",
        nargs="+",
        metavar="CAMPAIGN",
        help="folder, name under ./results, or archive of zonelab bundle",
    )
    parser.add_argument(
        "--baseline", metavar="VALUE", help="value to compare with (default: the study's baseline)"
    )
    add_repeatable(
        parser,
        "--against",
        "VALUE",
        "compare only this with the baseline; repeatable (default: all others)",
    )
    add_repeatable(
        parser,
        "--metric",
        "NAME",
        "metric or pattern such as 'overwrite.*'; repeatable (default: the study's metrics)",
    )
    parser.add_argument(
        "--contrast",
        metavar="FACTOR",
        help="level, cell, host, campaign or a factor (default: the study's; campaign for several)",
    )
    add_repeatable(
        parser, "--where", "FACTOR=VALUE", "only runs with this value of a factor; repeatable"
    )
    add_slower(parser)
    add_different_code(parser)
    add_repeatable(
        parser,
        "--may-differ",
        "KEY",
        "give verdicts although this recorded condition differs, e.g. host.kernel; repeatable",
    )
    parser.add_argument(
        "--over",
        choices=["campaigns"],
        help="campaigns: pool the ratios of several campaigns, with the campaign as repetition",
    )
    add_format(parser)
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="PCT",
        help="exit 1 when a metric is worse by more than PCT percent (default: never)",
    )
    parser.add_argument(
        "--noise-floor",
        type=float,
        default=1.0,
        metavar="PCT",
        help="differences up to PCT percent get no verdict (default: %(default)s)",
    )
    parser.add_argument(
        "--effect",
        type=float,
        metavar="PCT",
        help="print the repetitions that would show a difference of PCT percent",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Print the comparison; return the exit code.

    Raises:
        UsageError: an option is wrong, or RocksDB builds differ. All other rows are printed first.
    """
    from analysis.read.load import load, load_pool  # noqa: PLC0415 - heavy libraries, only when used

    for name in ("threshold", "noise_floor", "effect"):
        value = getattr(arguments, name)
        if value is not None and not 0 <= value < float("inf"):
            raise UsageError(
                f"--{name.replace('_', '-')} {value:g} is not a percentage of 0 or more",
                hint="for example 5, which is 5 %",
            )
    with ExitStack() as stack:
        campaigns = [stack.enter_context(bundle.opened(name)) for name in arguments.campaign]
        slower = [load(stack.enter_context(bundle.opened(name)).root) for name in arguments.slower]
        pool = load_pool([one.root for one in campaigns], arguments.campaign)
        return _print(pool, slower, arguments)


def _print(pool: Pool, slower: Sequence[CampaignData], arguments: argparse.Namespace) -> int:
    from analysis.judge.compare import compare  # noqa: PLC0415 - heavy libraries, only when used
    from analysis.judge.over_campaigns import compare_over  # noqa: PLC0415
    from analysis.show.render import render  # noqa: PLC0415

    if arguments.over and arguments.effect:
        raise UsageError(
            "--effect needs a single campaign, without --over", hint="omit --over", code="effect"
        )
    contrast = arguments.contrast
    if arguments.over and contrast is None:
        contrast = pool.first.plan.contrast
    comparison = compare(
        pool,
        baseline=arguments.baseline,
        contrast=contrast,
        metrics=arguments.metric,
        noise_floor=arguments.noise_floor / 100,
        against=arguments.against,
        where=dict(_pair(text) for text in arguments.where),
        different_code=arguments.different_code,
        may_differ=arguments.may_differ,
        slower=slower,
    )
    if arguments.over:
        comparison = compare_over(comparison)
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
    """Print regressions of more than ``threshold`` percent; fail if no row could be judged."""
    regressions = comparison.regressions(threshold / 100)
    for row in regressions:
        stratum = f" ({row.stratum})" if row.stratum else ""
        print(
            f"zonelab: regression: {row.metric} of {row.level}{stratum} is worse than "
            f"{row.baseline} by more than {threshold:g} %",
            file=sys.stderr,
        )
    if regressions:
        return ExitCode.REGRESSION
    for name in comparison.absent:
        print(f"zonelab: {name}: {comparison.skipped[name]}", file=sys.stderr)
    if not comparison.any_judged:
        print("zonelab: no row has a verdict, so a regression is not excluded", file=sys.stderr)
    blind = comparison.absent or not comparison.any_judged
    return ExitCode.RUNS_FAILED if blind else ExitCode.OK


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"--where {text} is not FACTOR=VALUE", hint="for example level=f2fs")
    return name, value
