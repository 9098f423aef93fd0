"""``requirements/*.sh`` with fake apt programs: which packages they install, and how they fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.rig.native_build import packages

ROOT = Path(__file__).parents[2]
FAKE = """#!/bin/sh
case $(basename "$0") in
  id) echo 0;;
  dpkg-query) for last; do :; done
    case " $INSTALLED " in *" $last "*) echo installed;; *) exit 1;; esac;;
  apt-cache) case " $OFFERED " in *" $2 "*) echo "Package: $2";; esac;;
  apt-get) echo "$*" >>"$LOG"; case $1 in install) exit "$CODE";; esac;;
esac
"""


class Machine:
    """A machine whose PATH has coreutils, grep and fake apt programs only."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder / "bin", folder / "log"
        self.folder.mkdir()
        for name in ("id", "dpkg-query", "apt-cache", "apt-get"):
            self.program(name)
        for name in ("sh", "basename", "dirname", "cat", "grep"):
            (self.folder / name).symlink_to(f"/bin/{name}")

    def program(self, name: str) -> None:
        (self.folder / name).write_text(FAKE)
        (self.folder / name).chmod(0o755)

    def install(
        self, *words: str, installed: str = "", offered: str = "", code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.folder), "LOG": str(self.log), "CODE": str(code)}
        env |= {"INSTALLED": installed, "OFFERED": offered}
        argv = [str(ROOT / "requirements/apt.sh"), *words]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_missing_packages_apt_is_not_called(machine: Machine) -> None:
    done = machine.install("native", installed=" ".join(packages("native")))
    assert (done.returncode, done.stdout) == (0, "")
    assert machine.calls == []


def test_missing_packages_of_all_lists_are_installed_at_once(machine: Machine) -> None:
    machine.program("cmake")  # a program of the package's name counts, wherever it came from
    done = machine.install("native", "native-test", installed="g++ make libzbd-dev")
    left = "libcli11-dev librocksdb-dev liburing-dev libxxhash-dev nlohmann-json3-dev libgtest-dev"
    assert done.returncode == 0, done.stderr
    assert machine.calls == [
        "update -qq",
        f"install -y -qq --no-install-recommends {left}",
    ]
    assert done.stdout == f"installing {left}\n"


def test_a_failed_installation_fails(machine: Machine) -> None:
    assert machine.install("venv", code=100).returncode == 1


def test_missing_optional_packages_are_accepted(machine: Machine) -> None:
    done = machine.install("--optional", "dev-optional", offered="qemu-utils vagrant", code=100)
    assert done.returncode == 0
    assert machine.calls[1:] == ["install -y -qq --no-install-recommends qemu-utils vagrant"]
    assert "no package chromium: tests that need it are skipped" in done.stdout
    assert "not installed: qemu-utils vagrant: tests that need them are skipped" in done.stdout


def test_no_list_is_a_usage_error(machine: Machine) -> None:
    assert machine.install().returncode == 2


def test_an_old_python_is_refused_with_a_hint(machine: Machine, tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    argv = [str(ROOT / "requirements/venv.sh"), "requirements/base.txt"]
    env = {"PATH": str(machine.folder), "PYTHON": str(old)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is older than 3.11; hint: make PYTHON=python3.11" in done.stderr
    assert not (tmp_path / ".venv").exists()
