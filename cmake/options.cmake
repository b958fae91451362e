# Compile options of everything we build: C++20, warnings as errors, no fused multiply-add unless written. Nothing here
# reaches a project that adds this one as a subdirectory, but through the targets it links.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  endif()
  find_program(CCACHE_PROGRAM ccache)
  if(CCACHE_PROGRAM)
    # The variable: what ccache asks of a user of precompiled headers.
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  endif()
endif()
# Behind CMake's own -O3, in this directory and below; a file that gains by -O3 says so itself.
add_compile_options($<$<CONFIG:Release>:-O2>)

add_library(microscale_options INTERFACE)
target_compile_options(microscale_options INTERFACE -ffp-contract=off)
if(NOT MICROSCALE_SANITIZE)  # g++ 12 takes instrumented code for uninitialized; the plain build has the warnings
  target_compile_options(microscale_options INTERFACE -Wall -Wextra -Werror)
endif()
if(MICROSCALE_SANITIZE)
  # -O1: half the compile time of -O2 for the same findings.
  add_compile_options(-fsanitize=${MICROSCALE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
                      -g1 -O1 -D_GLIBCXX_ASSERTIONS)
  if(MICROSCALE_SANITIZE_QUICK)
    # Half the compile time again; a null or wild pointer still stops the program, by AddressSanitizer.
    add_compile_options(-fno-sanitize=null,vptr,object-size,alignment)
  endif()
  add_link_options(-fsanitize=${MICROSCALE_SANITIZE})
endif()
# microscale_precompile(target HEADER...): reads headers that most of its sources begin with once for all. g++ only:
# clang's take longer than they save.
function(microscale_precompile target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${target} PRIVATE ${ARGN})
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # for ccache
  endif()
endfunction()
