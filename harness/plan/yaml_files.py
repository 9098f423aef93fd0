"""Strict YAML: a repeated key is an error, and only ``true`` and ``false`` are booleans.

``off`` is a word, as in YAML 1.2, so that ``tracing: off`` needs no quotes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from harness.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys; its only booleans are true and false."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value!r} is repeated", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_BOOLEAN = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag != _BOOLEAN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _BOOLEAN, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def parse_yaml(text: str, what: str) -> Any:
    """Return the data of a YAML text; ``what`` names it in messages.

    Raises:
        ConfigError: it is not YAML, or a key is repeated.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}" if mark else ""
        problem = error.problem or "malformed"
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line, problem = "", " ".join(str(error).split())
    raise ConfigError(f"{what}{line} is not YAML: {problem}", hint=_HINT, code="not-yaml")


def read_yaml(path: Path) -> Any:
    """Return the data of a YAML file; raises as ``parse_yaml`` does, or if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text", hint=_HINT, code="not-yaml") from None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            hint="check its permissions",
            code="not-yaml",
        ) from None
    return parse_yaml(text, str(path))


_HINT = "check quotes, indentation and brackets; docs/studies.md and docs/rigs.md have examples"
