"""Names of the command line's variables that no role reads, for example a misspelt one."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import yaml
from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars

DOCUMENTATION = """
name: unknown_variables
short_description: variables of the command line that no role reads
description:
  - Compares the variables of C(-e) with the defaults of the playbook's group and of all roles.
  - Variables of Ansible itself, C(ansible_*), are left out.
options:
  _terms:
    description: the folder of the playbook and the folder of the roles
    required: true
"""


class LookupModule(LookupBase):
    """Return a text for each unknown variable, with the most similar known name."""

    def run(self, terms: list[str], _variables: Any = None, **_: Any) -> list[str]:
        """Compare the given variables with the files below the two folders."""
        playbook, roles = map(Path, terms)
        known = set(yaml.safe_load((playbook / "group_vars/all.yml").read_text()))
        for file in roles.glob("*/meta/argument_specs.yml"):
            for entry in yaml.safe_load(file.read_text())["argument_specs"].values():
                known |= entry.get("options", {}).keys()
        given = [name for name in load_extra_vars(self._loader) if not name.startswith("ansible_")]
        return [_named(name, known) for name in given if name not in known]


def _named(name: str, known: set[str]) -> str:
    if name == "_raw_params":  # Ansible's name for words without =
        return "a word without = (put a value with blanks in quotes)"
    similar = difflib.get_close_matches(name, sorted(known), n=1)
    return f"{name} (did you mean {similar[0]}?)" if similar else name
