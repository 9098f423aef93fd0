"""``zonelab verify``: is a campaign whole and unchanged, and does it say what was claimed?"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from harness.cli.output import add_format, print_records
from harness.errors import ExitCode, HostError
from harness.run import recompute
from harness.store import bundle, overview
from harness.store.campaign import CampaignPaths, find_campaign

HELP = """Check a campaign: every checksum, every schema, every planned run there, and every number
computed again from raw/. One line per problem; exit 4 when there is any.

  zonelab verify results/example
  zonelab verify example.tar.xz                    # of zonelab bundle: its own checksums, too
  zonelab verify example --claims                  # the study's, or the campaign's claims.toml
  zonelab verify mine --claims results/example/claims.toml

With --claims it then says of each claim: pass, fail (exit 1) or not shown, and why
(docs/methods.md, "Claims").

--format json prints a list of {problem}, empty when the campaign is whole; of claims, theirs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument(
        "campaign", metavar="CAMPAIGN", help="folder, name under ./results, or archive"
    )
    parser.add_argument(
        "--claims", nargs="?", type=Path, const=Path(), metavar="FILE",
        help="judge claims, too: of this file, the campaign's claims.toml or its study",
    )  # fmt: skip
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the problems, or of a whole campaign what became of the claims."""
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
        print("zonelab: claims are not judged by a campaign that is not whole", file=sys.stderr)
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
