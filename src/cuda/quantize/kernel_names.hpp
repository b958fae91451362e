// The names under which kernels are found in a cubin, and the pieces they are made of.
//
//   quantize_<format>_<dtype>_<mode>_<layout>   QuantizeArgs, quantize_launch (mode general:
//   block_launch) quantize_small_<format>_<dtype>             QuantizeArgs, small_launch
//   quantize_columns_<format>_<dtype>_<mode>    ColumnsArgs, columns_launch (general:
//   columns_block_launch) quantize_both_<format>_<dtype>_<mode>       ColumnsArgs, columns_launch
//   (not general) grouped_quantize_<format>_<dtype>_<mode>_<layout>   GroupedQuantizeArgs,
//   grouped_launch; no general fused_<producer>_<format>_<dtype>_<mode>    FusedArgs; silu_mul and
//   hadamard: lane_launch, the others:
//                                               row_launch; modes plain and search
//   dequantize_<format>_<dtype>                 DequantizeArgs, dequantize_launch
//   abs_max_<dtype>                             AbsMaxArgs, abs_max_launch; amax_bits zeroed before
//   global_scale                                AbsMaxArgs, one thread; both pointers may be equal
//   containers_from_codes, codes_from_containers   ContainerArgs, container_launch
//   repack_to_tiled, repack_to_rows             RepackArgs, repack_launch
//
// mode  plain    every E8M0 rule that is a function of amax alone, NVFP4 `nearest`; nearest-even
// rounding
//       search   ScaleRule::search; nearest-even rounding
//       general  every rule and rounding, one thread a block, slower
#pragma once

#include <array>
#include <string_view>

namespace microscale::cuda {

inline constexpr std::array<std::string_view, 4> kernel_formats{"mxfp4", "nvfp4", "mxfp8_e4m3",
                                                                "mxfp8_e5m2"};
inline constexpr std::array<std::string_view, 3> kernel_dtypes{"f32", "f16", "bf16"};
inline constexpr std::array<std::string_view, 3> kernel_modes{"plain", "search", "general"};
inline constexpr std::array<std::string_view, 4> fused_producers{"silu_mul", "rms_norm",
                                                                 "add_rms_norm", "hadamard"};
inline constexpr std::array<std::string_view, 2> kernel_layouts{"rows", "tiled"};

}  // namespace microscale::cuda
