"""``zonelab report``: the campaign's page, figures and tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from harness.cli.output import add_different_code, add_repeatable, add_slower
from harness.errors import ExitCode, UsageError
from harness.store import bundle
from harness.store.campaign import CampaignPaths, find_archive

SUMMARY = "write a campaign's page, figures and tables"
GROUP = "users"
SHIPPED = False
HELP = """\
Write one self-contained HTML page for a campaign, with its figures (SVG) and tables (CSV).
Prints the page's path. The same campaign always gives the same bytes. --format md (for a pull
request) and tex (tables for a paper, with booktabs) print the report and write no file. With
--output, tex writes tables.tex, figures.tex and the main figures as PDF and pgf into a folder.

examples:
  zonelab report results/first
  zonelab report example --output /tmp/example-report
  zonelab report example.tar.xz                    # writes ./example-report
  zonelab report first --also levels-all           # also the levels on other rigs
  zonelab report example --format md | gh pr comment --body-file -
  zonelab report example --format tex > paper/tables.tex
  zonelab report example --format tex --output paper"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "campaign", metavar="CAMPAIGN", help="folder, name under ./results, or archive"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="folder of the page (default: CAMPAIGN/report, or ./CAMPAIGN-report for an archive), "
        "or of the tex files",
    )
    add_slower(parser)
    add_repeatable(
        parser,
        "--also",
        "CAMPAIGN",
        "campaign on another rig: the report also shows its levels, each against the baseline of "
        "that campaign; repeatable",
    )
    add_different_code(parser)
    parser.add_argument(
        "--format", choices=("html", "md", "tex"), default="html", help="default: html"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Write the report and print its path; exit 4 when no run is ok."""
    with ExitStack() as stack:
        campaign = stack.enter_context(bundle.opened(arguments.campaign))
        slower = [stack.enter_context(bundle.opened(name)) for name in arguments.slower]
        also = [stack.enter_context(bundle.opened(name)) for name in arguments.also]
        return _report(campaign, slower, also, arguments)


def _report(
    campaign: CampaignPaths,
    slower: Sequence[CampaignPaths],
    also: Sequence[CampaignPaths],
    arguments: argparse.Namespace,
) -> int:
    from analysis.judge.compare import compare  # noqa: PLC0415
    from analysis.judge.other_campaigns import compare_alone  # noqa: PLC0415
    from analysis.read.load import load, refuse_copies  # noqa: PLC0415
    from analysis.show import latex, paper, pull_request  # noqa: PLC0415
    from analysis.show.report import write_report  # noqa: PLC0415
    from analysis.tenants import mix  # noqa: PLC0415

    if arguments.output and arguments.format == "md":
        raise UsageError(
            "--format md prints to stdout; --output applies to html and tex",
            hint="redirect with > FILE",
        )
    from_archive = find_archive(arguments.campaign) is not None
    own = Path(f"{campaign.root.name}-report") if from_archive else campaign.report
    output = arguments.output or own
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file, not a folder", hint="choose another --output")
    own_data, *other_data = (load(one.root) for one in (campaign, *also))
    refuse_copies([own_data, *other_data], [arguments.campaign, *arguments.also])
    for name, one in zip(arguments.also, other_data, strict=True):
        if one.plan.contrast == mix.FACTOR:
            raise UsageError(
                f"--also {name}: its study compares tenants, not levels",
                hint=f"zonelab report {name} shows them",
            )
    comparison = compare(
        own_data,
        different_code=arguments.different_code,
        slower=[load(one.root) for one in slower],
    )
    others = [compare_alone(one, different_code=arguments.different_code) for one in other_data]
    if arguments.format == "html":
        page, changed = write_report(comparison, output, linked=not from_archive, others=others)
        print(page)
        if not changed:
            print("unchanged", file=sys.stderr)
    elif arguments.output:
        inputs, why_not = paper.write_paper(comparison, output, others)
        print("\n".join(map(str, inputs)))
        if why_not:
            print(f"zonelab: {why_not}\nhint: {why_not.hint}", file=sys.stderr)
    else:
        form = pull_request.markdown if arguments.format == "md" else latex.document
        sys.stdout.write(form(comparison, others))
    if not comparison.any_ok:
        print("zonelab: no run of this campaign is ok; the page lists them", file=sys.stderr)
        return ExitCode.RUNS_FAILED
    return ExitCode.OK
