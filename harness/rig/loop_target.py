"""A modelled drive of the guest as an NVMe namespace: the kernel's own target, transport loop."""

from __future__ import annotations

_TARGET = "/sys/kernel/config/nvmet"
# It prints the namespace's name. The kernel finds namespaces only after the controller is ready.
_UP = f"""set -e
modprobe -a nvmet nvme_loop
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
cd {_TARGET}
mkdir -p subsystems/{{nqn}}/namespaces/1 ports/{{port}}
echo 1 > subsystems/{{nqn}}/attr_allow_any_host
echo {{uuid}} > subsystems/{{nqn}}/namespaces/1/device_uuid
echo /dev/{{device}} > subsystems/{{nqn}}/namespaces/1/device_path
echo 1 > subsystems/{{nqn}}/namespaces/1/enable
echo {{port}} > ports/{{port}}/addr_traddr
echo loop > ports/{{port}}/addr_trtype
ln -s {_TARGET}/subsystems/{{nqn}} ports/{{port}}/subsystems/
echo transport=loop,traddr={{port}},nqn={{nqn}} > /dev/nvme-fabrics
for _ in $(seq 600); do
  grep -lsx {{uuid}} /sys/class/block/nvme*/uuid | cut -d/ -f5 | grep . && break
  sleep 0.1
done
udevadm settle
"""
# It also removes what a killed server left behind.
_DOWN = f"""
for each in /sys/class/nvme/nvme*; do
  grep -qsx {{nqn}} $each/subsysnqn && echo 1 > $each/delete_controller
done
cd {_TARGET} && rm -f ports/{{port}}/subsystems/{{nqn}} &&
  rmdir ports/{{port}} subsystems/{{nqn}}/namespaces/1 subsystems/{{nqn}}
true
"""


def up(uuid: str, device: str) -> str:
    """Return the command that exports a device of the guest and connects it as a namespace."""
    return _UP.format(**_names(uuid), device=device)


def down(uuid: str) -> str:
    """Return the command that disconnects the namespace and removes its target."""
    return _DOWN.format(**_names(uuid))


def _names(uuid: str) -> dict[str, str]:
    """Return the names of a drive's target; two drives of a rig never share one."""
    nqn = f"nqn.2014-08.org.nvmexpress:uuid:{uuid}"
    return {"uuid": uuid, "nqn": nqn, "port": str(int(uuid[-4:], 16))}
