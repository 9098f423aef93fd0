"""``zonelab bundle``: a campaign as one archive that others can check."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import __version__
from harness.errors import ExitCode, RunFailed, UsageError
from harness.metrics import CATALOGUE
from harness.plan.facts import host_digest
from harness.plan.load import CONFIGS
from harness.plan.yaml_files import read_yaml
from harness.run import recompute
from harness.store import bundle, checksums, identities, overview, packed, rundir
from harness.store.campaign import CampaignPaths, find_campaign, load_campaign, load_plan
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import dumps, read_json

HELP = """\
Pack a campaign into one archive: plan, hosts, runs with their raw files, the study's configuration,
a fresh report, and checksums over all of it. Prints the archive's path. "zonelab verify ARCHIVE"
checks it on any machine; the same campaign gives the same bytes.

With --hash-identities host names, serial numbers, EUI-64, NGUID and UUID of drives, boot and
machine ids are replaced by hashes in every file and file name, and checksums adjusted. A hash hides
a name from readers; who guesses the name can confirm it.

examples:
  zonelab bundle results/example
  zonelab bundle example --hash-identities --output /tmp/artefact.tar.xz
  zonelab verify /tmp/artefact.tar.xz

exit: 0 ok, 2 the output exists, 4 a run's directory is damaged (then nothing is packed)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("campaign", metavar="CAMPAIGN", help="folder, or name under ./results")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="where to write (./CAMPAIGN.tar.xz)"
    )
    parser.add_argument(
        "--hash-identities", action="store_true", help="hash host names and drives' identifiers"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Stage a copy, and pack it.

    Raises:
        UsageError: the output exists, or the campaign holds something that is no plain file.
        RunFailed: a run's checksums do not hold: new ones would hide that.
    """
    paths = find_campaign(arguments.campaign)
    _require_whole(paths)
    masks = identities.of_campaign(paths) if arguments.hash_identities else None
    if masks:
        _require_no_word(paths, masks)
    name = masks.name(load_plan(paths.plan).campaign) if masks else load_plan(paths.plan).campaign
    output = arguments.output or Path(f"{name}.tar.xz")
    if output.exists() or not output.parent.is_dir():
        raise UsageError(
            f"{output} exists" if output.exists() else f"{output.parent} is no folder",
            hint="name another file with --output",
        )
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=output.parent) as staging:
        folder = Path(staging) / name
        with rundir.full_disk_is_clear(output.parent):
            stage(paths, folder, masks)
        bundle.pack(folder, output)
    print(output)
    return ExitCode.OK


def stage(paths: CampaignPaths, folder: Path, masks: identities.Masks | None) -> None:
    """Copy a campaign into a folder, masked, with its configuration, report and record."""
    for source in _sources(paths):
        name = source.relative_to(paths.root).as_posix()
        target = folder / (masks.name(name) if masks else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if masks:
            _masked(source, target, masks)
        else:
            shutil.copyfile(source, target)
    copy = CampaignPaths(folder)
    if masks:
        for host in copy.hosts():
            for run in rundir.completed(copy.runs(host)):
                checksums.write(run)
        if copy.record.is_file():
            _new_digest(copy)
        _require_as_good(paths, copy)
    plan = load_plan(copy.plan)
    for source in _configs(plan.study, plan.rigs):
        target = folder / "configs" / source.relative_to(CONFIGS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    _report(folder)
    record = {
        "schema_version": SCHEMA_VERSION, "campaign": plan.campaign,
        "zonelab_version": __version__, "identities_hashed": masks is not None,
    }  # fmt: skip
    (folder / bundle.RECORD).write_text(dumps(record), encoding="utf-8")


def _require_whole(paths: CampaignPaths) -> None:
    for host in paths.hosts():
        for run in rundir.completed(paths.runs(host)):
            if found := checksums.problems(run):
                raise RunFailed(
                    f"{host}: {run.name}: {found[0]}", hint=rundir.CORRUPT_HINT, code=rundir.CORRUPT
                )


def _require_no_word(paths: CampaignPaths, masks: identities.Masks) -> None:
    """Refuse to mask what is a word of the study, too: a host may be called like a level.

    Raises:
        UsageError: a name of a host or drive is such a word.
    """
    runs = [run for host in load_plan(paths.plan).hosts for run in host.runs]
    words = {word for run in runs for word in (run.level, run.cell, *run.factors)}
    words |= {word for run in runs for one in run.phases for word in (one.name, one.benchmark)}
    for word in sorted(words | CATALOGUE.keys()):
        if masks.name(word) != word:
            raise _refused(f"a host or drive is called like {word!r}, a word of the study")


def _require_as_good(paths: CampaignPaths, copy: CampaignPaths) -> None:
    """Refuse a masked copy in which verify finds more than in the campaign.

    Raises:
        UsageError: it does: a name of a host is a word of the records.
    """
    before, after = (
        len([*overview.problems(one), *recompute.problems(one)]) for one in (paths, copy)
    )
    if after > before:
        raise _refused("the name of a host or drive is a word that the records need")


def _refused(why: str) -> UsageError:
    return UsageError(why, hint="bundle it without --hash-identities", code="mask")


def _sources(paths: CampaignPaths) -> Iterator[Path]:
    """Return every file of a campaign but its report, which is made anew, and unfinished runs."""
    left_out = (paths.report, paths.root / checksums.NAME, paths.root / bundle.RECORD)
    for path in sorted(paths.root.rglob("*")):
        inside = path.relative_to(paths.root)
        if any(part.startswith(".") for part in inside.parts):
            continue
        if path in left_out or paths.report in path.parents or inside.parts[0] == "configs":
            continue
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise UsageError(f"{path} is no plain file or folder", hint="move it away")
        if path.is_file():
            yield path


def _masked(source: Path, target: Path, masks: identities.Masks) -> None:
    content = source.read_bytes()
    record = ".json" in source.suffixes or ".jsonl" in source.suffixes
    try:
        plain = packed.unpack(source.suffix, content)
    except packed.UNREADABLE:  # was cut short when it was stored: masked as far as it reads
        plain = None
    if plain is None:
        target.write_bytes(masks.bytes(content, record=record))
    elif (changed := masks.bytes(plain, record=record)) == plain:
        target.write_bytes(content)
    else:
        target.write_bytes(packed.pack(source.suffix, changed))


def _new_digest(paths: CampaignPaths) -> None:
    """Digests of hosts that are masked are those of the masked ones."""
    plan, record = load_plan(paths.plan), load_campaign(paths.record)
    digest = host_digest([(host.host, host.inspection) for host in plan.hosts])
    text = read_json(paths.record) | {"host_digest": digest}
    if record.host_digest != digest:
        paths.record.write_text(dumps(text), encoding="utf-8")


def _configs(study: str, rigs: tuple[str, ...]) -> Iterator[Path]:
    """Return the files that the study was declared in, as far as this checkout has them."""
    files = [CONFIGS / "studies" / f"{study}.yml"]
    files += [CONFIGS / "rigs" / f"{rig}.yml" for rig in rigs]
    while files:
        file = files.pop(0)
        if file.is_file():
            yield file
            content = read_yaml(file)
            files += [
                CONFIGS / "workloads" / f"{content[key]}.yml"
                for key in ("workload", "extends")
                if isinstance(content, dict) and isinstance(content.get(key), str)
            ]


def _report(folder: Path) -> None:
    from analysis.compare import compare  # noqa: PLC0415 - heavy libraries, only when used
    from analysis.load import load  # noqa: PLC0415
    from analysis.report import write_report  # noqa: PLC0415
    from analysis.stats import NOISE_FLOOR  # noqa: PLC0415

    print("zonelab: writing the report", file=sys.stderr)
    write_report(compare(load(folder)), folder / "report", NOISE_FLOOR)
