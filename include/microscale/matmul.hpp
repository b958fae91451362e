// Matrix products on block-scaled operands: d[m,n] = alpha * a[m,k] @ b[n,k]^T + bias.
//
// b are the weights: block-scaled, one line of k elements per column of d. a are the activations:
// dense (FP32, BF16, FP16) or block-scaled; blocks of both lie along k (BlockAxis::cols), and k is
// a multiple of them. m and n are any number. NVFP4's global scales of both sides are part of the
// product. docs/matmul.md has the table of formats and backends, and the error bound.
//
// The sums are FP32 (the reference backend: FP64), in an order that depends on the shapes, how many
// rows each expert has, whether a matrix has scales near the ends of E8M0, and the backend alone:
// the same call gives the same bytes at any number of
// threads. Epilogues compute in FP32; one rounding, to nearest even, takes the result to d's type.
// NaN and infinity pass through as IEEE has it.
//
// The caller owns all memory; spans have exactly the stated sizes. d must not overlap an operand;
// dense data are aligned to their element, and a bias may be of any type. Functions throw Error; a
// call that is refused has written nothing of d.
//
// Backend::cuda: all memory is the device's, at multiples of 16 bytes, rows of dense operands at
// any stride; NVFP4's global scales come as device_global_scale. The call allocates nothing, waits
// for nothing and may be captured into a graph; it works in Context::workspace, as large as the
// function of its options says. a is BF16, FP16 or block-scaled in MXFP4, NVFP4 or MXFP8, and k is
// not 0. Elements that are decoded to 16 bits there keep BF16's or FP16's range: scales of E8M0 so
// large or so small that a product of two elements leaves FP32 may give infinity or less precision
// where the exact result is finite (docs/matmul.md, at the end).
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "microscale/context.hpp"
#include "microscale/fused.hpp"
#include "microscale/grouped.hpp"
#include "microscale/tensor.hpp"

namespace microscale {

/// Weights rearranged for one family of backends by pack_weights; a view of memory of the caller.
struct PackedWeights {
  BlockShape shape;           ///< of one matrix: n x k
  std::int64_t matrices = 1;  ///< of a batch, or experts
  bool gated = false;         ///< a gate and an up matrix each, for gated_matmul
  bool on_cpu = true;         ///< made for the CPU's backends, any of them; else for Backend::cuda
  std::span<const std::uint8_t> bytes;
  float global_scale = 1.0f;     ///< NVFP4 decode multiplier (of the gate, where gated)
  float up_global_scale = 1.0f;  ///< NVFP4, gated
  const float* device_global_scale = nullptr;  ///< Backend::cuda, instead of these two
  const float* device_up_global_scale = nullptr;
};

using MatmulInput = std::variant<TensorView, BlockTensorView>;
using MatmulWeights = std::variant<BlockTensorView, PackedWeights>;
using MatmulOutput = std::variant<MutableTensorView, QuantizedOutput>;

/// `batch` products at once. a, b and d describe one matrix each, m x k, n x k and m x n; those of
/// the next product follow: rows * row_stride elements further in dense memory, and in codes and
/// scales shape.code_bytes() and shape.scale_bytes() further, so spans are `batch` times as long.
/// A quantized d: n a multiple of its block; NVFP4 wants QuantizedOutput::global_scale.
struct MatmulOptions {
  MatmulInput a;
  MatmulWeights b;
  MatmulOutput d;
  std::int64_t batch = 1;
  float alpha = 1.0f;
  TensorView bias{};  ///< 1 x n, added to every row; data null: none
  /// MXFP4 by MXFP4 on Hopper, from some hundred rows on: FP8 tensor cores, at twice the rate.
  /// Products stay exact; sums of 128 of them keep 13 bits behind their leading one before FP32
  /// takes them (docs/matmul_hopper.md). Changes nothing elsewhere.
  bool fast_accumulation = false;
  /// Backend::cuda: nobody writes the weights any more, and whatever did has been waited for. The
  /// product then begins to read them while kernels in front of it still run, which is worth one or
  /// two microseconds where a has few rows (docs/matmul_hopper.md). Changes no result.
  bool constant_weights = false;
};
void matmul(const MatmulOptions& options, const Context& context = {});

/// What a gate goes through before it multiplies.
enum class Activation : std::uint8_t {
  silu,       ///< x / (1 + e^-x)
  gelu_tanh,  ///< x / (1 + e^-2z), z = sqrt(2 / pi) * (x + 0.044715 x^3): GELU as most models have
              ///< it
};

/// d = activation(alpha * a @ gate^T + gate_bias) * (alpha * a @ up^T + up_bias). gate and up agree
/// in shape and format; packed they are one buffer, passed as `gate`, and `up` is left empty. A
/// gate far below zero counts as the point where its activation is below 2^-55.
struct GatedMatmulOptions {
  MatmulInput a;
  MatmulWeights gate;
  BlockTensorView up{};
  MatmulOutput d;
  std::int64_t batch = 1;
  Activation activation = Activation::silu;
  float alpha = 1.0f;
  TensorView gate_bias{}, up_bias{};  ///< 1 x n each; data null: none
  bool fast_accumulation = false;     ///< as in MatmulOptions
  bool constant_weights = false;      ///< as in MatmulOptions
};
void gated_matmul(const GatedMatmulOptions& options, const Context& context = {});

/// Rows of many experts, each group times its own weights (a mixture of experts):
/// d[r,:] = row_weights[r] * (alpha * a[r,:] @ b[e]^T + bias[e,:]) for the rows r of expert e.
/// a and d are one matrix of all rows; groups says whose they are, and groups may be empty. Rows
/// that belong to nobody are neither read nor written. b describes one expert's matrix, the others
/// follow as in a batch. Block-scaled a and d are as grouped_quantize_into writes them: codes where
/// those of the whole matrix would lie, scales sized by grouped_scale_bytes.
struct GroupedMatmulOptions {
  MatmulInput a;
  MatmulWeights b;
  MatmulOutput d;
  ExpertRows groups{};
  float alpha = 1.0f;
  const float* row_weights = nullptr;  ///< one per row of a; null: 1
  TensorView bias{};                   ///< experts x n; data null: none
  /// NVFP4: `experts` decode multipliers each; null: the one of the view for all of them (of a
  /// quantized d not on Backend::cuda, which wants d_global_scales).
  const float* a_global_scales = nullptr;
  const float* b_global_scales = nullptr;
  const float* d_global_scales = nullptr;
  bool fast_accumulation = false;  ///< as in MatmulOptions
  bool constant_weights = false;   ///< as in MatmulOptions
};
void grouped_matmul(const GroupedMatmulOptions& options, const Context& context = {});

/// Bytes of Context::workspace that a call with these options takes; 0 but on Backend::cuda. A
/// function of shapes, formats and the backend, not of what memory holds. Throws Error.
std::int64_t matmul_workspace_bytes(const MatmulOptions& options, const Context& context);
std::int64_t matmul_workspace_bytes(const GatedMatmulOptions& options, const Context& context);
std::int64_t matmul_workspace_bytes(const GroupedMatmulOptions& options, const Context& context);

/// Bytes that pack_weights writes for `matrices` matrices of `shape` (n x k); gated: for two each.
/// At most 0.6 per 4-bit element: on the CPU of matrices of 8192 elements or more, on Backend::cuda
/// of those whose rows are padded little, to a multiple of 16, and k to one of 64. Throws Error.
std::int64_t packed_weights_bytes(const BlockShape& shape, std::int64_t matrices = 1,
                                  bool gated = false, const Context& context = {});

/// Rearranges weights once, into `bytes` (exactly packed_weights_bytes of them, at a multiple of
/// 64, as std::aligned_alloc gives; apart from b), which must outlive the result. b describes one
/// of `matrices` matrices, as in MatmulOptions. For context.backend: the CPU's share one form, and
/// there products of packed and plain weights are the same bytes; on Backend::cuda they are within
/// the same bound.
PackedWeights pack_weights(const BlockTensorView& b, std::span<std::uint8_t> bytes,
                           std::int64_t matrices = 1, const Context& context = {});

/// The same of a gate and an up matrix, for gated_matmul.
PackedWeights pack_gated_weights(const BlockTensorView& gate, const BlockTensorView& up,
                                 std::span<std::uint8_t> bytes, std::int64_t matrices = 1,
                                 const Context& context = {});

}  // namespace microscale
