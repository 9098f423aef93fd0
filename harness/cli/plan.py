"""``zonelab plan``: validate a study, size it for a device, expand it into runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.cli import power
from harness.cli.output import add_format, add_repeatable, portable, print_records
from harness.errors import ConfigError, ExitCode, UsageError
from harness.plan import endurance, load, media, show
from harness.plan.cells import cells_of
from harness.plan.devices import zone_sizes
from harness.plan.expand import expand, part_of
from harness.plan.host_changes import require_alike
from harness.plan.reference import with_zones_of
from harness.plan.requirements import check_programs
from harness.plan.save import campaign_name, check_campaign, join, save
from harness.plan.schemas import write_schemas
from harness.plan.study_models import Study
from harness.plan.yaml_files import parse_yaml
from harness.quantities import parse_share, parse_size
from harness.rig import prerequisites
from harness.store.campaign import CampaignPaths
from harness.store.files import dumps
from harness.store.spec import Bytes, Inspection, Plan

SUMMARY = "validate a study, expand it into runs, predict bytes and time"
GROUP = "users"
SHIPPED = False
HELP = """\
Expand a study into runs for one or more inspected hosts, predict bytes and time, and write
results/<campaign>/{plan.json,campaign.json,hosts/<host>/host.json}. No device is touched.

examples:
  zonelab plan --list
  zonelab plan integration-levels --inspection rig=inspection.json --check
  zonelab plan integration-levels --inspection lab1=lab1.json --levels f2fs,btrfs --repetitions 5
  zonelab plan levels-all --rigs
  zonelab plan finish-thresholds --for-rig
  zonelab plan levels-all --rig xfs --inspection rig-xfs=xfs.json --campaign all
  zonelab plan integration-levels --inspection lab1=lab1.json --check --earlier results/first
  zonelab plan integration-levels --inspection lab1=lab1.json --repetitions find:2% --check

The output ends with the smallest differences that the study can find. They are estimated from the
runs of the campaign that --earlier names. Without --earlier these are the README's campaign or the
shipped example, if it has the same question. --repetitions find:2% plans enough repetitions for
every claim to show a difference of 2 %, at least the study's number.

--format json prints plan.json, --format csv one line per run. With --list: one record per study.

exit: 0 planned (or already planned and unchanged), 2 the study is wrong or does not fit"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("study", nargs="?", metavar="STUDY", help="a name from --list")
    add_repeatable(
        parser,
        "--inspection",
        "HOST=FILE",
        "output of `zonelab inspect DEVICE --format json` on HOST; repeatable",
    )
    parser.add_argument(
        "--rig",
        default="",
        metavar="NAME",
        help="plan only the levels that the study has for this rig, and add them to the campaign",
    )
    parser.add_argument(
        "--different-hosts",
        action="store_true",
        help="allow hosts that differ; runs are compared only within a host",
    )
    parser.add_argument(
        "--rated-endurance",
        metavar="SIZE",
        help="rated endurance of the drives, for example 3500TB (default: the drive's estimate)",
    )
    parser.add_argument(
        "--endurance-limit",
        default="1%",
        metavar="SHARE",
        help="refuse a campaign that uses more than this share of the endurance (default: 1%%)",
    )
    parser.add_argument(
        "--precondition-passes",
        type=int,
        default=0,
        metavar="N",
        help="passes of preconditioning before the runs, for the wear of the drives (default: 0)",
    )
    parser.add_argument(
        "--remainder-full",
        action="store_true",
        help="count the fill of the inspection's remainder before the runs as wear",
    )
    parser.add_argument("--campaign", metavar="NAME", help="default: <study>-<date>")
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="folder of campaigns (default: results)",
    )
    parser.add_argument("--levels", metavar="A,B", help="only these levels of the study")
    parser.add_argument(
        "--repetitions",
        metavar="N|find:PCT",
        help="number of repetitions, or as many as show PCT percent (default: the study's)",
    )
    add_repeatable(
        parser,
        "--set",
        "FIELD=VALUE",
        "replace a field of the study or of its workload (workload.value_size=4KiB)",
        dest="settings",
    )
    parser.add_argument(
        "--earlier",
        metavar="CAMPAIGN",
        help="campaign whose spread of runs gives the power (default: see above)",
    )
    parser.add_argument(
        "--effect",
        type=float,
        default=5.0,
        metavar="PCT",
        help="print the repetitions that would show PCT percent (default: 5)",
    )
    add_format(parser)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--list", action="store_true", help="list the studies and their questions")
    parser.add_argument("--rigs", action="store_true", help="list the rigs of the study")
    parser.add_argument(
        "--for-rig",
        action="store_true",
        help="print the study that `make study` runs here: without KVM it can be a smaller one",
    )
    parser.add_argument("--schemas", action="store_true", help="rewrite configs/schema/*.json")
    parser.add_argument(
        "--configs", type=Path, metavar="DIR", help="folder to use instead of configs/"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Plan, list or write schemas; return the exit code."""
    configs = arguments.configs or load.CONFIGS
    if arguments.schemas:
        for path in write_schemas(configs / "schema"):
            print(path)
        return ExitCode.OK
    if arguments.list:
        return _list(configs, arguments.inspection, arguments.format)
    return _plan(arguments, configs)


def _list(configs: Path, inspections: Sequence[str], format_: str) -> int:
    given = [load.load_inspection(text) for text in inspections]
    rows: list[dict[str, Any]] = []
    names = load.names("studies", configs)
    if not names:
        raise UsageError(f"{configs} has no studies", hint="--configs needs a folder like configs/")
    for name in names:
        study, workload = load.load_study(name, configs)
        hosts = given or [("rig", with_zones_of(zone_sizes(study)))]
        row: dict[str, Any] = {
            "study": name,
            "runs": None,
            "time": None,
            "question": study.question,
        }
        rows.append(row)
        try:
            plan = expand(study, workload, hosts, "list")
        except ConfigError as error:
            print(f"zonelab: {name} cannot be planned here: {error}", file=sys.stderr)
            continue
        seconds = max(sum(run.predicted.seconds for run in host.runs) for host in plan.hosts)
        row["runs"] = sum(len(host.runs) for host in plan.hosts)
        row["time"] = show.minutes(seconds) if format_ in ("table", "md") else round(seconds)
    where = ", ".join(name for name, _ in given) or "the NVMe rig"
    print_records(rows, format_)
    all_run = "" if given else ", as if all levels could run there"
    print(f"runs and predicted time on {where}{all_run}", file=sys.stderr)
    return ExitCode.OK


def _plan(arguments: argparse.Namespace, configs: Path) -> int:
    if arguments.study is None:
        raise UsageError(
            "no study was given", hint=load.nearest("", load.names("studies", configs))
        )
    wanted = power.wanted(arguments)
    settings = _settings(arguments, wanted.repetitions)
    study, workload = load.load_study(arguments.study, configs, settings)
    study = media.resolved(study, configs)
    if arguments.levels is not None:
        study = load.narrow(study, [level.strip() for level in arguments.levels.split(",")])
    if arguments.for_rig or arguments.rigs:
        lines = [for_rig(study)] if arguments.for_rig else study.rigs
        print("".join(f"{line}\n" for line in lines), end="")
        return ExitCode.OK
    hosts = _hosts(arguments)
    campaign = campaign_name(arguments.campaign, study.name)
    # Hosts and wear of a campaign that is already planned were checked when it was planned.
    planned = CampaignPaths(arguments.results / campaign).plan.exists()
    if not (planned or arguments.different_hosts):
        require_alike(hosts)
    part = expand(study, workload, hosts, campaign, arguments.rig)
    if wanted.effect_decides:
        more = power.enough(part, wanted.effect, study.repetitions, arguments.earlier)
        study = study.model_copy(update={"repetitions": more})
        part = expand(study, workload, hosts, campaign, arguments.rig)
    check_programs(part, installed=not arguments.check)
    plan = join(part, arguments.results)
    wear = _wear(arguments, part)
    check_campaign(plan, hosts, arguments.results)
    if arguments.format == "json":
        sys.stdout.write(dumps(plan))
    elif arguments.format == "csv":
        print_records(show.records(plan), "csv")
    else:
        own = part_of(study, arguments.rig) if arguments.rig else study
        cells = [(name, cells_of(own, workload, i, campaign)) for name, i in hosts]
        sys.stdout.write(show.render(part, cells, markdown=arguments.format == "md"))
        sys.stdout.write("".join(drive.line for drive in wear))
        lines = power.lines(part, wanted.effect, study.repetitions, arguments.earlier)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    if arguments.check:
        return ExitCode.OK
    if not planned:
        endurance.require_allowed(wear, parse_share(arguments.endurance_limit))
    fresh = save(plan, hosts, arguments.results, portable(sys.argv, Path.cwd()))
    folder = arguments.results / campaign
    print(f"{folder}: {'planned' if fresh else 'unchanged'}", file=sys.stderr)
    return ExitCode.OK


def _hosts(arguments: argparse.Namespace) -> list[tuple[str, Inspection]]:
    """Return the inspected hosts to plan for: at least one, each once."""
    if not arguments.inspection:
        raise UsageError(
            "--inspection HOST=FILE.json is missing: there is no device to plan for",
            hint="zonelab inspect DEVICE --format json > FILE.json",
            code="inspection",
        )
    hosts = [load.load_inspection(text) for text in arguments.inspection]
    if len({name for name, _ in hosts}) != len(hosts):
        raise UsageError("two inspections have the same host name", code="inspection")
    if arguments.rig and len(hosts) > 1:
        raise UsageError(
            "--rig needs exactly one inspection",
            hint="plan one rig after the other into the same --campaign",
            code="inspection",
        )
    return hosts


def for_rig(study: Study) -> str:
    """Return the study to run on rigs of this machine; print a note if it is not the named one."""
    if study.on_rigs is not None:
        print(f"{study.name} is for drives: {study.on_rigs} runs instead", file=sys.stderr)
        return study.on_rigs
    cpus = Path("/proc/cpuinfo").read_text()
    if study.without_kvm is None or prerequisites.accelerator(cpus) == "kvm":
        return study.name
    print(
        f"this machine has no usable KVM: {study.without_kvm} runs instead of {study.name}, "
        f"which needs KVM or a drive",
        file=sys.stderr,
    )
    return study.without_kvm


def _wear(arguments: argparse.Namespace, plan: Plan) -> list[endurance.Wear]:
    """Return the wear of each drive by the campaign."""
    rated = arguments.rated_endurance
    before = endurance.Conditioning(arguments.precondition_passes, arguments.remainder_full)
    return endurance.wear(plan, Bytes(parse_size(rated)) if rated else None, before)


def _settings(arguments: argparse.Namespace, repetitions: int | None) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for text in arguments.settings:
        field, equals, value = text.partition("=")
        if not (field and equals):
            raise UsageError(
                f"--set {text!r} is not FIELD=VALUE",
                hint="for example --set seed=7 or --set workload.value_size=4KiB",
                code="setting",
            )
        settings[field] = parse_yaml(value, f"the value of --set {field}")
    if repetitions is not None:
        settings["repetitions"] = repetitions
    return settings
