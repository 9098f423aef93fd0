"""``zonelab status``: how far a campaign is."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from harness.cli.output import add_format, print_records
from harness.errors import ExitCode, UsageError
from harness.run import lock, progress
from harness.store import overview
from harness.store.campaign import require_campaign
from harness.store.codec import encode
from harness.store.files import dumps, write_atomic

HELP = """Show how far a campaign is: every planned run of a folder below results/, or the runner at
work for a progress.json (or the campaign's folder on the machine under test).

  zonelab status results/example
  zonelab status /var/lib/zonelab/campaigns/example --format json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("campaign", type=Path, help="campaign folder or progress.json")
    parser.add_argument("--host", help="this host only")
    parser.add_argument("--retry", default="", help="statuses that count as still to run")
    parser.add_argument(
        "--settle", action="store_true", help="mark it failed when its runner is gone (systemd)"
    )
    add_format(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the state; always 0 when it could be read."""
    path: Path = arguments.campaign
    live = path if path.name == "progress.json" else path / "progress.json"
    if live.is_file():
        _show_live(live, arguments.format, settle=arguments.settle)
        return ExitCode.OK
    if not path.is_dir():
        raise UsageError(f"{path} does not exist", hint="name a folder below results/")
    found = overview.states(require_campaign(path), arguments.host)
    if arguments.host and not found:
        raise UsageError(f"the plan has no host {arguments.host!r}")
    left = overview.pending(found, frozenset(arguments.retry.split(",")))
    if arguments.format == "json":
        record = {
            "campaign": path.resolve().name,
            "runs_total": len(found),
            "pending": left,
            "counts": overview.counts(found),
            "runs": encode(found),
        }
        print(json.dumps(record, indent=1))
        return ExitCode.OK
    print_records([encode(state) for state in found], arguments.format)
    if arguments.format == "table":
        counts = [f"{n} {status}" for status, n in overview.counts(found).items() if n]
        print(f"\n{len(found)} runs: {', '.join(counts) or 'none yet'}; {left} to run")
    return ExitCode.OK


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
