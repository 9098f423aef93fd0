"""Files that extend another file of their folder: drives, curves and rigs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.plan.load import nearest
from harness.plan.workload_models import EXTENDS
from harness.plan.yaml_files import read_yaml


def read_extended(
    path: Path, folder: Path, *, hint: str, extended_by: tuple[Path, ...] = ()
) -> dict[str, Any]:
    """Return the fields of a file, merged group by group into those of the file it extends.

    ``extended_by`` are the files that lead to this one.

    Raises:
        ConfigError: a file is not YAML or has no fields (with ``hint``), or there is no such file
            to extend.
    """
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path} has no fields", hint=hint, code="not-yaml")
    if EXTENDS not in data:
        return data
    base = folder / f"{data.pop(EXTENDS)}.yml"
    if base in (*extended_by, path) or not base.is_file():
        raise ConfigError(
            f"{path}: it cannot extend {base.stem}",
            hint=nearest(base.stem, (file.stem for file in folder.glob("*.yml"))),
            code="extends",
        )
    merged = read_extended(base, folder, hint=hint, extended_by=(*extended_by, path))
    for name, group in data.items():
        own = merged.get(name)
        merged[name] = {**own, **group} if isinstance(own, dict) and group is not None else group
    return merged
