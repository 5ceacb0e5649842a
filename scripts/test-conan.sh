#!/usr/bin/env bash
# Makes the Conan package of this checkout and builds tests/consumer with it, in a Conan home of its own and without any
# remote: what Windrow needs comes from the system.
# usage: scripts/test-conan.sh CONAN FOLDER [OPTION...]     (CONAN: the program; FOLDER: for its home and what it builds)
set -euo pipefail
conan=$(realpath "$1") folder=$2
shift 2
mkdir -p "$folder"
cd "$(dirname "$0")/.."
export CONAN_HOME
CONAN_HOME=$(realpath "$folder")/home
[ -e "$CONAN_HOME/profiles/default" ] || "$conan" profile detect
"$conan" create . --no-remote --build=missing -s build_type=Release -s compiler.cppstd=20 \
  -c tools.build:jobs="${JOBS:-$(nproc)}" -c tools.cmake.cmake_layout:test_folder="$(realpath "$folder")/consumer" "$@"
