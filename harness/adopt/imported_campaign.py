"""Store output files of fio as a campaign whose device has the kind ``imported``."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from harness import __version__
from harness.adopt.fio_files import AdoptedFile, OptionDifference, differences
from harness.plan.cells import cell_name
from harness.plan.save import write_records
from harness.replay.campaign_writer import check_name
from harness.run import imported
from harness.store import checksums
from harness.store.campaign import CampaignPaths
from harness.store.numbers_version import KEY, NUMBERS
from harness.store.result import Issue, Metric, PhaseResult, Result, Severity, Status, empty
from harness.store.rundir import RunWriter, full_disk_is_clear
from harness.store.spec import (
    Bytes,
    Device,
    DeviceIdentity,
    DeviceKind,
    HostPlan,
    Inspection,
    PhaseRole,
    PhaseSpec,
    Plan,
    Prediction,
    RunSpec,
    Scalar,
    TracingMode,
)
from harness.tools import fio

STUDY = "imported-fio"
HOST = "imported"
_ZONED, _CONVENTIONAL = "raw-device", "raw-conventional"
_METRICS = ("throughput", "latency_p50", "latency_p95")
_LONGEST_PHASE = 100
_KIB = 1024


class ImportedIssue(StrEnum):
    """Issues of published files. No rule raises them: rules judge our own runs."""

    OPTIONS_DIFFER = "fio-options-differ"
    LATENCIES_OFF = "fio-latencies-off"
    ENDED_IN_RAMP = "fio-ended-in-ramp"
    ENDED_EARLY = "fio-ended-early"
    COMPLETION_ONLY = "fio-clat"


@dataclass(frozen=True, slots=True)
class AdoptedRun:
    """A repetition of a cell: its files by phase."""

    level: str
    variant: str
    factors: Mapping[str, Scalar]
    repetition: int
    files: Mapping[str, AdoptedFile]


def save(
    name: str, files: Sequence[AdoptedFile], device: str, results: Path, command: Sequence[str]
) -> Path:
    """Write the campaign and return its folder; it has its name only when it is whole.

    Raises:
        UsageError: the name is invalid or taken.
        HostError: the disk is full.
    """
    check_name(name, results)
    digest = _digest(files)
    found = _device(device, digest, files)
    runs = list(_runs(files))
    specs = [_spec(name, run, found, position) for position, run in enumerate(runs, 1)]
    levels = dict.fromkeys(spec.level for spec in specs)
    inspection = Inspection.of_no_machine(HOST, found, levels)
    rows = list(dict.fromkeys(spec.row for spec in specs))
    schedulers = sorted({file.scheduler for file in files})
    plan = Plan(
        campaign=name,
        study=STUDY,
        question="What did others measure with fio?",
        study_digest=digest,
        baseline=schedulers[-1] if len(schedulers) > 1 else rows[0],
        contrast="scheduler" if len(schedulers) > 1 else "level",
        claims=(),
        metrics=_METRICS,
        hosts=(HostPlan(HOST, inspection, tuple(specs)),),
        zonelab_version=__version__,
    )
    different = differences(files)
    partial = CampaignPaths(results / f".{name}.partial")
    shutil.rmtree(partial.root, ignore_errors=True)  # of a killed command
    try:
        with full_disk_is_clear(results):
            now = datetime.now(tz=UTC).isoformat(timespec="seconds")
            write_records(partial, plan, [(HOST, inspection)], command, now)
            for spec, run in zip(specs, runs, strict=True):
                _write(partial, spec, run, different)
            partial.root.rename(results / name)
    except BaseException:
        shutil.rmtree(partial.root, ignore_errors=True)
        raise
    return results / name


def _write(
    paths: CampaignPaths, spec: RunSpec, run: AdoptedRun, found: Sequence[OptionDifference]
) -> None:
    writer = RunWriter(paths.runs(HOST), spec.run)
    writer.write("run.json", spec)
    for phase, file in run.files.items():
        writer.write(imported.stored(phase), file.text)
        for way, histogram in imported.histograms(file.output).items():
            writer.write(f"histograms/{phase}.{way}.json", histogram)
    writer.write("result.json", _result(spec, run, found))
    writer.commit()


def _digest(files: Sequence[AdoptedFile]) -> str:
    """Return the SHA-256 of all names and contents."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.path}\0{checksums.of_text(file.text)}\n".encode())
    return whole.hexdigest()


def _runs(files: Sequence[AdoptedFile]) -> Iterator[AdoptedRun]:
    """Group files by device and scheduler; equal settings are repetitions, in order of time."""
    cells: dict[tuple[bool, str, str], list[AdoptedFile]] = defaultdict(list)
    for file in files:
        cells[file.zoned, file.device, file.scheduler].append(file)
    scheduled = any(file.scheduler for file in files)
    for (zoned, device, scheduler), own in sorted(cells.items()):
        devices = {name for other, name, _ in cells if other == zoned}
        settings = _by_phase(own)
        for repetition in range(1, max(map(len, settings.values())) + 1):
            left = {name: all_ for name, all_ in settings.items() if len(all_) >= repetition}
            yield AdoptedRun(
                level=_ZONED if zoned else _CONVENTIONAL,
                variant=_file_name_part(device) if len(devices) > 1 else "",
                factors={"scheduler": scheduler or "not recorded"} if scheduled else {},
                repetition=repetition,
                files={name: all_[repetition - 1] for name, all_ in left.items()},
            )


def _by_phase(files: Sequence[AdoptedFile]) -> dict[str, list[AdoptedFile]]:
    """Return phase → its repetitions. Options that differ at one point become part of its name."""
    points: dict[str, dict[tuple[tuple[str, str], ...], list[AdoptedFile]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for file in sorted(files, key=lambda one: (one.output.epoch, one.path)):
        points[_point(file)][file.setting].append(file)
    found: dict[str, list[AdoptedFile]] = {}
    for name, settings in points.items():
        common = set.intersection(*map(set, settings))
        for setting, own in settings.items():
            more = "".join(
                f"-{key}-{value}" for key, value in setting if (key, value) not in common
            )
            found[_unique(_file_name_part(name + more), found)] = own
    return found


def _point(file: AdoptedFile) -> str:
    """Return a name as phases of our own sweeps have: ``randread-4k-qd8-z1``."""
    size = f"{file.bs // _KIB}k" if file.bs % _KIB == 0 else str(file.bs)
    jobs = f"-z{file.jobs}" if file.zoned else f"-j{file.jobs}" * (file.jobs > 1)
    return f"{file.operation}-{size}-qd{file.iodepth}{jobs}"


def _unique(name: str, taken: Mapping[str, object]) -> str:
    """Return a short name that is not taken: long names can become equal when they are cut."""
    name, number = name[:_LONGEST_PHASE], 2
    while (one := name if number == 2 else f"{name}-{number - 1}") in taken:  # noqa: PLR2004
        number += 1
    return one


def _file_name_part(text: str) -> str:
    """Return text as part of a file's name; a dot would end the name of a phase."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", text).strip("-")


def _spec(campaign: str, run: AdoptedRun, device: Device, position: int) -> RunSpec:
    row = f"{run.level}-{run.variant}" if run.variant else run.level
    cell = cell_name(row, dict(run.factors))
    scheduler = str(run.factors.get("scheduler", ""))
    return RunSpec(
        campaign=campaign,
        study=STUDY,
        run=f"{cell}--r{run.repetition:02d}",
        cell=cell,
        level=run.level,
        factors=run.factors,
        level_options={},
        repetition=run.repetition,
        attempt=1,
        block=run.repetition,
        position=position,
        seed=run.repetition,
        device=replace(device, zoned=run.level == _ZONED),
        conventional=None,
        scheduler=scheduler,
        cold=None,
        phases=tuple(_phase(name, file) for name, file in run.files.items()),
        predicted=Prediction(Bytes(0), Bytes(0), 0.0),
        timeout_seconds=0,
        variant=run.variant,
        tracing=TracingMode.OFF,
    )


def _phase(name: str, file: AdoptedFile) -> PhaseSpec:
    """Return the phase with the file's options; a depth or number is the one that fio used."""
    used: dict[str, Scalar] = {"bs": file.bs, "iodepth": file.iodepth, "numjobs": file.jobs}
    flags: dict[str, Scalar] = {key: text for key, text in file.options.items() if key != "name"}
    return PhaseSpec(
        name=name,
        benchmark=file.operation if not file.overwrites else f"{file.options['rw']}-again",
        role=PhaseRole.MEASURED,
        flags=flags | used | ({imported.OVERWRITES: True} if file.overwrites else {}),
        operations=None,
        user_bytes_per_operation=file.bs if "write" in file.options["rw"] else 0,
        expects_gc=False,
        timeout_seconds=0,
        stall_seconds=0,
        program=fio.PROGRAM,
    )


def _device(model: str, digest: str, files: Sequence[AdoptedFile]) -> Device:
    """Return a device of which only the model and the use of zones are known."""
    return Device(
        path="",
        identity=DeviceIdentity("", "", "", f"imported.{digest[:16]}", 1),
        kind=DeviceKind.IMPORTED,
        model=model,
        size=Bytes(0),
        logical_block_size=0,
        zoned=any(file.zoned for file in files),
        zone_size=None,
        zone_capacity=None,
        zones=None,
        max_open_zones=None,
        max_active_zones=None,
        scheduler="",
        schedulers=(),
    )


def _result(spec: RunSpec, run: AdoptedRun, found: Sequence[OptionDifference]) -> Result:
    phases = tuple(_phase_result(name, file) for name, file in run.files.items())
    result = empty(
        spec,
        Status.OK,
        started=min(phase.started for phase in phases),
        finished=max(_time(file.output.epoch) for file in run.files.values()),
        seconds=sum(phase.seconds for phase in phases),
    )
    return replace(
        result,
        metrics=_metrics(run),
        issues=tuple(_issues(run, found)),
        phases=phases,
        manifest={
            "imported": {
                KEY: NUMBERS,
                "files": {name: str(file.path) for name, file in run.files.items()},
                "versions": sorted({file.output.version for file in run.files.values()}),
                "latency": {
                    name: imported.latency(file.output) for name, file in run.files.items()
                },
            }
        },
    )


def _metrics(run: AdoptedRun) -> dict[str, Metric]:
    return {
        f"{phase}.{name}": metric
        for phase, file in run.files.items()
        for name, metric in imported.metrics(file.output).items()
    }


def _phase_result(name: str, file: AdoptedFile) -> PhaseResult:
    done = [way for job in file.output.jobs for way in job.directions.values()]
    seconds = max((way.seconds for way in done), default=0.0)
    ways = list(imported.histograms(file.output))
    return PhaseResult(
        name=name,
        benchmark=file.operation,
        role=PhaseRole.MEASURED.value,
        argv=(),
        started=_time(file.output.epoch - seconds),
        seconds=seconds,
        exit_code=0,
        signal=None,
        operations_requested=None,
        operations_done=sum(way.commands for way in done),
        stdout=imported.stored(name),
        stderr="",
        histogram=f"histograms/{name}.{ways[0]}.json" if ways else None,
    )


def _issues(run: AdoptedRun, found: Sequence[OptionDifference]) -> Iterator[Issue]:
    folders = {(str(file.path.parent), file.label) for file in run.files.values()}
    for one in found:
        if (one.folder, one.device) in folders:
            yield Issue(ImportedIssue.OPTIONS_DIFFER.value, Severity.WARNING, one.text)
    for phase, file in run.files.items():
        off = imported.latencies_off(file.output)
        if off:
            text = f"{file.path}: its options turn latencies off, so it has a rate only"
            yield Issue(ImportedIssue.LATENCIES_OFF.value, Severity.WARNING, text, phase)
        if not off and not imported.latency(file.output):
            text = f"{file.path}: it ended inside its ramp, so it has no rate and no latency"
            yield Issue(ImportedIssue.ENDED_IN_RAMP.value, Severity.WARNING, text, phase)
        elif early := file.ended_early:
            text = f"{file.path}: it ended after {early[0]:g} s of {early[1]:g} s"
            yield Issue(
                ImportedIssue.ENDED_EARLY.value, Severity.WARNING, text, phase, early[1], early[0]
            )
    kinds = [imported.latency(file.output) for file in run.files.values()]
    if completions := kinds.count("clat"):
        text = f"{completions} of {len(kinds)} files have completion latencies only (clat)"
        yield Issue(ImportedIssue.COMPLETION_ONLY.value, Severity.INFO, text)


def _time(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, tz=UTC).isoformat(timespec="seconds")
