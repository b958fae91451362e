// Which kernel serves a call: the names of kernel_names.hpp, put together.
#pragma once

#include <cstdint>
#include <string>

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
std::string small_kernel(Format format, DType input);
std::string quantize_kernel(Format format, DType input, KernelMode mode, Layout layout);
/// Along columns alone or along both axes; mode general has no kernel for both.
std::string columns_kernel(Format format, DType input, KernelMode mode, bool both);
std::string dequantize_kernel(Format format, DType output);
std::string abs_max_kernel(DType input);
/// `producer` is one of fused_producers.
std::string fused_kernel(const char* producer, Format format, DType input, KernelMode mode);

}  // namespace microscale::cuda
