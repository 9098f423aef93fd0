"""``zonelab bundle``: pack a campaign into one archive that others can check."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import __version__
from harness.cli.verify import problems
from harness.errors import ExitCode, RunFailed, UsageError
from harness.metrics.catalogue import CATALOGUE
from harness.plan.derived_again import study_digest
from harness.plan.host_changes import host_digest
from harness.plan.load import CONFIGS
from harness.plan.yaml_files import read_yaml
from harness.store import bundle, checksums, identities, packed, rundir
from harness.store.campaign import CampaignPaths, find_campaign, load_campaign, load_plan
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import dumps, read_json
from harness.store.root import SIGNATURE, message, root_hash
from harness.tools import ssh_keygen

SUMMARY = "pack a campaign into one archive that verify accepts elsewhere"
GROUP = "users"
SHIPPED = False
HELP = """\
Pack a campaign into one archive: plan, hosts, runs with their raw files, the configuration of the
study, a new report, and checksums of all files. Prints the path of the archive. "zonelab verify
ARCHIVE" checks it on any machine. The same campaign always gives the same bytes.

--hash-identities replaces host names, serial numbers, EUI-64, NGUID and UUID of drives, and boot
and machine ids with hashes, in all files and file names, and updates the checksums. A hash hides a
name from readers, but a guessed name can be confirmed.

--sign KEY signs the root hash, which depends on every byte of plan and runs. Publish the root hash
elsewhere too: it shows that a bundle was not replaced as a whole.

examples:
  zonelab bundle results/first
  zonelab bundle first --sign ~/.ssh/id_ed25519
  zonelab bundle first --hash-identities --output /tmp/artefact.tar.xz
  zonelab verify /tmp/artefact.tar.xz

exit: 0 ok, 2 the output exists, 4 a run directory is damaged (nothing is packed)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("campaign", metavar="CAMPAIGN", help="folder, or name under ./results")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="archive to write (default: ./CAMPAIGN.tar.xz)"
    )
    parser.add_argument(
        "--hash-identities",
        action="store_true",
        help="replace host names and drive identifiers with hashes",
    )
    parser.add_argument(
        "--sign",
        type=Path,
        metavar="KEY",
        help="sign the root hash with this SSH key (ssh-keygen); for a public key, by ssh-agent",
    )
    parser.add_argument(
        "--no-report", action="store_true", help="leave the report out; readers can make it"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Copy the campaign into a staging folder and pack it.

    Raises:
        UsageError: the output exists, or the campaign contains other things than plain files.
        RunFailed: a run's checksums are wrong; new checksums would hide the damage.
    """
    paths = find_campaign(arguments.campaign)
    _require_whole(paths)
    masks = identities.of_campaign(paths) if arguments.hash_identities else None
    if masks:
        _require_no_words_masked(paths, masks)
    name = masks.name(load_plan(paths.plan).campaign) if masks else load_plan(paths.plan).campaign
    output = arguments.output or Path(f"{name}.tar.xz")
    if output.exists() or not output.parent.is_dir():
        raise UsageError(
            f"{output} exists" if output.exists() else f"{output.parent} is not a folder",
            hint="name another file with --output",
        )
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=output.parent) as staging:
        folder = Path(staging) / name
        with rundir.full_disk_is_clear(output.parent):
            stage(paths, folder, masks, report=not arguments.no_report)
        root = root_hash(CampaignPaths(folder))
        if arguments.sign is not None:
            (folder / SIGNATURE).write_text(ssh_keygen.sign(arguments.sign, message(root)))
        bundle.pack(folder, output)
    print(f"zonelab: root hash: {root}", file=sys.stderr)
    print(output)
    return ExitCode.OK


def stage(
    paths: CampaignPaths, folder: Path, masks: identities.Masks | None, *, report: bool
) -> None:
    """Copy a campaign, masked on request, and add its configuration, report and record."""
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
            _update_digests(copy)
        _require_no_new_problems(paths, copy)
    plan = load_plan(copy.plan)
    for source in _configs(plan.study, plan.rigs):
        target = folder / "configs" / source.relative_to(CONFIGS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    if report:
        _report(folder)
    record = {
        "schema_version": SCHEMA_VERSION,
        "campaign": plan.campaign,
        "zonelab_version": __version__,
        "identities_hashed": masks is not None,
        "root": root_hash(copy),
    }
    (folder / bundle.RECORD).write_text(dumps(record), encoding="utf-8")


def _require_whole(paths: CampaignPaths) -> None:
    for host in paths.hosts():
        for run in rundir.completed(paths.runs(host)):
            if found := checksums.problems(run):
                raise RunFailed(
                    f"{host}: {run.name}: {found[0]}", hint=rundir.CORRUPT_HINT, code=rundir.CORRUPT
                )


def _require_no_words_masked(paths: CampaignPaths, masks: identities.Masks) -> None:
    """Refuse to mask a name that is also a word of the study: a host can have the name of a level.

    Raises:
        UsageError: the name of a host or drive is such a word.
    """
    runs = [run for host in load_plan(paths.plan).hosts for run in host.runs]
    words = {word for run in runs for word in (run.level, run.cell, *run.factors)}
    words |= {word for run in runs for one in run.phases for word in (one.name, one.benchmark)}
    for word in sorted(words | CATALOGUE.keys()):
        if masks.name(word) != word:
            raise _refused(f"the name of a host or drive is also a word of the study: {word!r}")


def _require_no_new_problems(paths: CampaignPaths, copy: CampaignPaths) -> None:
    """Refuse a masked copy in which verify finds more problems than in the campaign.

    Raises:
        UsageError: masking has changed a word that the records need.
    """
    before, after = (len(problems(one)[0]) for one in (paths, copy))
    if after > before:
        raise _refused("the name of a host or drive is a word that the records need")


def _refused(why: str) -> UsageError:
    return UsageError(why, hint="omit --hash-identities", code="mask")


def _sources(paths: CampaignPaths) -> Iterator[Path]:
    """Return the files of a campaign without its report and unfinished runs."""
    own = (checksums.NAME, bundle.RECORD, SIGNATURE)
    left_out = (paths.report, *(paths.root / name for name in own))
    for path in sorted(paths.root.rglob("*")):
        inside = path.relative_to(paths.root)
        if any(part.startswith(".") for part in inside.parts):
            continue
        if path in left_out or paths.report in path.parents or inside.parts[0] == "configs":
            continue
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise UsageError(f"{path} is not a plain file or folder", hint="move it away")
        if path.is_file():
            yield path


def _masked(source: Path, target: Path, masks: identities.Masks) -> None:
    content = source.read_bytes()
    record = ".json" in source.suffixes or ".jsonl" in source.suffixes
    try:
        plain = packed.unpack(source.suffix, content)
    except packed.UNREADABLE:  # truncated when it was stored: mask the packed bytes
        plain = None
    if plain is None:
        target.write_bytes(masks.bytes(content, record=record))
    elif (changed := masks.bytes(plain, record=record)) == plain:
        target.write_bytes(content)
    else:
        target.write_bytes(packed.pack(source.suffix, changed))


def _update_digests(paths: CampaignPaths) -> None:
    """Update the digests of hosts and devices to the masked identities."""
    plan, record = load_plan(paths.plan), load_campaign(paths.record)
    digest = host_digest([(host.host, host.inspection) for host in plan.hosts])
    study = study_digest(plan) or plan.study_digest
    if study != plan.study_digest:
        text = read_json(paths.plan) | {"study_digest": study}
        paths.plan.write_text(dumps(text), encoding="utf-8")
    if (record.host_digest, record.study_digest) != (digest, study):
        text = read_json(paths.record) | {"host_digest": digest, "study_digest": study}
        paths.record.write_text(dumps(text), encoding="utf-8")


def _configs(study: str, rigs: tuple[str, ...]) -> Iterator[Path]:
    """Return the configuration files of the study that exist in this checkout."""
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
    from analysis.judge.compare import compare  # noqa: PLC0415 - heavy libraries, only when used
    from analysis.read.load import load  # noqa: PLC0415
    from analysis.show.report import write_report  # noqa: PLC0415

    print("zonelab: writing the report", file=sys.stderr)
    write_report(compare(load(folder)), folder / "report")
