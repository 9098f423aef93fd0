"""Requirements of a host: each missing one is refused with a hint before any write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import HostError
from harness.rig import apt, prerequisites

FIXTURES = Path(__file__).parents[1] / "fixtures" / "rig"


@pytest.mark.parametrize(
    ("flags", "kvm_exists", "expected"),
    [
        ("flags\t\t: fpu sse vmx aes", True, "kvm"),
        ("flags\t\t: fpu sse svm aes", True, "kvm"),
        ("flags\t\t: fpu sse vmx aes", False, "tcg"),
        ("flags\t\t: fpu sse svm_lock vmxnet", True, "tcg"),
        ("vmx flags\t: vmx", True, "tcg"),
        ("", True, "tcg"),
    ],
)
def test_kvm_needs_the_cpu_and_the_device(
    tmp_path: Path, flags: str, kvm_exists: bool, expected: str
) -> None:
    kvm = tmp_path / "kvm"
    if kvm_exists:
        kvm.touch()
    assert prerequisites.accelerator(flags, kvm) == expected


def test_a_present_kvm_without_cpu_support_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "kvm").touch()
    cpuinfo = (FIXTURES / "cpuinfo-no-virtualisation.txt").read_text()
    assert prerequisites.accelerator(cpuinfo, tmp_path / "kvm") == "tcg"


def test_missing_programs_give_the_line_to_type() -> None:
    needed = {"a-tool": "a-package", "b-tool": "b-package", "sh": "dash"}
    with pytest.raises(HostError) as caught:
        prerequisites.check_programs(needed, lambda name: Path("/bin/sh") if name == "sh" else None)
    assert caught.value.message == "not installed: a-tool, b-tool"
    assert caught.value.hint.endswith("apt-get install --no-install-recommends a-package b-package")


def test_a_full_disk_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"an image needs 1048576\.0 GiB in .*GiB are free"):
        prerequisites.check_space(tmp_path / "not" / "yet", 1 << 50, "an image")
    prerequisites.check_space(tmp_path, 1, "an image")


def test_short_memory_is_refused(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  8000000 kB\nMemAvailable:  1048576 kB\n")  # synthetic
    prerequisites.check_memory(1 << 30, "rig x", meminfo)
    with pytest.raises(HostError, match=r"rig x needs 2\.0 GiB of memory, 1\.0 GiB are available"):
        prerequisites.check_memory(2 << 30, "rig x", meminfo)


def test_a_missing_keyring_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "check_programs", lambda _needed: None)
    monkeypatch.setattr(apt, "KEYRING", tmp_path / "none.gpg")
    with pytest.raises(HostError, match=r"no keyring at .*none\.gpg") as caught:
        prerequisites.check_build(tmp_path)
    assert "debian-archive-keyring" in caught.value.hint


def test_a_user_without_an_account_is_named_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prerequisites, "check_programs", lambda _needed: None)
    monkeypatch.setattr(prerequisites, "_SUBUID", tmp_path / "subuid")
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999_999)
    with pytest.raises(HostError, match="user 3999999999 has no subordinate ids"):
        prerequisites._check_unprivileged()
    (tmp_path / "subuid").write_text("3999999999:100000:65536\n")
    prerequisites._check_unprivileged()


def test_the_mirror_of_a_debian_host_is_taken_over() -> None:
    text = (FIXTURES / "indextargets-debian12.txt").read_text()
    assert apt.parse_mirror(text) == "http://mirror.example/debian"


def test_other_hosts_leave_the_mirror_to_mmdebstrap() -> None:
    assert apt.parse_mirror("Ubuntu|Ubuntu|main|http://mirror.example/ubuntu/\n") is None
    assert apt.parse_mirror("Debian|Debian-Security|main|http://mirror.example/s/\n") is None
    assert apt.parse_mirror("") is None


def test_only_proxy_and_dates_are_handed_on() -> None:
    text = (FIXTURES / "apt-config-debian12.txt").read_text()
    assert apt.parse_options(text) == (
        'Acquire::Check-Valid-Until "false"',
        'Acquire::Check-Date "false"',
    )
    synthetic = 'Acquire::http::Proxy "http://proxy.example:3142";\nAcquire::https "";\n'
    assert apt.parse_options(synthetic) == ('Acquire::http::Proxy "http://proxy.example:3142"',)
