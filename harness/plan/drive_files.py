"""Reading of models of drives, their jobs and their curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import ConfigError
from harness.plan.curve_models import CurveSet
from harness.plan.drive_models import DriveModel, Ftl
from harness.plan.drive_values import nanoseconds, size
from harness.plan.extended_files import read_extended
from harness.plan.fields import Model
from harness.plan.job_models import Job
from harness.plan.load import CONFIGS, build, names, nearest
from harness.plan.workload_models import EXTENDS
from harness.plan.yaml_files import parse_yaml, read_yaml
from harness.store import checksums

_PAGE = "see docs/model.md"

M = TypeVar("M", bound=Model)


def load_model(named: str, configs: Path = CONFIGS) -> DriveModel:
    """Return the model ``configs/models/<name>.yml``, or the one in a file ``….yml``.

    Raises:
        ConfigError: there is no such model, or a field, unit or limit is wrong.
    """
    return _load(DriveModel, "models", named, configs)


def load_job(named: str) -> Job:
    """Return the job ``configs/jobs/<name>.yml``, or the one in ``….yml``. Raises as above."""
    return _load(Job, "jobs", named, CONFIGS)


def load_curves(named: str) -> CurveSet:
    """Return the curves ``configs/models/curves/<name>.yml``. Raises as above."""
    return _load(CurveSet, "models/curves", named, CONFIGS)


def scaled(model: DriveModel, capacity: int) -> DriveModel:
    """Return a conventional drive scaled to a capacity in bytes, with the same garbage collection.

    Superblocks shrink with the drive, so their number stays. Erase times shrink with them.

    Raises:
        ConfigError: the drive has no conventional namespace, or the capacity is not a whole number
            of map units.
    """
    ftl, flash = conventional(model), model.flash
    if capacity <= 0 or capacity % size(ftl.map_unit.value):
        raise ConfigError(
            f"{capacity} B is not a whole number of map units of {ftl.map_unit.value}",
            hint="write a multiple of the map unit",
            code="model",
        )
    dies = ftl.dies.value if ftl.dies else flash.dies
    unit = size(flash.program_unit.value)
    superblock = unit * dies * ftl.block_units.value * capacity // size(ftl.capacity.value)
    while dies > 1 and unit * dies > superblock:
        dies //= 2
    blocks = max(1, round(superblock / (unit * dies)))
    erase = nanoseconds(flash.erase.value) * blocks // ftl.block_units.value
    data = program_input(model)
    data["ftl"] |= {
        "capacity": _scaled_to(capacity, f"{capacity}B"),
        "block_units": _scaled_to(capacity, blocks),
        "dies": _scaled_to(capacity, dies),
    }
    data["flash"]["erase"] = _scaled_to(capacity, f"{int(erase)}ns")
    return build(DriveModel, data, f"{model.name} scaled to {capacity} B")


def conventional(model: DriveModel) -> Ftl:
    """Return the conventional namespace of a drive; ConfigError if it has none."""
    if model.ftl is None:
        raise ConfigError(
            f"model {model.name} has no conventional namespace",
            hint="name a model with ftl, such as conventional-7op",
            code="model",
        )
    return model.ftl


def resized(model: DriveModel, capacity: int) -> DriveModel:
    """Return a drive of another capacity, in bytes: fewer or more whole zones, or as ``scaled``.

    Raises:
        ConfigError: the capacity is less than a zone, or as for ``scaled``.
    """
    zones = model.zones
    if zones is None:
        return scaled(model, capacity)
    count = capacity // size(zones.capacity.value)
    if count == 0:
        raise ConfigError(
            f"--capacity {capacity} B is less than a zone of {zones.capacity.value}",
            hint="name a larger capacity, or a model with smaller zones",
            code="model",
        )
    limits = {"max_open": zones.max_open.value, "max_active": zones.max_active.value}
    numbers = {"count": count} | {name: min(limit, count) for name, limit in limits.items()}
    data = program_input(model)
    data["zones"] |= {name: _scaled_to(capacity, number) for name, number in numbers.items()}
    return build(DriveModel, data, f"{model.name} scaled to {capacity} B")


def changed(model: DriveModel, assignments: Sequence[str]) -> DriveModel:
    """Return the model with changed numbers; an assignment is ``zones.size=8MiB``.

    Raises:
        ConfigError: an assignment names no number of the model, or the model refuses its value.
    """
    data = program_input(model)
    for assignment in assignments:
        name, _, text = assignment.partition("=")
        group, _, field = name.partition(".")
        numbers = data.get(group)
        if not isinstance(numbers, dict) or field not in numbers:
            raise ConfigError(
                f"{assignment!r} does not set a number of model {model.name}",
                hint="write group.field=value; zonelab model show has the names",
                code="model",
            )
        value = parse_yaml(text, assignment)
        numbers[field] = {"value": value, "origin": "assumed", "source": "set by hand"}
    return build(DriveModel, data, f"{model.name} with {', '.join(assignments)}")


def program_input(model: DriveModel) -> dict[str, Any]:
    """Return a model as the program ``zonemodel`` reads it."""
    return model.model_dump(mode="json", exclude_none=True, exclude={"curves"})


def job_input(job: Job) -> dict[str, Any]:
    """Return a job as the program ``zonemodel`` reads it."""
    return job.model_dump(mode="json", exclude_none=True, exclude={"description"})


def digest(model: DriveModel) -> str:
    """Return a checksum of all values of a model, without origins and sources."""
    return checksums.of_json(_values(model))


def core_values(model: DriveModel) -> dict[str, Any]:
    """Return the values of flash, controller and buffer, which drives of one kind share."""
    values = _values(model)
    return {group: values[group] for group in ("flash", "front", "buffer")}


def served_name(model: DriveModel) -> str:
    """Return the name under which zoneblk serves a model: the model's, and a digest of its input.

    ``NameOf`` in harness/native/zoneblk/status.cc gives the same name. The order of fields matters.
    """
    text = json.dumps(program_input(model), separators=(",", ":"), ensure_ascii=False)
    return f"{model.name}-{fnv1a(text.encode()) >> 32:08x}"


def model_served_as(name: str, configs: Path = CONFIGS) -> DriveModel | None:
    """Return the model that zoneblk serves under a name; None if this release has no such model."""
    try:
        model = load_model(name.rpartition("-")[0], configs)
    except ConfigError:
        return None
    return model if served_name(model) == name else None


def fnv1a(data: bytes) -> int:
    """Return the FNV-1a hash with 64 bits."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % 2**64
    return found


def base_of(name: str, configs: Path) -> str | None:
    """Return the model that a model extends. Raises ConfigError: there is no such file."""
    found = read_yaml(configs / "models" / f"{name}.yml").get(EXTENDS)
    return None if found is None else str(found)


def bases_of(name: str, configs: Path) -> list[str]:
    """Return all models that a model extends, the nearest first. Raises as ``base_of``."""
    base = base_of(name, configs)
    return [] if base is None else [base, *bases_of(base, configs)]


def _scaled_to(capacity: int, value: Any) -> dict[str, Any]:
    """Return a number that follows from the capacity of a drive, with its origin."""
    return {"value": value, "origin": "derived", "source": f"scaled to {capacity} B"}


def without_origins(data: Any) -> Any:
    """Return the values of a model's file without their origins and sources."""
    if not isinstance(data, dict):
        return data
    if data.keys() == {"value", "origin", "source"}:
        return data["value"]
    return {name: without_origins(value) for name, value in data.items()}


def _values(model: DriveModel) -> dict[str, Any]:
    found = without_origins(program_input(model))
    return {key: value for key, value in found.items() if key not in ("name", "description")}


def _load(model: type[M], kind: str, named: str, configs: Path) -> M:
    is_path = named.endswith((".yml", ".yaml")) or "/" in named
    path = Path(named) if is_path else configs / kind / f"{named}.yml"
    if not path.is_file():
        what = kind.rpartition("/")[2].removesuffix("s")
        known = nearest(named, names(kind, configs))
        raise ConfigError(f"there is no {what} {named!r}", hint=known, code=f"unknown-{what}")
    loaded = build(model, read_extended(path, configs / kind, hint=_PAGE), str(path))
    if not is_path and getattr(loaded, "name", named) != named:
        raise ConfigError(f"{path}: its name is not {named}", hint=f"write name: {named}")
    return loaded
