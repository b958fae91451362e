# microscale_test_folder(name): one test program of every *_test.cpp below tests/<name>.
find_package(GTest REQUIRED)
include(GoogleTest)
find_package(nlohmann_json REQUIRED)

function(microscale_test_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(test_${name} PRIVATE
    MICROSCALE_TEST_DATA="${CMAKE_SOURCE_DIR}/tests" MICROSCALE_BINARY="${CMAKE_BINARY_DIR}/microscale")
  target_link_libraries(test_${name} PRIVATE microscale microscale_options fmt::fmt
                        nlohmann_json::nlohmann_json GTest::gtest_main)
  if(name STREQUAL "tools" AND TARGET microscale_cli)
    add_dependencies(test_tools microscale_cli)  # its tests run the program
  endif()
  gtest_discover_tests(test_${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600 LABELS ${name})
endfunction()
