"""Reading ``configs/`` and inspections: one clear ConfigError for whatever is wrong in them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.errors import ConfigError, UsageError
from harness.plan import models
from harness.plan.models import EXTENDS, OWN_FIELDS, Study, TenantMix, Workload
from harness.plan.probe_models import ZONES, AnyWorkload, ProbeWorkload, ZoneProbe
from harness.plan.units import FieldError
from harness.plan.yaml_files import read_yaml
from harness.store.campaign import NAME, NAME_HINT
from harness.store.campaign import load_inspection as read_inspection
from harness.store.spec import Inspection

CONFIGS = Path(__file__).resolve().parents[2] / "configs"

_INSPECT = "zonelab inspect DEVICE --format json > FILE.json, then --inspection HOST=FILE.json"

# Where pydantic says which member of Flag it tried last.
_UNION = frozenset({"str", "bool", "int", "float"})

M = TypeVar("M", bound=BaseModel)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint: the closest known name if there is one, and the list."""
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
    """Load a study and its workload, with what that one extends.

    ``settings`` replace fields of the file: ``repetitions``, or ``workload.value_size`` for one
    of the workload.

    Raises:
        ConfigError: there is no such study or workload, or a field or unit is wrong.
    """
    own = {k: v for k, v in (settings or {}).items() if not k.startswith("workload.")}
    of_workload = {
        k.removeprefix("workload."): v for k, v in (settings or {}).items() if k not in own
    }
    study = _load(Study, "studies", name, configs, own)
    if ZONES in _read("workloads", study.workload, configs)[1]:
        return study, _load(ProbeWorkload, "workloads", study.workload, configs, of_workload)
    return study, _load(Workload, "workloads", study.workload, configs, of_workload)


def load_mix(mix: Any, configs: Path = CONFIGS, where: str = "mix") -> TenantMix:
    """Load a mix with the workloads that its tenants name; errors as for ``load_study``.

    ``mix`` is its name, or what a file of that name would hold.
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
                f"study {study.name} has no level {level!r}", hint=nearest(level, known),
                code="unknown-level",
            )  # fmt: skip
    kept = {name: entry for name, entry in known.items() if name in levels}
    parts = {rig: tuple(one for one in part if one in kept) for rig, part in study.rigs.items()}
    changes: dict[str, Any] = {"levels": tuple(kept.values())}
    changes["rigs"] = {rig: part for rig, part in parts.items() if part}
    if study.contrast == "level":
        # Without the baseline the first level left takes its place; the plan says which.
        baseline = study.baseline if study.baseline in kept else next(iter(kept))
        claims = tuple(c for c in study.claims if {c.level, c.baseline} <= kept.keys())
        changes |= {"baseline": baseline, "claims": claims}
    return study.model_copy(update=changes)


def build(model: type[M], data: Mapping[str, Any], where: str, given: Collection[str] = ()) -> M:
    """Validate plain data as ``model``; ``where`` names its source in the message.

    ``given`` are the fields that the command line set instead.

    Raises:
        ConfigError: a field is unknown, missing or wrong; the message names its path.
    """
    try:
        # Through JSON, where strict mode still turns lists into tuples.
        return model.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise _explain(error, model, where, given) from None
    except TypeError as error:  # a date or another YAML type that JSON does not have
        raise ConfigError(f"{where}: {error}", hint="quote the value", code="bad-field") from None


def load_inspection(text: str) -> tuple[str, Inspection]:
    """Read ``HOST=FILE.json`` as given on the command line.

    Raises:
        UsageError: not of that form, or the host's name cannot be that of a folder.
        ConfigError: the file cannot be read, or is no inspection of this schema version.
    """
    host, equals, file = text.partition("=")
    if not (host and equals and file):
        raise UsageError(
            f"--inspection {text!r} is not HOST=FILE.json", hint=_INSPECT, code="inspection"
        )
    if not NAME.fullmatch(host):
        raise UsageError(f"{host!r} cannot name a host", hint=NAME_HINT, code="host-name")
    try:
        return host, read_inspection(Path(file))
    except ConfigError as error:
        hint = error.hint if error.code == "schema-version" else _INSPECT
        raise ConfigError(error.message, hint=hint, code=error.code) from None


def _load(model: type[M], kind: str, name: str, configs: Path, settings: Mapping[str, Any]) -> M:
    path, data = _read(kind, name, configs)
    if model is Workload and EXTENDS in data:
        data = _extended(path, data, configs)
    data = {**data, **settings}
    if model is Study and data.get("mix") is not None:
        mix = load_mix(data["mix"], configs, f"{path}: mix")
        data["mix"] = mix.model_dump(mode="json", exclude_defaults=True)
    result = build(model, data, str(path), given=settings)
    if getattr(result, "name", name) != name:
        raise ConfigError(
            f"{path}: its name says {getattr(result, 'name', '')!r}", hint=f"name: {name}"
        )
    return result


def _read(kind: str, name: str, configs: Path) -> tuple[Path, dict[str, Any]]:
    path = configs / kind / f"{name}.yml"
    known = names(kind, configs)
    if not known:
        raise ConfigError(
            f"{configs} has no {kind}",
            hint="--configs names a folder like configs/",
            code="configs",
        )
    if name not in known:
        what = {"studies": "study", "mixes": "mix"}.get(kind, kind.removesuffix("s"))
        raise ConfigError(
            f"there is no {what} {name!r}", hint=nearest(name, known), code=f"unknown-{what}"
        )
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path} holds no fields", hint="see docs/studies.md", code="not-yaml")
    return path, data


def _extended(path: Path, data: dict[str, Any], configs: Path) -> dict[str, Any]:
    """Return a workload's fields over those of the workload it extends; flags key by key.

    One level only, so that a reader has two files to look at and a circle cannot be.
    """
    own = {key: value for key, value in data.items() if key != EXTENDS}
    base = data[EXTENDS]
    try:
        base_path, under = _read("workloads", str(base), configs)
    except ConfigError as error:
        raise ConfigError(
            f"{path}: {EXTENDS}: {error.message}", hint=error.hint, code=error.code
        ) from None
    if EXTENDS in under:
        again = "itself" if base_path == path else f"{base}, which extends {under[EXTENDS]}"
        raise ConfigError(
            f"{path}: it extends {again}",
            hint=f"{EXTENDS} names a workload that stands alone (one level only)",
            code="extends",
        )
    build(Workload, under, str(base_path))  # whatever is wrong in it is said under its own name
    merged = {key: value for key, value in under.items() if key not in OWN_FIELDS} | own
    if isinstance(own.get("flags"), dict):
        merged["flags"] = {**under["flags"], **own["flags"]}
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
    wrong, hint = first["msg"], "see docs/studies.md"
    if loc and loc[-1] in _UNION:
        field = ".".join(loc[:-1])
        wrong = "must be text, a finite number, true or false"
    if isinstance(cause, FieldError):
        wrong, hint = str(cause), cause.hint or hint
    if first["type"] == "extra_forbidden":
        return ConfigError(
            f"{where}: unknown field {field!r}",
            hint=nearest(loc[-1], _fields() if len(loc) > 1 else _top_fields(model)),
            code="unknown-field",
        )
    return ConfigError(f"{where}: {field}: {wrong}", hint=hint, code="bad-field")


def _top_fields(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields) | ({EXTENDS} if model is Workload else set())


def _fields() -> set[str]:
    kinds: list[type[BaseModel]] = [
        Study,
        Workload,
        models.Phase,
        models.Operations,
        models.Level,
        models.PrimaryClaim,
        models.TenantMix,
        models.Tenant,
        models.TenantLimits,
        ProbeWorkload,
        ZoneProbe,
    ]
    return {field for kind in kinds for field in kind.model_fields}
