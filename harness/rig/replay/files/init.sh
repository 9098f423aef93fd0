#!/bin/busybox sh
# shellcheck shell=dash
# The first program of a replay (rdinit=): the image as a root file system in memory (pmem).
export PATH=/bin
alias b=/bin/busybox
b mount -t devtmpfs dev /dev
/replay/busy & # as early as possible
b mount -t proc proc /proc
b mount -t sysfs sys /sys
while read -r module; do b insmod "/modules/$module"; done < /list
# The kernel names the last memory device first: pmem0 takes the results.
until [ -b /dev/pmem0 ] && [ -b /dev/pmem1 ]; do b sleep 0.1; done
b mount -t ext4 -o rw,noatime /dev/pmem1 /root || b poweroff -f
b cp -a /replay/root/. /root
for dir in dev proc sys; do
  b mount --move "/$dir" "/root/$dir"
done
exec /bin/busybox switch_root /root /bin/sh /replay/main.sh
