"""Modelled drives that compute M (bytes written to the medium) of conventional devices."""

from __future__ import annotations

from pathlib import Path

from harness.levels import LEVELS
from harness.plan import drive_files
from harness.plan.drive_values import size
from harness.plan.load import CONFIGS
from harness.plan.study_models import Study
from harness.store.spec import Device, DeviceKind, MediaModel


def resolved(study: Study, configs: Path = CONFIGS) -> Study:
    """Return the study with the content of the model that it names.

    Raises:
        ConfigError: there is no such model, or it has no conventional namespace.
    """
    named = study.media_model
    if not isinstance(named, str):
        return study
    model = drive_files.load_model(named, configs)
    drive_files.conventional(model)
    return study.model_copy(update={"media_model": model})


def model_of(study: Study, level: str, device: Device | None) -> MediaModel | None:
    """Return the model of a resolved study, scaled to the size of a device; None if not needed.

    It is not needed for a modelled drive, which counts M itself.

    Raises:
        ConfigError: the model cannot have this size.
    """
    named = study.media_model
    if named is None or isinstance(named, str) or device is None:
        return None
    if not LEVELS[level].needs_conventional or device.kind is DeviceKind.MODELLED:
        return None
    unit = size(drive_files.conventional(named).map_unit.value)
    scaled = drive_files.scaled(named, -(-device.size // unit) * unit)
    parameters = drive_files.without_origins(drive_files.program_input(scaled))
    return MediaModel(drive_files.served_name(scaled), parameters)
