"""Factors of a study: what they change in the workload, the level and the scheduler."""

from __future__ import annotations

from harness.errors import ConfigError
from harness.plan.devices import ZONE_SIZE
from harness.plan.fields import Flag
from harness.plan.level_entry import LevelEntry
from harness.plan.load import build, nearest
from harness.plan.study_models import OPTION, Study
from harness.plan.workload_models import Workload
from harness.quantities import parse_share

# The finish threshold as papers define it. All levels that have a threshold share this option.
FINISH = "finish_occupancy_pct"

_WORKLOAD_FACTORS = frozenset({"key_size", "value_size", "database_share", "compaction_debt"})
_STUDY_FACTORS = frozenset({"scheduler", "target_utilisation", ZONE_SIZE, FINISH})
# Flags that a factor may vary although the workload does not set them.
_SIZE_FLAGS = frozenset({"target_file_size_base", "write_buffer_size", "max_bytes_for_level_base"})


def apply_factors(
    study: Study, workload: Workload, factors: dict[str, Flag]
) -> tuple[Workload, float]:
    """Return the workload and the target utilisation of a cell.

    Raises:
        ConfigError: a factor belongs to neither study nor workload and is no flag, or a value is
            out of range.
    """
    changes = workload.model_dump(mode="json", exclude_defaults=True)
    known = _WORKLOAD_FACTORS | _STUDY_FACTORS | _SIZE_FLAGS | set(workload.flags)
    for name, value in factors.items():
        if name not in known and OPTION not in name:
            raise ConfigError(
                f"study {study.name} varies an unknown factor {name!r}",
                hint=nearest(name, known),
                code="unknown-factor",
            )
        if name in _WORKLOAD_FACTORS:
            changes[name] = value
        elif name not in _STUDY_FACTORS and OPTION not in name:
            changes["flags"][name] = value
    target = parse_share(factors.get("target_utilisation", study.target_utilisation))
    if not 0 < target <= 1:
        raise ConfigError(
            f"target_utilisation {target:g} is not a share above 0 and up to 1",
            hint="write 80% or 0.8",
            code="bad-field",
        )
    return build(Workload, changes, f"study {study.name}, factors {factors}"), target


def with_options(level: LevelEntry, factors: dict[str, Flag]) -> LevelEntry:
    """Return the level with the options that the factors ``<level>.<option>`` and FINISH set."""
    options = {n.partition(OPTION)[2]: value for n, value in factors.items() if OPTION in n}
    if FINISH in factors:
        options[FINISH] = _occupancy(factors[FINISH])
    return level.model_copy(update={"options": {**level.options, **options}})


def _occupancy(value: Flag) -> int:
    """Return a finish threshold: the occupancy in % from which on a zone is finished.

    Raises:
        ConfigError: the value is not a whole number from 0 to 100.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:  # noqa: PLR2004
        raise ConfigError(
            f"{FINISH} {value!r} is not a whole number from 0 to 100",
            hint="write 0 to 100: it is 100 minus finish_remaining_pct",
            code="bad-field",
        )
    return value
