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

/// What to do with a line whose length is no multiple of the block.
enum class Padding : std::uint8_t { refuse, zero };

/// What to do with NaN and infinity in the input.
enum class NonFinite : std::uint8_t {
  encode,  ///< as Numerics::nan and ::inf say
  refuse,  ///< throw Error{bad_input} naming the first position; nothing is promised about the
           ///< output
};

struct QuantizeOptions {
  TensorView input;
  Format format = Format::mxfp4;
  Numerics numerics{};
  BlockAxis axis = BlockAxis::cols;
  Layout layout = Layout::row_major;
  Padding padding = Padding::refuse;
  NonFinite non_finite = NonFinite::encode;
  std::optional<float> global_scale{};  ///< NVFP4 decode multiplier; computed from the input if
                                        ///< absent; other formats have none and take 1 only
  std::optional<float>
      tensor_amax{};  ///< NVFP4: largest magnitude of the whole tensor (or group of
                      ///< tensors) this is a part of; the global scale follows from it
  std::span<const float>
      weights{};  ///< importance of each position along the block axis, for the
                  ///< searches; empty, or input length along the axis, finite, >= 0.
                  ///< Only ratios within a block count, down to 2^-60 of its largest
                  ///< (0 is that little, too); a block of zeros is searched without
  std::uint64_t first_index = 0;  ///< of element (0, 0) in the tensor this is a part of, row-major:
                                  ///< what stochastic rounding counts by
  // Backend::cuda with NVFP4 takes exactly one of the two (device memory, FP32, decode multiplier):
  const float* device_global_scale = nullptr;  ///< given; read when the work runs
  float* computed_global_scale = nullptr;      ///< computed from the input, which is read once more
};

/// Quantizes `options.input`. Throws Error on anything the options do not allow.
BlockTensor quantize(const QuantizeOptions& options, const Context& context = {});

/// As above, into memory of the caller: `codes` and `scales` sized by BlockShape. Returns the
/// global scale. Backend::cuda: all pointers are device memory, the call returns before the work is
/// done, and what it returns is 1 for MX formats and NaN for NVFP4, whose scale is on the device
/// (microscale/cuda.hpp).
float quantize_into(const QuantizeOptions& options, std::span<std::uint8_t> codes,
                    std::span<std::uint8_t> scales, const Context& context = {});

/// Both axes at once, as training wants them: `codes` and `scales` are those of blocks along the
/// rows (BlockAxis::cols), `column_codes` and `column_scales` those of BlockAxis::rows, each sized
/// by the BlockShape of its axis; the same bytes as of two calls of quantize_into, with one NVFP4
/// global scale for both, which is returned as there. options.axis must be left at BlockAxis::cols,
/// and options.weights empty. Backend::cuda reads the input once with nearest-even rounding and
/// every scale rule but `full` and 4-over-6; otherwise twice.
float quantize_both_into(const QuantizeOptions& options, std::span<std::uint8_t> codes,
                         std::span<std::uint8_t> scales, std::span<std::uint8_t> column_codes,
                         std::span<std::uint8_t> column_scales, const Context& context = {});

/// Writes the values of `input` to `output` (input.shape rows x cols), rounded to nearest even.
void dequantize(const BlockTensorView& input, const MutableTensorView& output,
                const Context& context = {});

/// Largest magnitude and first NaN or infinity of a matrix, read once.
struct AbsMax {
  float amax = 0;                ///< NaN ignored; infinity if there is one
  std::int64_t non_finite = -1;  ///< row * cols + col of the first NaN or infinity; -1: none
};
AbsMax abs_max(const TensorView& input, const Context& context = {});

/// NVFP4 decode multiplier for a tensor of magnitude `amax`: the first float at or above amax / (6
/// * 448) for which dividing a block scale by its reciprocal gives the same float as multiplying by
/// it, for all E4M3 scales: so files that store divisors and files that store multipliers decode
/// alike. 1 for amax 0; throws Error{invalid_argument} for one that is negative or NaN.
float nvfp4_global_scale(float amax);

/// As tools other than this one compute it, from amax; a decode multiplier like the above.
float nvfp4_global_scale(float amax, Compat compat);

/// The same scales in another layout. `scales` must be input.shape.scale_bytes() of the target
/// layout.
void repack_scales(const BlockTensorView& input, Layout layout, std::span<std::uint8_t> scales,
                   const Context& context = {});

}  // namespace microscale
