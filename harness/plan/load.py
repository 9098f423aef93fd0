"""Reading of ``configs/`` and inspections; each mistake in them is one clear ConfigError."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.errors import ConfigError, UsageError
from harness.plan import fio_jobs
from harness.plan.fields import FieldError, Model
from harness.plan.job_models import Job
from harness.plan.mix_models import TenantMix
from harness.plan.study_models import Study
from harness.plan.workload_models import (
    EXTENDS,
    OWN_FIELDS,
    AnyWorkload,
    Workload,
    model_of,
)
from harness.plan.yaml_files import read_yaml
from harness.store.campaign import NAME, NAME_HINT
from harness.store.campaign import load_inspection as read_inspection
from harness.store.spec import Inspection
from harness.tools import fio

CONFIGS = Path(__file__).resolve().parents[2] / "configs"

_INSPECT = "zonelab inspect DEVICE --format json > FILE.json, then --inspection HOST=FILE.json"

# Last part of a pydantic location inside a Flag: the tried type.
_UNION = frozenset({"str", "bool", "int", "float"})

M = TypeVar("M", bound=BaseModel)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name, if any, and all known names."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"{guess}known: {', '.join(choices)}"


def names(kind: str, configs: Path = CONFIGS) -> list[str]:
    """Return the names of all files of a kind (``studies``, ``workloads``), sorted."""
    return sorted(path.stem for path in (configs / kind).glob("*.yml"))


def load_study(
    name: str, configs: Path = CONFIGS, settings: Mapping[str, Any] | None = None
) -> tuple[Study, AnyWorkload]:
    """Load a study and its workload, which can extend another workload.

    ``settings`` replace fields of the study (``repetitions``) or of the workload
    (``workload.value_size``).

    Raises:
        ConfigError: the study or workload does not exist, or a field or unit is wrong.
    """
    own = {k: v for k, v in (settings or {}).items() if not k.startswith("workload.")}
    of_workload = {
        k.removeprefix("workload."): v for k, v in (settings or {}).items() if k not in own
    }
    study = _load(Study, "studies", name, configs, own)
    data = _read("workloads", study.workload, configs)[1]
    return study, _load(model_of(data), "workloads", study.workload, configs, of_workload)


def load_mix(mix: Any, configs: Path, where: str) -> TenantMix:
    """Load a mix with the workloads of its tenants; raises as ``load_study`` does.

    ``mix`` is a name or the content of a mix file.
    """
    if isinstance(mix, str):
        mix = _load(TenantMix, "mixes", mix, configs, {})
    else:
        mix = build(TenantMix, mix, where)
    tenants = [
        tenant.model_copy(
            update={"workload": _load(Workload, "workloads", tenant.workload, configs, {})}
        )
        if isinstance(tenant.workload, str)
        else tenant
        for tenant in mix.tenants
    ]
    whole: TenantMix = mix.model_copy(update={"tenants": tuple(tenants)})
    return whole


def narrow(study: Study, levels: Sequence[str]) -> Study:
    """Return the study with only some of its levels; claims about the others are dropped.

    Raises:
        ConfigError: the study has no such level.
    """
    known = {entry.label: entry for entry in study.entries}
    for level in levels:
        if level not in known:
            raise ConfigError(
                f"study {study.name} has no level {level!r}",
                hint=nearest(level, known),
                code="unknown-level",
            )
    kept = {name: entry for name, entry in known.items() if name in levels}
    parts = {rig: tuple(one for one in part if one in kept) for rig, part in study.rigs.items()}
    changes: dict[str, Any] = {"levels": tuple(kept.values())}
    changes["rigs"] = {rig: part for rig, part in parts.items() if part}
    if study.contrast == "level":
        # If the baseline is dropped, the first remaining level becomes the baseline of the plan.
        baseline = study.baseline if study.baseline in kept else next(iter(kept))
        claims = tuple(c for c in study.claims if {c.level, c.baseline} <= kept.keys())
        changes |= {"baseline": baseline, "claims": claims}
    return study.model_copy(update=changes)


# The setting that leaves out the twin that the planner adds; ``distinct`` leaves out listed twins.
NO_TWIN = "twin=false"


def distinct(study: Study) -> list[str]:
    """Return the labels of the levels; of a level's entries with equal options, only the first."""
    once = {(entry.name, str(entry.options)): entry.label for entry in reversed(study.entries)}
    return list(once.values())


def build(model: type[M], data: Mapping[str, Any], where: str, given: Collection[str] = ()) -> M:
    """Validate plain data as ``model``; ``where`` names the source in messages.

    ``given`` are the fields that come from the command line.

    Raises:
        ConfigError: a field is unknown, missing or wrong; the message has the path of the field.
    """
    try:
        # Through JSON, where strict mode still turns lists into tuples.
        return model.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise _explain(error, model, where, given) from None
    except TypeError as error:  # a date or another YAML type that JSON does not have
        raise ConfigError(f"{where}: {error}", hint="quote the value", code="bad-field") from None


def load_inspection(text: str) -> tuple[str, Inspection]:
    """Read ``HOST=FILE.json`` from the command line.

    Raises:
        UsageError: the form is wrong, or the host's name cannot be a folder name.
        ConfigError: the file cannot be read, or is not an inspection of this schema version.
    """
    host, equals, file = text.partition("=")
    if not (host and equals and file):
        raise UsageError(
            f"--inspection {text!r} is not HOST=FILE.json", hint=_INSPECT, code="inspection"
        )
    if not NAME.fullmatch(host):
        raise UsageError(f"{host!r} cannot name a host", hint=NAME_HINT, code="host-name")
    try:
        inspection = read_inspection(Path(file))
    except ConfigError as error:
        hint = error.hint if error.code == "schema-version" else _INSPECT
        raise ConfigError(error.message, hint=hint, code=error.code) from None
    # Campaigns are published, so they do not contain the foreign data that was on the devices.
    return host, replace(inspection, contents=(), notices=())


def _load(model: type[M], kind: str, name: str, configs: Path, settings: Mapping[str, Any]) -> M:
    path, data = _read(kind, name, configs)
    if model is Workload and EXTENDS in data:
        data = _extended(path, data, configs)
    data = {**data, **settings}
    if model is Study and data.get("mix") is not None:
        mix = load_mix(data["mix"], configs, f"{path}: mix")
        data["mix"] = mix.model_dump(mode="json", exclude_defaults=True)
    if isinstance(work := data.get(fio.PROGRAM), dict):
        data[fio.PROGRAM] = _with_jobs(work, configs)
    result = build(model, data, str(path), given=settings)
    if getattr(result, "name", name) != name:
        raise ConfigError(
            f"{path}: its name is {getattr(result, 'name', '')!r}", hint=f"write name: {name}"
        )
    return result


def _with_jobs(work: dict[str, Any], configs: Path) -> dict[str, Any]:
    """Return a workload of fio with the content of the jobs that it names."""
    if not isinstance(work.get("jobs"), list):
        return work
    found = []
    for job in work["jobs"]:
        content = _load(Job, "jobs", job, configs, {}) if isinstance(job, str) else job
        found.append(fio_jobs.translated(content) if isinstance(content, Job) else content)
    return {**work, "jobs": found}


def _read(kind: str, name: str, configs: Path) -> tuple[Path, dict[str, Any]]:
    path = configs / kind / f"{name}.yml"
    known = names(kind, configs)
    if not known:
        raise ConfigError(
            f"{configs} has no {kind}",
            hint="--configs needs a folder like configs/",
            code="configs",
        )
    if name not in known:
        what = {"studies": "study", "mixes": "mix"}.get(kind, kind.removesuffix("s"))
        raise ConfigError(
            f"there is no {what} {name!r}", hint=nearest(name, known), code=f"unknown-{what}"
        )
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path} has no fields", hint="see docs/studies.md", code="not-yaml")
    return path, data


def _extended(path: Path, data: dict[str, Any], configs: Path) -> dict[str, Any]:
    """Return the fields of a workload, merged into the fields of the extended workload.

    Only one level is allowed, so that a reader needs at most two files.
    """
    own = {key: value for key, value in data.items() if key != EXTENDS}
    base = data[EXTENDS]
    try:
        base_path, extended = _read("workloads", str(base), configs)
    except ConfigError as error:
        raise ConfigError(
            f"{path}: {EXTENDS}: {error.message}", hint=error.hint, code=error.code
        ) from None
    if EXTENDS in extended:
        again = "itself" if base_path == path else f"{base}, which extends {extended[EXTENDS]}"
        raise ConfigError(
            f"{path} extends {again}",
            hint=f"{EXTENDS} must name a workload without {EXTENDS}",
            code="extends",
        )
    build(Workload, extended, str(base_path))  # so that messages name the right file
    merged = {key: value for key, value in extended.items() if key not in OWN_FIELDS} | own
    if isinstance(own.get("flags"), dict):
        merged["flags"] = {**extended["flags"], **own["flags"]}
    return merged


def _explain(
    error: ValidationError, model: type[BaseModel], where: str, given: Collection[str]
) -> ConfigError:
    first = error.errors(include_url=False)[0]
    loc = [str(part) for part in first["loc"]]
    field = ".".join(loc) or "the file"
    if loc and loc[0] in given:
        where = "command line"
    cause = first.get("ctx", {}).get("error")
    wrong, hint = first["msg"], f"see {getattr(model, 'PAGE', Model.PAGE)}"
    if loc and loc[-1] in _UNION:
        field = ".".join(loc[:-1])
        wrong = "must be text, a finite number, true or false"
    if isinstance(cause, FieldError):
        wrong, hint = str(cause), cause.hint or hint
    if first["type"] == "extra_forbidden":
        return ConfigError(
            f"{where}: unknown field {field!r}",
            hint=_inner(loc[-1]) if len(loc) > 1 else nearest(loc[-1], _top_fields(model)),
            code="unknown-field",
        )
    return ConfigError(f"{where}: {field}: {wrong}", hint=hint, code="bad-field")


def _top_fields(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields) | ({EXTENDS} if model is Workload else set())


def _inner(name: str) -> str:
    """Return a hint for an unknown field inside another one: the closest name, or all names."""
    close = difflib.get_close_matches(name, sorted(_fields()), n=1)
    return f"did you mean {close[0]}?" if close else nearest(name, _fields())


def _fields() -> set[str]:
    return {field for model in Model.__subclasses__() for field in model.model_fields}
