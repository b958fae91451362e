// A producer and the quantizer behind it in one pass: what is computed never goes through memory,
// so a layer reads its input once and writes codes and scales. Every backend gives the same bytes.
//
// Producers compute in FP32, in an order that depends on nothing but the shape
// (src/formats/producers.hpp), and the FP32 values are quantized as they are: the bytes are those
// of quantize_into() of the FP32 matrix, with no rounding to the input's type in between.
//
// Backend::cuda: all pointers are device memory, aligned to 16 bytes, rows multiples of 16 bytes
// apart; the call returns before the work is done, allocates nothing and may be captured into a
// graph (see microscale/cuda.hpp). It offers MXFP4, NVFP4 and MXFP8 with nearest-even rounding and
// the rules that are `search` or a function of the block's largest magnitude; otherwise
// Error{unsupported}.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "microscale/context.hpp"
#include "microscale/numerics.hpp"
#include "microscale/tensor.hpp"

namespace microscale {

/// What becomes of the FP32 matrix, rows x cols, blocks along its rows; cols a multiple of the
/// block.
struct QuantizedOutput {
  Format format = Format::mxfp4;
  Numerics numerics{};  ///< no profile of another tool, no stochastic rounding on Backend::cuda
  Layout layout = Layout::row_major;
  std::optional<float> global_scale{};  ///< NVFP4 decode multiplier; required there,
  const float* device_global_scale =
      nullptr;                      ///< on Backend::cuda as FP32 in device memory instead
  std::span<std::uint8_t> codes{};  ///< sized by BlockShape, as scales
  std::span<std::uint8_t> scales{};
};

/// SiLU(gate) * up, SiLU(x) = x / (1 + e^-x): the middle of a gated feed-forward layer. Gates below
/// -43, where |SiLU| < 1e-17, count as -43. One shape and one type for both.
struct SiluMulOptions {
  TensorView gate;
  TensorView up;
  QuantizedOutput output;
};
void silu_mul_quantize_into(const SiluMulOptions& options, const Context& context = {});

/// RMSNorm of each row: x / sqrt(mean(x * x) + epsilon) * weight. With a residual, x is input +
/// residual rounded to their type; that sum is also written to `sum`, which may be the residual's
/// own memory.
struct RmsNormOptions {
  TensorView input;
  const void* weight = nullptr;  ///< cols elements of the input's type; null: none
  float epsilon = 1e-6f;         ///< finite, >= 0
  TensorView residual{};         ///< data null: none; else of the input's shape and type
  MutableTensorView sum{};       ///< required with a residual: of the same shape and type
  QuantizedOutput output;
};
void rms_norm_quantize_into(const RmsNormOptions& options, const Context& context = {});

/// The orthonormal Hadamard transform of each run of `order` neighbours in a row, in natural order:
/// it spreads outliers over a block. cols must be a multiple of the order.
struct HadamardOptions {
  TensorView input;
  int order = 32;  ///< 16, 32, 64 or 128
  std::array<std::uint32_t, 4>
      negated{};  ///< bit i % 32 of word i / 32: element i of every run changes
                  ///< sign first (a random pattern makes the transform random)
  QuantizedOutput output;
};
void hadamard_quantize_into(const HadamardOptions& options, const Context& context = {});

}  // namespace microscale
