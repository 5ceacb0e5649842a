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
  # The weakest machine is SSE4.2; AVX2 and AVX-512 are chosen at run time (cmake/Targets.cmake).
  target_compile_options(windrow_flags INTERFACE -msse4.2 -maes -mpclmul)
endif()

# Debug builds verify the graph after each pass.
target_compile_definitions(windrow_flags INTERFACE $<$<CONFIG:Debug>:WINDROW_VERIFY=1>)

if(WINDROW_SANITIZE)
  target_compile_options(windrow_flags INTERFACE -fsanitize=${WINDROW_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(windrow_flags INTERFACE -fsanitize=${WINDROW_SANITIZE})
  target_compile_definitions(windrow_flags INTERFACE WINDROW_SANITIZE=1)
endif()
