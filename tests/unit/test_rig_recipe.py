"""The image's name: equal recipes share an image, any change makes a new one."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import levels
from harness.errors import ConfigError, ToolFailed
from harness.rig import apt, image, model, prerequisites, process, recipe
from harness.rig.native_build import LISTS, packages, source_hash
from harness.rig.releases import releases
from harness.rig.talk import Talk

ROOT = Path(__file__).parents[2]


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    native, guest = tmp_path / "native", tmp_path / "guest"
    for folder, name in ((native, "CMakeLists.txt"), (guest, "setup.sh")):
        folder.mkdir()
        (folder / name).write_text("one\n")
    return native, guest


def test_the_same_recipe_has_the_same_name(trees: tuple[Path, Path]) -> None:
    assert recipe.recipe("trixie", *trees).digest == recipe.recipe("trixie", *trees).digest


def test_every_part_of_a_recipe_counts(trees: tuple[Path, Path]) -> None:
    made = recipe.recipe("trixie", *trees)
    other: Any = "other"
    changed = {
        field.name: dataclasses.replace(made, **{field.name: other}).digest
        for field in dataclasses.fields(made)
    }
    assert made.digest not in changed.values()
    assert len(set(changed.values())) == len(changed)


@pytest.mark.parametrize("which", [0, 1])
def test_a_changed_source_changes_the_name(trees: tuple[Path, Path], which: int) -> None:
    before = recipe.recipe("trixie", *trees).digest
    (trees[which] / "more").write_text("x")
    assert recipe.recipe("trixie", *trees).digest != before


def test_releases_differ_and_debian_12_uses_its_own_kernel() -> None:
    trixie, bookworm = recipe.recipe("trixie"), recipe.recipe("bookworm")
    assert trixie.digest != bookworm.digest
    assert "linux-image-amd64/trixie-backports" in trixie.packages
    assert "linux-image-amd64/bookworm" in bookworm.packages
    assert "dm-zoned-tools" not in bookworm.packages


def test_a_release_is_one_file_of_configs() -> None:
    for name, release in releases().items():
        made = recipe.recipe(name)
        assert made.packages[0] == f"linux-image-amd64/{release.pocket}"
        assert release.lacks <= set(levels.packages())
        assert release.lacks.isdisjoint(made.packages)
    files = [ROOT / "Makefile", ROOT / "Vagrantfile"]
    for folder, pattern in (("harness", "*.py"), ("roles", "*.yml"), ("ansible", "*.yml")):
        files += (ROOT / folder).rglob(pattern)
    words = re.compile(rf"\b({'|'.join(releases())})\b")
    assert [file for file in files if words.search(file.read_text())] == []


def test_a_release_with_a_wrong_field_is_refused(tmp_path: Path) -> None:
    (tmp_path / "next.yml").write_text("pocket: next\nkernel: 7\n")
    with pytest.raises(ConfigError, match=r"next.yml: rocksdb: Field required"):
        releases(tmp_path)


def test_packages_of_the_native_programs_are_listed_once() -> None:
    made = recipe.recipe("trixie")
    assert made.build_packages == (*packages("native"), *packages("native-test"))
    lists = sorted(path.stem for path in LISTS.glob("*.txt"))
    assert {"native", "native-test", "dev"} <= set(lists)
    named = [name for one in ("native", "native-test", "dev") for name in packages(one)]
    assert len(named) == len(set(named))
    makefile = (ROOT / "Makefile").read_text()
    assert not [name for name in named if f"{name} " in makefile and name.startswith("lib")]


def test_the_image_has_the_levels_packages() -> None:
    assert set(levels.packages()) <= set(recipe.recipe("trixie").packages)
    assert set(levels.packages()) - set(recipe.recipe("bookworm").packages) == {"dm-zoned-tools"}


def test_packages_of_one_rig_do_not_change_the_images_of_others() -> None:
    plain, more = recipe.recipe("bookworm"), recipe.recipe("bookworm", more=("make", "gcc"))
    assert recipe.recipe_of(model.load("debian12")).digest == plain.digest
    assert more.packages == (*plain.packages, "make", "gcc")
    # setup.sh purges the packages of the build, make among them.
    assert set(plain.build_packages) - set(more.build_packages) == {"make"}


def test_the_rig_of_dm_zap_can_build_it() -> None:
    """A guest has no network: what the role asks for is in the image."""
    made = recipe.recipe_of(model.load("dm-zap"))
    defaults = yaml.safe_load((ROOT / "roles/dm_zap/defaults/main.yml").read_text())
    assert {*defaults["dm_zap_packages"], "linux-headers-amd64"} <= set(made.packages)
    assert set(made.build_packages).isdisjoint(made.packages)
    zoned = [one for one in model.load("dm-zap").namespaces if one.zoned]
    assert zoned
    assert all(one.zone_size == one.zone_capacity for one in zoned)


def test_the_rig_of_zenfs_can_build_it() -> None:
    made = recipe.recipe_of(model.load("zenfs"))
    roles = {
        name: yaml.safe_load((ROOT / f"roles/{role}/defaults/main.yml").read_text())[name]
        for role, name in (("zenfs", "zenfs_packages"), ("rocksdb", "rocksdb_plugin_packages"))
    }
    assert {*roles["zenfs_packages"], *roles["rocksdb_plugin_packages"]} <= set(made.packages)
    assert set(made.build_packages).isdisjoint(made.packages)


def test_packages_of_another_suite_are_pinned_one_by_one() -> None:
    newer = {"forky": ("xfsprogs", "nvme-cli")}
    made = recipe.recipe("trixie", newer=newer)
    assert made.digest != recipe.recipe("trixie").digest
    argv = image.mmdebstrap_argv(made, Path("/o"), mirror=None, options=())
    backports, suite, pins = [arg for arg in argv if arg.startswith("--setup-hook")]
    assert "trixie-backports main" in backports
    assert "forky main" in suite
    run = subprocess.run(
        ["sh", "-c", pins.partition("&& ")[2].partition(" >")[0]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split("\n\n") == [
        "Package: *\nPin: release n=forky\nPin-Priority: 100",
        "Package: nvme-cli xfsprogs\nPin: release n=forky\nPin-Priority: 990",
        "",
    ]
    sources = "deb http://m.example/debian trixie main\n"
    for hook in (backports, suite):
        edit = hook.removeprefix("--setup-hook=").replace("-Ei", "-E").split(' "$1')[0]
        sources = subprocess.run(
            ["sh", "-c", edit], input=sources, capture_output=True, text=True, check=True
        ).stdout
    suites = [line.split()[2] for line in sources.splitlines()]
    assert sorted(suites) == ["forky", "trixie", "trixie-backports"]


def test_without_native_programs_nothing_is_compiled(trees: tuple[Path, Path]) -> None:
    native, guest = trees
    (native / "CMakeLists.txt").unlink()
    made = recipe.recipe("trixie", native, guest)
    assert not made.native
    argv = image.mmdebstrap_argv(made, Path("/out"), mirror=None, options=())
    assert not any("copy-in" in arg for arg in argv)


def test_source_hash_sees_names_contents_and_modes_but_no_build_output_or_page(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_text("1")
    hashes = {source_hash(tmp_path)}
    (tmp_path / "a").chmod(0o755)
    hashes.add(source_hash(tmp_path))
    (tmp_path / "a").rename(tmp_path / "b")
    hashes.add(source_hash(tmp_path))
    (tmp_path / "b").write_text("2")
    hashes.add(source_hash(tmp_path))
    assert len(hashes) == 4
    (tmp_path / "build-asan").mkdir()
    (tmp_path / "build-asan" / "out").write_text("x")
    (tmp_path / ".cache").write_text("x")
    (tmp_path / "build-asan" / "README.md").write_text("x")
    (tmp_path / "README.md").write_text("a page is no source")
    assert source_hash(tmp_path) in hashes


def test_the_build_takes_mirror_and_settings_from_the_host() -> None:
    made = recipe.recipe("trixie")
    argv = image.mmdebstrap_argv(
        made, Path("/out dir"), mirror="http://m.example/debian", options=('A::B "c"',)
    )
    assert argv[-3:] == ["trixie", "/out dir/root.tar", "http://m.example/debian"]
    assert '--aptopt=A::B "c"' in argv
    assert any("trixie-backports main" in arg for arg in argv if arg.startswith("--setup-hook"))
    assert "--customize-hook=download /boot/zonelab/initrd '/out dir/initrd'" in argv
    # root mode would bind the host's /dev/shm into a tree that a killed build leaves behind
    assert "--mode=unshare" in argv
    plain = image.mmdebstrap_argv(recipe.recipe("bookworm"), Path("/o"), mirror=None, options=())
    assert plain[-2:] == ["bookworm", "/o/root.tar"]
    assert not any(arg.startswith("--setup-hook") for arg in plain)


def test_a_failed_build_leaves_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(prerequisites, "check_build", lambda _cache: None)
    monkeypatch.setattr(apt, "mirror", lambda: None)
    monkeypatch.setattr(apt, "options", lambda: ())
    monkeypatch.setattr(
        image, "mmdebstrap_argv", lambda *_a, **_k: ["sh", "-c", "echo E: no space; exit 25"]
    )
    made = recipe.recipe("trixie")
    with pytest.raises(ToolFailed, match=r"exit 25\): E: no space") as caught:
        image.ensure(made, Talk(quiet=True))
    assert "build.log" in caught.value.hint
    assert not recipe.image_of(made).complete
    assert not list(recipe.cache().glob("*.partial"))


def test_an_image_is_durable_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power loss, the folder would be there with empty files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(prerequisites, "check_build", lambda _cache: None)
    monkeypatch.setattr(image, "_build", lambda _made, work, _talk: (work / "root.img").touch())
    made = recipe.recipe("trixie")
    folder, fsync = recipe.image_of(made).folder, os.fsync
    synced: list[tuple[str, bool]] = []

    def noted(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, folder.is_dir()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    assert image.ensure(made, Talk(quiet=True)) == (recipe.image_of(made), True)
    before, after = [[name for name, one in synced if one == named] for named in (False, True)]
    assert before[0] == "root.img"
    assert before[1].endswith(".partial")
    assert after == ["images"]


def test_what_killed_builds_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("killed.x.partial", "builds.x.partial", "image"):
        (recipe.cache() / name).mkdir(parents=True)
    with process.locked(recipe.cache() / "builds.lock", Talk(quiet=True), "x"):
        image._prune()
    left = {path.name for path in recipe.cache().iterdir() if path.is_dir()}
    assert left == {"builds.x.partial", "image"}


def test_an_interrupted_root_disk_leaves_no_tree(tmp_path: Path) -> None:
    script = image._PACK.replace("/var/tmp", str(tmp_path))
    argv = ["sh", "-c", script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) as child:
        deadline = time.monotonic() + 30
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5)  # until tar waits for its input
        os.killpg(child.pid, signal.SIGTERM)
        assert child.wait(30) == 143
    assert list(tmp_path.iterdir()) == []


def test_a_built_image_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = recipe.recipe("trixie")
    recipe.image_of(made).folder.mkdir(parents=True)
    found, built = image.ensure(made, Talk(quiet=True))
    assert (found, built) == (recipe.image_of(made), False)


def test_an_image_of_another_user_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = recipe.recipe("trixie")
    recipe.image_of(made).folder.mkdir(parents=True)
    for name in ("utime", "open"):
        monkeypatch.setattr(os, name, refuse)
    assert image.ensure(made, Talk(quiet=True)) == (recipe.image_of(made), False)
