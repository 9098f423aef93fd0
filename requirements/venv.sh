#!/bin/sh
# Make .venv and install the Python packages of a pinned list into it, and zonelab itself.
# usage: [PYTHON=python3.11] requirements/venv.sh LIST.txt
set -eu

python=${PYTHON:-python3}
here=$(dirname "$0")
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "zonelab: $python is older than 3.11; hint: make PYTHON=python3.11 (or newer)" >&2
  exit 2
}
"$python" -c 'import venv, ensurepip' 2>/dev/null || "$here/apt.sh" venv
[ -x .venv/bin/python ] || "$python" -m venv .venv
echo "installing $1 into .venv"
.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r "$1"
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
