#include "cpu_quantize.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "clock.hpp"
#include "core/threads.hpp"
#include "formats/random.hpp"
#include "host_memory.hpp"
#include "memory_limits.hpp"
#include "microscale/error.hpp"
#include "microscale/fused.hpp"
#include "microscale/quantize.hpp"

namespace microscale::bench {
namespace {

// Values with Gaussian-like spread (a sum of four uniforms) times a power of two per 64 elements.
void fill(void* data, DType type, std::int64_t count) {
  parallel_for((count + 65535) / 65536, 0, [&](std::int64_t piece) {
    for (std::int64_t i = piece * 65536; i < std::min(count, (piece + 1) * 65536); ++i) {
      const auto u = static_cast<std::uint64_t>(i);
      float sum = -2.0f;
      for (int k = 0; k < 4; ++k)
        sum += static_cast<float>(random16(static_cast<std::uint64_t>(k), u)) / 65536.0f;
      const float value =
          sum * (0.01f + static_cast<float>(mix32(static_cast<std::uint32_t>(i >> 6)) & 15));
      if (type == DType::f32)
        static_cast<float*>(data)[i] = value;
      else
        static_cast<std::uint16_t*>(data)[i] =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >>
                                       16);  // truncated BF16; for F16 any finite pattern does
    }
  });
}

enum class Work { quantize, dequantize, silu_mul, rms_norm, hadamard };

struct Case {
  std::string name;
  DType dtype;
  Format format;
  ScaleRule rule;
  Work work;
  double must;
  BlockAxis axis = BlockAxis::cols;
  Rounding rounding = Rounding::nearest_even;
};

// One case: kernel, loop and memcpy in turn, medians.
Result measure_case(const Case& c, const CpuOptions& options, const Watcher& watcher) {
  const int threads = options.context.threads;
  constexpr std::int64_t cols = 8192;
  const std::int64_t sides = c.work == Work::silu_mul ? 2 : 1;  // one matrix behind the other
  const std::int64_t rows =
      static_cast<std::int64_t>(options.size) / size_of(c.dtype) / cols / sides / 32 * 32;
  const auto side_bytes = static_cast<std::size_t>(rows * cols * size_of(c.dtype)),
             dense_bytes = side_bytes * static_cast<std::size_t>(sides);
  const BlockShape shape{.rows = rows, .cols = cols, .format = c.format, .axis = c.axis};
  const auto code_bytes = static_cast<std::size_t>(shape.code_bytes());
  const auto scale_bytes = static_cast<std::size_t>(shape.scale_bytes());
  const HostMemory dense(dense_bytes, "--size"), codes(code_bytes + scale_bytes, "--size");
  const std::span<std::uint8_t> code_span = codes.span().first(code_bytes),
                                scale_span = codes.span().subspan(code_bytes);
  fill(dense.data(), c.dtype, sides * rows * cols);
  QuantizeOptions q;
  q.input = {dense.data(), c.dtype, rows, cols, cols};
  q.format = c.format;
  q.axis = c.axis;
  q.numerics.scale_rule = c.rule;
  q.numerics.rounding = c.rounding;
  q.global_scale = info(c.format).e8m0_scale ? 1.0f : nvfp4_global_scale(16.0f);
  quantize_into(q, code_span, scale_span, options.context);

  const QuantizedOutput output{.format = c.format,
                               .numerics = q.numerics,
                               .global_scale = q.global_scale,
                               .codes = code_span,
                               .scales = scale_span};
  TensorView second = q.input;
  second.data = dense.data() + (dense_bytes - side_bytes);
  const auto kernel = [&] {
    switch (c.work) {
      case Work::quantize:
        quantize_into(q, code_span, scale_span, options.context);
        return;
      case Work::dequantize:
        return dequantize({shape, code_span, scale_span, q.global_scale},
                          {dense.data(), c.dtype, rows, cols, cols}, options.context);
      case Work::silu_mul:
        return silu_mul_quantize_into({.gate = q.input, .up = second, .output = output},
                                      options.context);
      case Work::rms_norm:
        return rms_norm_quantize_into({.input = q.input, .weight = dense.data(), .output = output},
                                      options.context);
      case Work::hadamard:
        return hadamard_quantize_into({.input = q.input, .output = output}, options.context);
    }
  };
  const std::size_t packed = code_bytes + scale_bytes;
  const auto loop = [&] {
    if (c.work == Work::dequantize)
      move_bytes(codes.data(), packed, dense.data(), dense_bytes, threads);
    else
      move_bytes(dense.data(), dense_bytes, codes.data(), packed, threads);
  };
  const auto copy = [&] {
    copy_bytes(dense.data(), dense.data() + dense_bytes / 2, dense_bytes / 2, threads);
  };
  std::vector<double> kernel_times, loop_times, copy_times;
  for (int i = 0; i <= options.runs && !watcher.stopped(); ++i) {
    const double k = seconds_of(kernel), l = seconds_of(loop);
    if (i == 0) continue;  // warm-up
    kernel_times.push_back(k);
    loop_times.push_back(l);
  }
  Result row{.name = c.name, .threads = threads == 0 ? available_cores() : threads};
  if (kernel_times.empty()) return row;
  for (int i = 0; i < 3; ++i) copy_times.push_back(seconds_of(copy));
  row.seconds = median(kernel_times);
  row.bytes = static_cast<double>(dense_bytes + packed);
  row.limit = "loop";
  row.limit_seconds = median(loop_times);
  row.must = c.must;
  const auto dense_size = static_cast<double>(dense_bytes);
  row.extras = {{"memcpy GB/s", "memcpy_gb_per_s", dense_size / median(copy_times) / 1e9},
                {"", "dense_gb_per_s", dense_size / row.seconds / 1e9}};
  return row;
}

std::vector<Case> all_cases() {
  using enum Format;
  std::vector<Case> cases{
      {"f32 to mxfp4 rceil", DType::f32, mxfp4, ScaleRule::rceil, Work::quantize, 0.8},
      {"bf16 to mxfp4 rceil", DType::bf16, mxfp4, ScaleRule::rceil, Work::quantize, 0.65},
      {"bf16 to nvfp4 nearest", DType::bf16, nvfp4, ScaleRule::nearest, Work::quantize, 0.65},
      {"bf16 to mxfp8 rceil", DType::bf16, mxfp8_e4m3, ScaleRule::rceil, Work::quantize, 0.8},
      {"f16 to mxfp4 rceil", DType::f16, mxfp4, ScaleRule::rceil, Work::quantize, 0},
      {"f32 to nvfp4 nearest", DType::f32, nvfp4, ScaleRule::nearest, Work::quantize, 0},
      {"f32 to mxfp8 rceil", DType::f32, mxfp8_e4m3, ScaleRule::rceil, Work::quantize, 0},
      {"bf16 to mxfp4 search", DType::bf16, mxfp4, ScaleRule::search, Work::quantize, 0},
      {"bf16 to nvfp4 search", DType::bf16, nvfp4, ScaleRule::search, Work::quantize, 0},
      {"bf16 to mxfp8 search", DType::bf16, mxfp8_e4m3, ScaleRule::search, Work::quantize, 0},
      {"bf16 to nvfp4 nearest, stochastic", DType::bf16, nvfp4, ScaleRule::nearest, Work::quantize,
       0, BlockAxis::cols, Rounding::stochastic},
      {"bf16 to mxfp8 rceil, stochastic", DType::bf16, mxfp8_e4m3, ScaleRule::rceil, Work::quantize,
       0, BlockAxis::cols, Rounding::stochastic},
      {"mxfp4 to bf16", DType::bf16, mxfp4, ScaleRule::rceil, Work::dequantize, 0.8},
      {"nvfp4 to bf16", DType::bf16, nvfp4, ScaleRule::nearest, Work::dequantize, 0.8},
      {"mxfp8 to bf16", DType::bf16, mxfp8_e4m3, ScaleRule::rceil, Work::dequantize, 0.8},
      {"mxfp4 to f32", DType::f32, mxfp4, ScaleRule::rceil, Work::dequantize, 0},
      {"bf16 to mxint8 floor", DType::bf16, mxint8, ScaleRule::floor, Work::quantize, 0},
      {"bf16 to mxint8 search", DType::bf16, mxint8, ScaleRule::search, Work::quantize, 0},
      {"mxint8 to bf16", DType::bf16, mxint8, ScaleRule::floor, Work::dequantize, 0},
      {"bf16 to nvfp4 nearest, down the columns", DType::bf16, nvfp4, ScaleRule::nearest,
       Work::quantize, 0, BlockAxis::rows},
      {"nvfp4 to bf16, down the columns", DType::bf16, nvfp4, ScaleRule::nearest, Work::dequantize,
       0, BlockAxis::rows},
      {"bf16 silu * up to nvfp4 nearest", DType::bf16, nvfp4, ScaleRule::nearest, Work::silu_mul,
       0},
      {"bf16 rms norm to nvfp4 nearest", DType::bf16, nvfp4, ScaleRule::nearest, Work::rms_norm, 0},
      {"bf16 hadamard-32 to nvfp4 nearest", DType::bf16, nvfp4, ScaleRule::nearest, Work::hadamard,
       0},
  };
  return cases;
}

}  // namespace

void measure_quantize(const CpuOptions& options, const Watcher& watcher) {
  measure_each(all_cases(), options.filter, watcher,
               [&](const Case& c) { return measure_case(c, options, watcher); });
}

}  // namespace microscale::bench
