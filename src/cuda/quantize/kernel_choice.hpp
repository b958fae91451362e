// Which kernel serves a call.
#pragma once

#include <cstdint>
#include <string_view>

#include "cuda/kernel_table.hpp"
#include "cuda/quantize/args.hpp"
#include "microscale/numerics.hpp"
#include "microscale/tensor.hpp"

namespace microscale::cuda {

enum class KernelMode : std::uint8_t { plain, search, general };

/// The fastest mode that `numerics` allows.
KernelMode kernel_mode(Format format, const Numerics& numerics);

/// The same for kernels made of quantize_tile.cuh's rows, whose searches know 4 over 6, too.
KernelMode row_kernel_mode(Format format, const Numerics& numerics);

/// The fields of `args` that follow from the numerics alone.
void set_numerics(QuantizeArgs& args, Format format, const Numerics& numerics);

/// Mode plain, row-major scales, at most small_elements of geometry.hpp.
Entry<QuantizeArgs> small_kernel(Format format, DType input);
Entry<QuantizeArgs> quantize_kernel(Format format, DType input, KernelMode mode, Layout layout);
Entry<GroupedQuantizeArgs> grouped_kernel(Format format, DType input, KernelMode mode,
                                          Layout layout);
/// Along columns alone or along both axes; mode general has no kernel for both.
Entry<ColumnsArgs> columns_kernel(Format format, DType input, KernelMode mode, bool both);
Entry<DequantizeArgs> dequantize_kernel(Format format, DType output);
Entry<AbsMaxArgs> abs_max_kernel(DType input);
/// `producer` is one of fused_producers.
Entry<FusedArgs> fused_kernel(std::string_view producer, Format format, DType input,
                              KernelMode mode);

}  // namespace microscale::cuda
