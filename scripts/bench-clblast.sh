#!/bin/bash
# Our product beside CLBlast's on the same OpenCL device. Usage: scripts/bench-clblast.sh [BUILD_FOLDER [PLATFORM]]
set -euo pipefail
here=$(dirname "$0")
build=${1:-build}
platform=${2:-Portable}
"$here"/install-deps.sh libclblast-dev ocl-icd-opencl-dev pocl-opencl-icd
yardstick=$(mktemp)
trap 'rm -f "$yardstick"' EXIT
c++ -O2 -std=c++17 -w -o "$yardstick" "$here"/../bench/peers/clblast.cpp -lclblast -lOpenCL
"$build"/windrow bench matmul1000_f32 --device "opencl:$platform" --seconds 2
"$yardstick" 1000 "$platform"
