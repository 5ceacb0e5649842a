#!/bin/bash
# Runs the tests of devices where they need something installed: OpenCL on PoCL, OpenCL on oclgrind (which looks at every
# access), device code for real GPUs through nvcc. Usage: scripts/test-devices.sh BUILD_FOLDER
set -euo pipefail
build=$1
tests=$build/tests/windrow_device_tests
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export POCL_CACHE_DIR=$cache/pocl WINDROW_CACHE_DIR=$cache/windrow

echo "== PoCL"
WINDROW_TEST_DEVICE=opencl:portable "$tests" --gtest_filter='*OpenCl*' --gtest_brief=1

# Its check of uninitialised values does not know an instruction that its compiler makes (freeze): races and the API only.
simulator=/usr/lib/oclgrind/liboclgrind-rt.so
if [ -e "$simulator" ]; then
  echo "== oclgrind: every op, groups of one item and of four; a device of 16 KB local memory"
  for items in 1 4; do
    WINDROW_OPENCL_LIBRARY=$simulator OCLGRIND_LOG=$cache/log-$items OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 \
      OCLGRIND_LOCAL_MEM_SIZE=16384 OCLGRIND_MAX_WGSIZE=64 WINDROW_TEST_DEVICE=opencl:0 WINDROW_TEST_ITEMS=$items \
      "$tests" --gtest_filter='*OpenClOps*:OpenClSteps.StatesGo*' --gtest_brief=1
    if [ -s "$cache/log-$items" ]; then
      cat "$cache/log-$items"
      exit 1
    fi
  done
else
  echo "oclgrind is not installed: memory accesses and races were not checked"
fi

if command -v nvcc >/dev/null; then
  echo "== nvcc"
  WINDROW_TEST_NVCC=1 "$tests" --gtest_filter='*Nvcc*' --gtest_brief=1
else
  echo "nvcc is not installed: device code was not compiled for GPUs"
fi
