#include "cpu_quantize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "core/threads.hpp"
#include "formats/random.hpp"
#include "memory_limits.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale::bench {
namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::uint8_t, Free>;

Buffer allocate(std::size_t bytes) {
  auto* p = static_cast<std::uint8_t*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (!p)
    throw Error(ErrorCode::out_of_memory,
                fmt::format("no memory for {} bytes; use a smaller --size", bytes));
  std::memset(p, 1, bytes);
  return Buffer(p);
}

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

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

struct Case {
  std::string name;
  DType dtype;
  Format format;
  ScaleRule rule;
  bool dequantize;
  double must;
};

// One case: kernel, loop and memcpy in turn, medians.
CpuTiming measure_case(const Case& c, const CpuOptions& options) {
  const int threads = options.threads;
  constexpr std::int64_t cols = 8192;
  const std::int64_t rows = static_cast<std::int64_t>(options.size) / size_of(c.dtype) / cols;
  const auto dense_bytes = static_cast<std::size_t>(rows * cols * size_of(c.dtype));
  const BlockShape shape{.rows = rows, .cols = cols, .format = c.format};
  const auto code_bytes = static_cast<std::size_t>(shape.code_bytes());
  const auto scale_bytes = static_cast<std::size_t>(shape.scale_bytes());
  const Buffer dense = allocate(dense_bytes), codes = allocate(code_bytes + scale_bytes);
  const std::span<std::uint8_t> code_span{codes.get(), code_bytes},
      scale_span{codes.get() + code_bytes, scale_bytes};
  fill(dense.get(), c.dtype, rows * cols);
  const Context context{.backend = Backend::automatic, .threads = threads};
  QuantizeOptions q;
  q.input = {dense.get(), c.dtype, rows, cols, cols};
  q.format = c.format;
  q.numerics.scale_rule = c.rule;
  q.global_scale = nvfp4_global_scale(16.0f);
  quantize_into(q, code_span, scale_span, context);

  const auto kernel = [&] {
    if (!c.dequantize) {
      quantize_into(q, code_span, scale_span, context);
    } else {
      dequantize({shape, code_span, scale_span, *q.global_scale},
                 {dense.get(), c.dtype, rows, cols, cols}, context);
    }
  };
  const std::size_t packed = code_bytes + scale_bytes;
  const auto loop = [&] {
    if (c.dequantize)
      move_bytes(codes.get(), packed, dense.get(), dense_bytes, threads);
    else
      move_bytes(dense.get(), dense_bytes, codes.get(), packed, threads);
  };
  const auto copy = [&] {
    copy_bytes(dense.get(), dense.get() + dense_bytes / 2, dense_bytes / 2, threads);
  };
  std::vector<double> kernel_times, loop_times, copy_times;
  for (int i = 0; i <= options.runs; ++i) {
    const double k = seconds(kernel), l = seconds(loop);
    if (i == 0) continue;  // warm-up
    kernel_times.push_back(k);
    loop_times.push_back(l);
  }
  for (int i = 0; i < 3; ++i) copy_times.push_back(seconds(copy));
  CpuTiming timing{.name = c.name, .threads = threads == 0 ? available_cores() : threads};
  timing.seconds = median(kernel_times);
  timing.loop_seconds = median(loop_times);
  timing.dense_bytes = static_cast<double>(dense_bytes);
  timing.packed_bytes = static_cast<double>(packed);
  timing.memcpy_bytes_per_second = static_cast<double>(dense_bytes) / median(copy_times);
  timing.must = c.must;
  return timing;
}

std::vector<Case> all_cases() {
  using enum Format;
  std::vector<Case> cases{
      {"f32 to mxfp4 rceil", DType::f32, mxfp4, ScaleRule::rceil, false, 0.8},
      {"bf16 to mxfp4 rceil", DType::bf16, mxfp4, ScaleRule::rceil, false, 0.65},
      {"bf16 to nvfp4 nearest", DType::bf16, nvfp4, ScaleRule::nearest, false, 0.65},
      {"bf16 to mxfp8 rceil", DType::bf16, mxfp8_e4m3, ScaleRule::rceil, false, 0.8},
      {"f16 to mxfp4 rceil", DType::f16, mxfp4, ScaleRule::rceil, false, 0},
      {"f32 to nvfp4 nearest", DType::f32, nvfp4, ScaleRule::nearest, false, 0},
      {"f32 to mxfp8 rceil", DType::f32, mxfp8_e4m3, ScaleRule::rceil, false, 0},
      {"bf16 to mxfp4 search", DType::bf16, mxfp4, ScaleRule::search, false, 0},
      {"bf16 to nvfp4 search", DType::bf16, nvfp4, ScaleRule::search, false, 0},
      {"bf16 to mxfp8 search", DType::bf16, mxfp8_e4m3, ScaleRule::search, false, 0},
      {"mxfp4 to bf16", DType::bf16, mxfp4, ScaleRule::rceil, true, 0.8},
      {"nvfp4 to bf16", DType::bf16, nvfp4, ScaleRule::nearest, true, 0.8},
      {"mxfp8 to bf16", DType::bf16, mxfp8_e4m3, ScaleRule::rceil, true, 0.8},
      {"mxfp4 to f32", DType::f32, mxfp4, ScaleRule::rceil, true, 0},
  };
  return cases;
}

}  // namespace

void measure_cpu(const CpuOptions& options, const std::function<void(const CpuTiming&)>& take) {
  for (const Case& c : all_cases())
    if (c.name.find(options.filter) != std::string::npos) take(measure_case(c, options));
}

}  // namespace microscale::bench
