#!/usr/bin/env bash
# Makes a virtual environment with what the Python module and its tests need. Quick when it is there already.
# usage: scripts/python-env.sh FOLDER PACKAGE...
set -euo pipefail
folder=$1
shift
python=${PYTHON:-python3}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "python-env: Python 3.10 or later is needed, $python is $version" >&2; exit 1; }
wanted="$*, Python $version"
[ -f "$folder/wanted" ] && [ "$(cat "$folder/wanted")" = "$wanted" ] && exit 0
if [ -f "$folder/wanted" ] && [ "$(sed 's/.*Python //' "$folder/wanted")" != "$version" ]; then
  rm -rf "$folder" # one of another Python: what is compiled for it would not be for this one
fi
[ -x "$folder/bin/pip" ] || "$python" -m venv --clear "$folder" # pip comes last: without it this was interrupted
echo "python-env: installing $* into $folder"
"$folder/bin/python" -m pip install -q --disable-pip-version-check "$@" ||
  { echo "python-env: pip could not install $* (no network?); 'make test PYTHON_TESTS=no' goes without" >&2; exit 1; }
echo "$wanted" >"$folder/wanted"
