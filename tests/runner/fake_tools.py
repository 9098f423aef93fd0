#!/usr/bin/env python3
"""Synthetic dmsetup, mkfs, mount, umount, sync, modprobe and coldfill of the fake machine.

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
blocks, mapper = root / "sys/class/block", root / "dev/mapper"

with (root / "tools.log").open("a") as log:
    log.write(f"{program.name} {' '.join(args)}\n")


def dmsetup(command: str, name: str = "", *more: str) -> None:
    if command == "targets":
        sys.stdout.write((root / "targets").read_text())
    elif command == "ls":
        names = sorted(node.name for node in mapper.glob("*"))
        sys.stdout.write("".join(f"{n}\t(253:0)\n" for n in names) or "No devices found\n")
    elif command == "status":
        sys.stdout.write("0 8 zap \n")
    elif command == "create":
        _, sectors, target, *arguments = more[1].split()
        lower = next(Path(word).name for word in arguments if word.startswith("/"))
        room = int(sectors) * (100 - int(arguments[2])) // 100 if target == "zap" else int(sectors)
        (blocks / name / "dm").mkdir(parents=True)
        (blocks / name / "dm/name").write_text(name)
        (blocks / name / "size").write_text(f"{room}\n")
        (blocks / name / "holders").mkdir()
        (blocks / lower / "holders" / name).mkdir()
        mapper.mkdir(exist_ok=True)
        (mapper / name).touch()
    elif command == "remove":
        if any((blocks / name / "holders").iterdir()):
            sys.exit("device-mapper: remove ioctl failed: Device or resource busy")
        shutil.rmtree(blocks / name)
        (mapper / name).unlink()
        for holder in blocks.glob(f"*/holders/{name}"):
            holder.rmdir()


if program.name == "dmsetup":
    dmsetup(*args)
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
