"""The NVMe rig: the guest sees the devices of the rig's file, and QEMU's counts are right."""

from __future__ import annotations

import pytest

from harness.errors import HostError
from harness.rig import control, guest
from harness.rig.talk import Talk
from tests.fixtures.waiting import until

from . import checks
from .conftest import RigHandle


def test_the_guest_sees_the_geometry_of_the_file(rig: RigHandle) -> None:
    checks.geometry_is_the_files(rig)


def test_every_namespace_has_its_identity(rig: RigHandle) -> None:
    checks.identities_are_set(rig)


def test_the_kernel_believes_the_identity(rig: RigHandle) -> None:
    for wanted, device in zip(rig.model.namespaces, rig.state.devices, strict=True):
        eui = rig.ssh(f"cat /sys/block/{rig.node(device)}/eui").stdout
        assert eui.replace(" ", "").strip() == wanted.eui
        assert device.path == f"/dev/disk/by-id/nvme-uuid.{wanted.uuid}"


def test_qemu_counts_what_the_guest_wrote_and_a_reset_keeps_it(rig: RigHandle) -> None:
    counted, wrote = checks.write_zones(rig)
    assert counted == wrote == checks.ZONES_TO_WRITE * 4 * checks.MIB

    def zones() -> str:
        return rig.ssh(f"set -o pipefail; zbd report {rig.tenants.path} | sed -n 1,6p").stdout

    def digest() -> str:
        return rig.ssh(
            f"set -o pipefail; dd if={rig.tenants.path} bs=1M count=6 iflag=direct status=none"
            " | sha256sum"
        ).stdout

    before, contents = zones(), digest()
    assert before.count(", fu,") == checks.ZONES_TO_WRITE, before
    boot = rig.ssh("cat /proc/sys/kernel/random/boot_id").stdout
    rig.reset()
    assert rig.ssh("cat /proc/sys/kernel/random/boot_id").stdout != boot
    assert (zones(), digest()) == (before, contents)
    rig.ssh(f"zbd reset {rig.tenants.path}")


def test_a_guest_that_panics_starts_anew(rig: RigHandle) -> None:
    boot = rig.ssh("cat /proc/sys/kernel/random/boot_id").stdout
    rig.ssh("(sleep 1; echo c > /proc/sysrq-trigger) >/dev/null 2>&1 </dev/null &")
    until(lambda: not guest.has_banner(rig.state.port), "the guest no longer answers")
    rig.wait()
    assert rig.ssh("cat /proc/sys/kernel/random/boot_id").stdout != boot


def test_native_programs_and_tools_are_there(rig: RigHandle) -> None:
    checks.programs_are_there(rig)


def test_the_guest_is_quiet(rig: RigHandle) -> None:
    """Nothing failed and nothing is scheduled to wake up in the middle of a run."""
    assert rig.ssh("systemctl is-system-running --wait", check=False).stdout.strip() == "running"
    assert rig.ssh("systemctl list-timers --no-legend").stdout.strip() == ""


def test_the_guest_has_no_network(rig: RigHandle) -> None:
    done = rig.ssh("timeout 5 bash -c 'exec 3<>/dev/tcp/10.0.2.2/22'", check=False)
    assert done.exit_code in (1, 124), done  # 255 would be ssh's own failure


def test_a_rig_in_use_is_not_taken_over(rig: RigHandle) -> None:
    with pytest.raises(HostError, match="is up already"):
        control.execute(rig.model, ["true"], Talk(quiet=True))
    running, booted = control.up(rig.model, Talk(quiet=True))
    assert (running, booted) == (rig.state, False)
