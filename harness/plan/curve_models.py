"""Files in ``configs/models/curves``: the job behind each curve of measured points.

A job is a template: ``{x}`` is the x of a point, ``{bytes}`` x % of a zone's capacity in whole
blocks.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from harness.plan.drive_models import DriveModel
from harness.plan.drive_values import newest, size
from harness.plan.fields import FieldError, Model, Name

SCHEMA_VERSION = 1
Grade = Literal["core", "tail"]
CurveName = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]


class Case(Model):
    """A job for some x, or for all other x, and the client and command whose result counts."""

    x: tuple[float, ...] | None = None
    client: Name | None = None
    command: Name | None = None
    job: dict[str, Any]


class Curve(Model):
    """A curve: the grade of each statistic, the physics that it shows, its jobs.

    ``known_misses`` names core statistics whose mean error is too large, with the reason.

    The result of a case without ``client`` is bytes written to the medium per byte of the host.
    """

    physics: str
    statistics: Annotated[dict[str, Grade], Field(min_length=1)]
    known_misses: dict[str, str] = {}
    cases: Annotated[tuple[Case, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _last_case_takes_all(self) -> Curve:
        for case in self.cases[:-1]:
            if case.x is None:
                raise FieldError("a case without x is not the last one", hint="write x, or move it")
        return self

    @model_validator(mode="after")
    def _misses_are_core(self) -> Curve:
        for name in self.known_misses:
            if self.statistics.get(name) != "core":
                raise FieldError(
                    f"known miss {name} is not a core statistic", hint="name one of statistics"
                )
        return self

    def case(self, x: float) -> Case | None:
        """Return the case of a point; None if the curve has none for it."""
        return next((case for case in self.cases if case.x is None or x in case.x), None)


class CurveSet(Model):
    """Curves of one drive, and the file with its points in ``analysis/references/points``."""

    PAGE: ClassVar[str] = "docs/model.md"

    schema_version: Annotated[int, AfterValidator(newest(SCHEMA_VERSION, "file"))]
    name: Name
    description: str
    points: Name
    curves: dict[CurveName, Curve]


def job_data(curve: str, case: Case, x: float, model: DriveModel) -> dict[str, Any]:
    """Return the data of the job for one point of a curve; its name is curve and x."""
    filled: dict[str, Any] = _filled(case.job, x, model)
    return {"schema_version": 1, "name": job_name(curve, x), **filled}


def job_name(curve: str, x: float) -> str:
    """Return a name that no other point has."""
    return f"{curve.replace('_', '-')}.{x:g}"


def _filled(value: Any, x: float, model: DriveModel) -> Any:
    if isinstance(value, dict):
        return {key: _filled(part, x, model) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(part, x, model) for part in value]
    if value == "{x}":
        return int(x) if x == int(x) else x
    if isinstance(value, str):
        return value.replace("{x}", f"{x:g}").replace("{bytes}", f"{_bytes(x, model)}B")
    return value


def _bytes(x: float, model: DriveModel) -> int:
    """Return x % of a zone in whole blocks; at least one block, at most all but one, if partial."""
    if model.zones is None:
        return 0
    block = size(model.front.logical_block.value)
    blocks = size(model.zones.capacity.value) // block
    share = round(x / 100 * blocks)
    if 0 < x < 100:  # noqa: PLR2004 - per cent
        share = min(max(share, 1), blocks - 1)
    return share * block
