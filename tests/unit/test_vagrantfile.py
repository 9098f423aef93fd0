"""The Vagrantfile describes the rigs of configs/rigs with the same devices as ``zonelab rig``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.quantities import parse_qemu_size
from harness.rig import box, model, qemu
from harness.rig.recipe import Image

ROOT = Path(__file__).parents[2]
WITH_NVME = [name for name in model.names() if model.load(name).nvme]
# Answers what the Vagrantfile asks of Vagrant, and prints its recorded calls: machine → calls.
STUB = r"""
require "json"
class Recorder
  def initialize = @calls = []
  attr_reader :calls
  def method_missing(name, *values, **more, &block)
    inner = nil
    if block
      inner = Recorder.new
      block.call(inner) unless name == :ruby
    end
    @calls << [name, [*values, more].reject { |v| v == {} }, inner&.calls]
    inner || self
  end
  def respond_to_missing?(*) = true
end
module Vagrant
  def self.configure(_) = yield($recorded = Recorder.new)
end
load ARGV.fetch(0)
puts JSON.generate($recorded.calls)
"""
RUBY = shutil.which("ruby")
needs_ruby = pytest.mark.skipif(RUBY is None, reason="ruby is not installed")
Call = list[Any]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    stub = tmp_path_factory.mktemp("ruby") / "stub.rb"
    stub.write_text(STUB)
    return run_stub(stub, {"ZONELAB_DRIVER": "qemu"})


def run_stub(stub: Path, env: dict[str, str]) -> list[Call]:
    done = subprocess.run(
        [str(RUBY), str(stub), str(ROOT / "Vagrantfile")],
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Call] = json.loads(done.stdout)
    return found


def machines(recorded: list[Call]) -> dict[str, list[Call]]:
    """Return the settings of each machine by its name."""
    return {values[0]: inner for name, values, inner in recorded if name == "define"}


def flat(recorded: list[Call]) -> list[Call]:
    """Return every call, those inside blocks too."""
    return [one for call in recorded for one in (call, *flat(call[2] or []))]


def provider(calls: list[Call]) -> list[Call]:
    (found,) = [
        inner for name, values, inner in calls if (name, values) == ("provider", ["libvirt"])
    ]
    assert isinstance(found, list)
    return found


def qemu_words(calls: list[Call]) -> list[str]:
    return [values[0]["value"] for name, values, _ in provider(calls) if name == "qemuargs"]


def properties(text: str) -> tuple[str, dict[str, str]]:
    """Split ``nvme-ns,nsid=2,…``; sizes and numbers as QEMU reads them."""
    name, _, rest = text.partition(",")
    pairs = dict(word.split("=", 1) for word in rest.split(","))
    return name, {key: number(value) for key, value in pairs.items()}


def number(text: str) -> str:
    if re.fullmatch(r"0x[0-9a-f]+", text):
        return str(int(text, 16))
    return str(parse_qemu_size(text)) if re.fullmatch(r"\d+[KMGT]?", text) else text


@needs_ruby
def test_every_rig_is_a_machine(recorded: list[Call]) -> None:
    assert sorted(machines(recorded)) == WITH_NVME
    (default,) = [v for name, v, _ in recorded if name == "define" and v[0] == "nvme"]
    assert default[1] == {"autostart": True, "primary": True}


@needs_ruby
@pytest.mark.parametrize("name", WITH_NVME)
def test_its_devices_equal_the_rigs(recorded: list[Call], name: str) -> None:
    rig = model.load(name)
    ours = qemu.argv(rig, Image(Path("/c")), port=1, accelerator="tcg")
    wanted = [properties(v) for o, v in pairwise(ours) if o == "-device" and v.startswith("nvme")]
    words = qemu_words(machines(recorded)[name])
    found = [properties(v) for o, v in pairwise(words) if o == "-device"]
    # In libvirt's machine they have a fixed place; else they would differ.
    places = [(p.pop("bus"), p.pop("addr")) for kind, p in found if kind == "nvme"]
    assert places == [("pcie.0", str(10 + number)) for number in range(len(rig.nvme))]
    # Without a limit, the rig has QEMU's default too.
    for _, values in wanted:
        for limit in ("zoned.max_open", "zoned.max_active"):
            if values.get(limit) == "0":
                del values[limit]
    assert found == wanted


@needs_ruby
@pytest.mark.parametrize("name", WITH_NVME)
def test_under_emulation_its_processors_equal_the_rigs(recorded: list[Call], name: str) -> None:
    ours = qemu.argv(model.load(name), Image(Path("/c")), port=1, accelerator="tcg")
    words = qemu_words(machines(recorded)[name])
    (wanted,) = [value for option, value in pairwise(ours) if option == "-smp"]
    (found,) = [value for option, value in pairwise(words) if option == "-smp"]
    assert found == f"{wanted},sockets=2,cores=1,threads=1"
    assert [v for o, v in pairwise(words) if o == "-cpu"] == [
        v for o, v in pairwise(ours) if o == "-cpu"
    ]


@needs_ruby
@pytest.mark.parametrize("name", WITH_NVME)
def test_its_files_are_as_long_as_the_namespaces(recorded: list[Call], name: str) -> None:
    drives = [v for o, v in pairwise(qemu_words(machines(recorded)[name])) if o == "-drive"]
    files = [dict(word.split("=") for word in drive.split(","))["file"] for drive in drives]
    assert [Path(file).name for file in files] == [
        qemu.backing_file(number, ns)
        for number, controller in enumerate(model.load(name).nvme)
        for ns in controller.namespaces
    ]
    assert len(set(files)) == len(files)


@needs_ruby
def test_its_machine_settings_come_from_the_rig(recorded: list[Call]) -> None:
    for name, calls in machines(recorded).items():
        rig = model.load(name)
        set_to = {key.removesuffix("="): v[0] for key, v, _ in provider(calls) if key.endswith("=")}
        assert set_to["memory"] == rig.memory >> 20
        assert set_to["machine_type"] == rig.machine
        assert set_to["driver"] == "qemu"
        assert set_to["cpus"] == 1  # software emulation: see the Vagrantfile
        assert "-cpu" in qemu_words(calls)
        (asked,) = [v[0] for key, v, _ in flat(calls) if key == "box="]
        assert asked == box.name(rig)


@needs_ruby
def test_kvm_takes_the_rigs_processors(tmp_path: Path) -> None:
    stub = tmp_path / "stub.rb"
    stub.write_text(STUB)
    calls = machines(run_stub(stub, {"ZONELAB_DRIVER": "kvm", "ZONELAB_BOX": "other/box"}))["nvme"]
    words = {key: values[0] for key, values, _ in provider(calls) if key.endswith("=")}
    assert (words["driver="], words["cpus="], words["cpu_mode="]) == ("kvm", 2, "host-passthrough")
    assert "-cpu" not in qemu_words(calls)
    assert ["other/box"] in [values for key, values, _ in flat(calls) if key == "box="]


@needs_ruby
def test_it_is_provisioned_by_the_same_pipeline(recorded: list[Call]) -> None:
    for name, calls in machines(recorded).items():
        (inner,) = [i for key, v, i in flat(calls) if (key, v) == ("provision", ["ansible"])]
        words = {key: values[0] for key, values, _ in inner}
        assert words["playbook="] == "ansible/site.yml"
        variables = words["host_vars="][name]
        assert variables["campaign"] == f"smoke-vagrant-{name}"
        places = [
            f"/dev/disk/by-path/pci-0000:00:{16 + number:x}.0-nvme-{ns.nsid}"
            for number, drive in enumerate(model.load(name).nvme)
            for ns in drive.namespaces
            if ns.zoned
        ]
        assert variables["device"].split(",") == places
    assert Counter(key for key, _, _ in flat(recorded))["boot_timeout="] == 1
    (timeout,) = [values for key, values, _ in flat(recorded) if key == "boot_timeout="]
    assert timeout[0] >= 900


def has_plugin() -> bool:
    """Whether the distribution's plug-in is installed (asking Vagrant would take a second)."""
    gems = Path("/usr/share/rubygems-integration/all/gems")
    return shutil.which("vagrant") is not None and any(gems.glob("vagrant-libvirt-*"))


@pytest.mark.slow
@pytest.mark.skipif(not has_plugin(), reason="vagrant-libvirt is not installed (make test-vagrant)")
def test_vagrant_and_its_plugin_accept_it(tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    done = subprocess.run(
        ["vagrant", "validate"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "VAGRANT_DOTFILE_PATH": str(dotfiles),
        },
    )
    assert (done.returncode, done.stdout) == (0, "Vagrantfile validated successfully.\n"), (
        done.stderr
    )
