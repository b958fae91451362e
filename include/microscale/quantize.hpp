// quantize and dequantize: dense <-> block-scaled, bit for bit the same on every backend.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "microscale/context.hpp"
#include "microscale/numerics.hpp"
#include "microscale/tensor.hpp"

namespace microscale {

/// What to do with a line whose length is not a multiple of the block.
enum class Padding : std::uint8_t { refuse, zero };

/// What to do with NaN and infinity in the input.
enum class NonFinite : std::uint8_t {
  encode,  ///< as Numerics::nan and ::inf say
  refuse,  ///< throw Error{bad_input} naming the first position; the output is then undefined
};

struct QuantizeOptions {
  TensorView input;
  Format format = Format::nvfp4;
  Numerics numerics{};
  BlockAxis axis = BlockAxis::cols;
  Layout layout = Layout::row_major;
  Padding padding = Padding::refuse;
  NonFinite non_finite = NonFinite::encode;
  GlobalScale global_scale{};  ///< NVFP4; computed from the input if absent
  /// NVFP4: the largest magnitude of the whole tensor, or group of tensors, of which the input is a
  /// part; the global scale is computed from it.
  std::optional<float> tensor_amax{};
  /// Importance of each position along the block axis, for the scale rules that search: empty, or
  /// as long as the input along that axis; finite, >= 0. Only ratios within a block count, and none
  /// below 2^-60 of its largest (0 counts as that). A block of zeros is searched without.
  std::span<const float> weights{};
  /// Row-major index of element (0, 0) in the tensor of which the input is a part: the counter of
  /// stochastic rounding.
  std::uint64_t first_index = 0;
  /// Backend::cuda, NVFP4 without a global_scale: one FP32 number in device memory, to which the
  /// global scale computed from the input is written; the input is read once more for it.
  float* computed_global_scale = nullptr;
};

/// Quantizes `options.input`. Throws Error on anything the options do not allow.
BlockTensor quantize(const QuantizeOptions& options, const Context& context = {});

/// Quantizes into memory of the caller, in the same memory as the input: `codes` and `scales`,
/// sized by BlockShape. Returns the global scale as BlockTensorView takes it: a number, on
/// Backend::cuda the address it is read from or written to, and 1 for MX formats. On Backend::cuda
/// it returns before the work is done (microscale/cuda.hpp).
GlobalScale quantize_into(const QuantizeOptions& options, std::span<std::uint8_t> codes,
                          std::span<std::uint8_t> scales, const Context& context = {});

/// Quantizes along both axes at once, as training needs: `codes` and `scales` have blocks along the
/// rows (BlockAxis::cols), `column_codes` and `column_scales` have blocks down the columns
/// (BlockAxis::rows), each sized by the BlockShape of its axis. The bytes are those of two calls of
/// quantize_into with one NVFP4 global scale, which is returned as there. Leave options.axis at
/// BlockAxis::cols and options.weights empty. Backend::cuda reads the input once for nearest-even
/// rounding and every scale rule but `full` and 4-over-6, otherwise twice.
GlobalScale quantize_both_into(const QuantizeOptions& options, std::span<std::uint8_t> codes,
                               std::span<std::uint8_t> scales, std::span<std::uint8_t> column_codes,
                               std::span<std::uint8_t> column_scales, const Context& context = {});

/// Writes the values of `input` to `output` (input.shape rows x cols), rounded to nearest even.
void dequantize(const BlockTensorView& input, const MutableTensorView& output,
                const Context& context = {});

/// What one read of a matrix finds.
struct AbsMax {
  float amax = 0;                ///< largest magnitude: NaN ignored, infinity if there is one
  std::int64_t non_finite = -1;  ///< row * cols + col of the first NaN or infinity; -1: none
};
AbsMax abs_max(const TensorView& input, const Context& context = {});

/// Returns the global scale of an NVFP4 tensor whose largest magnitude is `amax`: the first float
/// at or above amax / (6 * 448) for which dividing any E4M3 block scale by its reciprocal gives the
/// same float as multiplying by it, so that files that store divisors and files that store
/// multipliers decode alike. 1 for amax 0. Throws Error{invalid_argument} where amax is negative or
/// NaN.
float nvfp4_global_scale(float amax);

/// Returns the global scale that another tool computes from amax, as a multiplier too.
float nvfp4_global_scale(float amax, Compat compat);

/// Writes the scales of `input` to `scales` in another layout, in the same memory; `scales` has
/// scale_bytes() of input.shape with that layout. Throws Error.
void repack_scales(const BlockTensorView& input, Layout layout, std::span<std::uint8_t> scales,
                   const Context& context = {});

}  // namespace microscale
