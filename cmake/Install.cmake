# cmake --install: headers, library, program, the CMake package windrow and its pkg-config file. cpack -G DEB: a package.
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

# pkg-config --static names what a static libwindrow needs; a shared one has it already.
set(WINDROW_PC_PRIVATE "")
if(NOT BUILD_SHARED_LIBS)
  set(WINDROW_PC_PRIVATE "-lz -lfmt -lhwy -lpthread -lstdc++ -lm")
  if(LIBXSMM_FOUND)
    string(PREPEND WINDROW_PC_PRIVATE "-lxsmm -lxsmmnoblas -ldl ")
  endif()
endif()
# Where it stands says where the rest is: `cmake --install --prefix` may name another folder than the one configured for.
file(RELATIVE_PATH WINDROW_PC_UP "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/windrow.pc.in windrow.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/windrow.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_PACKAGE_VENDOR "Windrow")
  set(CPACK_PACKAGE_CONTACT "The Windrow developers")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  include(CPack)
endif()
