# microscale_test_folder(name LIBRARY...): one test program of every *_test.cpp below tests/<name>, linked with those.
find_package(GTest REQUIRED)
include(GoogleTest)
find_package(nlohmann_json REQUIRED)

# What a test program is compiled with: the same for all, so that all can share precompiled headers.
function(microscale_test_settings target)
  # -O1: a third less to compile than -O2, but g++ 12 then warns of strings that fit.
  target_compile_options(${target} PRIVATE -O1 -Wno-array-bounds -Wno-unknown-warning-option
                         -Wno-stringop-overflow $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # the last: for ccache
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE microscale_options fmt::fmt
                        nlohmann_json::nlohmann_json GTest::gtest_main)
endfunction()

# microscale_test_batches(name list): instead of the sources in that list, files that hold eight of them each. Their headers
# and what they instantiate are compiled once a batch. What tests keep to themselves stays apart: each file's unnamed
# namespace, which holds all of it, becomes one of its own name.
string(CONCAT test_batch_awk [[FNR == 1 { ++file } FNR == 1 { print "#line 1 \"" FILENAME "\"" } ]]
                             [[/^namespace {$/ { $0 = "namespace file_" batch "_" file " {" } 1]])
function(microscale_test_batches name list)
  set(batches "")
  list(LENGTH ${list} count)
  math(EXPR last "(${count} - 1) / 8")
  foreach(number RANGE ${last})
    math(EXPR first "${number} * 8")
    list(SUBLIST ${list} ${first} 8 files)
    set(batch ${CMAKE_CURRENT_BINARY_DIR}/${name}_batch_${number}.cpp)
    add_custom_command(OUTPUT ${batch} COMMAND awk -v batch=${number} "${test_batch_awk}" ${files} > ${batch} DEPENDS ${files} VERBATIM
                       COMMENT "tests of ${name}, batch ${number}")
    list(APPEND batches ${batch})
  endforeach()
  set(${list} ${batches} PARENT_SCOPE)
endfunction()

# microscale_compiled_tests(target sources LIBRARY...): links what another build, MICROSCALE_TEST_OBJECTS, has compiled of
# those sources, behind all of the libraries: where both hold a function of a header, the libraries' own one counts.
# For the sanitizers: they look into the libraries, and tests take twice as long to compile as those.
function(microscale_compiled_tests target sources)
  set(libraries microscale ${ARGN})
  list(REMOVE_DUPLICATES libraries)
  foreach(library ${libraries})
    target_link_libraries(${target} PRIVATE -Wl,--whole-archive $<TARGET_FILE:${library}> -Wl,--no-whole-archive)
  endforeach()
  foreach(source ${sources})
    foreach(root ${CMAKE_CURRENT_BINARY_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
      string(REPLACE "${root}/" "" source ${source})
    endforeach()
    target_link_libraries(${target} PRIVATE ${MICROSCALE_TEST_OBJECTS}/tests/CMakeFiles/${target}.dir/${source}.o)
  endforeach()
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

function(microscale_test_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  if(MICROSCALE_TEST_BATCHES)
    microscale_test_batches(${name} sources)
  endif()
  set(program_sources ${sources})
  if(MICROSCALE_TEST_OBJECTS)
    set(program_sources "")  # microscale_compiled_tests links them
  endif()
  add_executable(test_${name} ${program_sources})
  if(MICROSCALE_TEST_OBJECTS)
    microscale_compiled_tests(test_${name} "${sources}" ${ARGN})
  endif()
  microscale_test_settings(test_${name})
  target_link_libraries(test_${name} PRIVATE microscale_test_paths ${ARGN})
  target_include_directories(test_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(test_${name} REUSE_FROM microscale_test_headers)
  endif()
  if(name STREQUAL "tools" AND TARGET microscale_cli)
    add_dependencies(test_tools microscale_cli)  # its tests run the program
  endif()
  gtest_discover_tests(test_${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600 LABELS ${name})
endfunction()
