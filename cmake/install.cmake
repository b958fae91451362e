# `make install`: the program, the static library, its headers and a CMake package:
#   find_package(microscale REQUIRED)  target_link_libraries(app microscale::microscale)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/microscale)

if(TARGET microscale_cli)
  install(TARGETS microscale_cli)
endif()
install(TARGETS microscale EXPORT microscale_targets)
install(DIRECTORY include/microscale DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT microscale_targets NAMESPACE microscale:: DESTINATION ${package_folder}
        FILE microscale-targets.cmake)
if(MICROSCALE_HAS_CUDA)
  get_filename_component(cudart_folder ${CUDART_STATIC_LIBRARY} DIRECTORY)
endif()
configure_file(cmake/microscale-config.cmake.in ${CMAKE_BINARY_DIR}/microscale-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/microscale-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/libraries.cmake ${CMAKE_BINARY_DIR}/microscale-config.cmake
        ${CMAKE_BINARY_DIR}/microscale-config-version.cmake DESTINATION ${package_folder})
