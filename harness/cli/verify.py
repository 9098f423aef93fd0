"""``zonelab verify``: check that a campaign is whole and unchanged, and judge its claims."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from harness.cli.output import add_different_code, add_format, add_slower, print_records
from harness.errors import ExitCode, HostError, UsageError
from harness.store import bundle, overview
from harness.store.campaign import CampaignPaths, find_archive, find_campaign
from harness.verify import agreement, media_again, recompute, signed_root, unchecked

SUMMARY = "check a campaign: checksums, schemas, completeness, claims"
GROUP = "users"
SHIPPED = True
HELP = """\
Check a campaign: checksums, schemas, missing runs, and every number, issue and status, which are
computed again from raw/. The plan is derived again from the study inside it. Prints one line per
problem, or "whole" and the root hash, which depends on every byte of plan and runs. Compare it with
a root hash that was published elsewhere (docs/methods.md, "What verify proves").

examples:
  zonelab verify results/first
  zonelab verify example.tar.xz                    # an archive of zonelab bundle
  zonelab verify example --claims                  # claims.toml of the campaign, or of its study
  zonelab verify mine --claims results/first/claims.toml
  zonelab verify example --claims --slower example-slow    # modelled drives: claims about times
  zonelab verify signed.tar.xz --signers allowed_signers   # who signed, by ssh-keygen

--claims then judges each claim: pass, fail or not shown, with the reason (docs/methods.md,
"Claims").

--format json prints a list of {problem}, which is empty for a whole campaign; with --claims, a list
of claims.

stderr lists the parts that could not be checked, for instance in runs by other code.

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
    add_slower(parser)
    add_different_code(parser)
    parser.add_argument(
        "--signers",
        type=Path,
        metavar="FILE",
        help="names and keys of allowed signers, as in ssh-keygen(1); the signature must be theirs",
    )
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the problems, or the judged claims of a whole campaign."""
    for name in ("different_code", "slower"):
        if getattr(arguments, name) and arguments.claims is None:
            option = name.replace("_", "-")
            raise UsageError(
                f"--{option} needs --claims", hint="add --claims; without it nothing is compared"
            )
    if archive := find_archive(arguments.campaign):
        with tempfile.TemporaryDirectory(prefix="zonelab-") as folder:
            root, found = bundle.unpacked(archive, Path(folder))
            return _verify(CampaignPaths(root), arguments, found)
    return _verify(find_campaign(arguments.campaign), arguments, [])


def problems(campaign: CampaignPaths) -> tuple[list[str], list[str]]:
    """Return the problems of a campaign, and notes on what could not be checked."""
    found = [
        *overview.problems(campaign),
        *agreement.problems(campaign),
        *recompute.problems(campaign),
        *media_again.problems(campaign),
    ]
    notes = [*unchecked.notes(campaign), *media_again.notes(campaign)]
    try:
        from harness.cli import verify_plan  # noqa: PLC0415 - not in the runner
    except ImportError:
        return found, [*notes, "the plan is not derived again: the planner is not installed"]
    return [*found, *verify_plan.problems(campaign)], [*notes, *verify_plan.notes(campaign)]


def _verify(campaign: CampaignPaths, arguments: argparse.Namespace, found: list[str]) -> int:
    more, notes = problems(campaign)
    signature = signed_root.check(campaign, arguments.signers)
    found += [*more, *signature.problems]
    for note in [*notes, *signature.notes]:
        print(f"zonelab: not checked: {note}", file=sys.stderr)
    if arguments.claims is not None and not found:
        return _claims(campaign, arguments)
    if arguments.claims is not None:
        print("zonelab: claims are judged only for a whole campaign", file=sys.stderr)
    if arguments.format == "table":
        whole = [f"{arguments.campaign}: whole", f"root hash: {signature.root}"]
        print("\n".join(found or [*whole, *signature.lines]))
    else:
        print_records([{"problem": line} for line in found], arguments.format, ["problem"])
    return ExitCode.RUNS_FAILED if found else ExitCode.OK


def _claims(campaign: CampaignPaths, arguments: argparse.Namespace) -> ExitCode:
    try:
        from harness.cli.verify_claims import print_outcomes  # noqa: PLC0415 - not in the runner
    except ModuleNotFoundError as error:
        raise HostError(
            f"--claims needs {error.name}, which is not installed",
            hint="run it from a checkout: make setup, then .venv/bin/zonelab",
            code="module-missing",
        ) from error
    file = arguments.claims if arguments.claims != Path() else None
    held = print_outcomes(
        campaign.root,
        file,
        arguments.format,
        slower=arguments.slower,
        different_code=arguments.different_code,
    )
    return ExitCode.OK if held else ExitCode.REGRESSION
