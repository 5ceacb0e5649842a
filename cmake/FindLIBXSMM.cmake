# Finds LIBXSMM with its stand-in for BLAS: target LIBXSMM::libxsmm. Installed with the package, because consumers of the
# static libwindrow link it too. libxsmm.a needs symbols of libxsmmnoblas.a, so that order matters; libxsmmnoblas.pc of
# version 1.17 has it the wrong way round, which is why pkg-config is not asked.
find_path(LIBXSMM_INCLUDE_DIR libxsmm.h)
find_library(LIBXSMM_LIBRARY xsmm)
find_library(LIBXSMM_NOBLAS_LIBRARY xsmmnoblas)
mark_as_advanced(LIBXSMM_INCLUDE_DIR LIBXSMM_LIBRARY LIBXSMM_NOBLAS_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LIBXSMM
  REQUIRED_VARS LIBXSMM_LIBRARY LIBXSMM_NOBLAS_LIBRARY LIBXSMM_INCLUDE_DIR)

if(LIBXSMM_FOUND AND NOT TARGET LIBXSMM::libxsmm)
  find_package(Threads REQUIRED)
  add_library(LIBXSMM::libxsmm UNKNOWN IMPORTED)
  set_target_properties(LIBXSMM::libxsmm PROPERTIES
    IMPORTED_LOCATION "${LIBXSMM_LIBRARY}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LIBXSMM_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${LIBXSMM_NOBLAS_LIBRARY};Threads::Threads;${CMAKE_DL_LIBS};m")
endif()
