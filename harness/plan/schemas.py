"""JSON schemas of the files in ``configs/``, generated from the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.plan.curve_models import CurveSet
from harness.plan.drive_models import DriveModel
from harness.plan.fields import Model
from harness.plan.job_models import Job
from harness.plan.mix_models import TenantMix
from harness.plan.study_models import Study
from harness.plan.tuning_models import Tuning
from harness.plan.workload_models import BARE_WORKLOADS, EXTENDS, OWN_FIELDS, Workload
from harness.store.files import write_atomic
from harness.workloads import PROGRAMS

MODELS: dict[str, type[Model]] = {
    "study": Study,
    "workload": Workload,
    **{
        program.file_schema: BARE_WORKLOADS[program.field]
        for program in PROGRAMS.values()
        if not program.uses_database
    },
    "tuning": Tuning,
    "mix": TenantMix,
    "model": DriveModel,
    "job": Job,
    "curves": CurveSet,
}


def schema_text(model: type[Model]) -> str:
    """Return the text of a model's JSON schema."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(),
    }
    if model is Workload:
        _allow_extending(schema)
    if model is DriveModel:
        _allow_changes(schema)
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _allow_extending(schema: dict[str, Any]) -> None:
    """Make fields optional in a file that extends another one."""
    schema["properties"][EXTENDS] = schema["properties"]["name"] | {"title": "Extends"}
    schema["if"] = {"not": {"required": [EXTENDS]}}
    schema["then"] = {"required": schema["required"]}
    schema["required"] = list(OWN_FIELDS)


def _allow_changes(schema: dict[str, Any]) -> None:
    """Make groups and their fields optional: a model that extends another has only changes."""
    schema["properties"][EXTENDS] = schema["properties"]["name"] | {"title": "Extends"}
    schema["required"] = ["schema_version", "name", "description"]
    for group in ("Flash", "Front", "HostSide", "Zones", "Ftl"):
        del schema["$defs"][group]["required"]


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema into ``folder``; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, model in MODELS.items():
        path = folder / f"{name}.json"
        write_atomic(path, schema_text(model))
        files.append(path)
    return files
