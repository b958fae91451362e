// Quantize and dequantize on the CPU beside the limit of the same run: a loop that moves the same
// bytes in the same mix and computes nothing, timed in turn with the kernel. Buffers are past every
// cache.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
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
    throw Error(ErrorCode::out_of_memory, fmt::format("no memory for {} bytes; use --size", bytes));
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
};

struct Options {
  std::size_t size = std::size_t{1} << 30;  // bytes of dense data
  int runs = 7;
  bool json = false;
  std::string filter;
  std::vector<int> threads{1, 0};
};

// One case at one thread count: kernel, loop and memcpy in turn, medians.
void run(const Case& c, const Options& options, int threads, bool first) {
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
  const double time = median(kernel_times), limit = median(loop_times);
  const double bytes = static_cast<double>(dense_bytes + packed);
  const double memcpy_rate = static_cast<double>(dense_bytes) / median(copy_times);
  const double rate = bytes / time;
  const int shown = threads == 0 ? available_cores() : threads;
  if (options.json) {
    fmt::print(
        "{}{{\"case\":\"{}\",\"threads\":{},\"seconds\":{:.6f},\"bytes\":{},\"gb_per_s\":{:.3f},"
        "\"dense_gb_per_s\":{:.3f},\"share_of_loop\":{:.4f},\"share_of_memcpy\":{:.4f}}}",
        first ? "" : ",\n", c.name, shown, time, bytes, rate / 1e9,
        static_cast<double>(dense_bytes) / time / 1e9, limit / time, rate / memcpy_rate);
  } else {
    fmt::print("{:<30} {:>3} {:>9.1f} {:>8.2f} {:>10.2f} {:>10.1f} {:>10.1f}\n", c.name, shown,
               time * 1e3, rate / 1e9, static_cast<double>(dense_bytes) / time / 1e9,
               100 * limit / time, 100 * rate / memcpy_rate);
  }
  std::fflush(stdout);
}

std::vector<Case> all_cases() {
  using enum Format;
  std::vector<Case> cases{
      {"f32 to mxfp4 rceil", DType::f32, mxfp4, ScaleRule::rceil, false},
      {"bf16 to mxfp4 rceil", DType::bf16, mxfp4, ScaleRule::rceil, false},
      {"bf16 to nvfp4 nearest", DType::bf16, nvfp4, ScaleRule::nearest, false},
      {"bf16 to mxfp8 rceil", DType::bf16, mxfp8_e4m3, ScaleRule::rceil, false},
      {"f16 to mxfp4 rceil", DType::f16, mxfp4, ScaleRule::rceil, false},
      {"f32 to nvfp4 nearest", DType::f32, nvfp4, ScaleRule::nearest, false},
      {"f32 to mxfp8 rceil", DType::f32, mxfp8_e4m3, ScaleRule::rceil, false},
      {"bf16 to mxfp4 search", DType::bf16, mxfp4, ScaleRule::search, false},
      {"bf16 to nvfp4 search", DType::bf16, nvfp4, ScaleRule::search, false},
      {"bf16 to mxfp8 search", DType::bf16, mxfp8_e4m3, ScaleRule::search, false},
      {"mxfp4 to bf16", DType::bf16, mxfp4, ScaleRule::rceil, true},
      {"nvfp4 to bf16", DType::bf16, nvfp4, ScaleRule::nearest, true},
      {"mxfp8 to bf16", DType::bf16, mxfp8_e4m3, ScaleRule::rceil, true},
      {"mxfp4 to f32", DType::f32, mxfp4, ScaleRule::rceil, true},
  };
  return cases;
}

int main_checked(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc)
        throw Error(ErrorCode::invalid_argument, argument + " needs a value; see --help");
      return argv[++i];
    };
    if (argument == "--json")
      options.json = true;
    else if (argument == "--size-mib")
      options.size = std::stoull(value()) << 20;
    else if (argument == "--runs")
      options.runs = std::stoi(value());
    else if (argument == "--filter")
      options.filter = value();
    else if (argument == "--threads")
      options.threads = {std::stoi(value())};
    else {
      fmt::print(
          "quantize_bench [--filter TEXT] [--size-mib 1024] [--runs 7] [--threads N] [--json]\n"
          "Rates are GB/s of dense plus packed bytes, and of dense bytes alone; the shares are of "
          "a\n"
          "loop that moves the same bytes, timed in turn with the kernel, and of memcpy.\n");
      return argument == "--help" ? 0 : 2;
    }
  }
  if (options.json)
    fmt::print("[");
  else
    fmt::print("backend {}\n{:<30} {:>3} {:>9} {:>8} {:>10} {:>10} {:>10}\n",
               to_string(available_backends().front()), "case", "thr", "ms", "GB/s", "dense GB/s",
               "% of loop", "% memcpy");
  bool first = true;
  for (const Case& c : all_cases()) {
    if (c.name.find(options.filter) == std::string::npos) continue;
    for (int threads : options.threads) {
      run(c, options, threads, first);
      first = false;
    }
  }
  if (options.json) fmt::print("]\n");
  return 0;
}

}  // namespace
}  // namespace microscale::bench

int main(int argc, char** argv) {
  try {
    return microscale::bench::main_checked(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "quantize_bench: {}\n", error.what());
    return 4;
  }
}
