"""Every role: argument spec and defaults agree in keys and values; names carry the prefix."""

import json
import re
import subprocess
import sys
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


@pytest.mark.slow
def test_several_consents_come_as_text_or_as_a_list(tmp_path: Path) -> None:
    """Each role hands them to the runner as the text of one option."""
    forms = [
        "",
        "eui.a@0123abcd",
        "eui.a@0123abcd,S:3@ffffffff",
        ["eui.a@0123abcd", "S:3@ffffffff"],
    ]
    tasks = [
        {"debug": {"msg": "given: <{{ zonelab_erase }}>"}, "vars": {"erase": form}}
        for form in forms
    ]
    (tmp_path / "play.yml").write_text(
        json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}])
    )
    playbook = str(Path(sys.executable).with_name("ansible-playbook"))
    # A variable of a task wins over one of a group.
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text((ROOT / "ansible/group_vars/all.yml").read_text())
    (tmp_path / "inventory.yml").write_text("all: {hosts: {localhost: {}}}")
    argv = [playbook, "-i", str(tmp_path / "inventory.yml"), "-c", "local"]
    done = subprocess.run(
        [*argv, str(tmp_path / "play.yml")],
        cwd=ROOT / "ansible",
        capture_output=True,
        text=True,
        check=False,
    )
    two = "eui.a@0123abcd,S:3@ffffffff"
    assert re.findall("given: <(.*)>", done.stdout) == ["", "eui.a@0123abcd", two, two]
    for role in ("preflight", "namespaces", "precondition", "run"):
        defaults = yaml.safe_load((ROOT / "roles" / role / "defaults/main.yml").read_text())
        assert defaults[f"{role}_erase"] == "{{ zonelab_erase }}"
