"""``zonelab status``: show the progress of a campaign."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.cli.output import add_format, add_retry, print_records
from harness.errors import ExitCode, UsageError
from harness.machine import lock
from harness.machine import paths as machine_paths
from harness.run import progress
from harness.store import bundle, overview
from harness.store.campaign import CampaignPaths, load_plan
from harness.store.codec import encode
from harness.store.files import dumps, write_atomic
from harness.store.overview import RunState
from harness.store.result import BAD

SUMMARY = "show how far a campaign is and how much time is left"
GROUP = "users"
SHIPPED = True
HELP = """\
Show the progress of a campaign: all planned runs of a folder below results/, or the current run
for a progress.json (or the campaign's folder on the machine under test).

examples:
  zonelab status results/first
  zonelab status /var/lib/zonelab/campaigns/example --format json

--format json prints {campaign, runs_total, pending, counts, runs: [{host, run, level, status,
reason}], rigs_to_come}. The status of a pending run is null. For a working runner it prints
progress.json. Rigs to come are not planned yet and not included in any count.

exit: 0 the state was read, 4 with --check: a run failed, is invalid or is missing"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument(
        "campaign",
        metavar="CAMPAIGN",
        help="folder, name under ./results, archive, or progress.json",
    )
    parser.add_argument("--host", help="show only this host")
    add_retry(parser, "count runs with these statuses as pending")
    parser.add_argument(
        "--settle",
        action="store_true",
        help="mark the campaign as failed if its runner is gone (for systemd)",
    )
    parser.add_argument(
        "--check", action="store_true", help="exit with 4 unless every run is ok or skipped"
    )
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the state; with ``--check``, fail unless every run is ok or skipped."""
    path = Path(arguments.campaign)
    live = path if path.name == "progress.json" else path / "progress.json"
    if live.is_file():
        _show_live(live, arguments.format, settle=arguments.settle)
        return ExitCode.OK
    with bundle.opened(arguments.campaign) as campaign:
        return _show_campaign(campaign, arguments)


def _show_campaign(campaign: CampaignPaths, arguments: argparse.Namespace) -> int:
    states = overview.states(campaign, arguments.host)
    hosts = {one.host for one in load_plan(campaign.plan).hosts}
    if arguments.host and arguments.host not in hosts:
        raise UsageError(
            f"the plan has no host {arguments.host!r}", hint="zonelab status CAMPAIGN lists all"
        )
    _show(campaign, states, overview.pending(states, arguments.retry), arguments.format)
    good = overview.pending(states, BAD) == 0
    return ExitCode.OK if good or not arguments.check else ExitCode.RUNS_FAILED


def _show(campaign: CampaignPaths, states: Sequence[RunState], left: int, format_: str) -> None:
    if format_ == "json":
        record = {
            "campaign": campaign.root.resolve().name,
            "runs_total": len(states),
            "pending": left,
            "counts": overview.counts(states),
            "runs": states,
            "rigs_to_come": load_plan(campaign.plan).rigs_to_come,
        }
        print(dumps(record), end="")
        return
    print_records([encode(state) for state in states], format_)
    if format_ == "table":
        counts = [f"{n} {status}" for status, n in overview.counts(states).items() if n]
        print(f"\n{len(states)} runs: {', '.join(counts) or 'none yet'}; {left} to run")
        for rig in load_plan(campaign.plan).rigs_to_come:
            print(f"rig {rig}: not planned yet")


def _show_live(path: Path, format_: str, *, settle: bool) -> None:
    record = progress.load(path)
    if record.state == "running" and not lock.is_held(_runner_lock(path)):
        line = f"{record.campaign}: the runner is gone after {record.runs_done} of"
        line += f" {record.runs_total} runs; run again to resume"
        record = replace(record, state="failed", line=line, eta_seconds=None)
        if settle:
            write_atomic(path, dumps(record))
    if format_ == "json":
        print(dumps(record), end="")
    elif format_ == "table":
        print(record.line)
    else:
        row = encode(record)
        del row["counts"], row["heartbeat"], row["schema_version"]
        print_records([row | dict(record.counts)], format_)


def _runner_lock(progress_file: Path) -> Path:
    """Return the lock that a runner of this campaign holds: the study's if it has no device."""
    native = machine_paths.native_lock(progress_file.resolve().parent.parent.parent)
    return native if native.is_file() else machine_paths.LOCK
