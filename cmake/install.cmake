# `make install`: the program, the static libraries, their headers and a CMake package:
#   find_package(microscale REQUIRED COMPONENTS cuda)  target_link_libraries(app microscale::cuda)
# microscale::microscale is always there; components: cuda, checkpoint, ptx.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/microscale)

# An export set each, so that who asks for one component needs the libraries of that one alone.
foreach(part microscale report cuda checkpoint ptx)
  set(target microscale_${part})
  if(part STREQUAL "microscale")
    set(target microscale)
  endif()
  if(TARGET ${target})
    install(TARGETS ${target} EXPORT microscale_${part}_targets)
    install(EXPORT microscale_${part}_targets NAMESPACE microscale:: DESTINATION ${package_folder}
            FILE microscale-${part}-targets.cmake)
  endif()
endforeach()
install(DIRECTORY include/microscale DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(MICROSCALE_HAS_CUDA)
  get_filename_component(cudart_folder ${CUDART_STATIC_LIBRARY} DIRECTORY)
endif()
configure_file(cmake/microscale-config.cmake.in ${PROJECT_BINARY_DIR}/microscale-config.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/microscale-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/libraries.cmake ${PROJECT_BINARY_DIR}/microscale-config.cmake
        ${PROJECT_BINARY_DIR}/microscale-config-version.cmake DESTINATION ${package_folder})
