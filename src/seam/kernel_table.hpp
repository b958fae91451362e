// What a backend offers: the seam between operations and kernels. An operation checks its
// arguments, cuts the work into lines along the block axis and calls these; kernels never allocate,
// log or throw.
#pragma once

#include <cstdint>

#include "seam/matmul_kernels.hpp"
#include "microscale/context.hpp"
#include "microscale/format.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// `lines` lines of `blocks` whole blocks each, dense to block-scaled. Row-major scales.
struct QuantizeLines {
  const void* input = nullptr;  // line l, element i at input + (l * input_stride + i) elements
  DType input_type = DType::f32;
  std::int64_t input_stride = 0;  // in elements
  std::int64_t lines = 0;
  std::int64_t blocks = 0;  // per line
  Format format = Format::mxfp4;
  Numerics numerics;
  float global_scale = 1.0f;  // NVFP4 decode multiplier
  float tool_global =
      1.0f;  // NVFP4 where follows_tool(): the tool's own number (formats/compat.hpp)
  const float* weights = nullptr;  // blocks * block values of formats/block_weights.hpp, or null
  std::uint64_t first_index = 0;   // stochastic rounding's index of line 0, element 0;
  std::uint64_t index_line_stride = 0,
                index_step = 1;    // of (l, i): first + l * line_stride + i * step
  std::uint8_t* codes = nullptr;   // line l at codes + l * code_stride
  std::int64_t code_stride = 0;    // in bytes
  std::uint8_t* scales = nullptr;  // line l, block b at scales + l * scale_stride + b
  std::int64_t scale_stride = 0;   // in bytes
};

/// The way back.
struct DequantizeLines {
  const std::uint8_t* codes = nullptr;
  std::int64_t code_stride = 0;
  const std::uint8_t* scales = nullptr;
  std::int64_t scale_stride = 0;
  Format format = Format::mxfp4;
  float global_scale = 1.0f;
  std::int64_t lines = 0;
  std::int64_t blocks = 0;
  void* output = nullptr;
  DType output_type = DType::f32;
  std::int64_t output_stride = 0;  // in elements
  bool read_soon = false;          // the output: not past the caches
};

/// Largest magnitude of a run of elements, NaN ignored, and whether any is NaN or infinite.
struct AbsMaxRun {
  float amax = 0;
  bool non_finite = false;
};

struct AttentionKernels;  // seam/attention_kernels.hpp
struct RowKernels;        // seam/row_kernels.hpp

struct KernelTable {
  Backend backend;
  bool (*available)();  // does this machine have the instructions
  bool (*supports_quantize)(const QuantizeLines&);
  void (*quantize)(const QuantizeLines&);
  bool (*supports_dequantize)(const DequantizeLines&);
  void (*dequantize)(const DequantizeLines&);
  AbsMaxRun (*abs_max)(const void* input, DType type, std::int64_t count);
  const RowKernels* rows;
  const MatmulKernels* matmul = nullptr;        // null: none
  const AttentionKernels* attention = nullptr;  // null: none
};

extern const KernelTable reference_kernels;
extern const KernelTable avx2_kernels;
extern const KernelTable avx512_kernels;
extern const KernelTable amx_kernels;

}  // namespace microscale
