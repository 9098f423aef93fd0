"""``zonelab study``: run a study on emulated rigs, from set-up to report."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from analysis.judge.slower_runs import times_unchecked
from harness.cli import confirm, native_study
from harness.cli.main import complain
from harness.cli.output import add_repeatable
from harness.cli.plan import for_rig
from harness.errors import ExitCode, ZonelabError
from harness.plan import load
from harness.plan.study_models import Study
from harness.rig import control, fetch, model
from harness.rig.talk import Talk
from harness.store import overview
from harness.store.campaign import RESULTS, CampaignPaths
from harness.store.result import Status

SUMMARY = "run a study on its rigs: set up, boot, run, compare, report"
GROUP = "users"
SHIPPED = False
HELP = """\
Run a study on its rigs (virtual machines): install what a rig needs, build its image unless it is
cached, boot it, play ansible/site.yml and stop it. A study that names several rigs runs on one
after the other, as one campaign. No drive of this machine is touched.

On modelled drives, percentiles, and times of phases in which CPUs work more than 5 % of the time,
need a check: a second campaign NAME-slow repeats each level, once per machine of the rig, on drives
of twice the dilation. Times get verdicts where both agree; the report is written again with them.

examples:
  zonelab study smoke
  zonelab study integration-levels --levels f2fs,zlfs --repetitions 1 --yes
  zonelab study tenants --set mix=four-tenants --campaign mine
  zonelab study integration-levels --campaign mine --retry failed,invalid
  zonelab study finish-thresholds --device model:zn540-1tb   # no virtual machine, no root
  zonelab study zlfs-speed --bytes-only               # no second campaign, so percentiles have no
                                                      # verdict

`make study STUDY=NAME` does the same on a machine without .venv. The last line is the campaign's
folder.

exit: 0 ok, 2 set-up or playbook failed, 4 runs failed or are invalid, 130 interrupted"""

_GOOD = {Status.OK.value, Status.SKIPPED.value}
# What ansible-playbook returns when a task failed. If runs failed, its last task fails.
_PLAY_FAILED = 2
_CONTINUES_AFTER = (ExitCode.OK, _PLAY_FAILED, ExitCode.RUNS_FAILED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("study", metavar="STUDY", help="a name that `zonelab plan --list` prints")
    parser.add_argument(
        "--rig",
        default="",
        metavar="NAME",
        help=f"run the whole study on this rig (default: the rigs it names, else {model.DEFAULT})",
    )
    parser.add_argument(
        "--device",
        default="",
        metavar="model:NAME",
        help="run level zlfs here, without a rig or root, on a modelled drive (docs/studies.md)",
    )
    parser.add_argument(
        "--campaign",
        default="",
        metavar="NAME",
        help="campaign to start or continue (default: STUDY-TIME)",
    )
    parser.add_argument("--levels", default="", metavar="A,B", help="only these levels")
    parser.add_argument(
        "--repetitions", default="", metavar="N|find:PCT", help="repetitions (default: the study's)"
    )
    add_repeatable(
        parser,
        "--set",
        "FIELD=VALUE",
        "replace a field of the study; repeatable; separate several fields with spaces",
        dest="settings",
    )
    parser.add_argument(
        "--retry",
        default="",
        metavar="A,B",
        help="repeat runs with these statuses: failed,invalid,skipped,aborted",
    )
    parser.add_argument(
        "--bytes-only", action="store_true", help="on modelled drives: no second campaign for times"
    )
    parser.add_argument("--yes", action="store_true", help="start without a question")


def execute(arguments: argparse.Namespace) -> int:
    """Run the study on each of its rigs; print the report's path and the campaign's folder."""
    if not (arguments.yes or arguments.device):
        confirm.announce_study(arguments.study, arguments.rig)
        if not confirm.agreed():
            return ExitCode.INTERRUPTED
    control.end_on_hangup()
    os.chdir(model.PROJECT)  # ansible.cfg, the playbooks and results/ are here
    if arguments.device:
        study = _narrowed(load.load_study(arguments.study)[0], arguments.levels)
        return native_study.execute(arguments, study, _campaign(arguments))
    study, parts = _parts(arguments)
    rigs = parts or [arguments.rig or model.DEFAULT]
    code = _set_up(rigs[0])
    if code:
        return code
    campaign = _campaign(arguments)
    folder = CampaignPaths(RESULTS / campaign)
    variables = {
        "study": study.name,
        "campaign": campaign,
        "levels": arguments.levels,
        "repetitions": arguments.repetitions,
        "settings": " ".join(arguments.settings),
        "retry": arguments.retry,
    }
    code, reported = ExitCode.INTERRUPTED, False
    try:
        code, reported = _run(rigs, variables, parts=len(parts) > 1)
        if code == ExitCode.OK and not arguments.bytes_only:
            code = _check_times(study, rigs, variables)
    finally:
        if reported:
            print(f"report: {folder.report}/index.html")
        if folder.root.is_dir():
            print(folder.root)
            if code != ExitCode.OK:
                words = _continuation(arguments, campaign)
                print(f"to continue: {words} (RETRY=failed repeats failed runs)", file=sys.stderr)
    return code


def _campaign(arguments: argparse.Namespace) -> str:
    """Return the name of the campaign to start or continue."""
    named: str = arguments.campaign
    return named or f"{arguments.study}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _continuation(arguments: argparse.Namespace, campaign: str) -> str:
    """Return the command that continues the campaign.

    It has every option that was given: a campaign continues only with the same plan.
    """
    given = {
        "STUDY": arguments.study,
        "RIG": arguments.rig,
        "CAMPAIGN": campaign,
        "LEVELS": arguments.levels,
        "REPETITIONS": arguments.repetitions,
        "SET": " ".join(arguments.settings),
        "RETRY": arguments.retry,
        "BYTES_ONLY": "1" if arguments.bytes_only else "",
    }
    return shlex.join(["make", "study", *(f"{name}={v}" for name, v in given.items() if v)])


def _run(rigs: list[str], variables: dict[str, str], *, parts: bool) -> tuple[int, bool]:
    """Run a campaign on its rigs, one after the other.

    With ``parts``, each rig is one host, which runs its own levels of the study. Otherwise the only
    rig may have several hosts.

    Returns:
        The exit code, and whether a report was written.
    """
    folder = CampaignPaths(RESULTS / variables["campaign"])
    code: int = ExitCode.OK
    reported = False
    for rig in rigs:
        ended, wrote = _play(rig, variables | {"study_rig": rig if parts else ""})
        reported |= wrote
        if wrote and ended == _PLAY_FAILED:
            ended = _outcome(folder)
        if ended and code != _PLAY_FAILED:
            code = ended
        if ended not in _CONTINUES_AFTER:
            return ended, reported
    return code, reported


def _check_times(study: Study, rigs: list[str], variables: dict[str, str]) -> int:
    """Repeat each level at twice the dilation, and write the report with verdicts on times.

    Does nothing if all times have verdicts without it. Returns the exit code.
    """
    campaign = variables["campaign"]
    slower = [rig for name in rigs if (rig := model.slower(model.load(name))) is not None]
    if not slower or not times_unchecked(RESULTS / campaign):
        return ExitCode.OK
    # One machine runs a block, which is one repetition. Several machines run blocks in parallel.
    given = variables["repetitions"]
    planned = int(given) if given.isdigit() else study.repetitions
    repetitions = min(planned, max(rig.hosts for rig in slower))
    slow = f"{campaign}-{model.SLOW}"
    print(
        f"Times: each level {repetitions}x on drives of twice the dilation, as {slow}", flush=True
    )
    narrowed = {
        "campaign": slow,
        "levels": ",".join(load.distinct(study)),
        "repetitions": str(repetitions),
    }
    if study.twin:
        narrowed["settings"] = f"{variables['settings']} {load.NO_TWIN}".strip()
    code, _ = _run([rig.name for rig in slower], variables | narrowed, parts=False)
    if code == ExitCode.OK:
        code = native_study.show(RESULTS / campaign, RESULTS / slow)
    return code


def _parts(arguments: argparse.Namespace) -> tuple[Study, list[str]]:
    """Return the study to run here, and the rigs that it names, in their order.

    A study may name a smaller one for rigs, or for machines without KVM. ``--rig`` takes the study
    as a whole, also without KVM.
    """
    study, _ = load.load_study(arguments.study)
    if not arguments.rig or study.on_rigs is not None:
        study, _ = load.load_study(for_rig(study))
    study = _narrowed(study, arguments.levels)
    return study, [] if arguments.rig else list(study.rigs)


def _narrowed(study: Study, levels: str) -> Study:
    return load.narrow(study, [one.strip() for one in levels.split(",")]) if levels else study


def _set_up(rig: str) -> int:
    """Install what rigs need and build the image; return the playbook's exit code."""
    found = model.load(rig)
    argv = [_playbook(), "ansible/rig.yml", "-e", f"rig_name={rig}", "--skip-tags", "image"]
    code = subprocess.run(argv, check=False).returncode  # noqa: S603 - our own playbook
    if code == 0:
        control.build(found, Talk())
    return code


def _play(rig: str, variables: dict[str, str]) -> tuple[int, bool]:
    """Boot a rig and play the pipeline on it.

    Returns:
        The exit code of the playbook or of the rig's failure, and whether a report was written.
    """
    campaign = CampaignPaths(RESULTS / variables["campaign"])
    with tempfile.TemporaryDirectory(prefix="zonelab-study-") as scratch:
        word = Path(scratch) / "reported"
        given = json.dumps(variables | {"report_word": str(word)})
        try:
            machines = model.load(rig)
            argv = [_playbook(), "ansible/site.yml", "-e", given]
            with fetch.fetching(machines, campaign):
                ended = control.execute(machines, argv, Talk())
        except ZonelabError as error:
            ended = complain(error)
        except KeyboardInterrupt:
            ended = ExitCode.INTERRUPTED
        return ended, word.exists()


def _outcome(campaign: CampaignPaths) -> int:
    """Return 4 if a playbook failed because of its runs, and 2 if it failed otherwise."""
    try:
        runs = overview.states(campaign)
    except ZonelabError as error:
        return error.exit_code
    good = all(run.status in _GOOD for run in runs)
    return _PLAY_FAILED if good else ExitCode.RUNS_FAILED


def _playbook() -> str:
    """Return the ansible-playbook of this Python's environment."""
    return str(Path(sys.executable).with_name("ansible-playbook"))
