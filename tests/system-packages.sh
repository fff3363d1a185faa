#!/usr/bin/env bash
# Makes sure that the system's programs are there: fio with its NBD engine, and setpriv.
# Installs them where that is allowed, and otherwise says exactly what to install.
set -euo pipefail

missing() {
    command -v fio >/dev/null && command -v setpriv >/dev/null && fio --enghelp=nbd >/dev/null 2>&1
    [ $? -ne 0 ]
}

missing || exit 0
if command -v apt-get >/dev/null; then
    update="apt-get update -qq"
    install="apt-get install -y -qq fio util-linux"
elif command -v dnf >/dev/null; then
    update="true"
    install="dnf install -y -q fio fio-engine-libaio fio-engine-nbd util-linux"
else
    echo "labctl needs fio (3.13 or newer, with its nbd engine) and setpriv (util-linux):" >&2
    echo "install them with this system's package manager, then call make again" >&2
    exit 1
fi
if [ -z "${MAY_INSTALL:-}" ]; then
    echo "labctl needs fio and setpriv, and may not install them here. Please run:" >&2
    echo "    sudo ${install/ -qq/}" >&2
    exit 1
fi
echo "installing fio …"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
${SUDO:-} $update >/dev/null && ${SUDO:-} $install >/dev/null
if missing; then
    echo "fio is installed now, but without its nbd engine, which the simulated rig needs" >&2
    exit 1
fi
