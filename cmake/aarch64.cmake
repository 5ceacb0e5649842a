# Toolchain: Debian's cross compiler for AArch64 with its arm64 packages (scripts/install-deps.sh --arm). What it builds
# runs under qemu-user, as a Cortex-A72 (a Raspberry Pi 4's: no AES, no dot products, no SVE), so that a test that passes
# needs no more than that.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu cortex-a72)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)  # else packages of this machine itself would be found first
