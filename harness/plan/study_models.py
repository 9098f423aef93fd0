"""Files in ``configs/studies``: a question, and the matrix of cells that answers it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema, model_validator

from harness.metrics.catalogue import CATALOGUE
from harness.plan.drive_models import DriveModel
from harness.plan.fields import FieldError, Flag, Model, Name, Seconds, Share, Size
from harness.plan.level_entry import LevelEntry
from harness.plan.mix_models import TenantMix

# Values of the factor ``mix``: one tenant alone (solo-<name>), or all tenants together.
SOLO, SHARED = "solo-", "shared"
# A factor can be an option of the study's only level: xfs.max_open_zones.
OPTION = "."
# A name; the planner replaces it by the content of its file.
MediaModelName = Annotated[
    Name | DriveModel | None, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})
]
MOST_REPETITIONS = 99
FactorName = Annotated[str, Field(pattern=r"^([a-z0-9-]+\.)?[A-Za-z][A-Za-z0-9_]*$")]


class PrimaryClaim(Model):
    """A primary claim: ``level`` compared with ``baseline`` by ``metric`` (``<phase>.<name>``)."""

    id: Name
    metric: str
    level: Name
    baseline: Name
    expect: Literal["better", "worse", "different"]


class Study(Model):
    """A declared question, and the matrix of cells that answers it.

    ``contrast`` is ``level`` or the name of a factor, and ``baseline`` is one of its values. A
    factor is ``scheduler``, ``target_utilisation``, ``zone_size``, ``finish_occupancy_pct``, a size
    of the workload, a flag of its program, or an option of the only level. ``rigs`` assigns each
    level to a rig, which runs all its repetitions; the geometries of the rigs can differ.
    ``tracing: all`` stores every command. This slows the runs, so each gets a warning.
    ``memory_limit`` applies to db_bench and its page cache, so that every level has the same cache.

    Each run must write at least ``turnover`` times the capacity after the cold data. Levels of runs
    that wrote less are not compared.

    A study with a ``mix`` of tenants has no levels and no factors. Its cells are each tenant alone
    and all tenants together, and ``contrast`` is ``mix``.

    ``twin`` repeats the first cell of the baseline: the pair sets the noise floor.

    ``media_model`` names a conventional drive of configs/models. It computes M of a conventional
    device that has no counter of M.

    ``without_kvm`` names the study that ``make study`` runs instead on machines without KVM,
    ``on_rigs`` the one that it runs instead on every rig.
    """

    name: Name
    question: str
    workload: Name
    mix: Name | TenantMix | None = None
    levels: tuple[Name | LevelEntry, ...] = ()
    rigs: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]] = {}
    factors: dict[FactorName, Annotated[tuple[Flag, ...], Field(min_length=1)]] = {}
    repetitions: Annotated[int, Field(ge=1, le=MOST_REPETITIONS)]
    seed: Annotated[int, Field(ge=1, lt=2**31)]
    cold: bool = True
    tracing: Literal["off", "zones", "all"] = "zones"
    target_utilisation: Share
    tolerance: Share = 0.02
    twin: bool = False
    turnover: Annotated[float, Field(gt=0)] | None = None
    baseline: str
    contrast: str = "level"
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    claims: Annotated[tuple[PrimaryClaim, ...], Field(max_length=5)] = ()
    limit_time: Seconds | None = None
    limit_bytes: Size | None = None
    memory_limit: Size | None = None
    media_model: MediaModelName = None
    without_kvm: Name | None = None
    on_rigs: Name | None = None

    @property
    def entries(self) -> tuple[LevelEntry, ...]:
        """All levels in the long form."""
        return tuple(LevelEntry(name=e) if isinstance(e, str) else e for e in self.levels)

    @model_validator(mode="after")
    def _has_a_matrix(self) -> Study:
        if (self.mix is None) == (not self.levels):
            raise FieldError("a study needs either levels or a mix of tenants")
        if self.mix is not None and (self.factors or self.rigs or self.claims):
            raise FieldError("a study with a mix has no factors, rigs or claims")
        if self.mix is not None and self.memory_limit is not None:
            raise FieldError(
                "a study with a mix has no memory_limit", hint="set the limits of the tenants"
            )
        if self.mix is not None and self.media_model is not None:
            raise FieldError(
                "a study with a mix has no media_model",
                hint="it computes M only in runs without tenants",
            )
        if (self.contrast == "mix") != (self.mix is not None):
            raise FieldError("contrast is mix if, and only if, the study has a mix")
        return self

    @model_validator(mode="after")
    def _each_level_has_one_rig(self) -> Study:
        levels = [entry.label for entry in self.entries]
        given = [level for part in self.rigs.values() for level in part]
        for level in given:
            if level not in levels:
                raise FieldError(f"rigs: the study has no level {level!r}")
        if self.rigs and sorted(given) != sorted(levels):
            wrong = next(level for level in levels if given.count(level) != 1)
            raise FieldError(
                f"rigs: level {wrong!r} is named under {given.count(wrong)} rigs",
                hint="name each level under exactly one rig",
            )
        return self

    @model_validator(mode="after")
    def _contrast_makes_sense(self) -> Study:
        names = [entry.label for entry in self.entries]
        if len(set(names)) != len(names):
            raise FieldError(
                f"levels must differ: {', '.join(names)}",
                hint="give levels of the same name a variant: {name: …, variant: …, options: …}",
            )
        for factor in self.factors:
            owner, dot, _ = factor.partition(OPTION)
            if dot and {entry.name for entry in self.entries} != {owner}:
                raise FieldError(
                    f"factor {factor!r} needs levels: [{owner}]",
                    hint="an option can be a factor only in a study with no other level",
                )
        if self.contrast not in ("level", "mix", *self.factors):
            raise FieldError(f"contrast {self.contrast!r} is neither 'level' nor a factor")
        if self.baseline not in (choices := self._contrasted()):
            raise FieldError(f"baseline {self.baseline!r} is not one of {', '.join(choices)}")
        for key in (*self.metrics, *(claim.metric for claim in self.claims)):
            if key.rpartition(".")[2] not in CATALOGUE:
                raise FieldError(f"unknown metric {key!r}")
        return self

    @model_validator(mode="after")
    def _claims_are_comparisons_of_the_study(self) -> Study:
        choices = self._contrasted() if self.claims else []
        for claim in self.claims:
            for value in {claim.level, claim.baseline} - {*choices}:
                raise FieldError(f"claim {claim.id}: {value!r} is not one of {', '.join(choices)}")
        # Two claims that count as one would make the correction for several claims too weak.
        for what, values in (
            ("id", [claim.id for claim in self.claims]),
            ("comparison", [(one.metric, one.level, one.baseline) for one in self.claims]),
        ):
            if len(set(values)) != len(values):
                raise FieldError(f"two claims have the same {what}")
        return self

    def _contrasted(self) -> list[str]:
        """Return the values that the contrast compares."""
        if self.contrast == "level":
            return [entry.label for entry in self.entries]
        if isinstance(self.mix, TenantMix):
            return [SHARED, *(SOLO + tenant.name for tenant in self.mix.tenants)]
        if self.mix is not None:  # a name, which the loader resolves first
            return [self.baseline]
        return [str(value) for value in self.factors[self.contrast]]
