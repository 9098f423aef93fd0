"""``zonelab study --device model:NAME``: a study on modelled drives in the process of the load.

The same steps as ansible/site.yml takes on a host: inspect, plan, run, collect, compare, report.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.judge.slower_runs import times_unchecked
from harness.cli import main as cli
from harness.cli.output import say_on_stderr, statuses
from harness.errors import ExitCode, HostError, UsageError, ZonelabError
from harness.levels import LEVELS
from harness.levels.filesystem import free_bytes
from harness.machine.lock import exclusive
from harness.machine.manifest import host_facts
from harness.machine.native_host import NativeHost
from harness.machine.paths import Paths, native_lock
from harness.observe.native_drive import NativeDrive
from harness.plan import drive_files, load, native_drives
from harness.plan.native_drives import PlannedDrive
from harness.plan.study_models import Study
from harness.rig import prerequisites
from harness.run import inspection
from harness.run.execute import Request, execute_plan
from harness.store import overview
from harness.store.campaign import RESULTS, CampaignPaths, load_plan
from harness.store.files import dumps, write_atomic
from harness.store.result import BAD
from harness.store.spec import Device, Inspection, LevelProbe, OtherDevice, Reason
from harness.tools import db_bench

HOST = "native"
# Folders of the checkout: programs of `make build/native-release`, and the runner's state.
PROGRAMS = Path("build/native-installed/bin")
STATE = Path("build/native")
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder below is the user's own
# The blanks between two settings of one string; roles/plan splits it in the same way.
_SETTING = re.compile(r" +(?=[A-Za-z0-9_.]+=)")
# Memory that the load and the rest of the machine need beside the contents of a drive.
_SPARE_MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class NativeCampaign:
    """A campaign on these drives. ``state`` is the runner's folder, ``contents`` the drives'."""

    name: str
    drives: Sequence[PlannedDrive]
    state: Path
    contents: Path
    results: Path = RESULTS


def execute(arguments: argparse.Namespace, study: Study, name: str) -> int:
    """Run the study as campaign ``name``; print the report's path and the campaign's folder.

    Raises:
        ZonelabError: the study or a drive does not fit; nothing was written.
    """
    if arguments.rig:
        raise UsageError("--device and --rig exclude each other", hint="omit one", code="device")
    retry = statuses(arguments.retry)
    drives = native_drives.parse(arguments.device, study)
    os.environ.setdefault("ZONELAB_NATIVE", str(PROGRAMS.absolute()))
    folder = CampaignPaths(RESULTS / name)
    contents = _planned_folder(folder) or contents_folder(drives)
    campaign = NativeCampaign(name, drives, STATE.absolute(), contents)
    options = _options(arguments)
    code: int = ExitCode.OK
    try:
        code = play(campaign, [arguments.study, *options], retry)
        if code == ExitCode.OK and not arguments.bytes_only and times_unchecked(folder.root):
            slow = NativeCampaign(
                f"{name}-slow",
                [drive.slower() for drive in drives],
                campaign.state,
                campaign.contents,
            )
            print(f"Times: each cell once on drives of twice the dilation, as {slow.name}")
            levels = ["--levels", ",".join(load.distinct(study)), "--repetitions", "1"]
            levels += ["--set", load.NO_TWIN]
            code = play(slow, [arguments.study, *options, *levels], retry)
            if code == ExitCode.OK:
                code = show(folder.root, RESULTS / slow.name)
    finally:
        if folder.report.is_dir():
            print(f"report: {folder.report}/index.html")
        if folder.root.is_dir():
            print(folder.root)
    return code


def play(
    campaign: NativeCampaign, study: Sequence[str], retry: frozenset[str] = frozenset()
) -> int:
    """Plan, run, collect and show a campaign; ``study`` are the arguments of ``zonelab plan``.

    Returns:
        The exit code: of the plan, 4 if a run failed, or of the report.
    """
    devices = [drive.device(campaign.contents) for drive in campaign.drives]
    with tempfile.TemporaryDirectory(prefix="zonelab-native-") as scratch:
        file = Path(scratch) / "host.json"
        file.write_text(dumps(_inspection(devices)), encoding="utf-8")
        named = ["--campaign", campaign.name, "--results", str(campaign.results)]
        code = cli.main(["plan", *study, *named, "--inspection", f"{HOST}={file}"])
    if code:
        return code
    try:
        run_missing(campaign, retry)
    except ZonelabError as error:
        code = cli.complain(error)  # the runs before it are collected
    runs = campaign.state / "campaigns" / campaign.name / "runs"
    folder = CampaignPaths(campaign.results / campaign.name)
    if runs.is_dir():
        collected = cli.main(["collect", "--from", str(runs), "--into", str(folder.host(HOST))])
        code = code or collected
    if code:
        return code
    code = show(folder.root)
    failed = any(run.status in BAD for run in overview.states(folder))
    return ExitCode.RUNS_FAILED if failed else code


def show(campaign: Path, slower: Path | None = None) -> int:
    """Compare and report a campaign; return the exit code of the first step that fails."""
    more = ["--slower", str(slower)] if slower else []
    code: int = ExitCode.OK
    for command in ("compare", "report"):
        code = code or cli.main([command, str(campaign), *more])
    return code


def _planned_folder(campaign: CampaignPaths) -> Path | None:
    """Return the folder of a planned campaign's drives; null for a new campaign.

    The identity of a drive contains its folder, so a campaign must go on with the same one.
    """
    if not campaign.plan.is_file():
        return None
    return Path(load_plan(campaign.plan).hosts[0].inspection.device.path).parent


def contents_folder(drives: Sequence[PlannedDrive]) -> Path:
    """Return the folder for the contents of drives: in memory if they fit, else in the checkout.

    Runs take the drives in turn, so the largest one must fit.

    Raises:
        HostError: the largest drive fits neither into memory nor on the disk.
    """
    needed = max(drive.capacity for drive in drives)
    if _SHARED_MEMORY.is_dir():
        free = min(free_bytes(_SHARED_MEMORY), prerequisites.available_memory() - _SPARE_MEMORY)
        if free >= needed:
            return _SHARED_MEMORY / f"zonelab-{os.getuid()}"
    if free_bytes(Path.cwd()) >= needed:
        return STATE.absolute() / "drives"
    raise HostError(
        f"a drive of {needed} B fits neither into memory nor on the disk of {Path.cwd()}",
        hint="name a smaller drive: DEVICE=model:NAME?capacity=8GiB",
        code="no-room",
    )


def _options(arguments: argparse.Namespace) -> list[str]:
    """Return the options of ``zonelab plan`` that a study has."""
    settings = [one for text in arguments.settings for one in _SETTING.split(text.strip()) if one]
    options = [word for setting in settings for word in ("--set", setting)]
    if arguments.levels:
        options += ["--levels", arguments.levels]
    if arguments.repetitions:
        options += ["--repetitions", arguments.repetitions]
    return options


def _inspection(devices: Sequence[Device]) -> Inspection:
    """Return the drives and which levels can use them, as ``zonelab inspect`` does for devices.

    Raises:
        HostError: a program is missing, so no level can use them.
    """
    host = NativeHost(devices)
    first, *others = devices
    reason = Reason(
        "conventional-missing",
        "a modelled drive in files has no conventional device beside it",
        "without DEVICE=model:… the study runs on a rig",
    )

    def probes(device: Device) -> tuple[LevelProbe, ...]:
        return tuple(inspection.probe(level, device, None, reason) for level in LEVELS.values())

    program, able = db_bench.find(), probes(first)
    for probe in able:
        if LEVELS[probe.level].native and probe.reason is not None:
            why = probe.reason
            hint = "make build/native-installed" if why.code == "program-missing" else why.hint
            raise HostError(why.message, hint=hint, code=why.code)
    return Inspection(
        host=host_facts(host, HOST, program),
        device=first,
        conventional=None,
        conventional_reason=reason,
        drive_capacity=None,
        refusals=(),
        levels=able,
        others=tuple(OtherDevice(one, (), probes(one)) for one in others),
    )


def run_missing(campaign: NativeCampaign, retry: frozenset[str]) -> None:
    """Execute the missing runs of the campaign's plan.

    Two studies may keep their drives in different folders, but they share the runner's folder.

    Raises:
        ZonelabError: as for ``execute_plan``, or another study uses the runner's folder.
    """
    with exclusive(native_lock(campaign.state), f"campaign {campaign.name}"):
        devices = [drive.device(campaign.contents) for drive in campaign.drives]
        campaign.contents.mkdir(mode=0o700, parents=True, exist_ok=True)
        for device, drive in zip(devices, campaign.drives, strict=True):
            write_atomic(NativeDrive(device).model, dumps(drive_files.program_input(drive.model)))
        paths = Paths(campaign.state, campaign.contents / "run", campaign.contents / "lock")
        request = Request(host_name=HOST, program=db_bench.find(), paths=paths, retry=retry)
        plan = load_plan(CampaignPaths(campaign.results / campaign.name).plan)
        execute_plan(plan, request, host=NativeHost(devices), levels=LEVELS, say=say_on_stderr)
