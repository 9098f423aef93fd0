"""Keeps replays as a campaign of their own, whose device is of the kind ``replayed``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness import __version__
from harness.errors import UsageError
from harness.plan.expand import cell_name
from harness.plan.facts import host_digest
from harness.replay import grid
from harness.replay.grid import Job
from harness.run import replayed as counts
from harness.store.campaign import NAME, NAME_HINT, Campaign, CampaignPaths
from harness.store.files import dumps, write_atomic
from harness.store.result import Issue, Result, Severity, Status
from harness.store.rundir import RunWriter, full_disk_is_clear
from harness.store.spec import (
    Bytes,
    Device,
    DeviceIdentity,
    DeviceKind,
    HostFacts,
    HostPlan,
    Inspection,
    LevelProbe,
    Plan,
    Prediction,
    Reason,
    RunSpec,
    Scalar,
    Tracing,
)
from harness.tools.zlfs_replay import Replayed

STUDY = "replay"
HOST = "replayed"
_LEVEL = "zlfs"
_OCCUPANCY = "finish_occupancy_pct"
# Options of zlfs-replay that are geometry; all others are policies of the level.
_GEOMETRY = frozenset({"zone_capacity", "zones", "max_active"})
_METRICS = (
    "run.pad_bytes", "run.sa_host", "run.space_amplification", "run.gc_bytes", "run.zone_resets",
    "run.wear_max",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Done:
    """A job and what became of it."""

    job: Job
    replayed: Replayed

    @property
    def factors(self) -> dict[str, Scalar]:
        """What was set; the threshold always, because figures are drawn over it."""
        changes = {
            "zone_size" if name == "zone_capacity" else name: value
            for name, value in self.job.changes.items()
        }
        return {_OCCUPANCY: self.replayed.setting[_OCCUPANCY], **changes}

    @property
    def label(self) -> str:
        """Whether it is what was recorded, or what would have been."""
        if self.replayed.counterfactual:
            return "counterfactual"
        return "recorded" if self.replayed.rules == "recorded" else "own-rules"


def check_name(name: str, results: Path) -> None:
    """Refuse a name that is none, or taken.

    Raises:
        UsageError: as it says.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a campaign", hint=NAME_HINT, code="campaign-name")
    if (results / name).exists():
        raise UsageError(
            f"{results / name} exists already; nothing is ever overwritten",
            hint="choose another --campaign",
            code="campaign-name",
        )


def save(name: str, done: Sequence[Done], results: Path, command: Sequence[str]) -> Path:
    """Write the campaign and return its folder.

    Raises:
        UsageError: the name is taken, or cannot be a folder's.
        HostError: the disk is full.
    """
    check_name(name, results)
    specs = list(_specs(name, done))
    inspection = _inspection(specs[0].device)
    digest = hashlib.sha256(
        json.dumps(
            [[one.job.source.digest, dict(one.replayed.setting)] for one in done], sort_keys=True
        ).encode()
    ).hexdigest()
    recorded = str(done[0].job.source.recorded.settings[0][_OCCUPANCY])
    known = [str(one.factors[_OCCUPANCY]) for one in done]
    plan = Plan(
        campaign=name,
        study=STUDY,
        question="What would other settings have done with what was recorded?",
        study_digest=digest,
        baseline=recorded if recorded in known else known[-1],
        contrast=_OCCUPANCY,
        claims=(),
        metrics=_METRICS,
        hosts=(HostPlan(HOST, inspection, tuple(specs)),),
        zonelab_version=__version__,
    )
    paths = CampaignPaths(results / name)
    now = datetime.now(tz=UTC).isoformat(timespec="seconds")
    with full_disk_is_clear(results):
        paths.runs(HOST).mkdir(parents=True)
        write_atomic(paths.host(HOST) / "host.json", dumps(inspection))
        record = Campaign(
            campaign=name, study=STUDY, study_digest=digest,
            host_digest=host_digest([(HOST, inspection)]), created=now, command=tuple(command),
            zonelab_version=__version__,
        )  # fmt: skip
        write_atomic(paths.record, dumps(record))
        write_atomic(paths.plan, dumps(plan))
    for spec, one in zip(specs, done, strict=True):
        writer = RunWriter(paths.runs(HOST), spec.run)
        writer.write("run.json", spec)
        writer.write(counts.DOCUMENT, one.replayed.document)
        writer.write("result.json", _result(spec, one, now))
        writer.commit()
    return paths.root


def _specs(campaign: str, done: Sequence[Done]) -> Iterator[RunSpec]:
    for position, one in enumerate(done, 1):
        base = one.job.source.spec
        cell = cell_name(_LEVEL, one.factors)
        policies: Mapping[str, Scalar] = base.level_options if base else {}
        yield RunSpec(
            campaign=campaign,
            study=STUDY,
            run=f"{cell}--r{one.job.repetition:02d}",
            cell=cell,
            level=_LEVEL,
            factors=one.factors,
            level_options={
                **{k: v for k, v in policies.items() if not k.startswith("finish_")},
                **{k: v for k, v in one.factors.items() if k not in {*_GEOMETRY, "zone_size"}},
            },
            repetition=one.job.repetition,
            attempt=1,
            block=one.job.repetition,
            position=position,
            seed=base.seed if base else one.job.repetition,
            device=_device(one),
            conventional=None,
            scheduler="",
            cold=None,
            phases=(),
            predicted=Prediction(Bytes(0), Bytes(0), 0.0),
            timeout_seconds=0,
            tracing=Tracing.OFF,
        )


def _device(one: Done) -> Device:
    setting = one.replayed.setting
    capacity, zones = int(setting["zone_capacity"]), int(setting["zones"])
    limit = int(setting["max_active"])
    known = one.job.source.spec.device if one.job.source.spec else None
    device = Device(
        path="",
        identity=DeviceIdentity("", "", "", f"trace.{one.job.source.digest[:16]}", 1),
        kind=DeviceKind.REPLAYED,
        model=f"replayed from {known.model.strip() or known.path}" if known else "replayed",
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
    if known is not None and known.zone_capacity == capacity:
        device = replace(device, zone_size=known.zone_size)
    return device


def _inspection(device: Device) -> Inspection:
    return Inspection(
        host=HostFacts(HOST, "", "", 0, Bytes(0), ""),
        device=device,
        conventional=None,
        conventional_reason=None,
        drive_capacity=None,
        refusals=(),
        levels=(LevelProbe(_LEVEL, available=True, reason=None),),
    )


def _result(spec: RunSpec, one: Done, now: str) -> Result:
    source = one.job.source
    why = next(grid.sentence(one.replayed), "")
    told = f"replayed from {source.name} ({source.digest[:16]}), "
    told += "another setting than the recorded one" if one.replayed.counterfactual else (
        "at the recorded setting"
    )  # fmt: skip
    return Result(
        status=Status.SKIPPED if why else Status.OK,
        level=spec.level,
        cell=spec.cell,
        repetition=spec.repetition,
        metrics=counts.metrics(one.replayed),
        issues=(Issue(one.label, Severity.INFO, told),),
        reason=Reason("infeasible", why, "a larger device, or a threshold that gives up less")
        if why
        else None,
        campaign=spec.campaign,
        study=spec.study,
        run=spec.run,
        factors=spec.factors,
        attempt=spec.attempt,
        block=spec.block,
        position=spec.position,
        seed=spec.seed,
        device=spec.device,
        started=now,
        finished=now,
        seconds=0.0,
        utilisation=None,
        phases=(),
        manifest={
            "replay": {
                "label": one.label,
                "rules": one.replayed.rules,
                "trace": source.name,
                "trace_sha256": source.digest,
                "recorded": dict(source.recorded.settings[0]),
            }
        },
    )
