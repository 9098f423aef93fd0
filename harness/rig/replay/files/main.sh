#!/bin/sh
# The guest of a replay after init.sh: serve the drives, execute one run, write its files to pmem0.
# systemd is left out: the order in which it starts units is its own.
set -u
cd /replay || exit
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
exec < /dev/null > /dev/console 2>&1
trap 'busybox poweroff -f' EXIT

mount -t tmpfs -o mode=755 run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm /run/out
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
busybox ip link set lo up
busybox hostname zonelab-rig

sh prepare.sh || exit
modprobe --quiet mq-deadline
while read -r unit options; do
  # shellcheck disable=SC2086 # a list of words
  /usr/local/lib/zonelab/native/bin/zoneblk serve --model "$unit.json" $options > "/run/$unit" &
  for _ in $(seq 600); do grep -q device "/run/$unit" && break; sleep 0.1; done
done < drives

sh run.sh > /run/out/runner.txt
for socket in /run/zoneblk/*; do
  python3 report.py "${socket##*/}" > "/run/out/${socket##*/}.json"
done
cp -a /var/lib/zonelab/campaigns/*/runs/. /run/out
cat /proc/uptime /proc/interrupts /proc/vmstat > /run/out/kernel.txt
tar -C /run/out --sort=name -cf /dev/pmem0 . && sync
