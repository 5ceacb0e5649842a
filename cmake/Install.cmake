# cmake --install: headers, library, program and the CMake package windrow.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/windrow)

install(DIRECTORY include/windrow DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS windrow EXPORT windrow-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT windrow-targets NAMESPACE windrow:: FILE windrowTargets.cmake DESTINATION ${package_dir})

# What a consumer must find: the libraries inside a static libwindrow. A shared one has them already.
set(WINDROW_NEEDS "")
if(NOT BUILD_SHARED_LIBS)
  set(WINDROW_NEEDS Threads ZLIB fmt hwy)
  if(LIBXSMM_FOUND)
    list(APPEND WINDROW_NEEDS LIBXSMM)
  endif()
endif()
configure_package_config_file(cmake/windrowConfig.cmake.in windrowConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(windrowConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/windrowConfig.cmake ${PROJECT_BINARY_DIR}/windrowConfigVersion.cmake
              cmake/FindLIBXSMM.cmake
        DESTINATION ${package_dir})
