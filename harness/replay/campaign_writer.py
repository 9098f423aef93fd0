"""Store replays as a campaign whose device has the kind ``replayed``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import UsageError
from harness.plan import drive_files, model_verdicts
from harness.plan.cells import cell_name
from harness.plan.drive_models import DriveModel
from harness.plan.save import write_records
from harness.replay import grid
from harness.replay.grid import ReplayJob
from harness.run import replayed as counts
from harness.store import checksums
from harness.store.campaign import NAME, NAME_HINT, CampaignPaths
from harness.store.files import sync
from harness.store.numbers_version import KEY, NUMBERS
from harness.store.result import Issue, Result, Severity, Status, empty
from harness.store.rundir import RunWriter, full_disk_is_clear
from harness.store.spec import (
    Bytes,
    Device,
    DeviceIdentity,
    DeviceKind,
    HostPlan,
    Inspection,
    Plan,
    Prediction,
    Reason,
    RunSpec,
    Scalar,
    TracingMode,
)
from harness.tools.zlfs_replay import Replayed

STUDY = "replay"
HOST = "replayed"
_LEVEL = "zlfs"
_OCCUPANCY = "finish_occupancy_pct"
_REMAINING = "finish_remaining_pct"  # 100 minus the other
# Factors that describe the device; all other factors are options of the level.
_GEOMETRY = frozenset({"zone_size", "zones", "max_active"})
_METRICS = (
    "run.pad_bytes",
    "run.sa_host",
    "run.space_amplification",
    "run.gc_bytes",
    "run.zone_resets",
    "run.wear_max",
)


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """A job and its result."""

    job: ReplayJob
    replayed: Replayed

    @property
    def factors(self) -> dict[str, Scalar]:
        """The changed settings, and always the threshold: it is the x axis of the figures.

        ``finish_remaining_pct`` is the same threshold.
        """
        changes = {
            "zone_size" if name == "zone_capacity" else name: value
            for name, value in self.job.changes.items()
            if name != _REMAINING
        }
        return {_OCCUPANCY: self.replayed.setting[_OCCUPANCY], **changes}

    @property
    def label(self) -> str:
        """``recorded``, ``own-rules`` or ``counterfactual`` (docs/replay.md)."""
        if self.replayed.counterfactual:
            return "counterfactual"
        return "recorded" if self.replayed.rules == "recorded" else "own-rules"


def check_name(name: str, results: Path) -> None:
    """Refuse a name that is invalid or taken.

    Raises:
        UsageError: the name is not a folder name, or the campaign exists.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a campaign", hint=NAME_HINT, code="campaign-name")
    if (results / name).exists():
        raise UsageError(
            f"{results / name} exists already and is not overwritten",
            hint="choose another --campaign",
            code="campaign-name",
        )


def save(
    name: str,
    outcomes: Sequence[ReplayOutcome],
    results: Path,
    command: Sequence[str],
    model: DriveModel | None = None,
) -> Path:
    """Write the whole campaign or nothing, and return its folder.

    ``model`` is the drive that gave times.

    Raises:
        UsageError: the name is invalid or taken.
        HostError: the disk is full.
    """
    check_name(name, results)
    specs = list(_specs(name, outcomes))
    inspection = Inspection.of_no_machine(HOST, specs[0].device, [_LEVEL])
    digest = checksums.of_json([[o.job.source.digest, dict(o.replayed.setting)] for o in outcomes])
    recorded = str(outcomes[0].job.source.setting[_OCCUPANCY])
    thresholds = [str(outcome.factors[_OCCUPANCY]) for outcome in outcomes]
    plan = Plan(
        campaign=name,
        study=STUDY,
        question="How do other settings behave on the recorded requests?",
        study_digest=digest,
        baseline=recorded if recorded in thresholds else thresholds[-1],
        contrast=_OCCUPANCY,
        claims=(),
        metrics=_METRICS,
        hosts=(HostPlan(HOST, inspection, tuple(specs)),),
        zonelab_version=__version__,
    )
    partial = CampaignPaths(results / f".{name}.partial")
    now = datetime.now(tz=UTC).isoformat(timespec="seconds")
    shutil.rmtree(partial.root, ignore_errors=True)
    try:
        with full_disk_is_clear(results):
            write_records(partial, plan, [(HOST, inspection)], command, now)
        for spec, outcome in zip(specs, outcomes, strict=True):
            writer = RunWriter(partial.runs(HOST), spec.run)
            writer.write("run.json", spec)
            writer.write(counts.DOCUMENT, outcome.replayed.document)
            writer.write("result.json", _result(spec, outcome, now, model))
            writer.commit()
        partial.root.rename(results / name)
    finally:
        shutil.rmtree(partial.root, ignore_errors=True)
    sync(results)
    return results / name


def _specs(campaign: str, outcomes: Sequence[ReplayOutcome]) -> Iterator[RunSpec]:
    for position, outcome in enumerate(outcomes, 1):
        base = outcome.job.source.spec
        cell = cell_name(_LEVEL, outcome.factors)
        policies: Mapping[str, Scalar] = base.level_options if base else {}
        yield RunSpec(
            campaign=campaign,
            study=STUDY,
            run=f"{cell}--r{outcome.job.repetition:02d}",
            cell=cell,
            level=_LEVEL,
            factors=outcome.factors,
            level_options={
                **{
                    k: v
                    for k, v in policies.items()
                    if not k.startswith("finish_") and k not in outcome.job.changes
                },
                **{k: v for k, v in outcome.factors.items() if k not in _GEOMETRY},
            },
            repetition=outcome.job.repetition,
            attempt=1,
            block=outcome.job.repetition,
            position=position,
            seed=base.seed if base else outcome.job.repetition,
            device=_device(outcome),
            conventional=None,
            scheduler="",
            cold=None,
            phases=(),
            predicted=Prediction(Bytes(0), Bytes(0), 0.0),
            timeout_seconds=0,
            tracing=TracingMode.OFF,
        )


def _device(outcome: ReplayOutcome) -> Device:
    setting = outcome.replayed.setting
    capacity, zones = int(setting["zone_capacity"]), int(setting["zones"])
    limit = int(setting["max_active"])
    source = outcome.job.source
    recorded = source.spec.device if source.spec else None
    device = Device(
        path="",
        identity=DeviceIdentity("", "", "", f"trace.{source.digest[:16]}", 1),
        kind=DeviceKind.REPLAYED,
        model=f"replayed from {recorded.model.strip() or recorded.path}"
        if recorded
        else "replayed",
        size=Bytes(capacity * zones),
        logical_block_size=int(setting["block_size"]),
        zoned=True,
        zone_size=Bytes(capacity),
        zone_capacity=Bytes(capacity),
        zones=zones,
        max_open_zones=limit,
        max_active_zones=limit,
        scheduler="",
        schedulers=(),
    )
    if recorded is not None and recorded.zone_capacity == capacity:
        device = replace(device, zone_size=recorded.zone_size)
    return device


def _model(model: DriveModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "digest": drive_files.digest(model),
        "core": model_verdicts.core(model),
        "drive": drive_files.program_input(model),
    }


def _result(spec: RunSpec, outcome: ReplayOutcome, now: str, model: DriveModel | None) -> Result:
    source, replayed = outcome.job.source, outcome.replayed
    why = grid.why_infeasible(replayed)
    setting = "a changed setting" if replayed.counterfactual else "the recorded setting"
    origin = f"replayed from {source.name} ({source.digest[:16]}) with {setting}"
    if model is not None:
        origin += f"; times are modelled: {model.name}, core {model_verdicts.core(model)}"
    result = empty(
        spec,
        Status.SKIPPED if why else Status.OK,
        reason=Reason(
            "infeasible", why, "use a larger device, or a threshold that gives up less capacity"
        )
        if why
        else None,
        started=now,
        finished=now,
        seconds=0.0,
    )
    return replace(
        result,
        metrics=counts.metrics(replayed),
        issues=(Issue(outcome.label, Severity.INFO, origin),),
        manifest={
            "replay": {
                KEY: NUMBERS,
                "label": outcome.label,
                "rules": replayed.rules,
                "trace": source.name,
                "trace_sha256": source.digest,
                "recorded": dict(source.setting),
                "model": None if model is None else _model(model),
            }
        },
    )
