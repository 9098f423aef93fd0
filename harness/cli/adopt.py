"""``zonelab adopt``: make a campaign of published measurements, to compare them with own ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.adopt import fio_files, imported_campaign
from harness.cli.output import add_repeatable, portable
from harness.errors import ExitCode, UsageError
from harness.replay.campaign_writer import check_name
from harness.store.campaign import RESULTS

SUMMARY = "make a campaign from measurements of others (JSON files of fio)"
GROUP = "users"
SHIPPED = False
HELP = """\
Make a campaign of the kind "imported" from JSON files of fio (--output-format=json or json+), in
folders of any layout. The files and their names are stored unchanged. The command prints options
that differ between the files of a folder, and the report lists jobs that ended early.

fio records neither the I/O scheduler nor the drive, so you declare them. Patterns match paths below
DIR, as in "*_none_*". Files with equal options are repetitions. `report` shows curves and published
guidelines; `verify` computes each number again from the files. `compare` lists values and gives no
verdict, because zonelab did not see the runs.

examples:
  zonelab adopt fio data/ --device "ZN540 3.8T" --campaign theirs
  zonelab adopt fio data/ --device ZN540 --campaign theirs --skip '*nvme0n1*' \\
    --scheduler '*_none_*=none' --scheduler '*_mq-deadline_*=mq-deadline' \\
    --overwrites '*_overwrite-*'
  zonelab report theirs

exit: 0 stored, 2 a file or an option is wrong (nothing is written)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("tool", choices=("fio",), help="program that wrote the files")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the files")
    parser.add_argument("--device", required=True, metavar="TEXT", help="model of the drive")
    parser.add_argument(
        "--campaign", required=True, metavar="NAME", help="store the campaign in ./results/NAME"
    )
    add_repeatable(parser, "--skip", "PATTERN", "leave out the files that match; repeatable")
    add_repeatable(
        parser,
        "--scheduler",
        "PATTERN=NAME",
        "I/O scheduler of the files that match; repeatable",
        type=_scheduler,
    )
    add_repeatable(
        parser,
        "--overwrites",
        "PATTERN",
        "declare that writes of the files that match overwrite data; repeatable",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Store the campaign; print its folder on stdout, and options that differ on stderr."""
    check_name(arguments.campaign, RESULTS)
    device = " ".join(arguments.device.split())
    if not device:
        raise UsageError("--device is empty", hint='name the drive: --device "ZN540 3.8T"')
    files = fio_files.read(
        arguments.folder,
        skip=arguments.skip,
        schedulers=arguments.scheduler,
        overwrites=arguments.overwrites,
    )
    command = portable(sys.argv, Path.cwd())
    folder = imported_campaign.save(arguments.campaign, files, device, RESULTS, command)
    print(folder)
    for one in fio_files.differences(files):
        print(f"zonelab: options differ: {one.text}", file=sys.stderr)
    print(f"zonelab: {len(files)} files are stored; see: zonelab report {folder}", file=sys.stderr)
    return ExitCode.OK


def _scheduler(text: str) -> tuple[str, str]:
    pattern, _, name = text.rpartition("=")
    if not pattern or not name:
        raise UsageError(
            f"--scheduler {text} is not PATTERN=NAME", hint="for example '*_none_*=none'"
        )
    return pattern, name
