# Libraries that come without a CMake package: found in the same way by the build and by who links the installed
# library (install.cmake puts this file beside the package).
# microscale_library(name VARIABLE file HINT...): the target microscale::NAME of the library `file`, whose path
# VARIABLE holds or can be told; none where it is not found.
function(microscale_library name variable file)
  find_library(${variable} ${file} HINTS ${ARGN})
  if(${variable} AND NOT TARGET microscale::${name})
    add_library(microscale::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(microscale::${name} PROPERTIES IMPORTED_LOCATION "${${variable}}")
  endif()
endfunction()
