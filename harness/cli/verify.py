"""``zonelab verify``: check that a campaign is whole and unchanged, and judge its claims."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from harness.cli.output import add_format, print_records
from harness.errors import ExitCode, HostError
from harness.store import bundle, overview
from harness.store.campaign import CampaignPaths, find_campaign
from harness.verify import recompute

SUMMARY = "check a campaign: checksums, schemas, completeness, claims"
GROUP = "users"
SHIPPED = True
HELP = """\
Check a campaign: checksums, schemas, missing runs, and every number, which is computed again from
raw/. Prints one line per problem, or "whole".

examples:
  zonelab verify results/first
  zonelab verify example.tar.xz                    # an archive of zonelab bundle
  zonelab verify example --claims                  # claims.toml of the campaign, or of its study
  zonelab verify mine --claims results/first/claims.toml

--claims then judges each claim: pass, fail or not shown, with the reason (docs/methods.md,
"Claims").

--format json prints a list of {problem}, which is empty for a whole campaign; with --claims, a list
of claims.

exit: 0 whole, 1 a claim fails, 4 the campaign has problems"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument(
        "campaign", metavar="CAMPAIGN", help="folder, name under ./results, or archive"
    )
    parser.add_argument(
        "--claims",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="FILE",
        help="also judge claims: from FILE, else from the campaign's claims.toml or its study",
    )
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the problems, or the judged claims of a whole campaign."""
    if Path(arguments.campaign).is_file():
        with (
            tempfile.TemporaryDirectory(prefix="zonelab-") as folder,
            bundle.unpacked(Path(arguments.campaign), Path(folder)) as (root, found),
        ):
            return _verify(CampaignPaths(root), arguments, found)
    return _verify(find_campaign(arguments.campaign), arguments, [])


def _verify(campaign: CampaignPaths, arguments: argparse.Namespace, found: list[str]) -> int:
    found += [*overview.problems(campaign), *recompute.problems(campaign)]
    if arguments.claims is not None and not found:
        return _claims(campaign, arguments.claims, arguments.format)
    if arguments.claims is not None:
        print("zonelab: claims are judged only for a whole campaign", file=sys.stderr)
    if arguments.format == "table":
        print("\n".join(found) if found else f"{arguments.campaign}: whole")
    else:
        print_records([{"problem": line} for line in found], arguments.format, ["problem"])
    return ExitCode.RUNS_FAILED if found else ExitCode.OK


def _claims(campaign: CampaignPaths, file: Path, format_: str) -> ExitCode:
    try:
        from harness.cli.claims import print_outcomes  # noqa: PLC0415 - not in the runner
    except ModuleNotFoundError as error:
        raise HostError(
            f"--claims needs {error.name}, which is not here",
            hint="run it from a checkout: make setup, then .venv/bin/zonelab",
            code="module-missing",
        ) from error
    named = file if file != Path() else None
    return ExitCode.OK if print_outcomes(campaign.root, named, format_) else ExitCode.REGRESSION
