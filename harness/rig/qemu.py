"""QEMU's command line for a rig, as a pure function, so that a test can compare all of it."""

from __future__ import annotations

from pathlib import Path

from harness.rig import witness_server
from harness.rig.model import EmulatedNamespace, Rig
from harness.rig.recipe import ROOT_SIZE, Image
from harness.tools import virtual_clock

QMP_SOCKET = "qmp.sock"
PID_FILE = "qemu.pid"
CONSOLE = "console.log"
PUBLIC_KEY = "key.pub"

_COMMON = (
    "console=ttyS0",  # the log shown on failure
    "quiet",
    "panic=1",  # restart after a panic instead of waiting
    # With random addresses, QEMU translates the same code again: emulation took a seventh longer.
    "norandmaps",
)
# The root disk: a drive of QEMU, or memory on the instruction clock (docs/decisions.md).
DISK, _MEMORY = "root=/dev/vda", "root=/dev/pmem0"
APPEND = (
    "rw",
    *_COMMON,
    "net.ifnames=0",  # the initrd configures eth0; udev must not rename it
    # without it systemd treats each boot as the first one
    "systemd.machine_id=5a6f6e656c6162000000000000000001",
)

# Processor features that cost emulation time. Without erms and fsrm, kernel and libc copy words or
# vectors; emulation executes "rep movsb" byte by byte. With smap, each copy between kernel and
# program ends blocks of translated code. With la57, a page walk has five levels.
_EMULATED_CPU = "max,erms=off,fsrm=off,smap=off,la57=off"
_CPU = {"kvm": ("kvm", "host"), "tcg": ("tcg,thread=multi", _EMULATED_CPU)}


# Without these instructions, no random numbers of the host enter the guest.
_REPEATABLE = ",rdrand=off,rdseed=off"
_ICOUNT_ACCEL = "tcg,thread=single,tb-size=1024"
# The guest's clocks begin at the same time at every boot.
_ICOUNT = ("-seed", "1", "-rtc", "base=2026-01-01,clock=vm")
_ICOUNT_APPEND = "nokaslr"

# Files of a replay, in its folder (harness/rig/replay/).
REPLAY_INITRD = "initrd"
REPLAY_RESULTS = "results.tar"
REPLAY_RESULTS_SIZE = "256M"
REPLAY_INIT = "replay/init.sh"

# With fewer possible CPUs, QEMU before 8.1 omits the guest's memory barriers.
_LEAST_MAXCPUS = 2


def drive_id(controller: int, namespace: EmulatedNamespace) -> str:
    """Return the id under which QMP reports a namespace's counters."""
    return f"nvme{controller}n{namespace.nsid}"


def backing_file(controller: int, namespace: EmulatedNamespace) -> str:
    """Return the name of a namespace's sparse file in the rig's state folder."""
    return f"{drive_id(controller, namespace)}.img"


def argv(rig: Rig, image: Image, *, port: int, accelerator: str) -> list[str]:
    """Return QEMU's command line; relative names are in the rig's state folder, QEMU's cwd.

    ``accelerator`` is ``tcg`` or ``kvm``; a rig on the instruction clock is always emulated.

    All caches are ``unsafe``: nothing has to survive a crash of this host. Times on a rig are no
    results, so there is no reason to wait for the host's disk.
    """
    in_memory = rig.icount is not None
    args = [*_machine(rig, accelerator), *_memory(rig, 1 if in_memory else 0), "-display", "none"]
    args += ["-kernel", str(image.kernel), "-initrd", str(image.initrd)]
    words = [_MEMORY if in_memory else DISK, *APPEND]
    if rig.nvme:
        words.append(f"zonelab.witness={witness_server.ADDRESS}")
    # The kernel's random numbers depend on these words. On the instruction clock they depend on
    # nothing else, and machines of one rig would have the same boot id.
    words.append(f"zonelab.rig={rig.name}")
    args += _clock(rig)
    args += ["-append", " ".join([*words, *_kernel_words(rig)])]
    args += ["-serial", f"file:{CONSOLE}", "-pidfile", PID_FILE]
    if rig.nvme:  # for counters and resets; its thread wakes at each timer of the guest
        args += ["-qmp", f"unix:{QMP_SOCKET},server=on,wait=off"]
    # the key is passed at boot: one cached image serves all checkouts
    args += ["-fw_cfg", f"name=opt/zonelab/authorized_keys,file={PUBLIC_KEY}"]
    args += _memory_root(image) if in_memory else _disk_root(image)
    # restrict: the guest reaches only the witness; the host reaches its ssh, on loopback
    network = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"
    if rig.nvme:
        network += f",guestfwd=tcp:{witness_server.ADDRESS}-cmd:{_escape(_witness(rig))}"
    args += ["-netdev", network]
    args += ["-device", "virtio-net-pci,netdev=net"]
    for number, controller in enumerate(rig.nvme):
        nvme = f"nvme,id=nvme{number},serial={controller.serial}"
        if controller.subsys:
            args += ["-device", f"nvme-subsys,id=subsys{number},nqn={controller.serial}"]
            nvme += f",subsys=subsys{number}"
        args += ["-device", nvme]
        for namespace in controller.namespaces:
            args += _namespace(number, namespace)
    return args


def replay_argv(rig: Rig, image: Image) -> list[str]:
    """Return QEMU's command line for a replay on a timed rig; relative names as in ``argv``.

    No device of the guest depends on this host's time, so the guest does the same in each replay.
    Its root file system and its results are memory (nvdimm): a disk of QEMU would complete requests
    when this host does. There is no network. When the guest restarts, QEMU ends.
    """
    args = [*_machine(rig, "tcg"), *_memory(rig, 2)]
    args += ["-display", "none", "-nic", "none", "-no-reboot"]
    args += ["-kernel", str(image.kernel), "-initrd", REPLAY_INITRD, *_clock(rig)]
    # idle=poll: the processor is never idle before elf.py's program starts, which is after boot
    words = [*_COMMON, f"rdinit=/{REPLAY_INIT}", "idle=poll", *_kernel_words(rig)]
    args += ["-append", " ".join(words), "-serial", f"file:{CONSOLE}", "-pidfile", PID_FILE]
    # The guest names the last module (the results) pmem0.
    args += _memory_root(image)
    results = f"mem-path={REPLAY_RESULTS},size={REPLAY_RESULTS_SIZE},share=on"
    args += ["-object", f"memory-backend-file,id=results,{results}"]
    return [*args, "-device", "nvdimm,memdev=results"]


def _disk_root(image: Image) -> list[str]:
    # snapshot: writes go to an unlinked overlay, so that a rig always starts from the same disk
    drive = f"if=none,id=root,file={_escape(image.root)},format=raw,snapshot=on,cache=unsafe"
    return ["-drive", drive, "-device", "virtio-blk-pci,drive=root"]


def _memory_root(image: Image) -> list[str]:
    # share=off: writes go to memory of QEMU, so that a rig always starts from the same disk
    root = f"mem-path={_escape(image.root)},size={ROOT_SIZE},share=off,reserve=off"
    return ["-object", f"memory-backend-file,id=root,{root}", "-device", "nvdimm,memdev=root"]


def _memory(rig: Rig, modules: int) -> list[str]:
    """Return the guest's memory, with slots for memory modules of at most 6 GiB each."""
    slots = f",slots={modules},maxmem={(rig.memory >> 30) + 8 * modules}G" if modules else ""
    return ["-m", f"{rig.memory >> 20}M{slots}"]


def _machine(rig: Rig, accelerator: str) -> list[str]:
    accel, cpu = _CPU[accelerator]
    more = ""
    if rig.icount is not None:
        accel, cpu, more = _ICOUNT_ACCEL, _CPU["tcg"][1] + _REPEATABLE, ",nvdimm=on"
    args = ["qemu-system-x86_64", "-name", f"zonelab-{rig.name}", "-nodefaults", "-no-user-config"]
    args += ["-machine", f"{rig.machine},sata=off,smbus=off{more}", "-accel", accel, "-cpu", cpu]
    return [*args, "-smp", _smp(rig, accelerator)]


def _clock(rig: Rig) -> list[str]:
    return [] if rig.icount is None else ["-icount", rig.icount, *_ICOUNT]


def _kernel_words(rig: Rig) -> list[str]:
    """Return the words of the kernel's command line that follow from the rig's file."""
    if rig.icount is None:
        return [*rig.append]
    return [*rig.append, _ICOUNT_APPEND, f"{virtual_clock.FLAG}{rig.dilation}"]


def _smp(rig: Rig, accelerator: str) -> str:
    """Return -smp: under emulation one CPU out of several possible ones.

    With two CPUs the kernel sometimes panics ("Oops: int3"): one CPU meets a breakpoint of code
    that the other has patched. With one possible CPU, or a single thread, QEMU emits no memory
    barriers. Its main thread, which reads NVMe doorbells, then sometimes misses one, and the
    command never starts (docs/decisions.md).
    """
    if accelerator == "kvm" or rig.icount is not None:
        return str(rig.smp)
    return f"cpus=1,maxcpus={max(rig.smp, _LEAST_MAXCPUS)}"


def _namespace(controller: int, ns: EmulatedNamespace) -> list[str]:
    drive = drive_id(controller, ns)
    properties = [
        f"drive={drive}",
        f"bus=nvme{controller}",
        f"nsid={ns.nsid}",
        f"eui64={ns.eui64:#x}",
        f"uuid={ns.uuid}",
        f"logical_block_size={ns.logical_block_size}",
        f"physical_block_size={ns.logical_block_size}",
    ]
    if ns.zoned:
        properties += [
            "zoned=on",
            f"zoned.zone_size={ns.zone_size}",
            f"zoned.zone_capacity={ns.zone_capacity}",
            f"zoned.max_open={ns.max_open}",
            f"zoned.max_active={ns.max_active}",
        ]
    file = backing_file(controller, ns)
    return [
        "-drive",
        f"if=none,id={drive},file={file},format=raw,cache=unsafe",
        "-device",
        f"nvme-ns,{','.join(properties)}",
    ]


def _witness(rig: Rig) -> str:
    drives = [
        (drive_id(number, namespace), controller.serial, namespace.nsid)
        for number, controller in enumerate(rig.nvme)
        for namespace in controller.namespaces
    ]
    return witness_server.command(QMP_SOCKET, drives)


def _escape(text: Path | str) -> str:
    """Double the commas, which is QEMU's quoting inside an option list."""
    return str(text).replace(",", ",,")
