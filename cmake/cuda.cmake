# CUDA kernels as data. Each .cu is compiled by nvcc to PTX and that to a cubin, those of src/cuda/any once per
# architecture, those of src/cuda/sm90, sm100 and sm120 for that one alone, and both are put into the library,
# compressed, with an index (src/cuda/device/kernel_images.hpp). Without nvcc the index is empty and the runtime is left out;
# everything else builds.
set(MICROSCALE_CUDA AUTO CACHE STRING "CUDA kernels: AUTO (if nvcc 12.9 or later is found), ON or OFF")
set_property(CACHE MICROSCALE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MICROSCALE_CUDA_IMAGES "" CACHE PATH "Another build's cuda_images to embed, instead of compiling them again")
set(cuda_architectures 90a 100f 120f)  # Hopper; Blackwell data centre and RTX, whole families
set(cuda_folder_any ${cuda_architectures})
set(cuda_folder_sm90 90a)
set(cuda_folder_sm100 100f)
set(cuda_folder_sm120 120f)

set(MICROSCALE_HAS_CUDA OFF)
if(NOT MICROSCALE_CUDA STREQUAL "OFF")
  # Debian 12's FindCUDAToolkit (3.25.1) deprecates a target that CUDA 13 no longer has, for projects that require
  # 3.25 or later, and fails there.
  set(required ${CMAKE_MINIMUM_REQUIRED_VERSION})
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit 12.9 QUIET)
  set(CMAKE_MINIMUM_REQUIRED_VERSION ${required})
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cudart_static)
    set(MICROSCALE_HAS_CUDA ON)
    message(STATUS "CUDA kernels: nvcc ${CUDAToolkit_VERSION}, ${CUDAToolkit_NVCC_EXECUTABLE}")
  elseif(MICROSCALE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MICROSCALE_CUDA=ON, but no CUDA toolkit of version 12.9 or later with nvcc and "
                        "cudart_static was found; set CUDAToolkit_ROOT, or MICROSCALE_CUDA=OFF")
  else()
    message(STATUS "CUDA kernels: left out (no nvcc 12.9 or later)")
  endif()
endif()

if(MICROSCALE_HAS_CUDA)
  find_program(ZSTD_PROGRAM zstd)
  microscale_library(zstd ZSTD_LIBRARY zstd)
  if(NOT ZSTD_PROGRAM OR NOT ZSTD_LIBRARY)
    set(missing "kernels are carried compressed, and zstd's program (ZSTD_PROGRAM) or library (ZSTD_LIBRARY) was not found")
    if(MICROSCALE_CUDA STREQUAL "ON")
      message(FATAL_ERROR "MICROSCALE_CUDA=ON, but ${missing}; install both (Debian: zstd libzstd-dev), or set "
                          "MICROSCALE_CUDA=OFF")
    endif()
    set(MICROSCALE_HAS_CUDA OFF)
    message(STATUS "CUDA kernels: left out (${missing})")
  endif()
endif()

set(nvcc_flags -std=c++20 --expt-relaxed-constexpr -fmad=false -Werror all-warnings -Xcompiler=-Wall,-Wextra
               -I ${PROJECT_SOURCE_DIR}/src -I ${PROJECT_SOURCE_DIR}/include)

# microscale_add_cuda_images(target): compiles and embeds.
function(microscale_add_cuda_images target)
  set(folder ${PROJECT_BINARY_DIR}/cuda_images)
  set(image_folder ${folder})
  if(MICROSCALE_CUDA_IMAGES)
    set(image_folder ${MICROSCALE_CUDA_IMAGES})
  endif()
  file(MAKE_DIRECTORY ${folder})
  set(assembly "")
  set(declarations "")
  set(index "")
  set(count 0)
  set(images "")
  if(MICROSCALE_HAS_CUDA)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/any/*.cu ${PROJECT_SOURCE_DIR}/src/cuda/sm*/*.cu)
    foreach(source ${sources})
      get_filename_component(name ${source} NAME_WE)
      get_filename_component(source_folder ${source} DIRECTORY)
      get_filename_component(source_folder ${source_folder} NAME)
      foreach(architecture ${cuda_folder_${source_folder}})
        set(image ${image_folder}/${name}.sm_${architecture})
        set(symbol microscale_image_${name}_${architecture})
        if(NOT MICROSCALE_CUDA_IMAGES AND source_folder STREQUAL "any" AND architecture STREQUAL "120f")
          # What serves every architecture asks for Blackwell, not for which: the same PTX, another target
          # (scripts/deep/blackwell_ptx compiles both and compares).
          set(twin ${image_folder}/${name}.sm_100f.ptx)
          add_custom_command(OUTPUT ${image}.ptx COMMAND sed "s/^.target sm_100f/.target sm_120f/" ${twin} > ${image}.ptx
                             DEPENDS ${twin} VERBATIM COMMENT "${name} for sm_${architecture}")
        elseif(NOT MICROSCALE_CUDA_IMAGES)
          add_custom_command(
            OUTPUT ${image}.ptx
            COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} ${nvcc_flags} -arch=compute_${architecture}
                    -MD -MF ${image}.d -MT ${image}.ptx -ptx -o ${image}.ptx ${source}
            DEPENDS ${source} DEPFILE ${image}.d VERBATIM
            COMMENT "nvcc ${name}.cu for sm_${architecture}")
        endif()
        if(NOT MICROSCALE_CUDA_IMAGES)
          add_custom_command(
            OUTPUT ${image}.cubin
            COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -Werror all-warnings -cubin
                    -gencode arch=compute_${architecture},code=sm_${architecture} -o ${image}.cubin ${image}.ptx
            DEPENDS ${image}.ptx VERBATIM
            COMMENT "ptxas ${name} for sm_${architecture}")
          # What is carried. To standard output: zstd gives files the age of what they were made of.
          foreach(kind cubin ptx)
            add_custom_command(OUTPUT ${image}.${kind}.zst
                               COMMAND ${ZSTD_PROGRAM} -q -9 -c ${image}.${kind} > ${image}.${kind}.zst
                               DEPENDS ${image}.${kind} VERBATIM COMMENT "zstd ${name}.sm_${architecture}.${kind}")
          endforeach()
          add_custom_command(OUTPUT ${image}.entries
                             COMMAND sed -n "s/^[a-z. ]*[.]entry \\([^(]*\\).*/\\1/p" ${image}.ptx > ${image}.entries
                             DEPENDS ${image}.ptx VERBATIM COMMENT "names of ${name} for sm_${architecture}")
        endif()
        list(APPEND images ${image}.ptx.zst ${image}.cubin.zst ${image}.entries)
        foreach(file cubin.zst ptx.zst entries)
          string(REPLACE ".zst" "" kind ${file})
          string(APPEND assembly "asm(\".pushsection .rodata\\n.balign 64\\n.hidden ${symbol}_${kind}\\n\"\n"
                 "    \".globl ${symbol}_${kind}\\n${symbol}_${kind}: .incbin \\\"${image}.${file}\\\"\\n\"\n"
                 "    \".hidden ${symbol}_${kind}_end\\n.globl ${symbol}_${kind}_end\\n${symbol}_${kind}_end: "
                 ".byte 0\\n.popsection\");\n")
          set(type std::uint8_t)
          if(kind STREQUAL "entries")
            set(type char)
          endif()
          string(APPEND declarations "extern const ${type} ${symbol}_${kind}[], ${symbol}_${kind}_end[];\n")
        endforeach()
        math(EXPR count "${count} + 1")
        string(APPEND index "      {\"${name}\", \"sm_${architecture}\", {${symbol}_entries, ${symbol}_entries_end},\n"
               "       ImageBytes({${symbol}_cubin, ${symbol}_cubin_end}),\n"
               "       ImageBytes({${symbol}_ptx, ${symbol}_ptx_end})},\n")
      endforeach()
    endforeach()
  endif()
  set(body "  return {};\n")
  if(count GREATER 0)  # never freed: others may look at them while the process ends
    string(CONCAT body "  static const KernelImage* const images = new KernelImage[${count}]{\n${index}  };\n"
                       "  return {images, ${count}};\n")
  endif()
  string(CONCAT text "// Generated by cmake/cuda.cmake: the compiled kernels and their index.\n"
      "#include \"cuda/device/kernel_images.hpp\"\n\n${assembly}\nextern \"C\" {\n"
      "${declarations}}\n\nnamespace microscale::cuda {\n\n"
      "std::span<const KernelImage> kernel_images() {\n${body}}\n\n"
      "}  // namespace microscale::cuda\n")
  file(CONFIGURE OUTPUT ${folder}/kernel_images.cpp CONTENT "${text}" @ONLY)  # rewritten only when different
  set_source_files_properties(${folder}/kernel_images.cpp PROPERTIES OBJECT_DEPENDS "${images}")
  target_sources(${target} PRIVATE ${folder}/kernel_images.cpp)
  if(MICROSCALE_HAS_CUDA)
    target_compile_definitions(${target} PRIVATE MICROSCALE_HAS_CUDA=1)
    target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    # Not CUDA::cudart_static: who links the installed library would need FindCUDAToolkit, hence nvcc.
    microscale_library(cudart CUDART_STATIC_LIBRARY cudart_static ${CUDAToolkit_LIBRARY_DIR})
    target_link_libraries(${target} PRIVATE microscale::cudart microscale::zstd ${CMAKE_DL_LIBS} rt)
  endif()
endfunction()
