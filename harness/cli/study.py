"""``zonelab study``: run a study on emulated rigs, from set-up to report."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from harness.cli import confirm
from harness.cli.main import complain
from harness.errors import ExitCode, ZonelabError
from harness.rig import model
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

examples:
  zonelab study smoke
  zonelab study integration-levels --levels f2fs,zlfs --repetitions 1 --yes
  zonelab study tenants --set mix=four-tenants --campaign mine
  zonelab study integration-levels --campaign mine --retry failed,invalid

`make study STUDY=NAME` does the same on a machine without .venv. The last line is the campaign's
folder.

exit: 0 ok, 2 set-up or playbook failed, 4 runs failed or are invalid, 130 interrupted"""

_GOOD = {Status.OK.value, Status.SKIPPED.value}
# What ansible-playbook returns when a task failed; it does when runs failed, after the report.
_PLAY_FAILED = 2
_GOES_ON = (ExitCode.OK, _PLAY_FAILED, ExitCode.RUNS_FAILED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("study", metavar="STUDY", help="a name that `zonelab plan --list` prints")
    parser.add_argument(
        "--rig",
        default="",
        metavar="NAME",
        help=f"run all of it on this rig (default: those that it names, else {model.DEFAULT})",
    )
    parser.add_argument(
        "--campaign", default="", metavar="NAME", help="start or continue (default: STUDY-TIME)"
    )
    parser.add_argument("--levels", default="", metavar="A,B", help="only these levels")
    parser.add_argument("--repetitions", default="", metavar="N", help="instead of the study's")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="FIELD=VALUE",
        help="replace a field of the study; repeatable; several are separated by spaces",
    )
    parser.add_argument(
        "--retry", default="", metavar="A,B", help="repeat runs with these statuses"
    )
    parser.add_argument("--yes", action="store_true", help="do not announce, do not ask")


def execute(arguments: argparse.Namespace) -> int:
    """Run the study on each of its rigs; print the report's path and the campaign's folder."""
    from harness.rig.control import end_on_hangup  # noqa: PLC0415 - pydantic, only when used
    from harness.rig.model import PROJECT  # noqa: PLC0415

    if not arguments.yes:
        confirm.announce_study(arguments.study, arguments.rig)
        if not confirm.agreed():
            return ExitCode.INTERRUPTED
    end_on_hangup()
    os.chdir(PROJECT)  # ansible.cfg, the playbooks and results/ are here
    study, parts = _parts(arguments)
    rigs = parts or [arguments.rig or model.DEFAULT]
    code = _set_up(rigs[0])
    if code:
        return code
    campaign = arguments.campaign or f"{arguments.study}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder = CampaignPaths(RESULTS / campaign)
    reported = False
    try:
        for rig in rigs:
            # A campaign on one rig may have several hosts. On several rigs, each has one.
            part = rig if len(parts) > 1 else ""
            variables = _variables(arguments, study, campaign) | {"study_rig": part}
            ended, wrote = _play(rig, variables)
            reported |= wrote
            if wrote and ended == _PLAY_FAILED:
                ended = _outcome(folder)
            if ended and code != _PLAY_FAILED:
                code = ended
            if ended not in _GOES_ON:
                code = ended
                break
    finally:
        if reported:
            print(f"report: {folder.report}/index.html")
        if folder.root.is_dir():
            print(folder.root)
    return code


def _parts(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the study to run here, and the rigs that it names, in their order.

    A study may name a smaller one for machines without KVM. ``--rig`` takes the study unchanged
    and as a whole.
    """
    from harness.cli.plan import for_rig  # noqa: PLC0415 - pydantic, only when used
    from harness.plan import load  # noqa: PLC0415

    study, _ = load.load_study(arguments.study)
    if arguments.rig:
        return arguments.study, []
    study, _ = load.load_study(for_rig(study))
    name = study.name
    if arguments.levels:
        study = load.narrow(study, [level.strip() for level in arguments.levels.split(",")])
    return name, list(study.rigs)


def _set_up(rig: str) -> int:
    """Install what rigs need and build the image; return the playbook's exit code."""
    from harness.rig import control, model  # noqa: PLC0415 - pydantic, only when used

    found = model.load(rig)
    argv = [_playbook(), "ansible/rig.yml", "-e", f"rig_name={rig}", "--skip-tags", "image"]
    code = subprocess.run(argv, check=False).returncode  # noqa: S603 - our own playbook
    if code == 0:
        control.build(found, Talk())
    return code


def _variables(arguments: argparse.Namespace, study: str, campaign: str) -> dict[str, str]:
    return {
        "study": study,
        "campaign": campaign,
        "levels": arguments.levels,
        "repetitions": arguments.repetitions,
        "settings": " ".join(arguments.settings),
        "retry": arguments.retry,
    }


def _play(rig: str, variables: dict[str, str]) -> tuple[int, bool]:
    """Boot a rig and play the pipeline on it.

    Returns:
        The exit code of the playbook or of the rig's failure, and whether a report was written.
    """
    from harness.rig import control, model  # noqa: PLC0415 - pydantic, only when used

    with tempfile.TemporaryDirectory(prefix="zonelab-study-") as scratch:
        word = Path(scratch) / "reported"
        given = json.dumps(variables | {"report_word": str(word)})
        try:
            argv = [_playbook(), "ansible/site.yml", "-e", given]
            ended = control.execute(model.load(rig), argv, Talk())
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
