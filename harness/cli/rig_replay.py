"""``zonelab rig replay``: execute a run of a timed rig again, and check that it repeats exactly."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.cli.output import print_records
from harness.errors import ExitCode
from harness.rig.model import PROJECT
from harness.rig.process import locked
from harness.rig.replay import differences, machine, planned
from harness.rig.replay.differences import DifferingFile
from harness.rig.replay.planned import PlannedRun
from harness.rig.talk import Talk
from harness.store.files import dumps
from harness.store.rundir import load_result

_HELP = """Execute one run of a timed rig again, without the other runs of its campaign, in a
machine without network and disks. Nothing in it depends on the time of this host. So two replays of
a run must have the same files, to the bit, whatever else this host does.

Prints "identical", or the first difference. If there is no earlier replay of this run with this
checkout and image, the run is replayed twice. Numbers of the recorded run are shown for
information. They may differ, because other runs preceded it on its machine.

examples:
  zonelab rig replay results/mine/hosts/rig-timed-1/runs/zlfs--r01
  zonelab rig replay results/mine/hosts/rig-timed-1/runs/zlfs--r01 --once    repeat it another time

exit: 0 identical, or a first replay with --once; 2 the run cannot be replayed; 4 different, or
the replay failed"""


def add_arguments(commands: Any) -> None:
    """Declare the action."""
    summary = "execute a run of a timed rig again; print whether its files are identical"
    sub = commands.add_parser(
        "replay",
        help=summary,
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.set_defaults(do=execute)
    sub.add_argument("run", metavar="RUN", type=Path, help="results/CAMPAIGN/hosts/HOST/runs/RUN")
    sub.add_argument("--once", action="store_true", help="replay once, even the first time")
    sub.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="folder of this run's replays (default: build/replays/CAMPAIGN/HOST/RUN)",
    )
    sub.add_argument(
        "--format",
        choices=("table", "json"),
        default="table",
        help="form of the output (default: table)",
    )


def execute(arguments: argparse.Namespace, talk: Talk) -> int:
    """Replay the run, compare, print; exit 4 if two replays differ."""
    found = planned.find(arguments.run)
    own = Path(found.plan.campaign, found.host, found.spec.run)
    folder = (arguments.output or PROJECT / "build" / "replays" / own).absolute()
    prepared = machine.prepare(found)
    with locked(folder / "lock", talk, f"another replay of {found.spec.run}"):
        compared = machine.replays(folder, prepared.inputs)[-1:]
        for _ in range(1 if compared or arguments.once else 2):
            compared.append(machine.replay(prepared, folder, talk))
    differing = differences.differences(compared[0], compared[-1])
    _print(found, compared, differing, arguments.format)
    return ExitCode.RUNS_FAILED if differing else ExitCode.OK


def _print(
    found: PlannedRun, compared: list[Path], differing: list[DifferingFile], form: str
) -> None:
    replayed = load_result(compared[-1] / found.spec.run)
    changes = []
    if found.recorded is not None:
        changes = list(differences.metric_changes(found.recorded, replayed, found.plan.metrics))
    verdict = "different" if differing else "identical" if len(compared) > 1 else "first"
    if form == "json":
        facts = {
            "run": found.spec.run,
            "verdict": verdict,
            "status": replayed.status,
            "replays": [str(path) for path in compared],
            "files": len(differences.names(compared[-1])),
            "differences": differing,
            "recorded": changes,
        }
        print(dumps(facts), end="")
        return
    print(f"{verdict}: {_sentence(compared, differing)}; the run is {replayed.status.value}")
    if differing:
        print()
        print_records([asdict(one) for one in differing], form)
    if changes:
        print()
        print_records(changes, form)


def _sentence(compared: list[Path], differing: list[DifferingFile]) -> str:
    files = len(differences.names(compared[-1]))
    if not differing:
        return f"{files} files of {' and '.join(str(path) for path in compared)}"
    one = differing[0]
    return f"{len(differing)} of {files} files, first {one.file}, {one.where}"
