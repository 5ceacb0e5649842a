#!/usr/bin/env bash
# Makes a virtual environment with what the Python module and its tests need. Quick when it is there already.
# usage: scripts/python-env.sh FOLDER PACKAGE...
set -euo pipefail
folder=$1
shift
wanted="$*"
[ -f "$folder/wanted" ] && [ "$(cat "$folder/wanted")" = "$wanted" ] && exit 0
"${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "python-env: Python 3.10 or later is needed" >&2; exit 1; }
[ -x "$folder/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder"
echo "python-env: installing $wanted into $folder"
"$folder/bin/python" -m pip install -q --disable-pip-version-check "$@" ||
  { echo "python-env: pip could not install $wanted (no network?); 'make test PYTHON_TESTS=no' goes without" >&2; exit 1; }
echo "$wanted" >"$folder/wanted"
