# Which SIMD targets kernels are compiled for: windrow_simd_targets(NAME) tells the sources of a target. Highway compiles each
# kernel once a target, so that a build for one takes about a third of a kernel's time.
set(WINDROW_TARGETS all CACHE STRING
    "all: SSE4, AVX2 and AVX-512, chosen at run time. native: only the best one of this machine, which builds faster")
set_property(CACHE WINDROW_TARGETS PROPERTY STRINGS all native)

# The best target of this machine, or nothing where that cannot be told.
function(windrow_native_target result)
  set(${result} "" PARENT_SCOPE)
  if(CMAKE_CROSSCOMPILING OR NOT EXISTS /proc/cpuinfo)
    return()
  endif()
  file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
  separate_arguments(flags)
  set(HWY_AVX2 avx2 fma bmi1 bmi2 f16c aes pclmulqdq)
  set(HWY_AVX3 ${HWY_AVX2} avx512f avx512vl avx512dq avx512bw avx512cd)
  foreach(target HWY_AVX3 HWY_AVX2)
    set(missing ${${target}})
    list(REMOVE_ITEM missing ${flags})
    if(NOT missing)
      set(${result} ${target} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

function(windrow_simd_targets name)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    # Highway takes SSE4 as its baseline only if AES and CLMUL are there too (Flags.cmake). Its targets are then exactly SSE4,
    # AVX2 and AVX3: those that src/backend/cpu/target.h names.
    set(disabled HWY_SSSE3 HWY_AVX3_DL)
    if(WINDROW_SANITIZE)
      # One target is enough to find a wrong address or a race, and kernels are most of a sanitized build's time. Reads past
      # a row's end on every target are found by the release tests, whose rows end at a page that cannot be read.
      list(APPEND disabled HWY_AVX2 HWY_AVX3)
    elseif(WINDROW_TARGETS STREQUAL native)
      windrow_native_target(native)
      if(native)
        # Kernels alone are compiled for it, function by function, all else as ever: on a lesser machine the program says so.
        list(APPEND disabled HWY_SSE4 HWY_AVX2 HWY_AVX3)
        list(REMOVE_ITEM disabled ${native})
        target_compile_definitions(${name} PRIVATE HWY_BASELINE_TARGETS=${native})
        message(STATUS "Windrow: kernels for this machine only (${native}); WINDROW_TARGETS=all for any")
      endif()
    elseif(NOT WINDROW_TARGETS STREQUAL all)
      message(FATAL_ERROR "WINDROW_TARGETS is '${WINDROW_TARGETS}'; expected all or native")
    endif()
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    # NEON alone, which every AArch64 processor has. The four SVE targets have vectors without a size, which do not fit our
    # kernels. Where nothing is chosen at run time (which is what the definition tells Highway), its functions are compiled as
    # all others are; else they would be for processors with AES, which a Raspberry Pi 4 lacks.
    set(disabled HWY_SVE HWY_SVE2 HWY_SVE_256 HWY_SVE2_128)
    target_compile_definitions(${name} PRIVATE TOOLCHAIN_MISS_SYS_AUXV_H)
  endif()
  if(disabled)
    list(JOIN disabled "|" disabled)
    target_compile_definitions(${name} PRIVATE "HWY_DISABLED_TARGETS=(${disabled})")
  endif()
endfunction()
