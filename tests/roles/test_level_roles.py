"""``roles/dm_zap`` and ``roles/zenfs`` with the real ansible; kernel and compiler are synthetic."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest
import yaml

from harness import levels, workloads
from tests.fixtures import roles
from tests.fixtures.roles import ROOT

pytestmark = pytest.mark.slow

# Logs what it was called with. insmod makes the target appear, make what was to be compiled.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> {log}
case $(basename "$0") in
  dmsetup) cat {targets};;
  insmod) test -e "$1" && echo 'zap              v1.0.0' >> {targets};;
  make) test ! -e {broken} || {{ echo 'error: implicit declaration'; exit 2; }}
    for word; do case $word in M=*) touch "${{word#M=}}/dm-zap.ko";; esac; done;;
  dpkg-query) shift 2; for package; do echo "$package installed"; done;;
esac
"""


def patched_source(patch: Path, without: str) -> str:
    """Return a source of the hunks' lines alone, without those that begin with a sign."""
    hunks = re.split(r"^@@ .*\n", patch.read_text(), flags=re.MULTILINE)[1:]
    lines = ["".join(f"{s[1:]}\n" for s in h.splitlines() if s[0] != without) for h in hunks]
    return "\n\n" + "\n\n\n".join(lines) + "\n\n"


class Host:
    """This machine as the roles see it: programs of its own, and a folder instead of /usr/local."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lib = folder, folder / "lib"
        self.log, self.targets, self.broken = folder / "log", folder / "targets", folder / "broken"
        self.targets.write_text("linear           v1.4.0\n")
        (folder / "bin").mkdir()
        text = PROGRAM.format(log=self.log, targets=self.targets, broken=self.broken)
        for name in ("dmsetup", "insmod", "make", "dpkg-query"):
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)

    def play(self, role: str, **variables: str) -> tuple[int, int, str]:
        """Run a role; return (changed, failed, output)."""
        play = {"name": "Level", "hosts": "all", "gather_facts": False, "roles": [role]}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        given = {"zonelab_lib": str(self.lib), **variables}
        return roles.play(self.folder / "play.yml", given, self.folder / "bin")

    def calls(self, program: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{program} ")]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("role", ["dm_zap", "zenfs"])
def test_without_settings_the_role_does_nothing(host: Host, role: str) -> None:
    assert host.play(role)[:2] == (0, 0)
    assert not host.log.exists()
    assert not host.lib.exists()


def test_a_built_module_is_loaded_once(host: Host, tmp_path: Path) -> None:
    module = tmp_path / "own.ko"
    module.touch()
    changed, failed, output = host.play("dm_zap", dm_zap_module=str(module))
    assert (changed, failed) == (1, 0), output
    assert host.calls("insmod") == [str(module)]
    assert host.play("dm_zap", dm_zap_module=str(module))[:2] == (0, 0)
    assert len(host.calls("insmod")) == 1
    assert host.calls("make") == []


def test_a_source_is_built_with_our_header_in_front(host: Host, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("dm-zap-target.c", "dm-zap.h", "dm-zoned.h"):
        (source / name).write_text(name)
    changed, failed, output = host.play("dm_zap", dm_zap_source=str(source))
    assert failed == 0, output
    assert changed > 0
    folder, release = host.lib / "dm-zap-build", platform.release()
    assert host.calls("make") == [f"-C /lib/modules/{release}/build M={folder} modules"]
    assert host.calls("insmod") == [str(folder / "dm-zap.ko")]
    assert (folder / "dm-zap-target.c").read_text() == "dm-zap-target.c"
    assert (folder / "zonelab-compat.h").read_text() == (
        ROOT / "patches/dm-zap/compat.h"
    ).read_text()
    kbuild = (folder / "Kbuild").read_text()
    assert "obj-m := dm-zap.o" in kbuild
    assert "-include $(src)/zonelab-compat.h" in kbuild
    # The compiler and the headers of the kernel that runs are asked for.
    asked = [line.split() for line in host.log.read_text().splitlines()]
    assert [
        "gcc",
        "make",
        "patch",
        f"linux-headers-{release}",
    ] in asked  # the format ends with a newline
    assert host.play("dm_zap", dm_zap_source=str(source))[:2] == (0, 0)
    assert not (source / "Kbuild").exists()  # the user's folder stays as it is


@pytest.mark.needs("patch")
def test_patches_that_fit_change_the_copy_and_the_others_are_named(
    host: Host, tmp_path: Path
) -> None:
    model, folder = sorted((ROOT / "patches/dm-zap").glob("*.patch"))
    text = patched_source(model, without="+")
    source = tmp_path / "source"
    source.mkdir()
    (source / "dm-zap-target.c").write_text(text)
    changed, failed, output = host.play("dm_zap", dm_zap_source=str(source))
    assert failed == 0, output
    assert changed > 0
    copy = host.lib / "dm-zap-build/dm-zap-target.c"
    assert copy.read_text() == patched_source(model, without="-")
    assert (source / "dm-zap-target.c").read_text() == text
    assert f"{folder.name} does not fit this source" in output
    assert f"{model.name} does not fit" not in output
    assert host.calls("insmod")  # the module is built without it
    # Another source in its place: nothing of the last build is left.
    host.targets.write_text("linear           v1.4.0\n")
    (source / "dm-zap-target.c").write_text(patched_source(folder, without="+"))
    _, failed, output = host.play("dm_zap", dm_zap_source=str(source))
    assert failed == 0, output
    assert copy.read_text() == patched_source(folder, without="-")
    assert f"{model.name} does not fit this source" in output


def test_a_build_that_fails_stops_the_play(host: Host, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    host.broken.touch()
    _, failed, output = host.play("dm_zap", dm_zap_source=str(source))
    assert failed == 1
    assert "implicit declaration" in output
    assert host.calls("insmod") == []


def test_parts_of_zenfs_are_links_and_go_when_they_are_named_no_longer(
    host: Host, tmp_path: Path
) -> None:
    tool, plugin = tmp_path / "my-zenfs", tmp_path / "libmine.so"
    for file in (tool, plugin):
        file.touch()
    both = {"zenfs_tool": str(tool), "zenfs_plugin": str(plugin)}
    changed, failed, output = host.play("zenfs", **both)
    assert failed == 0, output
    assert changed > 0
    links = {link.name: link.readlink() for link in (host.lib / "zenfs").iterdir()}
    assert links == {"zenfs": tool, "libzenfs.so": plugin}
    assert host.play("zenfs", **both)[:2] == (0, 0)
    changed, failed, _ = host.play("zenfs", zenfs_tool=str(tool))
    assert (changed > 0, failed) == (True, 0)
    assert [link.name for link in (host.lib / "zenfs").iterdir()] == ["zenfs"]


def test_packages_of_a_campaign_come_from_programs_and_levels(host: Host) -> None:
    changed, failed, output = host.play("packages", packages_of_campaign=True)
    assert (changed, failed) == (0, 0), output
    queried = {word for line in host.log.read_text().splitlines() for word in line.split()}
    assert {*workloads.packages(), *levels.packages(), "bpftrace"} <= queried
    host.log.unlink()
    host.play("packages", packages_names=["bpftrace"])
    assert not {*workloads.packages(), *levels.packages()} & set(host.log.read_text().split())


def test_the_packages_role_repeats_no_package_of_programs_and_levels() -> None:
    defaults = yaml.safe_load((ROOT / "roles/packages/defaults/main.yml").read_text())
    assert not {*workloads.packages(), *levels.packages()} & set(defaults["packages_names"])
