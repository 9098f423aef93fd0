"""Distribution releases that an image can be made of: ``configs/releases/*.yml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import ConfigError
from harness.plan.yaml_files import read_yaml

RELEASES = Path(__file__).parents[2] / "configs" / "releases"


class Release(BaseModel):
    """One release; the file's stem is its name in the archive."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pocket: str = Field(description="suite from which the kernel is installed")
    rocksdb: str = Field(description="series of its RocksDB, as in patches/rocksdb")
    lacks: frozenset[str] = Field(
        default=frozenset(), description="packages of levels that the release does not have"
    )


@cache
def releases(folder: Path = RELEASES) -> dict[str, Release]:
    """Return all releases by name.

    Raises:
        ConfigError: a file is not YAML or does not describe a release.
    """
    found = {}
    for path in sorted(folder.glob("*.yml")):
        try:
            found[path.stem] = Release.model_validate(read_yaml(path))
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(str(part) for part in problem["loc"]) or "the file"
            raise ConfigError(f"{path.name}: {where}: {problem['msg']}") from None
    return found


def known_release(name: str) -> str:
    """Return the name of a release.

    Raises:
        ValueError: there is no such file.
    """
    if name not in releases():
        raise ValueError(
            f"no release {name!r} in configs/releases, which has {', '.join(releases())}"
        )
    return name
