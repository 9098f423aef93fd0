"""``zonelab plan``: validate a study, size it for a device, expand it into runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.cli.output import add_format, print_records
from harness.errors import ExitCode, UsageError

HELP = """\
Expand a study into runs for one or more inspected hosts, predict bytes and time, and write
results/<campaign>/{plan.json,campaign.json,hosts/<host>/host.json}. Touches no device.

examples:
  zonelab plan --list
  zonelab plan integration-levels --inspection rig=inspection.json --check
  zonelab plan integration-levels --inspection lab1=lab1.json --levels f2fs,btrfs --repetitions 5
  zonelab plan levels-all --rigs
  zonelab plan levels-all --rig xfs --inspection rig-xfs=xfs.json --campaign all

--format json prints plan.json, --format csv one line per run; with --list one per study.

exit: 0 planned (or planned before, unchanged), 2 the study is wrong or cannot fit"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("study", nargs="?", metavar="STUDY", help="a name from --list")
    parser.add_argument(
        "--inspection", action="append", default=[], metavar="HOST=FILE",
        help="what `zonelab inspect DEVICE --format json` printed on HOST; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--rig", default="", metavar="NAME",
        help="the host is this rig of the study: plan its levels, beside those of other rigs",
    )  # fmt: skip
    parser.add_argument("--campaign", metavar="NAME", help="default: <study>-<date>")
    parser.add_argument(
        "--results", type=Path, default=Path("results"), metavar="DIR", help="default: results"
    )
    parser.add_argument("--levels", metavar="A,B", help="only these levels of the study")
    parser.add_argument("--repetitions", type=int, metavar="N", help="instead of the study's")
    parser.add_argument(
        "--set", action="append", default=[], dest="settings", metavar="FIELD=VALUE",
        help="replace a field of the study, or of its workload (workload.value_size=4KiB)",
    )  # fmt: skip
    add_format(parser)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--list", action="store_true", help="list the studies and their questions")
    parser.add_argument("--rigs", action="store_true", help="list the rigs that the study names")
    parser.add_argument("--schemas", action="store_true", help="rewrite configs/schema/*.json")
    parser.add_argument("--configs", type=Path, metavar="DIR", help="another configs folder")


def execute(arguments: argparse.Namespace) -> int:
    """Plan, list or write schemas; return the exit code."""
    from harness.plan.load import CONFIGS  # noqa: PLC0415 - pydantic, only when used

    configs = arguments.configs or CONFIGS
    if arguments.schemas:
        from harness.plan.schemas import write_schemas  # noqa: PLC0415

        for path in write_schemas(configs / "schema"):
            print(path)
        return ExitCode.OK
    if arguments.list:
        return _list(configs, arguments.inspection, arguments.format)
    return _plan(arguments, configs)


def _list(configs: Path, inspections: Sequence[str], format_: str) -> int:
    from harness.plan import load, show  # noqa: PLC0415
    from harness.plan.expand import expand  # noqa: PLC0415
    from harness.plan.reference import RIG  # noqa: PLC0415

    hosts = [load.load_inspection(text) for text in inspections] or [("rig", RIG)]
    rows = []
    names = load.names("studies", configs)
    if not names:
        raise UsageError(f"{configs} has no studies", hint="--configs names a folder like configs/")
    for name in names:
        study, workload = load.load_study(name, configs)
        plan = expand(study, workload, hosts, "list")
        seconds = max(sum(run.predicted.seconds for run in host.runs) for host in plan.hosts)
        runs = sum(len(host.runs) for host in plan.hosts)
        time = show.minutes(seconds) if format_ in ("table", "md") else round(seconds)
        rows.append({"study": name, "runs": runs, "time": time, "question": study.question})
    where = ", ".join(name for name, _ in hosts)
    print_records(rows, format_)
    print(
        f"runs and predicted time on {where}, all levels as if they could run there",
        file=sys.stderr,
    )
    return ExitCode.OK


def _plan(arguments: argparse.Namespace, configs: Path) -> int:
    from harness.plan import load, show  # noqa: PLC0415
    from harness.plan.expand import cells_of, expand, part_of  # noqa: PLC0415
    from harness.plan.save import campaign_name, check_campaign, join, save  # noqa: PLC0415
    from harness.store.files import dumps  # noqa: PLC0415

    if arguments.study is None:
        raise UsageError("no study named", hint=load.nearest("", load.names("studies", configs)))
    settings = _settings(arguments)
    study, workload = load.load_study(arguments.study, configs, settings)
    if arguments.levels is not None:
        study = load.narrow(study, [level.strip() for level in arguments.levels.split(",")])
    if arguments.rigs:
        print("".join(f"{rig}\n" for rig in study.rigs), end="")
        return ExitCode.OK
    if not arguments.inspection:
        raise UsageError(
            "no device to plan for: --inspection HOST=FILE.json is missing",
            hint="zonelab inspect DEVICE --format json > FILE.json",
            code="inspection",
        )
    hosts = [load.load_inspection(text) for text in arguments.inspection]
    if len({name for name, _ in hosts}) != len(hosts):
        raise UsageError("two inspections are of the same host", code="inspection")
    if arguments.rig and len(hosts) > 1:
        raise UsageError(
            "--rig is one host, and there are several inspections",
            hint="plan one rig after the other, into one --campaign",
            code="inspection",
        )
    campaign = campaign_name(arguments.campaign, study.name)
    part = expand(study, workload, hosts, campaign, arguments.rig)
    plan = join(part, arguments.results)
    check_campaign(plan, hosts, arguments.results)
    if arguments.format == "json":
        sys.stdout.write(dumps(plan))
    elif arguments.format == "csv":
        print_records(show.records(plan), "csv")
    else:
        own = part_of(study, arguments.rig) if arguments.rig else study
        cells = [(name, cells_of(own, workload, i, campaign)) for name, i in hosts]
        sys.stdout.write(show.render(part, cells, markdown=arguments.format == "md"))
    if arguments.check:
        return ExitCode.OK
    fresh = save(plan, hosts, arguments.results, _portable(sys.argv, Path.cwd()))
    folder = arguments.results / campaign
    print(f"{folder}: {'planned' if fresh else 'unchanged'}", file=sys.stderr)
    return ExitCode.OK


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    from harness.plan.yaml_files import parse_yaml  # noqa: PLC0415

    settings: dict[str, Any] = {}
    for text in arguments.settings:
        field, equals, value = text.partition("=")
        if not (field and equals):
            raise UsageError(
                f"--set {text!r} is not FIELD=VALUE",
                hint="for example --set seed=7 or --set workload.value_size=4KiB", code="setting",
            )  # fmt: skip
        settings[field] = parse_yaml(value, f"the value of --set {field}")
    if arguments.repetitions is not None:
        settings["repetitions"] = arguments.repetitions
    return settings


def _portable(argv: Sequence[str], folder: Path) -> list[str]:
    """Return a command line as it would be typed in ``folder``: a campaign travels."""
    command = [Path(argv[0]).name]
    for argument in argv[1:]:
        parts = [
            os.path.normpath(part) if part[:1] == "/" else part for part in argument.split("=")
        ]
        command.append("=".join(part.removeprefix(f"{folder}/") for part in parts))
    return command
