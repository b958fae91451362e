// Backend::cuda as operations and the converter see it: a table of what a GPU does, which src/cuda
// fills in where a program links it (CMake: microscale::cuda). Nothing below src/cuda names it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "microscale/fused.hpp"
#include "microscale/grouped.hpp"
#include "microscale/kv_cache.hpp"
#include "microscale/matmul.hpp"
#include "microscale/quantize.hpp"
#include "seam/attention_call.hpp"
#include "seam/attention_plan.hpp"
#include "seam/matmul_call.hpp"
#include "seam/matmul_plan.hpp"
#include "seam/tile_quantizer.hpp"

namespace microscale {

/// Each runs on the calling thread's current GPU, ordered by `stream` (a cudaStream_t), and throws
/// Error. Arguments are as the operation has checked them; what depends on the GPU, such as whose
/// memory a pointer names, is checked inside. `workspace`: as many bytes of the GPU's memory as the
/// function for it says.
struct GpuOperations {
  using Bytes = std::span<std::uint8_t>;

  void (*quantize)(const QuantizeOptions&, Bytes codes, Bytes scales, void* stream);
  /// Along both axes; options.axis is BlockAxis::cols.
  void (*quantize_both)(const QuantizeOptions&, Bytes codes, Bytes scales, Bytes column_codes,
                        Bytes column_scales, void* stream);
  void (*grouped_quantize)(const GroupedQuantizeOptions&, Bytes codes, Bytes scales, void* stream);
  void (*silu_mul_quantize)(const SiluMulOptions&, void* stream);
  void (*rms_norm_quantize)(const RmsNormOptions&, void* stream);
  void (*hadamard_quantize)(const HadamardOptions&, void* stream);
  void (*dequantize)(const BlockTensorView& input, const MutableTensorView& output, void* stream);
  void (*repack_scales)(const BlockTensorView& input, Layout layout, Bytes scales, void* stream);
  /// `code_bytes` packed bytes to twice as many containers, or back.
  void (*repack_containers)(const std::uint8_t* input, std::uint8_t* output,
                            std::int64_t code_bytes, bool to_containers, void* stream);

  std::int64_t (*matmul_workspace_bytes)(const MatmulCall&);
  void (*matmul)(const MatmulCall&, Bytes workspace, void* stream);
  /// For the current GPU of the caller, whichever is current when it runs.
  std::unique_ptr<GpuMatmulPlan> (*keep_matmul_plan)(const MatmulCall&);
  std::int64_t (*packed_weights_bytes)(const BlockShape&, std::int64_t matrices, bool gated);
  /// `up` null: not gated.
  PackedWeights (*pack_weights)(const BlockTensorView& b, const BlockTensorView* up, Bytes bytes,
                                std::int64_t matrices, void* stream);

  void (*append_kv)(const AppendKvOptions&, void* stream);
  std::int64_t (*attention_workspace_bytes)(const AttentionCall&);
  void (*attention)(const AttentionCall&, Bytes workspace, void* stream);
  /// For the current GPU of the caller.
  std::unique_ptr<GpuAttentionPlan> (*keep_attention_plan)(const AttentionCall&);

  // For the converter: GPUs by number, current or not.
  /// "NVIDIA H200, sm_90a". Throws Error{unsupported} where no kernels are built for that GPU.
  std::string (*name_of_gpu)(int ordinal);
  void (*load_kernels)(int ordinal);
  std::unique_ptr<TileQuantizer> (*make_tile_quantizer)(int ordinal, const TileBufferSizes& sizes);
  /// Why GPUs leave a tile with these options to the host, in words; empty if they take it.
  std::string_view (*host_only_reason)(const QuantizeOptions&);

  /// Whether `data` is a GPU's memory that the CPU does not read. False where the driver
  /// does not know the address.
  bool (*is_gpu_memory)(const void* data);
};

/// What was provided. Throws Error{unsupported} where nothing was, in the name of `operation`, and
/// says what to link.
const GpuOperations& gpu_operations(const char* operation);

/// As GpuOperations says; false where nothing was provided, and for null.
bool is_gpu_memory(const void* data);

/// `operations` must live until the process ends. src/cuda calls it before main() begins.
void provide_gpu_operations(const GpuOperations& operations) noexcept;

}  // namespace microscale
