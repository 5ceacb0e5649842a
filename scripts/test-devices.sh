#!/bin/bash
# Runs the tests of devices where they need something installed: OpenCL on PoCL, OpenCL on oclgrind (which looks at every
# access), device code for real GPUs through nvcc. Usage: scripts/test-devices.sh BUILD_FOLDER [pocl|oclgrind|nvcc]...
set -euo pipefail
build=$1
shift
parts=${*:-pocl oclgrind nvcc}
tests=$build/tests/windrow_device_tests
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export POCL_CACHE_DIR=$cache/pocl WINDROW_CACHE_DIR=$cache/windrow

on_pocl() {
  echo "== PoCL"
  export WINDROW_TEST_DEVICE=opencl:portable
  for test in WithoutOneThereIsAReason OneThatCrashesStaysInTheChild; do  # the loader reads its list once in a process
    "$tests" --gtest_filter="OpenClVendors.$test" --gtest_brief=1
  done
  "$tests" --gtest_filter='*OpenCl*-OpenClVendors*' --gtest_brief=1
}

# Without the compiler's optimisations: it makes instructions that the simulator does not know (llvm.abs, freeze). A
# process a test: the simulator takes memory that was freed and is used again for uninitialised.
on_oclgrind() {
  local simulator=/usr/lib/oclgrind/liboclgrind-rt.so
  if [ ! -e "$simulator" ]; then
    echo "oclgrind is not installed: memory accesses and races were not checked"
    return
  fi
  echo "== oclgrind: every op and small steps, on a device of 16 KB local memory and groups of at most 64"
  export WINDROW_OPENCL_LIBRARY=$simulator OCLGRIND_BUILD_OPTIONS=-cl-opt-disable OCLGRIND_LOG=$cache/log \
    OCLGRIND_DATA_RACES=1 OCLGRIND_UNINITIALIZED=1 OCLGRIND_CHECK_API=1 OCLGRIND_LOCAL_MEM_SIZE=16384 \
    OCLGRIND_MAX_WGSIZE=64 WINDROW_TEST_DEVICE=opencl:0 WINDROW_MACHINE=zen3  # how fast it is says nothing
  local of='*OpenClOps*:OpenClSmallSteps*:OpenClFailures.Code*:OpenClSteps.StatesGo*'
  for items in 1 4; do
    export WINDROW_TEST_ITEMS=$items WINDROW_CACHE_DIR=$cache/oclgrind-$items
    "$tests" --gtest_filter="$of" --gtest_list_tests |
      awk '/^[^ ]/ { suite = $1; next } { print suite $1 }' |
      while read -r test; do
        rm -f "$cache/log"
        "$tests" --gtest_filter="$test" --gtest_brief=1 >"$cache/said" 2>&1 || { cat "$cache/said"; exit 1; }
        if [ -s "$cache/log" ]; then
          echo "$test, groups of $items:"
          head -40 "$cache/log"
          exit 1
        fi
      done
    echo "groups of $items: nothing found"
  done
  unset WINDROW_OPENCL_LIBRARY WINDROW_MACHINE
}

on_nvcc() {
  if ! command -v nvcc >/dev/null; then
    echo "nvcc is not installed: device code was not compiled for GPUs"
    return
  fi
  echo "== nvcc"
  WINDROW_TEST_NVCC=1 "$tests" --gtest_filter='*Nvcc*' --gtest_brief=1
}

for part in $parts; do
  "on_$part"
done
