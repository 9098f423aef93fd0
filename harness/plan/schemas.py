"""JSON schemas of the files in ``configs/``, generated from the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.plan.models import EXTENDS, OWN_FIELDS, Model, Study, TenantMix, Tuning, Workload
from harness.plan.probe_models import ProbeWorkload
from harness.store.files import write_atomic

MODELS: dict[str, type[Model]] = {
    "study": Study,
    "workload": Workload,
    "probe-workload": ProbeWorkload,
    "tuning": Tuning,
    "mix": TenantMix,
}


def schema_text(model: type[Model]) -> str:
    """Return a model's JSON schema as it is stored."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(),
    }
    if model is Workload:
        _allow_extending(schema)
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _allow_extending(schema: dict[str, Any]) -> None:
    """A file that extends another need not give what it takes from there."""
    schema["properties"][EXTENDS] = schema["properties"]["name"] | {"title": "Extends"}
    schema["if"] = {"not": {"required": [EXTENDS]}}
    schema["then"] = {"required": schema["required"]}
    schema["required"] = list(OWN_FIELDS)


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema into ``folder``; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, model in MODELS.items():
        path = folder / f"{name}.json"
        write_atomic(path, schema_text(model))
        files.append(path)
    return files
