"""Every role: argument spec and defaults agree in keys and values; names carry the prefix."""

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

import jinja2
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


def test_scripts_over_ssh_get_no_terminal() -> None:
    """A terminal mixes stderr into stdout, where the roles expect JSON alone."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "ansible/ansible.cfg")
    assert settings["ssh_connection"]["usetty"] == "False"


@pytest.mark.parametrize(
    ("tag", "selected", "left_out"),
    [
        ("collect", "plan : Count pending runs", "tuning : Change settings"),
        ("tune", "tuning : Change settings", "run : Start the runs, detached from the connection"),
        (
            "prepare",
            "precondition : Purge and write the device, unless this was done",
            "run : Copy the plan",
        ),
        (
            "run",
            "preflight : Refuse a host that now runs something else",
            "tuning : Change settings",
        ),
        ("packages", "Skip hosts that run this campaign", "native : Compile and install"),
    ],
)
def test_a_tag_selects_no_step_of_another_phase(tag: str, selected: str, left_out: str) -> None:
    """Children add a block's tags to their own, so the block has none."""
    play = Path(sys.executable).with_name("ansible-playbook")
    argv = [play, "site.yml", "-i", "localhost,", "--list-tasks", "--tags", tag]
    done = subprocess.run(argv, cwd=ROOT / "ansible", capture_output=True, text=True, check=True)
    names = {line.split("\t")[0].strip() for line in done.stdout.splitlines()}
    assert selected in names
    assert left_out not in names


def test_a_time_limit_from_the_command_line_is_text() -> None:
    file = ROOT / "roles/precondition/tasks/main.yml"
    limit = yaml.safe_load(file.read_text())[0]["block"][-1]["async"]
    for hours in (48, "48"):
        rendered = jinja2.Template(limit).render(precondition_timeout_hours=hours)
        assert rendered == "172800"


@pytest.mark.parametrize("check", [False, True])
def test_dm_zap_is_built_unless_in_check_mode(check: bool) -> None:
    """Check mode reads no kernel release, which the build needs."""
    (block,) = yaml.safe_load((ROOT / "roles/dm_zap/tasks/main.yml").read_text())
    (build,) = (task for task in block["block"] if task["name"] == "Build")
    when = jinja2.Environment(autoescape=True).compile_expression(build["when"])
    given = {"__dm_zap_there": False, "dm_zap_source": "/src", "ansible_check_mode": check}
    assert when(**given) == (not check)


@pytest.mark.slow
def test_a_level_whose_package_cannot_be_installed_fails_no_play(tmp_path: Path) -> None:
    """The stand-ins of apt offer one package, which apt has no file for."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library/apt.py").write_text(
        "import json, sys\n"
        "from ansible.module_utils.basic import AnsibleModule\n"
        "asked = dict.fromkeys(('name', 'state', 'install_recommends', 'update_cache',"
        " 'cache_valid_time', 'update_cache_retries', 'update_cache_retry_max_delay'),"
        " {'type': 'raw'})\n"
        "module = AnsibleModule(asked, supports_check_mode=True)\n"
        "update, name = module.params['update_cache'], module.params['name']\n"
        f"open({str(tmp_path / 'asked')!r}, 'a').write('update ' if update else f'{{name}} ')\n"
        "if update or name == 'fstool':\n"
        "    module.fail_json(msg='no such file')\n"
        "module.exit_json(changed=True)\n"
    )
    file = ROOT / "roles/packages/tasks/packages_of_levels.yml"
    text = file.read_text().replace("ansible.builtin.apt:", "apt:")
    (tmp_path / "levels.yml").write_text(text.replace("'apt-cache', 'show'", "'echo', 'Package:'"))
    variables = {
        "zonelab_become": False,
        "ansible_python_interpreter": sys.executable,
        "__packages_missing_of_levels": ["fstool", "other"],
        "__packages_offered_names": ["fstool", "other"],
    }
    tasks: list[dict[str, object]] = [
        {"include_tasks": "levels.yml", "vars": variables},
        {"debug": {"msg": "<the play goes on, {{ packages_installed_of_levels is changed }}>"}},
    ]
    text = re.sub(r"\s+", " ", played(tmp_path, tasks))
    assert "<the play goes on, True>" in text, text
    assert "fstool: no such file. Levels that need it are skipped" in text
    assert (tmp_path / "asked").read_text() == "update fstool other "


def test_a_build_that_was_ended_leaves_no_hash_of_its_source() -> None:
    tasks = yaml.safe_load((ROOT / "roles/native/tasks/build.yml").read_text())
    hashes = [
        (number, options.get("state", "written"))
        for number, task in enumerate(tasks)
        for options in task.values()
        if isinstance(options, dict)
        and "SOURCE_HASH" in str(options.get("path", "")) + str(options.get("dest", ""))
    ]
    (install,) = (n for n, task in enumerate(tasks) if "install" in str(task.get("name")).split())
    assert hashes == [(install - 1, "absent"), (install + 1, "written")]


def test_no_build_lies_in_the_source_that_is_copied_to_hosts() -> None:
    source = ROOT / "harness/native"
    presets = json.loads((source / "CMakePresets.json").read_text())["configurePresets"]
    made = re.findall(r"-B (build/\S+) --preset (\w+)", (ROOT / "Makefile").read_text())
    folders = {preset["name"]: preset["binaryDir"] for preset in presets}
    for name, folder in folders.items():
        path = Path(folder.replace("${sourceDir}", str(source))).resolve()
        assert path.parent == ROOT / "build", name
    for folder, name in made:
        assert folders[name].endswith(f"/{folder}")


def played(folder: Path, tasks: list[dict[str, object]]) -> str:
    """Play tasks against this machine with the settings of ansible/; return what is printed."""
    (folder / "play.yml").write_text(
        json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}])
    )
    (folder / "inventory.yml").write_text("all: {hosts: {localhost: {}}}")
    playbook = str(Path(sys.executable).with_name("ansible-playbook"))
    argv = [playbook, "-i", str(folder / "inventory.yml"), "-c", "local"]
    done = subprocess.run(
        [*argv, str(folder / "play.yml")],
        cwd=ROOT / "ansible",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.slow
def test_groups_of_an_inventory_win_over_the_defaults(tmp_path: Path) -> None:
    hosts = {"hosts": {"a": {}, "b": {"study": "of-host"}}}
    group = {"children": {"lab": hosts | {"vars": {"study": "of-group"}}}}
    (tmp_path / "lab.yml").write_text(json.dumps({"all": group | {"vars": {"levels": "of-all"}}}))
    program = str(Path(sys.executable).with_name("ansible-inventory"))
    argv = [program, "-i", str(tmp_path / "lab.yml"), "--playbook-dir", ".", "--list"]
    done = subprocess.run(argv, cwd=ROOT / "ansible", capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["_meta"]["hostvars"]
    names = ("study", "levels", "zonelab_lib")
    assert [found["a"][name] for name in names] == ["of-group", "of-all", "/usr/local/lib/zonelab"]
    assert found["b"]["study"] == "of-host"


@pytest.mark.slow
def test_arguments_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    device = {"preflight_device": "nvme2n2"}
    none = {"remainder": "", "remainder_device": ""}
    cases = [
        ({**none, "preflight_device": ""}, "no device", "No device named"),
        ({**none, **device}, "plain", None),
        ({**device, "remainder": "full", "remainder_device": "nvme2n3"}, "full", None),
        ({**device, "remainder": "empty", "remainder_device": "nvme2n3"}, "empty", None),
        ({**device, "remainder": "both", "remainder_device": "nvme2n3"}, "both", "full or empty"),
        ({**device, "remainder": "full", "remainder_device": ""}, "nowhere", "full or empty"),
        ({**device, "remainder": "full", "remainder_device": "/dev/nvme2n2"}, "same", "another"),
        ({**device, "remainder": "", "remainder_device": "nvme2n3"}, "unsaid", "full or empty"),
        ({**none, **device, "campaign": ""}, "unnamed", "campaign= is empty"),
    ]
    role = {"include_role": {"name": "preflight", "tasks_from": "arguments.yml"}}
    tasks: list[dict[str, object]] = [
        {
            "block": [role, {"debug": {"msg": f"<{name} passes>"}}],
            "rescue": [
                {"debug": {"msg": f"<{name} refused: {{{{ ansible_failed_result.msg }}}}>"}}
            ],
            "vars": {"campaign": "c", **values},
        }
        for values, name, _ in cases
    ]
    text = re.sub(r"\s+", " ", played(tmp_path, tasks))
    for _, name, message in cases:
        assert (f"<{name} passes>" in text) == (message is None), name
        refused = re.search(f"<{name} refused: (.*?)>", text)
        assert refused is None if message is None else refused and message in refused[1], name


@pytest.mark.slow
def test_a_campaign_that_ends_between_the_looks_is_refused_with_a_reason(tmp_path: Path) -> None:
    runner = tmp_path / "runner"
    runner.write_text("print('[]')")
    role = {"include_role": {"name": "preflight", "tasks_from": "again.yml"}}
    common = {
        "campaign": "c",
        "zonelab_become": False,
        "zonelab_others": [],
        "preflight_runner": str(runner),
        "ansible_python_interpreter": sys.executable,
    }
    cases: list[tuple[str, dict[str, object]]] = [
        ("ended", {"zonelab_attached": False}),
        ("runs", {"zonelab_attached": True}),
        ("inspected", {"zonelab_attached": False, "preflight_inspected": {"stdout": "{}"}}),
    ]
    tasks: list[dict[str, object]] = [
        {
            "block": [role, {"debug": {"msg": f"<{name} passes>"}}],
            "rescue": [
                {"debug": {"msg": f"<{name} refused: {{{{ ansible_failed_result.msg }}}}>"}}
            ],
            "vars": common | values,
        }
        for name, values in cases
    ]
    text = re.sub(r"\s+", " ", played(tmp_path, tasks))
    assert "<ended refused: c has ended on localhost since the first look" in text
    assert "<runs passes>" in text
    assert "<inspected passes>" in text


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
    # A variable of a task wins over one of a group.
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text((ROOT / "ansible/group_vars/all.yml").read_text())
    text = played(tmp_path, tasks)
    two = "eui.a@0123abcd,S:3@ffffffff"
    assert re.findall("given: <(.*)>", text) == ["", "eui.a@0123abcd", two, two]
    for role in ("preflight", "namespaces", "precondition", "run"):
        defaults = yaml.safe_load((ROOT / "roles" / role / "defaults/main.yml").read_text())
        assert defaults[f"{role}_erase"] == "{{ zonelab_erase }}"


@pytest.mark.parametrize(
    ("remainder", "expected"),
    [
        ("", [("2", "['nvme2n2']")]),
        ("full", [("2", "['nvme2n2']"), ("1", "['nvme2n3']")]),
        ("empty", [("2", "['nvme2n2']"), ("0", "['nvme2n3']")]),
    ],
)
def test_passes_of_the_command_line_are_those_of_the_device_alone(
    remainder: str, expected: list[tuple[str, str]]
) -> None:
    """A variable of the command line wins over one that a task gives to a role."""
    role = ROOT / "roles/precondition"
    site = yaml.safe_load((ROOT / "ansible/site.yml").read_text())
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
    internal = yaml.safe_load((role / "vars/main.yml").read_text())
    given = {
        "device": "nvme2n2",
        "precondition_passes": "2",
        "remainder": remainder,
        "remainder_device": "nvme2n3" if remainder else "",
        "zonelab_attached": False,
    }
    (play,) = (one for one in site if one["name"].startswith("Tune"))
    found = []
    for task in play["tasks"][0]["block"]:
        when = jinja2.Environment(autoescape=True).compile_expression(task.get("when", "true"))
        if task["name"].startswith("Precondition") and when(**given):
            values = defaults | task.get("vars", {}) | given
            for name in ("precondition_device", "precondition_rest", "precondition_rest_device"):
                values[name] = jinja2.Template(values[name]).render(values)
            texts = [internal[f"__precondition_{name}"] for name in ("passes", "devices")]
            found.append(tuple(jinja2.Template(text).render(values) for text in texts))
    assert found == expected


@pytest.mark.slow
def test_numbers_of_an_inventory_are_texts_of_the_command(tmp_path: Path) -> None:
    """``precondition_passes: 0`` of a YAML inventory is an integer, which has no length."""
    given: dict[str, object] = {"precondition_passes": 0, "namespaces_experiment": 137438953472}
    texts = {
        name: yaml.safe_load((ROOT / "roles" / file).read_text())[name]
        for name, file in (
            ("__precondition_passes", "precondition/vars/main.yml"),
            ("plan_precondition_passes", "plan/defaults/main.yml"),
        )
    }
    preflight = yaml.safe_load((ROOT / "roles/preflight/tasks/main.yml").read_text())
    (layout,) = (task for task in preflight if task["name"] == "Lay out the namespaces")
    tasks: list[dict[str, object]] = [
        {"assert": {"that": f"{name} == '0'", "quiet": True}} for name in texts
    ]
    tasks += [{"debug": {"msg": "<laid out>"}, "when": layout["when"]}]
    common = {"zonelab_attached": False, "precondition_rest": ""}
    text = played(tmp_path, [{"block": tasks, "vars": given | texts | common}])
    assert "<laid out>" in text, text


@pytest.mark.parametrize("device", ["nvme2n2", "nvme2n2,nvme3n1"])
def test_the_drive_of_the_first_device_is_laid_out(device: str) -> None:
    defaults = yaml.safe_load((ROOT / "roles/namespaces/defaults/main.yml").read_text())
    assert jinja2.Template(defaults["namespaces_drive"]).render(device=device) == "nvme2n2"


@pytest.mark.slow
@pytest.mark.parametrize("folder", [".", "ansible"])
def test_misspelt_variables_are_refused(tmp_path: Path, folder: str) -> None:
    play = Path(sys.executable).with_name("ansible-playbook")
    argv = [play, "site.yml", "-i", "localhost,", "-c", "local", "-e", "device="]
    argv += ["-e", f"zonelab_build={tmp_path}", "-e", "run_numa=none", "-e", "ansible_user=x"]
    more = ["-e", "repetition=3", "-e", '{"quickly": true}']
    known, unknown = (
        subprocess.run(words, cwd=ROOT / folder, capture_output=True, text=True, check=False).stdout
        for words in (argv, argv + more)
    )
    assert "No device named" in known
    assert "unknown variable: repetition (did you mean repetitions?), quickly. The" in unknown
    assert "No device named" not in unknown
