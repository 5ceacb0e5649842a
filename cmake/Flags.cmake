# Compiler flags of everything in this tree, as one interface target. Nothing here reaches a consumer of the package.
add_library(windrow_flags INTERFACE)
target_compile_features(windrow_flags INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # a static libwindrow can then go into somebody's shared library or Python module
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
string(REGEX REPLACE "-O[0-9]" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

target_compile_options(windrow_flags INTERFACE -Wall -Wextra -Wpedantic
                       $<$<CXX_COMPILER_ID:GNU>:-Wshadow=compatible-local> -Wnon-virtual-dtor -Woverloaded-virtual
                       -Wcast-qual -Wvla -Wundef)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's -Warray-bounds and -Wmaybe-uninitialized misfire in inlined intrinsics and std::string at -O3.
  target_compile_options(windrow_flags INTERFACE -Wduplicated-cond -Wlogical-op -Wno-maybe-uninitialized
                         -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
endif()
if(WINDROW_WERROR)
  target_compile_options(windrow_flags INTERFACE -Werror)
endif()

# The compiler fuses no multiply-add of its own accord: a result depends on what the source says, not on the flags.
# Kernels that want fused multiply-add ask for it by name (hwy::MulAdd).
target_compile_options(windrow_flags INTERFACE -ffp-contract=off)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # The weakest machine is SSE4.2; AVX2 and AVX-512 are chosen at run time. Highway takes SSE4 as its baseline only if
  # AES and CLMUL are there too. Its targets are then exactly SSE4, AVX2 and AVX3: those that src/backend/cpu/target.h names.
  target_compile_options(windrow_flags INTERFACE -msse4.2 -maes -mpclmul)
  set(disabled_targets HWY_SSSE3 HWY_AVX3_DL)
  if(WINDROW_SANITIZE)
    # One target is enough to find a wrong address or a race, and kernels are most of a sanitized build's time. Reads past
    # a row's end on every target are found by the release tests, whose rows end at a page that cannot be read.
    list(APPEND disabled_targets HWY_AVX2 HWY_AVX3)
  endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # NEON alone, which every AArch64 processor has. The four SVE targets have vectors without a size, which do not fit our
  # kernels. Where nothing is chosen at run time (which is what the definition tells Highway), its functions are compiled as
  # all others are; else they would be for processors with AES, which a Raspberry Pi 4 lacks.
  set(disabled_targets HWY_SVE HWY_SVE2 HWY_SVE_256 HWY_SVE2_128)
  target_compile_definitions(windrow_flags INTERFACE TOOLCHAIN_MISS_SYS_AUXV_H)
endif()
if(disabled_targets)
  list(JOIN disabled_targets "|" disabled_targets)
  target_compile_definitions(windrow_flags INTERFACE "HWY_DISABLED_TARGETS=(${disabled_targets})")
endif()

# Debug builds verify the graph after each pass.
target_compile_definitions(windrow_flags INTERFACE $<$<CONFIG:Debug>:WINDROW_VERIFY=1>)

if(WINDROW_SANITIZE)
  target_compile_options(windrow_flags INTERFACE -fsanitize=${WINDROW_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(windrow_flags INTERFACE -fsanitize=${WINDROW_SANITIZE})
  target_compile_definitions(windrow_flags INTERFACE WINDROW_SANITIZE=1)
endif()
