// Matrix products on block-scaled operands: d[m,n] = alpha * a[m,k] @ b[n,k]^T + bias.
//
// b are the weights: block-scaled, one line of k elements per column of d. a are the activations:
// dense (FP32, BF16, FP16) or block-scaled. Blocks of both lie along k (BlockAxis::cols), and k is
// a multiple of the block; m and n are any number. The product includes the global scales of NVFP4
// operands. docs/matmul.md has the table of formats and backends, and the error bound.
//
// Sums are FP32 (the reference backend: FP64). Their order depends only on the shapes, the rows of
// each expert, whether a matrix has scales near the ends of E8M0, and the backend: the same call
// gives the same bytes at any number of threads. Epilogues compute in FP32, and one rounding, to
// nearest even, takes the result to d's type. NaN and infinity pass through as in IEEE 754.
//
// The caller owns all memory; spans have exactly the stated sizes. d must not overlap an operand.
// Dense data are aligned to their element, and a bias may be of any type. Functions throw Error; a
// call that is refused has written nothing of d.
//
// Backend::cuda: addresses are multiples of 16 bytes, rows of dense operands at any stride. The
// call works in Context::workspace, of matmul_workspace_bytes(). a is BF16, FP16, or block-scaled
// in MXFP4, NVFP4 or MXFP8, and k is not 0. Elements decoded to 16 bits keep BF16's or FP16's
// range: where E8M0 scales are so large or so small that a product of two elements leaves FP32, the
// result may be infinity or less precise although the exact one is finite (docs/matmul.md, at the
// end).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "microscale/context.hpp"
#include "microscale/fused.hpp"
#include "microscale/grouped.hpp"
#include "microscale/tensor.hpp"

namespace microscale {

/// Weights that pack_weights has rearranged; a view of memory of the caller.
struct PackedWeights {
  BlockShape shape;              ///< of one matrix: n x k
  std::int64_t matrices = 1;     ///< of a batch, or experts
  bool gated = false;            ///< a gate and an up matrix each, for gated_matmul
  Memory memory = Memory::host;  ///< host: made for the CPU's backends, any of them
  std::span<const std::uint8_t> bytes;
  GlobalScale global_scale = 1.0f;     ///< NVFP4 (of the gate, where gated)
  GlobalScale up_global_scale = 1.0f;  ///< NVFP4, gated
};

using MatmulInput = std::variant<TensorView, BlockTensorView>;
using MatmulWeights = std::variant<BlockTensorView, PackedWeights>;
using MatmulOutput = std::variant<MutableTensorView, QuantizedOutput>;

/// `batch` products at once. a, b and d describe one matrix each: m x k, n x k and m x n. Those of
/// the next product follow: rows * row_stride elements further in dense memory, shape.code_bytes()
/// and shape.scale_bytes() further in codes and scales, so spans are `batch` times as long. For a
/// quantized d, n is a multiple of the block, and NVFP4 needs QuantizedOutput::global_scale.
struct MatmulOptions {
  MatmulInput a;
  MatmulWeights b;
  MatmulOutput d;
  std::int64_t batch = 1;
  float alpha = 1.0f;
  TensorView bias{};  ///< 1 x n, added to every row; data null: none
  /// Multiplies MXFP4 by MXFP4 of some hundred rows and more on Hopper's FP8 tensor cores, at twice
  /// the rate. Products stay exact; sums of 128 of them keep 13 bits behind their leading one
  /// before they are added in FP32 (docs/matmul_hopper.md). No effect elsewhere.
  bool fast_accumulation = false;
  /// Backend::cuda: promises that nothing writes the weights any more and that the work that wrote
  /// them has been waited for. The product then begins to read them while kernels in front of it
  /// still run, which saves one or two microseconds where a has few rows (docs/matmul_hopper.md).
  /// No effect on the result.
  bool constant_weights = false;
};
void matmul(const MatmulOptions& options, const Context& context = {});

/// The function of a gate that multiplies the up projection.
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

/// Multiplies the rows of many experts, each with its expert's weights (a mixture of experts):
/// d[r,:] = row_weights[r] * (alpha * a[r,:] @ b[e]^T + bias[e,:]) for the rows r of expert e.
/// a and d are one matrix of all rows; groups says which expert each has. Rows without an expert
/// are neither read nor written. b describes one expert's matrix, the others follow as in a batch.
/// The global scales of NVFP4 operands are one for all experts or one per expert (a quantized d on
/// Backend::cuda: per expert). Block-scaled a and d are as grouped_quantize_into writes them: codes
/// where those of the whole matrix would lie, scales sized by grouped_scale_bytes.
struct GroupedMatmulOptions {
  MatmulInput a;
  MatmulWeights b;
  MatmulOutput d;
  ExpertRows groups{};
  float alpha = 1.0f;
  const float* row_weights = nullptr;  ///< one per row of a; null: 1
  TensorView bias{};                   ///< experts x n; data null: none
  bool fast_accumulation = false;      ///< as in MatmulOptions
  bool constant_weights = false;       ///< as in MatmulOptions
};
void grouped_matmul(const GroupedMatmulOptions& options, const Context& context = {});

/// Returns the bytes of Context::workspace that a call with these options needs; 0 on the CPU. It
/// depends on shapes, formats and the backend, not on what memory holds. Throws Error.
std::int64_t matmul_workspace_bytes(const MatmulOptions& options, const Context& context);
std::int64_t matmul_workspace_bytes(const GatedMatmulOptions& options, const Context& context);
std::int64_t matmul_workspace_bytes(const GroupedMatmulOptions& options, const Context& context);

/// Weights to be rearranged for matmul() and grouped_matmul(), or with `up` for gated_matmul().
struct PackOptions {
  BlockTensorView b{};                  ///< one of `matrices`, as in MatmulOptions; or the gate
  std::optional<BlockTensorView> up{};  ///< of the gate's shape and format
  std::int64_t matrices = 1;            ///< of a batch, or experts
};

/// Returns the bytes that pack_weights writes: at most 0.6 per 4-bit element, on the CPU of
/// matrices of 8192 elements or more, on Backend::cuda of those whose rows are padded little, to a
/// multiple of 16, and k to one of 64. Reads shapes, `matrices` and where b lies, not codes or
/// scales. Throws Error.
std::int64_t packed_weights_bytes(const PackOptions& options, const Context& context = {});

/// Rearranges weights once, into `bytes`: exactly packed_weights_bytes of them, where b lies, at a
/// multiple of 64, as std::aligned_alloc and DeviceBuffer give; apart from b and up. They must
/// outlive the result. The CPU's backends share one form, and their products of packed and unpacked
/// weights are the same bytes; on Backend::cuda they are within the same bound. Throws Error.
PackedWeights pack_weights(const PackOptions& options, std::span<std::uint8_t> bytes,
                           const Context& context = {});

}  // namespace microscale
