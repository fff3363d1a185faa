#!/usr/bin/env bash
# Builds the test machine in the directory $1: root.img, vmlinuz, initrd.img, ssh keys.
# Made of distribution packages only. What is already there is kept; remove the directory to
# build it anew. DUT_VM_MIRROR names another Debian mirror than debootstrap's own.
set -euo pipefail

directory=${1:?the directory to build in}
suite=bookworm
packages=systemd-sysv,udev,initramfs-tools,openssh-server,util-linux,fdisk,lvm2,dmsetup,procps
packages+=,fio,nvme-cli,smartmontools
# What the image was made of: another script, another image.
made_by=$(sha256sum "$0" | cut -c1-16)

[ "$(cat "$directory/made_by" 2>/dev/null)" != "$made_by" ] || exit 0

lacking=()
for program in debootstrap:debootstrap mke2fs:e2fsprogs ssh-keygen:openssh-client chroot:coreutils; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${program%%:*}" >/dev/null ||
        lacking+=("${program##*:}")
done
if [ ${#lacking[@]} -gt 0 ]; then
    echo "the test machine needs: apt-get install -y ${lacking[*]}" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "debootstrap needs root, once: sudo bash $0 $directory" >&2
    exit 1
fi
export PATH=$PATH:/usr/sbin:/sbin DEBIAN_FRONTEND=noninteractive LC_ALL=C

mkdir -p "$directory"
work=$(mktemp -d "$directory/build.XXXXXX")
root=$work/root
log=$directory/build.log
finish() {
    code=$?
    ! mountpoint -q "$root/proc" || umount "$root/proc"
    rm -rf --one-file-system "$work"
    [ $code -eq 0 ] || { tail -20 "$log" >&2; echo "the build failed; see $log" >&2; }
}
trap finish EXIT

echo "building the test machine in $directory: some minutes, once …"
# shellcheck disable=SC2086
debootstrap --variant=minbase --include="$packages" "$suite" "$root" ${DUT_VM_MIRROR:-} \
    >"$log" 2>&1

# A small initrd: what the root disk needs, and nothing of the drive under test.
echo "MODULES=list" >"$root/etc/initramfs-tools/conf.d/modules"
printf '%s\n' virtio_pci virtio_blk ext4 >>"$root/etc/initramfs-tools/modules"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
chroot "$root" apt-get install -y --no-install-recommends linux-image-amd64 >>"$log" 2>&1
umount "$root/proc"

echo dut >"$root/etc/hostname"
printf '%s\n' "127.0.0.1 localhost dut" >"$root/etc/hosts"
echo "/dev/vda / ext4 errors=remount-ro 0 1" >"$root/etc/fstab"
mkdir -p "$root/etc/systemd/network" "$root/root/.ssh"
cat >"$root/etc/systemd/network/eth0.network" <<NETWORK
[Match]
Name=eth0
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
LinkLocalAddressing=no
NETWORK
chroot "$root" systemctl enable systemd-networkd ssh >>"$log" 2>&1
chroot "$root" systemctl disable apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer \
    smartmontools >>"$log" 2>&1
rm -f "$root"/etc/ssh/ssh_host_* "$directory"/*_key "$directory"/*_key.pub
for key in user_key host_key; do
    ssh-keygen -q -t ed25519 -N "" -C dut_vm -f "$directory/$key"
done
cp "$directory/host_key" "$root/etc/ssh/ssh_host_ed25519_key"
cp "$directory/host_key.pub" "$root/etc/ssh/ssh_host_ed25519_key.pub"
cp "$directory/user_key.pub" "$root/root/.ssh/authorized_keys"
chmod 700 "$root/root/.ssh"
echo "UseDNS no" >"$root/etc/ssh/sshd_config.d/dut.conf"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}

cp "$root"/boot/vmlinuz-* "$directory/vmlinuz"
cp "$root"/boot/initrd.img-* "$directory/initrd.img"
rm -f "$directory/root.img"
mke2fs -q -t ext4 -d "$root" "$directory/root.img" 2G >>"$log" 2>&1
# The owner of the directory runs the machine, whoever built it.
chown --reference="$directory" "$directory"/*
echo "$made_by" >"$directory/made_by"
