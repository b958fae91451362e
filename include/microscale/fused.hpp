// A producer (SiLU * up, RMSNorm, Hadamard) and the quantizer behind it in one pass: the input is
// read once, codes and scales are written, and nothing in between goes through memory. Every
// backend gives the same bytes.
//
// Producers compute in FP32, in an order that depends on the shape alone
// (src/formats/producers.hpp). The bytes are those of quantize_into() of that FP32 matrix: nothing
// is rounded to the input's type in between.
//
// Backend::cuda: addresses and distances of rows are multiples of 16 bytes. It offers MXFP4, NVFP4
// and MXFP8 with nearest-even rounding and the scale rules that search or follow from the block's
// largest magnitude; anything else is Error{unsupported}. See microscale/cuda.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "microscale/context.hpp"
#include "microscale/numerics.hpp"
#include "microscale/tensor.hpp"

namespace microscale {

/// How an FP32 matrix of rows x cols is quantized, and where to: blocks along its rows, cols a
/// multiple of the block.
struct QuantizedOutput {
  Format format = Format::nvfp4;
  Numerics numerics{};  ///< no other tool's profile; on Backend::cuda no stochastic rounding
  Layout layout = Layout::row_major;
  GlobalScale global_scale{};       ///< NVFP4: required
  std::span<std::uint8_t> codes{};  ///< sized by BlockShape, as scales
  std::span<std::uint8_t> scales{};
  Memory memory = Memory::host;  ///< of codes and scales
};

/// SiLU(gate) * up, with SiLU(x) = x / (1 + e^-x): the middle of a gated feed-forward layer. gate
/// and up have one shape and one type. Gates below -43, where |SiLU| < 1e-17, count as -43.
struct SiluMulOptions {
  TensorView gate;
  TensorView up;
  QuantizedOutput output;
};
void silu_mul_quantize_into(const SiluMulOptions& options, const Context& context = {});

/// RMSNorm of each row: x / sqrt(mean(x * x) + epsilon) * weight. With a residual, x is input +
/// residual, rounded to their type and also written to `sum`, which may be the residual itself.
struct RmsNormOptions {
  TensorView input;
  const void* weight = nullptr;  ///< cols elements of the input's type; null: none
  float epsilon = 1e-6f;         ///< finite, >= 0
  TensorView residual{};         ///< data null: none; else of the input's shape and type
  MutableTensorView sum{};       ///< required with a residual: of the same shape and type
  QuantizedOutput output;
};
void rms_norm_quantize_into(const RmsNormOptions& options, const Context& context = {});

/// The same without a quantizer: RMSNorm of each row, computed in FP32 and rounded once to the
/// input's type, into `normed`, of the input's shape and type, apart
/// from them in memory. cols is a multiple of 16; options.output is not read. On a host only: where
/// it would run on Backend::cuda, Error{unsupported}.
void rms_norm_into(const RmsNormOptions& options, const MutableTensorView& normed,
                   const Context& context = {});

/// The orthonormal Hadamard transform, in natural order, of each run of `order` neighbours in a
/// row: it spreads outliers over a block. cols must be a multiple of the order.
struct HadamardOptions {
  TensorView input;
  int order = 32;  ///< 16, 32, 64 or 128
  /// Bit i % 32 of word i / 32: whether element i of every run changes its sign first. A random
  /// pattern makes the transform random.
  std::array<std::uint32_t, 4> negated{};
  QuantizedOutput output;
};
void hadamard_quantize_into(const HadamardOptions& options, const Context& context = {});

}  // namespace microscale
