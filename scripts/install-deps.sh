#!/usr/bin/env bash
# Installs what Windrow needs and this machine lacks, with apt, by package name. Quick when nothing is missing.
# usage: scripts/install-deps.sh [PACKAGE...]   (without arguments: all that building, testing and training need)
#        scripts/install-deps.sh --arm          (what `make test-arm` needs to build for AArch64 and to run it here)
set -euo pipefail

packages=("$@")
foreign=
if [ "${1:-}" = --arm ]; then
  foreign=arm64
  packages=(
    cmake ninja-build g++-aarch64-linux-gnu qemu-user
    libcli11-dev nlohmann-json3-dev dataset-fashion-mnist
    libc6:arm64 libstdc++6:arm64 libhwy-dev:arm64 libfmt-dev:arm64 zlib1g-dev:arm64 libgtest-dev:arm64
  )
fi
if [ ${#packages[@]} -eq 0 ]; then
  packages=(
    build-essential cmake ninja-build
    libhwy-dev libfmt-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
    libgtest-dev iverilog python3
    dataset-fashion-mnist
  )
  case "$(uname -m)" in x86_64 | amd64) packages+=(libxsmm-dev) ;; esac  # LIBXSMM is x86 only; elsewhere our own kernels serve
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install-deps: this is no Debian or Ubuntu; please install what these packages hold: ${packages[*]}" >&2
  exit 0  # they may be there under other names; CMake says precisely what it misses
fi

# Of this machine's packages the bare name, of another architecture's name:architecture.
native=$(dpkg --print-architecture)
installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}:${Architecture}\n' | sed -E "/^ii/!d; s/^ii *//; s/:(all|$native)\$//")
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root=(sudo)
  else
    echo "install-deps: missing: ${missing[*]}" >&2
    echo "install-deps: run as root, or have somebody run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi

if [ -n "$foreign" ] && ! dpkg --print-foreign-architectures | grep -qx "$foreign"; then
  "${as_root[@]}" dpkg --add-architecture "$foreign"
  "${as_root[@]}" apt-get update -q
fi
echo "install-deps: installing ${missing[*]}"
install=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "${missing[@]}")
# The package lists are often fresh enough: fetch them only if the first try fails.
"${as_root[@]}" "${install[@]}" || { "${as_root[@]}" apt-get update -q && "${as_root[@]}" "${install[@]}"; }
