"""Record tests/fixtures/trace/writes: pages of the NVMe rig's kernel, of writes to a loop device.

``python -m tests.rig.record_pages``, with the rig up.
"""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path

from harness.rig import guest

FOLDER = Path(__file__).parents[1] / "fixtures" / "trace" / "writes"
# Offsets in blocks of 4 KiB. A read, which the filter leaves out; direct and buffered writes; a
# write with a flush; a discard; write zeroes.
SCRIPT = r"""
set -e
modprobe loop
image=$(mktemp -p /var/tmp)
truncate -s 16M $image
device=$(losetup --find --show $image)
name=$(basename $device)
trace=/sys/kernel/tracing
[ -d $trace/events ] || mount -t tracefs tracefs $trace
own=$trace/instances/zonelab-fixture
[ ! -d $own ] || rmdir $own
mkdir $own
echo 1024 > $own/buffer_size_kb
echo mono > $own/trace_clock
IFS=: read major minor < /sys/block/$name/dev
event=$own/events/block/block_rq_complete
echo "nr_sector > 0 && !(rwbs ~ \"*R*\") && (dev == $((major << 20 | minor)))" > $event/filter
before=$(awk '{print $7}' /sys/block/$name/stat)
echo 1 > $event/enable
w() { dd if=/dev/urandom of=$device bs=4k conv=notrunc status=none "$@"; }
{
w count=1 seek=100 oflag=direct
dd if=$device of=/dev/null bs=4k count=4 iflag=direct status=none
w count=16 seek=200 oflag=direct
w count=64 seek=1000 conv=notrunc,fsync
w count=1 seek=300 oflag=direct,dsync
blkdiscard -o 819200 -l 65536 $device
blkdiscard -z -o 4096000 -l 262144 $device
for place in 400 402 404 406 408; do w count=1 seek=$place oflag=direct; done
sync
} 2>&1
sleep 0.5
echo 0 > $event/enable
after=$(awk '{print $7}' /sys/block/$name/stat)
out=$(mktemp -d)
echo $(((after - before) * 512)) > $out/counted
echo "$(uname -r)" > $out/kernel
cp $trace/events/header_page $trace/events/header_event $out/
cp $event/format $out/format
python3 - $own $out <<'PY'
import os, sys
from pathlib import Path
own, out = map(Path, sys.argv[1:])
for cpu in sorted((own / "per_cpu").iterdir()):
    pipe = os.open(cpu / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
    with (out / f"{cpu.name}.pages").open("wb") as file:
        try:
            while page := os.read(pipe, 1 << 20):
                file.write(page)
        except BlockingIOError:
            pass
    os.close(pipe)
    (out / f"{cpu.name}.stats").write_text((cpu / "stats").read_text())
PY
rmdir $own
losetup --detach $device
rm $image
tar -C $out -cz . | base64
"""


def main() -> None:
    """Replace the fixture."""
    done = guest.run("nvme", SCRIPT, timeout=300)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(done.stdout)), mode="r:gz") as archive:
        archive.extractall(FOLDER, filter="data")


if __name__ == "__main__":
    main()
