# Every CUDA entry point, as one table. cmake/cuda.cmake makes of it, in the build folder, a .cu for each image
# (compiled for each of its architectures, both Blackwells from one PTX) and cuda/kernel_table.hpp, the typed handles by
# which host code launches.
#
#   kernel_image(NAME ARCHITECTURES HEADER...)  a translation unit: what follows belongs to it. More images compile in
#                                               parallel; fewer repeat less.
#   kernel_namespace(NAME...)                   namespaces whose names the kernels of that image use without saying so
#   kernel_family(NAME ARGS [PREFIX])           the C++ handle kernels::NAME: entry points whose names begin with PREFIX
#                                               (NAME unless said) and whose parameter is of type ARGS
#   kernel(ENTRY ATTRIBUTES CALL [WAITS] [BLACKWELL])
#       one entry point of that family: extern "C" __global__ void ATTRIBUTES ENTRY(ARGS args) { CALL(args); }
#       WAITS      it first waits for the grid in front of it (cuda/block/grid_order.cuh); the others do so inside CALL
#       BLACKWELL  not on sm_90a
#
# Names are those of namespace microscale::cuda and of kernel_namespace. To add an entry point write one line here, and renew
# tests/sass/budgets.txt (scripts/renew_sass_budgets).
set(cuda_architectures 90a 100f 120f)  # Hopper; Blackwell datacenter (10.x) and consumer (12.x), whole families
set(kernel_images "")
set(kernel_families "")

macro(kernel_image name architectures)
  set(kernel_current_image ${name})
  list(APPEND kernel_images ${name})
  set(kernel_image_${name}_architectures ${architectures})
  set(kernel_image_${name}_text "// Generated from cmake/kernels.cmake.\n")
  foreach(kernel_header cuda/block/grid_order.cuh ${ARGN})
    string(APPEND kernel_image_${name}_text "#include \"${kernel_header}\"\n")
  endforeach()
  string(APPEND kernel_image_${name}_text "\nusing namespace microscale;\nusing namespace microscale::cuda;\n")
endmacro()

macro(kernel_namespace)
  foreach(kernel_name ${ARGN})
    string(APPEND kernel_image_${kernel_current_image}_text "using namespace microscale::cuda::${kernel_name};\n")
  endforeach()
endmacro()

macro(kernel_family name args)
  set(kernel_current_family ${name})
  if(NOT ${name} IN_LIST kernel_families)
    list(APPEND kernel_families ${name})
    set(kernel_family_${name}_args ${args})
    set(kernel_family_${name}_prefix ${name} ${ARGN})
    list(GET kernel_family_${name}_prefix -1 kernel_family_${name}_prefix)
    set(kernel_family_${name}_entries "")
  elseif(NOT kernel_family_${name}_args STREQUAL "${args}")
    message(FATAL_ERROR "kernel family ${name} has arguments ${kernel_family_${name}_args}, not ${args}")
  endif()
endmacro()

macro(kernel entry attributes call)
  if(NOT "${entry}" MATCHES "^${kernel_family_${kernel_current_family}_prefix}(_|$)")
    message(FATAL_ERROR "${entry} does not begin with ${kernel_family_${kernel_current_family}_prefix}, as its family does")
  endif()
  list(APPEND kernel_family_${kernel_current_family}_entries ${entry})
  set(kernel_options ${ARGN})
  set(kernel_wait "")
  if(WAITS IN_LIST kernel_options)
    set(kernel_wait "  follow_previous_grid();\n")
  endif()
  string(CONCAT kernel_text "extern \"C\" __global__ void ${attributes}\n    ${entry}(const __grid_constant__ "
         "${kernel_family_${kernel_current_family}_args} args) {\n${kernel_wait}  ${call}(args);\n}\n")
  if(BLACKWELL IN_LIST kernel_options)
    set(kernel_text "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000\n${kernel_text}#endif\n")
  endif()
  string(APPEND kernel_image_${kernel_current_image}_text "\n${kernel_text}")
endmacro()

# What formats, types and modes are called in C++.
set(codec_mxfp4 E2M1)
set(codec_nvfp4 E2M1)
set(codec_mxfp8_e4m3 E4M3)
set(codec_mxfp8_e5m2 E5M2)
set(block_mxfp4 32)
set(block_nvfp4 16)
set(block_mxfp8_e4m3 32)
set(block_mxfp8_e5m2 32)
set(e8m0_mxfp4 true)
set(e8m0_nvfp4 false)
set(e8m0_mxfp8_e4m3 true)
set(e8m0_mxfp8_e5m2 true)
foreach(mode plain search)
  set(searches false)
  if(mode STREQUAL "search")
    set(searches true)
  endif()
  set(encoder_nvfp4_${mode} "Nvfp4Format<${searches}>")
  foreach(format mxfp4 mxfp8_e4m3 mxfp8_e5m2)
    set(encoder_${format}_${mode} "MxFormat<${codec_${format}}, ${searches}>")
  endforeach()
endforeach()
set(type_f32 F32)
set(type_f16 F16)
set(type_bf16 Bf16)
set(dense_types f32 f16 bf16)
set(quantized_formats mxfp4 nvfp4 mxfp8_e4m3 mxfp8_e5m2)
set(encoders cuda/block/mx_format.cuh cuda/block/nvfp4_format.cuh)

# --- quantize ---
foreach(format ${quantized_formats})
  foreach(family quantize grouped_quantize)
    string(REPLACE "grouped_quantize" "grouped" image ${family}_${format})
    kernel_image(${image} "${cuda_architectures}" cuda/quantize/rows.cuh ${encoders})
    set(args QuantizeArgs)
    if(family STREQUAL "grouped_quantize")
      set(args GroupedQuantizeArgs)
    endif()
    kernel_family(${family} ${args})
    foreach(mode plain search)
      set(encoder "${encoder_${format}_${mode}}")
      foreach(dtype ${dense_types})
        set(input Input${type_${dtype}})
        set(bounds "__launch_bounds__(threads_per_block, resident_blocks(${encoder}::searches, ${input}::element_bytes))")
        kernel(${family}_${format}_${dtype}_${mode}_rows "${bounds}"
               "quantize_rows<${encoder}, ${input}, false>" WAITS)
        kernel(${family}_${format}_${dtype}_${mode}_tiled "${bounds}"
               "quantize_rows<${encoder}, ${input}, true>" WAITS)
      endforeach()
    endforeach()
  endforeach()

  kernel_image(quantize_columns_${format} "${cuda_architectures}" cuda/quantize/columns.cuh ${encoders})
  foreach(mode plain search)
    set(encoder "${encoder_${format}_${mode}}")
    foreach(dtype ${dense_types})
      set(input Input${type_${dtype}})
      set(bounds "__launch_bounds__(threads_per_block, resident_columns_blocks<${encoder}, ${input}>)")
      kernel_family(quantize_columns ColumnsArgs)
      kernel(quantize_columns_${format}_${dtype}_${mode} "${bounds}" "quantize_columns<${encoder}, ${input}, false>" WAITS)
      kernel_family(quantize_both ColumnsArgs)
      kernel(quantize_both_${format}_${dtype}_${mode} "${bounds}" "quantize_columns<${encoder}, ${input}, true>" WAITS)
    endforeach()
  endforeach()
endforeach()

kernel_image(quantize_general "${cuda_architectures}" cuda/quantize/general.cuh)
kernel_family(quantize QuantizeArgs)
foreach(format ${quantized_formats})
  foreach(dtype ${dense_types})
    set(arguments "${codec_${format}}, ${block_${format}}, ${e8m0_${format}}, Input${type_${dtype}}")
    kernel(quantize_${format}_${dtype}_general_rows "__launch_bounds__(threads_per_block)"
           "quantize_general<${arguments}, false>" WAITS)
    kernel(quantize_${format}_${dtype}_general_tiled "__launch_bounds__(threads_per_block)"
           "quantize_general<${arguments}, true>" WAITS)
  endforeach()
endforeach()

kernel_image(quantize_columns_general "${cuda_architectures}" cuda/quantize/general.cuh)
kernel_family(quantize_columns ColumnsArgs)
foreach(format ${quantized_formats})
  foreach(dtype ${dense_types})
    kernel(quantize_columns_${format}_${dtype}_general "__launch_bounds__(threads_per_block)"
      "quantize_columns_general<${codec_${format}}, ${block_${format}}, ${e8m0_${format}}, Input${type_${dtype}}>" WAITS)
  endforeach()
endforeach()

kernel_image(quantize_small "${cuda_architectures}" cuda/quantize/small.cuh)
kernel_family(quantize_small QuantizeArgs)
foreach(format ${quantized_formats})
  foreach(dtype ${dense_types})
    kernel(quantize_small_${format}_${dtype} "__launch_bounds__(threads_per_block)"
           "quantize_small<${encoder_${format}_plain}, Input${type_${dtype}}>" WAITS)
  endforeach()
endforeach()

foreach(producer silu_mul rms_norm add_rms_norm hadamard)
  kernel_image(fused_${producer} "${cuda_architectures}" cuda/quantize/fused_quantizer.cuh cuda/quantize/fused_lanes.cuh
               cuda/quantize/fused_rms_norm.cuh)
  kernel_family(fused FusedArgs)
  foreach(format mxfp4 mxfp8_e4m3 mxfp8_e5m2 nvfp4)
    foreach(mode plain search)
      foreach(dtype ${dense_types})
        set(input Input${type_${dtype}})
        set(encoder "${encoder_${format}_${mode}}")
        set(attributes "__launch_bounds__(threads_per_block, lane_blocks(${input}::element_bytes))")
        set(body "fused_${producer}<${input}, ${encoder}>")
        if(producer STREQUAL "rms_norm")
          set(attributes "__maxnreg__(row_registers(${input}::element_bytes, false))")
          set(body "fused_rms_norm<${input}, ${encoder}, false>")
        elseif(producer STREQUAL "add_rms_norm")
          set(attributes "__maxnreg__(row_registers(${input}::element_bytes, true))")
          set(body "fused_rms_norm<${input}, ${encoder}, true>")
        endif()
        kernel(fused_${producer}_${format}_${dtype}_${mode} "${attributes}" "${body}" WAITS)
      endforeach()
    endforeach()
  endforeach()
endforeach()

kernel_image(dequantize "${cuda_architectures}" cuda/quantize/dequantize.cuh)
kernel_family(dequantize DequantizeArgs)
foreach(format ${quantized_formats})
  foreach(dtype ${dense_types})
    kernel(dequantize_${format}_${dtype} "__launch_bounds__(threads_per_block)"
           "dequantize_rows<${codec_${format}}, ${e8m0_${format}}, Output${type_${dtype}}>" WAITS)
  endforeach()
endforeach()

kernel_image(abs_max "${cuda_architectures}" cuda/quantize/abs_max.cuh)
kernel_family(abs_max AbsMaxArgs)
foreach(dtype ${dense_types})
  kernel(abs_max_${dtype} "__launch_bounds__(threads_per_block)" "abs_max<Input${type_${dtype}}>" WAITS)
endforeach()
kernel_family(global_scale AbsMaxArgs)
kernel(global_scale "" "store_global_scale" WAITS)

kernel_image(container "${cuda_architectures}" cuda/quantize/repack.cuh)
kernel_family(containers_from_codes ContainerArgs)
kernel(containers_from_codes "__launch_bounds__(threads_per_block)" "pack_containers" WAITS)
kernel_family(codes_from_containers ContainerArgs)
kernel(codes_from_containers "__launch_bounds__(threads_per_block)" "unpack_containers" WAITS)

kernel_image(repack "${cuda_architectures}" cuda/quantize/repack.cuh)
kernel_family(repack RepackArgs)
kernel(repack_to_tiled "__launch_bounds__(threads_per_block)" "scales_to_tiles" WAITS)
kernel(repack_to_rows "__launch_bounds__(threads_per_block)" "scales_to_rows" WAITS)

# --- append_kv ---
set(append_nvfp4_plain "${encoder_nvfp4_plain}")
set(append_nvfp4_search "${encoder_nvfp4_search}")
set(append_mxfp4_plain "${encoder_mxfp4_plain}")
set(append_mxfp4_search "${encoder_mxfp4_search}")
set(append_mxfp8_plain "${encoder_mxfp8_e4m3_plain}")
set(append_mxfp8_search "${encoder_mxfp8_e4m3_search}")
set(append_fp8_plain append::Fp8Format)
set(append_codec_mxfp8 E4M3)
foreach(format fp8 mxfp4 mxfp8 nvfp4)
  kernel_image(append_kv_${format} "${cuda_architectures}" cuda/append_kv/registers.cuh cuda/append_kv/registers.cuh cuda/append_kv/shared.cuh)
  foreach(mode plain search)
    if(NOT append_${format}_${mode})
      continue()
    endif()
    set(resident 4)
    if(mode STREQUAL "search")
      set(resident 3)
    endif()
    set(encoder "${append_${format}_${mode}}")
    foreach(dtype f16 bf16)
      kernel_family(append_kv_registers append::Args)
      kernel(append_kv_registers_${format}_${dtype}_${mode} "__launch_bounds__(append::threads, ${resident})"
             "append::registers<${encoder}, Input${type_${dtype}}>" WAITS)
      kernel_family(append_kv_halves append::Args)
      kernel(append_kv_halves_${format}_${dtype}_${mode} "__launch_bounds__(append::threads, 2)"
             "append::halves<${encoder}, Input${type_${dtype}}>" WAITS)
    endforeach()
    kernel_family(append_kv_shared append::Args)
    kernel(append_kv_shared_${format}_${mode} "__launch_bounds__(append::threads, 2)" "append::shared<${encoder}>" WAITS)
  endforeach()
endforeach()
foreach(format mxfp4 mxfp8 nvfp4)
  set(quantized ${format})
  if(format STREQUAL "mxfp8")
    set(quantized mxfp8_e4m3)
  endif()
  set(kernel_current_image append_kv_${format})
  kernel_family(append_kv_shared append::Args)
  kernel(append_kv_shared_${format}_general "__launch_bounds__(append::threads, 2)"
         "append::shared_general<${codec_${quantized}}, ${block_${quantized}}, ${e8m0_${quantized}}>" WAITS)
endforeach()

# --- attention ---
set(decode_fp8 DecodeFp8)
set(decode_mxfp4 DecodeMxfp4)
set(decode_mxfp8 DecodeMxfp8)
set(decode_nvfp4 DecodeNvfp4)
kernel_family(attention_decode attention::AttentionMergedArgs)
foreach(tokens rows part records)  # how the tokens of a page lie (DecodeTokens)
  set(suffix "")
  set(resident_128 4)
  if(tokens STREQUAL "part")
    set(suffix _part)
    set(resident_128 3)
  elseif(tokens STREQUAL "records")
    set(suffix _records)
  endif()
  foreach(format fp8 mxfp4 mxfp8 nvfp4)
    if(tokens STREQUAL "records" AND NOT format MATCHES "fp4")
      continue()
    endif()
    kernel_image(attention_decode_${format}${suffix} "${cuda_architectures}" cuda/attention/decode/kernel.cuh)
    kernel_namespace(attention attention::decode)
    set(shapes "64 8 4" "64 16 3" "128 8 ${resident_128}" "128 16 2" "256 8 2")  # d, rows, resident blocks
    if(format STREQUAL "nvfp4")
      list(APPEND shapes "64 4 4" "128 4 ${resident_128}" "256 4 2")
    endif()
    foreach(shape ${shapes})
      string(REGEX MATCH "([0-9]+) ([0-9]+) ([0-9]+)" shape "${shape}")
      kernel(attention_decode_${format}_${CMAKE_MATCH_1}_${CMAKE_MATCH_2}${suffix}
             "__launch_bounds__(decode_threads, ${CMAKE_MATCH_3})"
             "AttentionDecode<${decode_${format}}, ${CMAKE_MATCH_1}, ${CMAKE_MATCH_2}, DecodeTokens::${tokens}>::run")
    endforeach()
  endforeach()
endforeach()

kernel_image(attention_expand 90a cuda/attention/prefill/expand.cuh)
kernel_namespace(attention::prefill)
kernel_family(attention_expand attention::prefill::AttentionExpandArgs)
foreach(pair "f32 F32" "f16 F16" "bf16 Bf16" "e4m3 E4m3" "nvfp4 Nvfp4" "mxfp4 Mxfp4" "mxfp8_e4m3 Mxfp8E4m3"
        "mxfp8_e5m2 Mxfp8E5m2")
  string(REPLACE " " ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 elements)
  foreach(width 64 128 256)
    kernel(attention_expand_${name}_${width} "__launch_bounds__(prefill_expand_threads)"
           "AttentionExpand<Elements${elements}, ${width}>::run")
  endforeach()
endforeach()

kernel_family(attention_prefill attention::prefill::AttentionPrefillArgs)
foreach(width 64 128 256)
  kernel_image(attention_prefill_${width} 90a cuda/attention/prefill/kernel.cuh cuda/attention/prefill/products_f16.cuh)
  kernel_namespace(attention::prefill)
  kernel(attention_prefill_${width} "__launch_bounds__(prefill_threads, 1)"
         "AttentionPrefill<F16Products<${width}, false>>::run")
  kernel(attention_prefill_${width}_softcap "__launch_bounds__(prefill_threads, 1)"
         "AttentionPrefill<F16Products<${width}, true>>::run")
endforeach()
kernel_image(attention_prefill_fp8 90a cuda/attention/prefill/kernel.cuh cuda/attention/prefill/products_fp8.cuh)
kernel_namespace(attention::prefill)
kernel(attention_prefill_fp8 "__launch_bounds__(prefill_threads, 1)" "AttentionPrefill<Fp8Products<false>>::run")
kernel(attention_prefill_fp8_softcap "__launch_bounds__(prefill_threads, 1)" "AttentionPrefill<Fp8Products<true>>::run")
kernel_family(attention_expand attention::prefill::AttentionExpandArgs)
kernel(attention_expand_fp8 "__launch_bounds__(prefill_expand_threads)" "AttentionExpandFp8::run")

# Block-scaled attention of consumer Blackwell: block_attention(IMAGE ROW...), a row for each entry point: its name, resident
# blocks, and the arguments of Config.
macro(block_attention image)
  kernel_image(attention_block_scaled_${image} 120f cuda/attention/block_scaled/kernel.cuh)
  kernel_namespace(attention::block_scaled)
  kernel_family(attention_block_scaled attention::block_scaled::Args)
  foreach(row ${ARGN})
    string(REGEX MATCH "^([a-z0-9_]+) ([0-9]) (.*)$" row "${row}")
    set(block_attention_config "Config<${CMAKE_MATCH_3}>")
    kernel(attention_block_scaled_${CMAKE_MATCH_1} "__launch_bounds__(${block_attention_config}::threads, ${CMAKE_MATCH_2})"
           "Attention<${block_attention_config}>::run")
  endforeach()
endmacro()
set(exact Values::exact)
set(tokens Values::tokens)
set(two_level Values::two_level)
block_attention(exact_64 "exact_nvfp4_64_1 2 Nvfp4Keys, 64, 1, ${exact}, 1, 2" "exact_nvfp4_64_2 3 Nvfp4Keys, 64, 2, ${exact}, 1, 1")
block_attention(exact_128 "exact_nvfp4_128_1 2 Nvfp4Keys, 128, 1, ${exact}, 1, 1"
                "exact_nvfp4_128_2 2 Nvfp4Keys, 128, 2, ${exact}, 1, 1")
block_attention(exact_256 "exact_nvfp4_256_1 1 Nvfp4Keys, 256, 1, ${exact}, 1, 1"
                "exact_nvfp4_256_2 1 Nvfp4Keys, 256, 2, ${exact}, 1, 1")
block_attention(exact_paged_1 "exact_paged_nvfp4_64_1 2 Nvfp4Keys, 64, 1, ${exact}, 1, 2, true"
                "exact_paged_nvfp4_128_1 2 Nvfp4Keys, 128, 1, ${exact}, 1, 1, true"
                "exact_paged_nvfp4_256_1 1 Nvfp4Keys, 256, 1, ${exact}, 1, 1, true")
block_attention(exact_paged_2 "exact_paged_nvfp4_64_2 3 Nvfp4Keys, 64, 2, ${exact}, 1, 1, true"
                "exact_paged_nvfp4_128_2 2 Nvfp4Keys, 128, 2, ${exact}, 1, 1, true"
                "exact_paged_nvfp4_256_2 1 Nvfp4Keys, 256, 2, ${exact}, 1, 1, true")
block_attention(mx_exact "exact_mxfp4_mxfp4_64_1 2 Mxfp4Keys, 64, 1, ${exact}, 1, 2"
                "exact_mxfp4_mxfp4_128_1 2 Mxfp4Keys, 128, 1, ${exact}, 1, 1"
                "exact_mxfp8_e4m3_mxfp4_64_1 2 MixedKeys, 64, 1, ${exact}, 1, 2"
                "exact_mxfp8_e4m3_mxfp4_128_1 2 MixedKeys, 128, 1, ${exact}, 1, 1")
block_attention(mx_tokens "tokens_mxfp4_mxfp4_64_1 3 Mxfp4Keys, 64, 1, ${tokens}, 1, 1"
                "tokens_mxfp4_mxfp4_128_1 2 Mxfp4Keys, 128, 1, ${tokens}, 1, 1"
                "tokens_mxfp8_e4m3_mxfp4_64_1 3 MixedKeys, 64, 1, ${tokens}, 1, 1"
                "tokens_mxfp8_e4m3_mxfp4_128_1 2 MixedKeys, 128, 1, ${tokens}, 1, 1")
block_attention(mx_two_level "two_level_mxfp4_mxfp4_64_1 2 Mxfp4Keys, 64, 1, ${two_level}, 1, 2"
                "two_level_mxfp4_mxfp4_128_1 2 Mxfp4Keys, 128, 1, ${two_level}, 1, 1"
                "two_level_mxfp8_e4m3_mxfp4_64_1 2 MixedKeys, 64, 1, ${two_level}, 1, 2"
                "two_level_mxfp8_e4m3_mxfp4_128_1 2 MixedKeys, 128, 1, ${two_level}, 1, 1")
block_attention(tokens_64 "tokens_nvfp4_64_1 4 Nvfp4Keys, 64, 1, ${tokens}, 1, 1"
                "tokens_nvfp4_64_2 3 Nvfp4Keys, 64, 2, ${tokens}, 2, 1")
block_attention(tokens_128 "tokens_nvfp4_128_1 3 Nvfp4Keys, 128, 1, ${tokens}, 1, 1"
                "tokens_nvfp4_128_2 2 Nvfp4Keys, 128, 2, ${tokens}, 2, 1")
block_attention(tokens_256 "tokens_nvfp4_256_1 2 Nvfp4Keys, 256, 1, ${tokens}, 1, 1"
                "tokens_nvfp4_256_2 1 Nvfp4Keys, 256, 2, ${tokens}, 2, 1")
block_attention(two_level_64 "two_level_nvfp4_64_1 2 Nvfp4Keys, 64, 1, ${two_level}, 1, 2"
                "two_level_nvfp4_64_2 2 Nvfp4Keys, 64, 2, ${two_level}, 2, 1")
block_attention(two_level_128 "two_level_nvfp4_128_1 2 Nvfp4Keys, 128, 1, ${two_level}, 1, 1"
                "two_level_nvfp4_128_2 2 Nvfp4Keys, 128, 2, ${two_level}, 2, 1")
block_attention(two_level_256 "two_level_nvfp4_256_1 1 Nvfp4Keys, 256, 1, ${two_level}, 1, 1")
block_attention(two_level_paged_1 "two_level_paged_nvfp4_64_1 2 Nvfp4Keys, 64, 1, ${two_level}, 1, 2, true"
                "two_level_paged_nvfp4_128_1 2 Nvfp4Keys, 128, 1, ${two_level}, 1, 1, true"
                "two_level_paged_nvfp4_256_1 1 Nvfp4Keys, 256, 1, ${two_level}, 1, 1, true")
block_attention(two_level_paged_2 "two_level_paged_nvfp4_64_2 2 Nvfp4Keys, 64, 2, ${two_level}, 2, 1, true"
                "two_level_paged_nvfp4_128_2 2 Nvfp4Keys, 128, 2, ${two_level}, 2, 1, true")
kernel_image(attention_merge 120f cuda/attention/block_scaled/store.cuh)
kernel_namespace(attention attention::block_scaled)
kernel_family(attention_merge attention::block_scaled::Args)
foreach(shape "64 64" "64 128" "128 64" "256 64" "256 128")  # d, rows of a block
  string(REPLACE " " ";" shape "${shape}")
  list(JOIN shape "_" name)
  list(JOIN shape ", " arguments)
  kernel(attention_merge_${name} "__launch_bounds__(decode_threads)" "merge_row<${arguments}>")
endforeach()

kernel_image(attention_prepare 120f cuda/attention/block_scaled/prepare.cuh)
kernel_namespace(attention::block_scaled)
kernel_family(attention_prepare_rows attention::block_scaled::PrepareHeadsArgs)
foreach(pair "nvfp4 Nvfp4" "mxfp4 Mxfp4" "mxfp8 Mxfp8")
  string(REPLACE " " ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 prepared)
  kernel(attention_prepare_rows_${name} "__launch_bounds__(256)"
         "prepare_rows<Prepared${prepared}>")
endforeach()
kernel_family(attention_prepare_values attention::block_scaled::PrepareValuesArgs)
kernel(attention_prepare_values_nvfp4 "__launch_bounds__(256)" "prepare_values")

# --- matmul ---
# One row of unpacked weights, or 8 or 16 rows: any GPU. `unit`: without block scales, `scaled`: MX.
macro(fallback entry tiles scaled weights)
  kernel(${entry} "__launch_bounds__(matmul_rows_threads)" "matmul_rows<${weights}, ${scaled}, ${tiles}>" WAITS ${ARGN})
endmacro()
kernel_image(matmul_prepare "${cuda_architectures}" cuda/matmul/fallback/prepare.cuh)
kernel_family(matmul_prepare_rows PrepareRowsArgs)
foreach(pair "bf16 Bf16Units" "f16 F16Units" "nvfp4 Nvfp4Units" "mxfp4 Mxfp4Units" "mxfp8_e4m3 Mxfp8Units<E4M3>"
        "mxfp8_e5m2 Mxfp8Units<E5M2>")
  string(REPLACE " " ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 units)
  kernel(matmul_prepare_rows_${name} "__launch_bounds__(prepare_threads)" "prepare_row<${units}>" WAITS)
endforeach()
set(packed_mxfp4 PackedMxfp4)
set(packed_nvfp4 PackedNvfp4)
set(packed_mxfp8_e4m3 PackedMxfp8<E4M3>)
set(packed_mxfp8_e5m2 PackedMxfp8<E5M2>)
set(plain_unit_mxfp4 UnpackedMxfp4)
set(plain_scaled_mxfp4 UnpackedMxfp4)
set(plain_unit_nvfp4 UnpackedNvfp4By128)
set(plain_scaled_nvfp4 UnpackedNvfp4By64)
set(plain_unit_mxfp8_e4m3 UnpackedMxfp8<E4M3>)
set(plain_scaled_mxfp8_e4m3 UnpackedMxfp8<E4M3>)
set(plain_unit_mxfp8_e5m2 UnpackedMxfp8<E5M2>)
set(plain_scaled_mxfp8_e5m2 UnpackedMxfp8<E5M2>)
set(one_row_mxfp4 OneRowFp4<32>)
set(one_row_nvfp4 OneRowFp4<16>)
set(one_row_mxfp8_e4m3 OneRowFp8<E4M3>)  # none of E5M2: an infinite weight would meet the zeros beside a (one_row.cuh)
set(one_row_blocks_mxfp4 4 3)  # resident blocks without and with block scales
set(one_row_blocks_nvfp4 4 4)
set(one_row_blocks_mxfp8_e4m3 3 2)
foreach(format ${quantized_formats})
  kernel_image(matmul_fallback_${format} "${cuda_architectures}" cuda/matmul/fallback/one_row.cuh cuda/matmul/fallback/kernel.cuh
               cuda/matmul/fallback/one_row.cuh cuda/matmul/fallback/weights_packed.cuh
               cuda/matmul/fallback/weights_unpacked.cuh)
  kernel_family(matmul_fallback MatmulRowsArgs)
  foreach(scaled false true)
    set(scales unit)
    if(scaled)
      set(scales scaled)
    endif()
    # On Hopper the kernels for many rows take what has more than eight (cuda/matmul/in_registers).
    set(sixteen BLACKWELL)
    if(NOT scaled AND NOT format STREQUAL "nvfp4")
      set(sixteen "")
    endif()
    fallback(matmul_fallback_${format}_packed_${scales}_8 1 ${scaled} "${packed_${format}}")
    fallback(matmul_fallback_${format}_packed_${scales}_16 2 ${scaled} "${packed_${format}}" ${sixteen})
    fallback(matmul_fallback_${format}_plain_${scales}_8 1 ${scaled} "${plain_${scales}_${format}}")
    fallback(matmul_fallback_${format}_plain_${scales}_16 2 ${scaled} "${plain_${scales}_${format}}")
    if(one_row_${format})
      list(POP_FRONT one_row_blocks_${format} resident)
      kernel(matmul_fallback_${format}_plain_${scales}_1 "__launch_bounds__(matmul_rows_threads, ${resident})"
             "multiply_one_row<${one_row_${format}}, ${scaled}>" WAITS)
    endif()
  endforeach()
endforeach()

kernel_image(pack_weights "${cuda_architectures}" cuda/matmul/pack_weights.cuh)
kernel_family(pack_weights PackWeightsArgs)
kernel(pack_weights_nvfp4 "__launch_bounds__(pack_threads)" "pack<4, 16>" WAITS)
kernel(pack_weights_mxfp4 "__launch_bounds__(pack_threads)" "pack<4, 32>" WAITS)
kernel(pack_weights_mxfp8 "__launch_bounds__(pack_threads)" "pack<8, 32>" WAITS)

# Few rows; packed weights of MXFP4 and NVFP4, and weights as they lie.
foreach(format mxfp4 nvfp4)
  kernel_image(matmul_few_rows_packed_${format} 90a cuda/matmul/fallback/weights_packed.cuh
               cuda/matmul/few_rows/packed_kernel.cuh cuda/matmul/few_rows/packed_weights.cuh)
  kernel_family(matmul_few_rows_packed few_rows::PackedArgs matmul_few_rows)
  set(attributes "__launch_bounds__(few_rows::packed_threads, 1)")
  kernel(matmul_few_rows_${format}_packed_f16_8 "${attributes}"
         "few_rows::PackedKernel<few_rows::PackedLoads<${packed_${format}}, 1>>::run")
  kernel(matmul_few_rows_${format}_packed_bf16_8 "${attributes}"
         "few_rows::PackedKernel<few_rows::PackedLoads<${packed_${format}}Bf16, 1>>::run")
  if(format STREQUAL "mxfp4")  # the kernels for more rows have none for FP16 by MXFP4
    kernel(matmul_few_rows_mxfp4_packed_f16_16 "${attributes}"
           "few_rows::PackedKernel<few_rows::PackedLoads<PackedMxfp4, 2>>::run")
  endif()

  kernel_image(matmul_few_rows_unpacked_${format} 90a cuda/matmul/few_rows/unpacked_kernel.cuh)
  kernel_family(matmul_few_rows_unpacked few_rows::UnpackedArgs matmul_few_rows)
  set(attributes "__launch_bounds__(few_rows::unpacked_threads, 1)")
  kernel(matmul_few_rows_${format}_unpacked_fp4_1 "${attributes}"
         "few_rows::UnpackedKernel<${block_${format}}, few_rows::ByCodes>::run")
  kernel(matmul_few_rows_${format}_unpacked_f16_1 "${attributes}"
         "few_rows::UnpackedKernel<${block_${format}}, few_rows::ByHalves>::run")
endforeach()

# Weights decoded in registers; a tile has `rows` of the weights and `tokens` rows of a.
foreach(weights "mxfp4 mxfp4_bf16 in_registers::Mxfp4Weights" "mxfp8_e4m3 mxfp8_e4m3_bf16 in_registers::Mxfp8Weights<false>"
        "mxfp8_e5m2 mxfp8_e5m2_bf16 in_registers::Mxfp8Weights<true>" "nvfp4 nvfp4_bf16 in_registers::Nvfp4Weights" "nvfp4_f16 nvfp4_f16 in_registers::Nvfp4F16Weights"
        "nvfp4_plain nvfp4_plain in_registers::UnpackedNvfp4Weights")
  string(REPLACE " " ";" weights "${weights}")
  list(GET weights 0 image)
  list(GET weights 1 name)
  list(GET weights 2 type)
  kernel_image(matmul_in_registers_${image} 90a cuda/matmul/in_registers/kernel.cuh)
  kernel_family(matmul_in_registers in_registers::Args)
  foreach(shape 128x256 256x128 128x128 256x64 256x32 256x16 128x64)
    string(REPLACE "x" ", " arguments ${shape})
    kernel(matmul_in_registers_${name}_${shape} "__launch_bounds__(in_registers::tile_shape(${arguments}).threads(), 1)"
           "in_registers::TileProduct<${type}, ${arguments}>::run")
  endforeach()
endforeach()

# Weights expanded first.
set(dense_attributes "__cluster_dims__(expanded::cluster_blocks, 1, 1) __launch_bounds__(in_registers::block_threads, 1)")
set(output_nvfp4 expanded::ToNvfp4)
set(output_mxfp4 expanded::ToMxfp4)
set(output_mxfp8_e4m3 expanded::ToMxfp8E4m3)
set(output_mxfp8_e5m2 expanded::ToMxfp8E5m2)
kernel_image(matmul_expanded 90a cuda/matmul/expanded/kernel.cuh)
kernel_family(matmul_expanded expanded::ProductArgs)
kernel(matmul_expanded_bf16 "${dense_attributes}" "expanded::TileProduct<expanded::Bf16Steps, expanded::ToDense>::run")
kernel(matmul_expanded_f16 "${dense_attributes}" "expanded::TileProduct<expanded::F16Steps, expanded::ToDense>::run")
kernel_image(matmul_expanded_fp8 90a cuda/matmul/expanded/kernel.cuh cuda/matmul/expanded/ready_fp8.cuh)
kernel(matmul_expanded_fp8 "${dense_attributes}" "expanded::TileProduct<expanded::E5m2Steps, expanded::ToDense>::run")
kernel_family(matmul_ready expanded::ReadyFp8Args)
kernel(matmul_ready_fp8 "__launch_bounds__(256)" "expanded::ready_fp8" WAITS)
kernel_image(matmul_expanded_quantized 90a cuda/matmul/expanded/kernel.cuh cuda/matmul/expanded/quantize.cuh)
kernel_family(matmul_expanded_quantized expanded::QuantizedArgs matmul_expanded)
foreach(element "bf16 expanded::Bf16Steps" "f16 expanded::F16Steps" "fp8 expanded::E5m2Steps")
  string(REPLACE " " ";" element "${element}")
  list(GET element 0 name)
  list(GET element 1 type)
  if(name STREQUAL "fp8")
    kernel_image(matmul_expanded_fp8_quantized 90a cuda/matmul/expanded/kernel.cuh cuda/matmul/expanded/quantize.cuh)
  endif()
  foreach(format nvfp4 mxfp4 mxfp8_e4m3 mxfp8_e5m2)
    kernel(matmul_expanded_${name}_to_${format} "${dense_attributes}" "expanded::TileProduct<${type}, ${output_${format}}>::run")
  endforeach()
endforeach()
kernel_image(matmul_expand 90a cuda/matmul/expanded/expand_weights.cuh)
kernel_family(matmul_expand expanded::ExpandWeightsArgs)
foreach(pair "mxfp4_bf16 in_registers::Mxfp4Weights" "nvfp4_bf16 expanded::ExpandedNvfp4" "nvfp4_f16 expanded::ExpandedNvfp4F16"
        "mxfp8_e4m3_bf16 in_registers::Mxfp8Weights<false>" "mxfp8_e5m2_bf16 in_registers::Mxfp8Weights<true>")
  string(REPLACE " " ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 weights)
  kernel(matmul_expand_${name} "__launch_bounds__(256)" "expanded::expand_weights<${weights}>")
endforeach()

kernel_image(matmul_prepare_tiles 90a cuda/matmul/prepare_blocks.cuh cuda/matmul/prepare_tiles.cuh)
kernel_family(matmul_prepare_tiles PrepareTilesArgs)
foreach(pair "dense DenseTokens" "nvfp4 Nvfp4Tokens" "mxfp4 Mxfp4Tokens" "mxfp8_e4m3 Mxfp8Tokens<E4M3>"
        "mxfp8_e5m2 Mxfp8Tokens<E5M2>")
  string(REPLACE " " ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 tokens)
  kernel(matmul_prepare_tiles_${name} "__launch_bounds__(256)" "prepare_tiles<${tokens}>")
endforeach()
kernel_family(matmul_prepare_blocks PrepareTilesArgs)
kernel(matmul_prepare_blocks_nvfp4 "__launch_bounds__(256, 8)" "prepare_by_blocks")

kernel_image(matmul_vector "100f;120f" cuda/matmul/vector/kernel.cuh)
kernel_family(matmul_vector vector::MatmulVectorArgs)
foreach(k 2048 7168 16384 any)
  set(constant ${k})
  if(k STREQUAL "any")
    set(constant 0)
  endif()
  kernel(matmul_vector_nvfp4_${k} "__launch_bounds__(vector::threads, vector::resident_blocks)"
         "vector::multiply_rows<${constant}>" WAITS)
endforeach()

# Block-scaled instructions; a tile by one thread block, and by a cluster of `split_parts`.
set(block_scaled_bounds "__launch_bounds__(block_scaled::threads, block_scaled::resident_blocks)")
foreach(image "fp4 nvfp4_nvfp4=Nvfp4 mxfp4_mxfp4=Mxfp4" "fp8 mxfp8_e4m3_mxfp8_e4m3=E4m3E4m3 mxfp8_e5m2_mxfp8_e5m2=E5m2E5m2"
        "crossed mxfp8_e4m3_mxfp8_e5m2=E4m3E5m2 mxfp8_e5m2_mxfp8_e4m3=E5m2E4m3" "mixed mxfp8_e4m3_mxfp4=E4m3E2m1")
  string(REPLACE " " ";" pairs "${image}")
  list(POP_FRONT pairs name)
  kernel_image(matmul_block_scaled_${name} 120f cuda/matmul/block_scaled/kernel.cuh)
  kernel_family(matmul_block_scaled block_scaled::MatmulBlockScaledArgs)
  foreach(pair ${pairs})
    string(REPLACE "=" ";" pair "${pair}")
    list(GET pair 0 name)
    list(GET pair 1 type)
    kernel(matmul_block_scaled_${name} "${block_scaled_bounds}" "block_scaled::multiply_tile<block_scaled::${type}, 1>" WAITS)
    kernel(matmul_block_scaled_split_${name} "__cluster_dims__(block_scaled::split_parts, 1, 1) ${block_scaled_bounds}"
           "block_scaled::multiply_tile<block_scaled::${type}, block_scaled::split_parts>" WAITS)
  endforeach()
endforeach()

# Products out of tensor memory; tiles of rows of a x rows of the weights, those of 256 rows by pairs of blocks.
foreach(image "nvfp4 nvfp4_nvfp4=Nvfp4" "mxfp4 mxfp4_mxfp4=Mxfp4" "mxfp8 mxfp8_e4m3_mxfp8_e4m3=E4m3E4m3 mxfp8_e5m2_mxfp8_e5m2=E5m2E5m2"
        "crossed mxfp8_e4m3_mxfp8_e5m2=E4m3E5m2 mxfp8_e5m2_mxfp8_e4m3=E5m2E4m3")
  string(REPLACE " " ";" pairs "${image}")
  list(POP_FRONT pairs name)
  kernel_image(matmul_tcgen05_${name} 100f cuda/matmul/tcgen05/kernel.cuh)
  kernel_family(matmul_tcgen05 tcgen05::MatmulTcgen05Args)
  foreach(pair ${pairs})
    string(REPLACE "=" ";" pair "${pair}")
    list(GET pair 0 name)
    list(GET pair 1 type)
    foreach(shape 128x128 128x256 256x256)
      string(REPLACE "x" ", " arguments ${shape})
      set(cluster "")
      if(shape STREQUAL "256x256")
        set(cluster "__cluster_dims__(2, 1, 1) ")
      endif()
      kernel(matmul_tcgen05_${name}_${shape} "${cluster}__launch_bounds__(tcgen05::threads, 1)"
             "tcgen05::TileProduct<tcgen05::${type}, ${arguments}>::run")
    endforeach()
  endforeach()
endforeach()
kernel_image(matmul_scale_tiles 100f cuda/matmul/tcgen05/scale_tiles.cuh)
kernel_family(matmul_scale_tiles tcgen05::ScaleTilesArgs)
kernel(matmul_scale_tiles "__launch_bounds__(tcgen05::scale_threads)" "tcgen05::write_scale_tiles" WAITS)
