"""Reading of models of drives, their jobs and their curves."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import ConfigError
from harness.plan.curve_models import CurveSet
from harness.plan.drive_models import DriveModel
from harness.plan.fields import Model
from harness.plan.job_models import Job
from harness.plan.load import CONFIGS, build, names, nearest
from harness.plan.yaml_files import read_yaml

_PAGE = "see docs/model.md"

M = TypeVar("M", bound=Model)


def load_model(named: str, configs: Path = CONFIGS) -> DriveModel:
    """Return the model ``configs/models/<name>.yml``, or that of a file ``….yml``.

    Raises:
        ConfigError: there is no such model, or a field, unit or limit is wrong.
    """
    return _load(DriveModel, "models", named, configs)


def load_job(named: str, configs: Path = CONFIGS) -> Job:
    """Return the job ``configs/jobs/<name>.yml``, or that of a file ``….yml``. Raises as above."""
    return _load(Job, "jobs", named, configs)


def load_curves(named: str, configs: Path = CONFIGS) -> CurveSet:
    """Return the curves ``configs/models/curves/<name>.yml``. Raises as above."""
    return _load(CurveSet, "models/curves", named, configs)


def program_input(model: DriveModel) -> dict[str, Any]:
    """Return a model as the program ``zonemodel`` reads it."""
    return model.model_dump(mode="json", exclude_none=True, exclude={"curves"})


def job_input(job: Job) -> dict[str, Any]:
    """Return a job as the program ``zonemodel`` reads it."""
    return job.model_dump(mode="json", exclude_none=True, exclude={"description"})


def digest(model: DriveModel) -> str:
    """Return a checksum of all values of a model, without origins and sources."""
    values = _values(program_input(model))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _values(data: Any) -> Any:
    if isinstance(data, dict):
        if data.keys() == {"value", "origin", "source"}:
            return data["value"]
        return {k: _values(v) for k, v in data.items() if k not in ("name", "description")}
    return data


def _load(model: type[M], kind: str, named: str, configs: Path) -> M:
    is_path = named.endswith((".yml", ".yaml")) or "/" in named
    path = Path(named) if is_path else configs / kind / f"{named}.yml"
    if not path.is_file():
        what = kind.rpartition("/")[2].removesuffix("s")
        known = nearest(named, names(kind, configs))
        raise ConfigError(f"there is no {what} {named!r}", hint=known, code=f"unknown-{what}")
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path} has no fields", hint=_PAGE, code="not-yaml")
    loaded = build(model, data, str(path))
    if not is_path and getattr(loaded, "name", named) != named:
        raise ConfigError(f"{path}: its name is not {named}", hint=f"write name: {named}")
    return loaded
