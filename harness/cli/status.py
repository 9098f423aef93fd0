"""``zonelab status``: how far a campaign is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.cli.output import add_format, add_retry, print_records
from harness.errors import ExitCode, UsageError
from harness.run import lock, progress
from harness.store import overview
from harness.store.campaign import CampaignPaths, find_campaign, load_plan
from harness.store.codec import encode
from harness.store.files import dumps, write_atomic
from harness.store.overview import RunState
from harness.store.result import Status

HELP = """Show how far a campaign is: every planned run of a folder below results/, or the runner at
work for a progress.json (or the campaign's folder on the machine under test).

  zonelab status results/example
  zonelab status /var/lib/zonelab/campaigns/example --format json

--format json prints {campaign, runs_total, pending, counts, runs: [{host, run, level, status,
reason}], rigs_to_come}, status null for a run that is not there yet; for a runner at work its
progress.json. Rigs to come have no part in the plan yet, and are left out of all counts.

exit: 0 the state could be read, 4 with --check when a run failed, is invalid or not there"""

_BAD = frozenset({Status.FAILED.value, Status.INVALID.value})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument(
        "campaign", metavar="CAMPAIGN", help="folder, name under ./results, or progress.json"
    )
    parser.add_argument("--host", help="this host only")
    add_retry(parser, "statuses that count as still to run")
    parser.add_argument(
        "--settle", action="store_true", help="mark it failed when its runner is gone (systemd)"
    )
    parser.add_argument(
        "--check", action="store_true", help="exit 4 unless every run is there, ok or skipped"
    )
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the state; 0 when it could be read, unless ``--check`` asks for more."""
    path = Path(arguments.campaign)
    live = path if path.name == "progress.json" else path / "progress.json"
    if live.is_file():
        _show_live(live, arguments.format, settle=arguments.settle)
        return ExitCode.OK
    campaign = find_campaign(arguments.campaign)
    found = overview.states(campaign, arguments.host)
    if arguments.host and not found:
        raise UsageError(
            f"the plan has no host {arguments.host!r}", hint="zonelab status CAMPAIGN lists all"
        )
    _show(campaign, found, overview.pending(found, arguments.retry), arguments.format)
    good = overview.pending(found, _BAD) == 0
    return ExitCode.OK if good or not arguments.check else ExitCode.RUNS_FAILED


def _show(campaign: CampaignPaths, found: Sequence[RunState], left: int, format_: str) -> None:
    if format_ == "json":
        record = {
            "campaign": campaign.root.resolve().name,
            "runs_total": len(found),
            "pending": left,
            "counts": overview.counts(found),
            "runs": encode(found),
            "rigs_to_come": load_plan(campaign.plan).rigs_to_come,
        }
        print(json.dumps(record, indent=1))
        return
    print_records([encode(state) for state in found], format_)
    if format_ == "table":
        counts = [f"{n} {status}" for status, n in overview.counts(found).items() if n]
        print(f"\n{len(found)} runs: {', '.join(counts) or 'none yet'}; {left} to run")
        for rig in load_plan(campaign.plan).rigs_to_come:
            print(f"rig {rig}: its part is not planned yet")


def _show_live(path: Path, format_: str, *, settle: bool) -> None:
    record = progress.load(path)
    held = lock.is_held(path.parent.parent.parent / "lock")
    if record.state == "running" and not held:
        line = f"{record.campaign}: the runner is gone after {record.runs_done} of"
        line += f" {record.runs_total} runs; run again to resume"
        record = replace(record, state="failed", line=line, eta_seconds=None)
        if settle:
            write_atomic(path, dumps(record))
    if format_ == "json":
        print(json.dumps(encode(record), indent=1))
    elif format_ == "table":
        print(record.line)
    else:
        row = encode(record)
        del row["counts"], row["schema_version"]
        print_records([row | {f"{k}": v for k, v in record.counts.items()}], format_)
