"""QEMU's command line and the QMP client."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from harness.errors import HostError, ToolFailed
from harness.rig import model, qemu, qmp, witness_server
from harness.rig.recipe import Image

FIXTURES = Path(__file__).parents[1] / "fixtures" / "rig"
NVME = model.load("nvme")
TIMED = model.load("timed")
CPU = "max,erms=off,fsrm=off,smap=off,la57=off"


def options(argv: list[str], name: str) -> list[str]:
    return [value for option, value in pairwise(argv) if option == name]


def test_the_nvme_rig_is_one_drive_with_three_namespaces() -> None:
    argv = qemu.argv(NVME, Image(Path("/c/abc")), port=2022, accelerator="tcg")
    devices = options(argv, "-device")
    assert devices[2:] == [
        "nvme,id=nvme0,serial=zonelab0",
        "nvme-ns,drive=nvme0n1,bus=nvme0,nsid=1,eui64=0x5254005a4c000001,"
        "uuid=5a4c0000-0000-4000-8000-000000000001,"
        "logical_block_size=4096,physical_block_size=4096",
        *(
            f"nvme-ns,drive=nvme0n{nsid},bus=nvme0,nsid={nsid},eui64=0x5254005a4c00000{nsid},"
            f"uuid=5a4c0000-0000-4000-8000-00000000000{nsid},"
            "logical_block_size=4096,physical_block_size=4096,zoned=on,"
            "zoned.zone_size=8388608,zoned.zone_capacity=4194304,"
            "zoned.max_open=14,zoned.max_active=14"
            for nsid in (2, 3)
        ),
    ]
    assert options(argv, "-m") == ["4096M"]
    assert options(argv, "-kernel") == ["/c/abc/vmlinuz"]
    assert "nvme_core.multipath=N" in options(argv, "-append")[0].split()


def test_a_drive_in_a_subsystem_follows_it() -> None:
    rig = model.load("geometry-multipath")
    devices = options(qemu.argv(rig, Image(Path("/c")), port=1, accelerator="tcg"), "-device")
    first = devices.index("nvme-subsys,id=subsys0,nqn=head-14")
    assert devices[first + 1] == "nvme,id=nvme0,serial=head-14,subsys=subsys0"
    assert [d.split(",")[2] for d in devices if d.startswith("nvme-subsys")] == [
        f"nqn={drive.serial}" for drive in rig.nvme
    ]
    assert not any(
        "subsys" in device
        for device in qemu.argv(NVME, Image(Path("/c")), port=1, accelerator="tcg")
    )


def test_the_guest_is_reached_on_loopback_only_and_reaches_the_witness_alone() -> None:
    argv = qemu.argv(NVME, Image(Path("/c")), port=2022, accelerator="tcg")
    (network,) = options(argv, "-netdev")
    first = "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:2022-:22,guestfwd=tcp:10.0.2.9:9-cmd:"
    assert network.startswith(first)
    # What QEMU makes of it: an option ends at a comma that stands alone.
    program = network.removeprefix(first).replace(",,", "\0")
    assert "," not in program
    words = shlex.split(program.replace("\0", ","))
    assert words[:3] == [sys.executable, "-I", "-c"]
    drives = ["nvme0n1=zonelab0:1", "nvme0n2=zonelab0:2", "nvme0n3=zonelab0:3"]
    assert words[4:] == ["qmp.sock", *drives]
    assert "zonelab.witness=10.0.2.9:9" in options(argv, "-append")[0].split()
    assert "-nodefaults" in argv


def test_the_root_disk_is_never_written() -> None:
    argv = qemu.argv(NVME, Image(Path("/c,d")), port=1, accelerator="tcg")
    root = next(drive for drive in options(argv, "-drive") if "id=root" in drive)
    assert root.split("file=")[1].startswith("/c,,d/root.img,"), "commas are doubled for QEMU"
    assert "snapshot=on" in root
    assert "root=/dev/vda" in options(argv, "-append")[0].split()


def test_the_root_disk_of_a_timed_rig_is_private_memory() -> None:
    # A disk of QEMU answers when this host does. Until then the guest's clock runs ahead.
    argv = qemu.argv(TIMED, Image(Path("/c,d")), port=1, accelerator="tcg")
    (root,) = options(argv, "-object")
    assert root.startswith("memory-backend-file,id=root,mem-path=/c,,d/root.img,size=6G,")
    assert "share=off" in root, "the image is common to all machines"
    assert "nvdimm,memdev=root" in options(argv, "-device")
    assert options(argv, "-drive") == []
    assert options(argv, "-m") == ["3072M,slots=1,maxmem=11G"]
    assert options(argv, "-machine")[0].endswith(",nvdimm=on")
    assert "root=/dev/pmem0" in options(argv, "-append")[0].split()


def test_a_reset_must_not_end_qemu() -> None:
    # -no-reboot would turn system_reset, which keeps the zones, into an exit, which loses them
    assert "-no-reboot" not in qemu.argv(NVME, Image(Path("/c")), port=1, accelerator="tcg")


@pytest.mark.parametrize(
    ("accelerator", "accel", "cpu", "smp"),
    [
        ("kvm", "kvm", "host", "2"),
        # more than one possible CPU keeps memory barriers, one running CPU breakpoints apart
        ("tcg", "tcg,thread=multi", CPU, "cpus=1,maxcpus=2"),
    ],
)
def test_accelerators(accelerator: str, accel: str, cpu: str, smp: str) -> None:
    argv = qemu.argv(NVME, Image(Path("/c")), port=1, accelerator=accelerator)
    assert (options(argv, "-accel"), options(argv, "-cpu")) == ([accel], [cpu])
    assert options(argv, "-smp") == [smp]


def test_barriers_are_kept_on_the_smallest_rig() -> None:
    smallest = NVME.model_copy(update={"smp": 1})
    argv = qemu.argv(smallest, Image(Path("/c")), port=1, accelerator="tcg")
    assert options(argv, "-smp") == ["cpus=1,maxcpus=2"]


def test_a_timed_rig_counts_instructions() -> None:
    for accelerator in ("kvm", "tcg"):  # the same machine, whatever the host has
        argv = qemu.argv(TIMED, Image(Path("/c")), port=1, accelerator=accelerator)
        assert options(argv, "-icount") == ["shift=0,sleep=off"]
        assert options(argv, "-accel") == ["tcg,thread=single,tb-size=1024"]
        assert options(argv, "-cpu") == [f"{CPU},rdrand=off,rdseed=off"]
        assert options(argv, "-smp") == ["1"]
        assert options(argv, "-rtc") == ["base=2026-01-01,clock=vm"]
        assert not [device for device in options(argv, "-device") if device.startswith("nvme")]
        assert "-qmp" not in argv
        # The servers of the drives are the witness.
        assert "guestfwd" not in " ".join(argv)
        words = options(argv, "-append")[0].split()
        assert {"nokaslr", "zonelab.dilation=256", "zonelab.rig=timed"} <= set(words)
        assert not any(word.startswith("zonelab.witness") for word in words)


Serve = Callable[[dict[str, str]], Path]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A QMP server that answers by command; synthetic but for the block statistics."""
    folder = tmp_path / ("long" * 30)  # longer than a socket's path may be
    folder.mkdir()
    server = socket.socket(socket.AF_UNIX)
    threads: list[threading.Thread] = []

    def run(answers: dict[str, str]) -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as file:
            file.write('{"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": []}}\n')
            file.flush()
            for line in file:
                answer = answers.get(json.loads(line)["execute"])
                if answer is None:
                    return
                file.write(answer + "\n")
                file.flush()

    def start(answers: dict[str, str]) -> Path:
        thread = threading.Thread(
            target=run, args=({"qmp_capabilities": '{"return": {}}', **answers},)
        )
        thread.start()
        threads.append(thread)
        return folder / "qmp.sock"

    before = Path.cwd()  # a relative name is within the length limit
    os.chdir(folder)
    server.bind("qmp.sock")
    os.chdir(before)
    server.listen()
    yield start
    for thread in threads:
        thread.join(5)
    server.close()


def test_counters_come_by_drive(serve: Serve) -> None:
    answer = json.loads((FIXTURES / "query-blockstats.json").read_text())
    event = '{"event": "RTC_CHANGE", "data": {"offset": 0}}\n'
    path = serve({"query-blockstats": event + json.dumps({"return": answer})})
    with qmp.Qmp(path, timeout=5) as client:
        stats = client.blockstats()
    assert {"root", "nvme0n1", "nvme0n2", "nvme0n3"} <= set(stats)
    raw = next(entry for entry in answer if entry["device"] == "nvme0n2")["stats"]
    assert stats["nvme0n2"].rd_bytes == raw["rd_bytes"] > 0
    assert stats["nvme0n2"].wr_bytes == raw["wr_bytes"] == 0


def test_a_refused_command_reports_the_reason(serve: Serve) -> None:
    path = serve({"bad": '{"error": {"class": "CommandNotFound", "desc": "no such command"}}'})
    with qmp.Qmp(path, timeout=5) as client, pytest.raises(ToolFailed, match="no such command"):
        client.execute("bad")


def test_a_qemu_that_ends_is_an_error(serve: Serve) -> None:
    with qmp.Qmp(serve({}), timeout=5) as client, pytest.raises(ToolFailed, match="quit"):
        client.execute("quit")


def test_garbage_is_an_error(serve: Serve) -> None:
    path = serve({"x": "{not json"})
    with qmp.Qmp(path, timeout=5) as client, pytest.raises(ToolFailed, match="no answer"):
        client.execute("x")


def test_a_socket_without_listener_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="does not answer"):
        qmp.Qmp(tmp_path / "qmp.sock")


def test_missing_counters_are_an_error_and_not_zero() -> None:
    with pytest.raises(ToolFailed, match="wr_bytes"):
        qmp.parse_blockstats([{"device": "a", "stats": {"rd_bytes": 1}}])


def test_the_witness_is_a_line_of_json_and_nothing_else(serve: Serve) -> None:
    """The program as QEMU starts it: beside its socket, with a command line to parse itself."""
    answer = json.loads((FIXTURES / "query-blockstats.json").read_text())
    for number, drive in enumerate(answer, 1):
        drive["stats"]["wr_bytes"] = 4096 * number  # nothing was written when it was captured
    path = serve({"query-blockstats": json.dumps({"return": answer})})
    drives = [("nvme0n2", "zonelab0", 2), ("nvme0n1", "zonelab0", 1)]
    done = subprocess.run(
        shlex.split(witness_server.command(path.name, drives)),
        cwd=path.parent,
        env={},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = qmp.parse_blockstats(answer)
    assert done.stderr == ""
    assert done.stdout.endswith("\n")
    assert json.loads(done.stdout) == {
        "drives": [
            {
                "serial": serial,
                "nsid": nsid,
                "wr_bytes": wanted[drive].wr_bytes,
                "rd_bytes": wanted[drive].rd_bytes,
            }
            for drive, serial, nsid in drives
        ]
    }


def test_a_drive_that_qemu_does_not_have(serve: Serve) -> None:
    answer = (FIXTURES / "query-blockstats.json").read_text()
    path = serve({"query-blockstats": json.dumps({"return": json.loads(answer)})})
    with pytest.raises(ToolFailed, match="QEMU has no counters for nvme7n1"):
        witness_server.answer(path, ["nvme7n1=zonelab7:1"])
