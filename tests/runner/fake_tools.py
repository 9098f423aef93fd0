#!/usr/bin/env python3
"""Synthetic dmsetup, dmzadm, mkfs, mount, umount, sync, modprobe, coldfill of the fake machine.

Linked as ``ROOT/bin/<program>``. Mounts are lines of ``proc/self/mountinfo``, mapped devices are
folders below ``sys/class/block`` with a node in ``dev/mapper``. ``targets`` names the kernel's.
"""

import json
import shutil
import sys
from pathlib import Path

program = Path(sys.argv[0])
root, args = program.parent.parent, sys.argv[1:]
mountinfo = root / "proc/self/mountinfo"
captured = Path(__file__).resolve().parents[1] / "fixtures" / "levels"
blocks, mapper = root / "sys/class/block", root / "dev/mapper"

with (root / "tools.log").open("a") as log:
    log.write(f"{program.name} {' '.join(args)}\n")


def map_to(name: str, uuid: str, sectors: int, *lower: str) -> None:
    (blocks / name / "dm").mkdir(parents=True)
    (blocks / name / "dm/uuid").write_text(uuid)
    (blocks / name / "dev").write_text(f"253:{len(list(blocks.glob('*/dm')))}")
    (blocks / name / "dm/name").write_text(name)
    (blocks / name / "size").write_text(f"{sectors}\n")
    (blocks / name / "holders").mkdir()
    for device in lower:
        (blocks / device / "holders" / name).mkdir()
    mapper.mkdir(exist_ok=True)
    (mapper / name).touch()


def dmzadm(command: str, source: str, zoned: str, *flags: str) -> None:
    """Write superblocks as dmzadm does: on the device under the slice, and on the zoned one."""
    piece = Path(source).name
    under = next(holder.parents[1].name for holder in blocks.glob(f"*/holders/{piece}"))
    if command == "--format":
        label = next(flag.partition("=")[2] for flag in flags if flag.startswith("--label="))
        for node in (root / "dev" / under, Path(zoned)):
            with node.open("r+b") as file:
                file.write(b"DBZD".ljust(48, b"\0") + label.encode().ljust(32, b"\0"))
    else:
        label = Path(zoned).read_bytes()[48:80].rstrip(b"\0").decode()
        sectors = int((blocks / Path(zoned).name / "size").read_text())
        map_to(label, f"dmz-of-{label}", sectors, piece, Path(zoned).name)


def dmsetup(command: str, name: str = "", *more: str) -> None:
    if command == "targets":
        sys.stdout.write((root / "targets").read_text())
    elif command == "ls" and name == "--target":
        sys.stdout.write("No devices found\n")
    elif command == "ls":
        names = sorted(node.name for node in mapper.glob("*"))
        sys.stdout.write("".join(f"{n}\t(253:0)\n" for n in names) or "No devices found\n")
    elif command == "status":
        zoned = (captured / "dm-zoned-status.txt").read_text().splitlines()[0]
        sys.stdout.write(f"{zoned}\n" if name.startswith("zl-") else "0 8 zap \n")
    elif command == "create":
        assert more[0] == "--uuid"
        _, sectors, target, *arguments = more[3].split()
        if (root / f"refuse-{target}").exists():  # the kernel's record of the refusal
            with (root / "kmsg").open("a") as kernel_log:
                kernel_log.write((root / f"refuse-{target}").read_text())
            sys.exit("device-mapper: reload ioctl failed: Invalid argument\nCommand failed.")
        lower = next(Path(word).name for word in arguments if word.startswith("/"))
        room = int(sectors) * (100 - int(arguments[2])) // 100 if target == "zap" else int(sectors)
        map_to(name, more[1], room, lower)
    elif command == "remove":
        if any((blocks / name / "holders").iterdir()):
            sys.exit("device-mapper: remove ioctl failed: Device or resource busy")
        shutil.rmtree(blocks / name)
        (mapper / name).unlink()
        for holder in blocks.glob(f"*/holders/{name}"):
            holder.rmdir()


if program.name == "dmsetup":
    dmsetup(*args)
elif program.name == "dmzadm":
    dmzadm(*args)
elif program.name == "mount":
    with mountinfo.open("a") as file:
        file.write(f"50 1 253:0 / {args[-1]} rw,relatime - {args[1]} {args[-2]} rw\n")
elif program.name == "umount":
    kept = [line for line in mountinfo.read_text().splitlines() if line.split()[4] != args[0]]
    mountinfo.write_text("\n".join(kept) + "\n")
    for path in Path(args[0]).iterdir():  # a file system takes its files along
        shutil.rmtree(path) if path.is_dir() else path.unlink()
elif program.name == "modprobe":
    sys.exit(1)
elif program.name == "coldfill":
    flags = dict(zip(args[1::2], args[2::2], strict=False))
    with Path(flags["--file"]).open("wb") as file:
        file.truncate(int(flags["--bytes"]))
    sys.stdout.write(json.dumps({"bytes": int(flags["--bytes"]), "seconds": 0.1, "direct": True}))
