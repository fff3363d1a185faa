#!/usr/bin/env bash
# Makes sure that the system's programs are there: fio with its NBD engine, and setpriv; with the
# argument "tests" also the servers and tools that some tests want to meet in person.
# Installs them where that is allowed, and otherwise says exactly what to install. What is missing
# of the first is an error; without the others their tests are skipped.
set -euo pipefail

has() { command -v "$1" >/dev/null; }
PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin # where Debian has its servers, and a user's PATH ends before

fio_works() { has fio && has setpriv && fio --enghelp=nbd >/dev/null 2>&1; }
faketime_is_here() { compgen -G "/usr/lib*/faketime/libfaketime.so.1" >/dev/null ||
    compgen -G "/usr/lib/*/faketime/libfaketime.so.1" >/dev/null; }
influxd_is_here() { [ -n "${INFLUXD:-}${INFLUXD1:-}" ] || has influxd || has influxd1 || has influxd2; }

if has apt-get; then
    update="apt-get update -qq"
    install="apt-get install -y -qq"
    bare="--no-install-recommends"
    programs="fio util-linux"
    sshd=openssh-server faketime=faketime dmsetup=dmsetup cc="gcc libc6-dev" slurm=slurm-wlm
elif has dnf; then
    update=true
    install="dnf install -y -q"
    programs="fio fio-engine-libaio fio-engine-nbd util-linux"
    bare="--setopt=install_weak_deps=False"
    sshd=openssh-server faketime=libfaketime dmsetup=device-mapper cc="gcc glibc-devel"
    slurm="slurm slurm-slurmctld slurm-slurmd"
else
    update="" install="" bare="" programs="fio util-linux"
    sshd=openssh-server faketime=libfaketime dmsetup=dmsetup cc=gcc slurm=slurm
fi

wanted=""
fio_works || wanted=$programs
servers=""
if [ "${1:-}" = tests ]; then
    for pair in mosquitto:mosquitto "sshd:$sshd" sigrok-cli:sigrok-cli "cc:$cc" openssl:openssl \
        mkfs.ext4:e2fsprogs mkfs.btrfs:btrfs-progs busybox:busybox fish:fish "dmsetup:$dmsetup" \
        "slurmctld:$slurm"; do
        has "${pair%%:*}" || servers+=" ${pair##*:}"
    done
    faketime_is_here || servers+=" $faketime"
    influxd_is_here || servers+=" influxdb"
fi
# An S3 server is packaged nowhere; where Go is installed it is built into the user's own folder.
s3_server=github.com/versity/versitygw/cmd/versitygw@v1.8.0
if [ "${1:-}" = tests ] && [ -z "${VERSITYGW:-}" ] && ! has versitygw && [ ! -x ~/go/bin/versitygw ]; then
    if has go && echo "building versitygw, an S3 server (some minutes, once) …" &&
        GOBIN=~/go/bin go install "$s3_server" >/dev/null 2>&1; then
        :
    else
        echo "left out, for want of Go or its modules: an S3 server; its tests are skipped" >&2
        echo "to have them run:  GOBIN=~/go/bin go install $s3_server" >&2
    fi
fi
[ -n "$wanted$servers" ] || exit 0

if [ -z "$install" ] || [ -z "${MAY_INSTALL:-}" ]; then
    say="sudo ${install/ -qq/}"
    [ -n "$install" ] || say="with this system's package manager, install:"
    if [ -n "$servers" ]; then
        echo "left out, because it may not be installed here:$servers" >&2
        echo "their tests are skipped; to have them run:  $say$servers" >&2
    fi
    [ -n "$wanted" ] || exit 0
    echo "labctl needs fio (3.13 or newer, with its nbd engine) and setpriv. Please run:" >&2
    echo "    $say $wanted" >&2
    exit 1
fi

# A server that is installed for tests is not started, now or at the next boot: Debian asks
# policy-rc.d before it starts one.
policy=/usr/sbin/policy-rc.d
export DEBIAN_FRONTEND=noninteractive
as_root() { ${SUDO:-} "$@"; }
allow_starts() { [ -z "${made_policy:-}" ] || as_root rm -f "$policy"; }
forbid_starts() {
    [ -n "$servers" ] && has apt-get && [ ! -e "$policy" ] || return 0
    made_policy=yes
    trap allow_starts EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
}

echo "installing${wanted:+ $wanted}$servers …"
as_root $update >/dev/null || [ -z "$wanted" ]
# shellcheck disable=SC2086
[ -z "$wanted" ] || as_root $install $wanted >/dev/null
forbid_starts
missing=""
for package in $servers; do
    # shellcheck disable=SC2086
    as_root $install $bare "$package" >/dev/null 2>&1 || missing+=" $package"
done
if [ -n "$servers" ] && has systemctl; then
    for pair in mosquitto.service:mosquitto ssh.service:ssh ssh.socket:ssh influxdb.service:influxdb \
        slurmctld.service:slurm slurmd.service:slurm munge.service:slurm; do
        case "$servers" in
        *"${pair#*:}"*) as_root systemctl disable --quiet "${pair%%:*}" 2>/dev/null || true ;;
        esac
    done
fi
[ -z "$missing" ] || echo "this system has no package$missing: their tests are skipped" >&2
if [ -n "$wanted" ] && ! fio_works; then
    echo "fio is installed now, but without its nbd engine, which the simulated rig needs" >&2
    exit 1
fi
