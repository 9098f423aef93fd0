#!/bin/sh
# Runs once inside the guest's file tree, while harness/rig/image.py builds the image.
# Leaves /boot/zonelab/{vmlinuz,initrd,packages.txt,host_key.pub} for the host to copy out.
set -eu

out=/boot/zonelab
kernel=$(find /lib/modules -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -V | tail -n 1)
mkdir -p "$out"

# -- native programs: compiled here, at the host's speed, with the guest's own libraries ------------
if [ -f /usr/src/zonelab/native/CMakeLists.txt ]; then
  # shellcheck disable=SC2086 # a list of package names
  apt-get install --yes --no-install-recommends $BUILD_PACKAGES
  # g++ 12 falsely warns of overlapping copies in std::string (GCC bug 105651).
  cmake -S /usr/src/zonelab/native -B /usr/src/zonelab/build \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON -DCMAKE_CXX_FLAGS=-Wno-error=restrict \
    -DCMAKE_INSTALL_PREFIX=/usr/local/lib/zonelab/native
  # The installed programs, and the tests that need zones of a kernel or a machine that can be
  # reset.
  cmake --build /usr/src/zonelab/build --parallel 2 \
    --target coldfill kvmix zlfs zlfs_tool zoneprobe zoneblk zonemodel zlfs_zoned_test zlfs-torture
  cmake --install /usr/src/zonelab/build
  install -D -t /usr/local/lib/zonelab/native/test \
    /usr/src/zonelab/build/zlfs/zlfs_zoned_test /usr/src/zonelab/build/zlfs/crash/zlfs-torture
  printf '%s\n' "$SOURCE_HASH" > /usr/local/lib/zonelab/native/SOURCE_HASH
  # Keep the libraries of the programs when the development packages are purged.
  find /usr/local/lib/zonelab/native -type f -exec ldd {} + 2> /dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    while read -r library; do readlink -f "$library"; done |
    xargs -r dpkg -S 2> /dev/null | cut -d: -f1 | sort -u | xargs -r apt-mark manual
  # shellcheck disable=SC2086
  apt-get purge --yes --auto-remove $BUILD_PACKAGES
fi
rm -rf /usr/src/zonelab

# -- start-up: every unit costs seconds under emulation, so units without a use are masked ----------
for unit in \
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
  fstrim.timer man-db.timer logrotate.timer systemd-tmpfiles-clean.timer xfs_scrub_all.timer \
  getty@tty1.service serial-getty@ttyS0.service systemd-logind.service systemd-user-sessions.service \
  systemd-journal-catalog-update.service systemd-hwdb-update.service systemd-update-done.service \
  systemd-sysusers.service systemd-firstboot.service systemd-machine-id-commit.service \
  systemd-random-seed.service systemd-pstore.service systemd-update-utmp.service \
  systemd-update-utmp-runlevel.service systemd-binfmt.service systemd-timesyncd.service \
  systemd-networkd.service systemd-networkd.socket systemd-network-generator.service \
  systemd-journal-flush.service systemd-boot-random-seed.service systemd-tpm2-setup.service \
  systemd-tpm2-setup-early.service systemd-pcrmachine.service systemd-pcrphase.service \
  systemd-pcrphase-sysinit.service systemd-hibernate-clear.service ldconfig.service \
  modprobe@drm.service modprobe@efi_pstore.service modprobe@fuse.service modprobe@configfs.service \
  console-getty.service nvmf-autoconnect.service nvmefc-boot-connections.service smartd.service \
  lvm2-monitor.service blk-availability.service mdmonitor.service ssh.socket sshd-keygen.service \
  systemd-ask-password-console.path systemd-ask-password-wall.path systemd-creds.socket \
  systemd-hostnamed.socket systemd-sysext.socket systemd-initctl.socket systemd-pcrextend.socket \
  systemd-pcrlock.socket systemd-udev-load-credentials.service uuidd.socket dracut-shutdown.service \
  kmod-static-nodes.service getty-static.service proc-sys-fs-binfmt_misc.automount tmp.mount \
  dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-fs-fuse-connections.mount; do
  ln -sf /dev/null "/etc/systemd/system/$unit"
done
systemctl enable --quiet ssh.service

# Generators look for consoles, partitions, encrypted disks and TPMs, which the rig does not have.
mkdir -p /etc/systemd/system-generators
for generator in /usr/lib/systemd/system-generators/*; do
  case $generator in
    */systemd-fstab-generator) ;;
    *) ln -sf /dev/null "/etc/systemd/system-generators/${generator##*/}" ;;
  esac
done

: > /etc/fstab # the initrd mounts the root disk
echo zonelab-rig > /etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 zonelab-rig\n' > /etc/hosts
# Drivers without a use on a rig. udev would load them one by one and delay the drive.
for module in ahci ccp evdev i2c_i801 iTCO_wdt kvm kvm_amd kvm_intel lpc_ich pcspkr powernow_k8 \
  psmouse serio_raw button; do
  echo "install $module /bin/false"
done > /etc/modprobe.d/zonelab.conf
ldconfig

# -- initrd: busybox and a list of modules, no udev; the network is up before the system starts -----
tree=$(mktemp -d)
mkdir -p "$tree/bin" "$tree/dev" "$tree/proc" "$tree/sys" "$tree/root" "$tree/modules"
cp /bin/busybox "$tree/bin/"
install -m 755 /usr/share/zonelab/init /usr/share/zonelab/lease "$tree/"
for module in virtio_pci virtio_blk virtio_net qemu_fw_cfg ext4 nvme nfit nd_pmem; do
  modprobe --set-version "$kernel" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r path; do
  name=$(basename "$path")
  case $name in
    *.xz) name=${name%.xz} && busybox xzcat "$path" > "$tree/modules/$name" ;;
    *.zst) name=${name%.zst} && zstd -qdc "$path" > "$tree/modules/$name" ;;
    *) cp "$path" "$tree/modules/$name" ;;
  esac
  echo "$name"
done > "$tree/modules/list"
mv "$tree/modules/list" "$tree/list"
(cd "$tree" && find . | busybox cpio -o -H newc > "$out/initrd")
rm -rf "$tree" /usr/share/zonelab

cp "/boot/vmlinuz-$kernel" "$out/vmlinuz"
dpkg-query -W -f '${Package} ${Version}\n' > "$out/packages.txt"
cp /etc/ssh/ssh_host_ed25519_key.pub "$out/host_key.pub"
rm -f /boot/initrd.img-* # the initrd above replaces it
