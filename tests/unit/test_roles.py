"""Every role: argument spec and defaults agree in keys and values; names carry the prefix."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_argument_spec_and_defaults_agree(role: Path) -> None:
    spec = yaml.safe_load((role / "meta/argument_specs.yml").read_text())
    options = spec["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
    assert defaults == {name: option["default"] for name, option in options.items()}
    for name, option in options.items():
        assert name.startswith(f"{role.name}_")
        assert option["description"]
        assert "elements" in option or option["type"] != "list"


def test_no_role_ignores_errors_or_skips_lint() -> None:
    for file in [*(ROOT / "roles").rglob("*.yml"), *(ROOT / "ansible").rglob("*.yml")]:
        text = file.read_text()
        assert "ignore_errors" not in text, file
        assert "noqa" not in text, file


def test_the_two_ansible_configurations_differ_in_paths_only() -> None:
    inner = (ROOT / "ansible/ansible.cfg").read_text()
    outer = (ROOT / "ansible.cfg").read_text()
    moved = inner.replace("= inventory/", "= ansible/inventory/").replace("= ../roles", "= roles")
    assert moved.replace("= callback_plugins", "= ansible/callback_plugins") == outer
