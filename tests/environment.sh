#!/usr/bin/env bash
# Makes the Python environment $VENV with labctl, its tests and its checkers in it.
set -euo pipefail

python=""
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "labctl needs Python 3.11 or newer; none was found on PATH" >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if command -v apt-get >/dev/null && [ -n "${MAY_INSTALL:-}" ]; then
        echo "installing python$version-venv …"
        ${SUDO:-} apt-get update -qq >/dev/null
        ${SUDO:-} apt-get install -y -qq "python$version-venv" >/dev/null
    else
        echo "this Python has no venv. Please run: sudo apt install python$version-venv" >&2
        exit 1
    fi
fi

echo "making the Python environment ($VENV) …"
[ -x "$VENV/bin/python" ] || "$python" -m venv "$VENV"
pip() {
    "$VENV/bin/python" -m pip --disable-pip-version-check -q "$@" >"$VENV/pip.log" 2>&1 ||
        { cat "$VENV/pip.log" >&2; exit 1; }
}
if [ -n "${PINNED:-}" ]; then
    pip install --require-hashes -r constraints.txt
    pip install --no-build-isolation --no-deps -e .
else
    pip install 'pip>=25.1' # the first that knows dependency groups
    pip install -e '.[influx,mqtt,notify,parquet,query,store,dashboards]' --group test --group check
    # compiled parts, which not every Python has ready: without them their tests are skipped
    "$VENV/bin/python" -m pip --disable-pip-version-check -q install -e '.[jls,joulescope]' \
        --only-binary pyjls,pyjoulescope-driver >>"$VENV/pip.log" 2>&1 ||
        echo "without the extras jls and joulescope, which this Python cannot have ready-made"
fi
