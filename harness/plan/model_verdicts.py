"""Stored results of ``zonelab model validate --save``, which every table of a model shows.

A verdict holds only for the values that were validated: a changed number makes it void.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import ConfigError
from harness.plan import drive_files
from harness.plan.drive_models import DriveModel
from harness.plan.load import CONFIGS
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import dumps, load_record, write_atomic


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """Checksum of the validated values, the core curves that fail, and the known misses.

    ``core_error`` is the mean error over the points of core curves; null in old files.
    """

    schema_version: int = field(default=SCHEMA_VERSION, kw_only=True)
    digest: str
    core_failed: tuple[str, ...]
    core_missed: tuple[str, ...] = ()
    core_error: float | None = None


def save(model: DriveModel, verdict: ModelVerdict, configs: Path = CONFIGS) -> Path:
    """Store a verdict; return its file."""
    path = _file(model, configs)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, dumps(verdict))
    return path


def load(model: DriveModel, configs: Path = CONFIGS) -> ModelVerdict | None:
    """Return the stored verdict; None without one, or if the model has changed since.

    Raises:
        ConfigError: the file is damaged or newer.
    """
    path = _file(model, configs)
    if not path.is_file():
        return None
    try:
        verdict = load_record(ModelVerdict, path)
    except ConfigError:
        raise ConfigError(
            f"{path} is not a stored validation",
            hint=f"zonelab model validate {model.name} --save",
            code="model",
        ) from None
    return verdict if verdict.digest == drive_files.digest(model) else None


def of_drive(served: str, configs: Path = CONFIGS) -> tuple[DriveModel, ModelVerdict] | None:
    """Return the validated model behind the name of a drive that zoneblk serves, and its verdict.

    A drive without curves has the verdict of the drive that it extends, if they have the same
    flash, controller and buffer. None if this release has no such model, if its values were
    changed, or if nothing was validated.
    """
    model = drive_files.model_served_as(served, configs)
    if model is None:
        return None
    own = drive_files.core_values(model)
    try:
        while (verdict := load(model, configs)) is None:
            base = None if model.curves else drive_files.base_of(model.name, configs)
            if base is None:
                return None
            model = drive_files.load_model(base, configs)
    except ConfigError:
        return None
    return (model, verdict) if drive_files.core_values(model) == own else None


def core(model: DriveModel, configs: Path = CONFIGS) -> str:
    """Return ``passes``, ``fails (n of the curves)`` or ``not validated``, for tables.

    The number of known misses follows ``passes``. A drive that has the verdict of another one
    begins with ``as NAME:``.
    """
    found = _judged(model, configs)
    if found is None:
        return "not validated"
    validated, verdict = found
    origin = "" if validated.name == model.name else f"as {validated.name}: "
    failed = len(verdict.core_failed)
    if failed:
        return f"{origin}fails ({failed} of the curves)"
    missed = f", known misses: {len(verdict.core_missed)}" if verdict.core_missed else ""
    return f"{origin}passes{missed}"


def passes(model: DriveModel, configs: Path = CONFIGS) -> bool:
    """Return whether the core has a verdict, its own or another drive's, without failed curves."""
    found = _judged(model, configs)
    return found is not None and not found[1].core_failed


def _judged(model: DriveModel, configs: Path) -> tuple[DriveModel, ModelVerdict] | None:
    verdict = load(model, configs)
    if verdict is not None:
        return model, verdict
    return of_drive(drive_files.served_name(model), configs)


def _file(model: DriveModel, configs: Path) -> Path:
    return configs / "models" / "validated" / f"{model.name}.json"
