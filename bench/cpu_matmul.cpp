#include "cpu_matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/kernel_table.hpp"
#include "core/threads.hpp"
#include "formats/half.hpp"
#include "formats/random.hpp"
#include "memory_limits.hpp"
#include "microscale/error.hpp"
#include "microscale/matmul.hpp"
#include "core/matmul_call.hpp"
#include "ops/matmul_products.hpp"
#include "reference/matmul.hpp"

namespace microscale::bench {
namespace {

enum class Kind { plain, gated, grouped };

struct Case {
  std::string name;
  Kind kind;
  std::int64_t m, n, k;  // of one product; gated: n columns of d
  Format weights;
  std::optional<Format> input{};  // nothing: BF16
  std::int64_t experts = 1;       // grouped: m rows each
};

struct Memory {
  explicit Memory(std::size_t bytes)
      : size(bytes),
        data(static_cast<std::uint8_t*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)),
             &std::free) {
    if (!data)
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("no memory for {} bytes; use a smaller --rotate-mib", bytes));
  }
  std::span<std::uint8_t> span() const { return {data.get(), size}; }
  std::size_t size;
  std::unique_ptr<std::uint8_t, void (*)(void*)> data;
};

// Codes of every value; scales of a spread of magnitudes; no NaN.
void fill_blocks(Format format, std::span<std::uint8_t> codes, std::span<std::uint8_t> scales,
                 std::uint32_t seed) {
  const FormatInfo& facts = info(format);
  parallel_for(static_cast<std::int64_t>((codes.size() + 65535) / 65536), 0, [&](std::int64_t p) {
    const std::size_t first = static_cast<std::size_t>(p) * 65536;
    for (std::size_t i = first; i < std::min(codes.size(), first + 65536); ++i) {
      auto code = static_cast<std::uint8_t>(mix32(static_cast<std::uint32_t>(i) + seed));
      if (facts.code_bits == 8 && (code & 0x7C) == 0x7C) code &= 0xBF;
      codes[i] = code;
    }
  });
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::uint32_t r = mix32(static_cast<std::uint32_t>(i) ^ (seed * 77u));
    scales[i] = static_cast<std::uint8_t>(facts.e8m0_scale ? 118 + r % 8 : 0x30 + r % 0x28);
  }
}

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

class Measurement {
 public:
  Measurement(const Case& c, const MatmulBenchOptions& options) : c_(c), options_(options) {
    const std::int64_t sides = c.kind == Kind::gated ? 2 : 1;
    shape_ = {c.n, c.k, c.weights};
    bytes_ =
        static_cast<std::size_t>((shape_.code_bytes() + shape_.scale_bytes()) * sides * c.experts);
    const bool small = c.m <= 16 && c.kind != Kind::grouped;  // bound by reading the weights
    if (small) copies_ = std::max<std::size_t>(1, (options.rotate + bytes_ - 1) / bytes_);
    pack();
    for (std::size_t i = 1; i < copies_; ++i) copy_first();
    make_input();
    output_.resize(static_cast<std::size_t>(rows() * c.n));
    for (std::int64_t e = 0; e <= c.experts; ++e) offsets_.push_back(static_cast<int>(e * c.m));
  }

  MatmulTiming run() {
    MatmulTiming t{.name = c_.name};
    t.threads = options_.context.threads > 0 ? options_.context.threads : available_cores();
    t.operations =
        2.0 * static_cast<double>(rows() * c_.n * c_.k) * (c_.kind == Kind::gated ? 2 : 1);
    t.bytes = static_cast<double>(bytes_);
    multiply(0);
    if (c_.kind == Kind::plain) t.worst_error = worst_error();
    std::vector<double> times, reads;
    std::size_t copy = 0;
    const int rounds = c_.m <= 16 ? 4 * options_.runs : options_.runs;
    for (int r = 0; r < rounds; ++r) {
      times.push_back(seconds([&] { multiply(copy++ % copies_); }));
      reads.push_back(seconds([&] {
        const Memory& weights = packed_memory_[copy++ % copies_];
        move_bytes(weights.data.get(), weights.size, nullptr, 0, t.threads);
      }));
    }
    t.seconds = median(times);
    t.read_seconds = median(reads);
    return t;
  }

 private:
  std::int64_t rows() const { return c_.m * c_.experts; }

  void pack() {
    const std::int64_t matrices = c_.experts;
    const auto codes = static_cast<std::size_t>(matrices * shape_.code_bytes()),
               scales = static_cast<std::size_t>(matrices * shape_.scale_bytes());
    const bool gated = c_.kind == Kind::gated;
    std::vector<Memory> plain;
    std::vector<BlockTensorView> views;
    for (unsigned side = 0; side < (gated ? 2u : 1u); ++side) {
      plain.emplace_back(codes + scales);
      const std::span<std::uint8_t> all = plain.back().span();
      fill_blocks(c_.weights, all.first(codes), all.subspan(codes), side);
      views.push_back({shape_, all.first(codes), all.subspan(codes), 0.01f});
    }
    packed_memory_.emplace_back(
        static_cast<std::size_t>(packed_weights_bytes(shape_, matrices, gated)));
    const std::span<std::uint8_t> bytes = packed_memory_.back().span();
    packed_.push_back(gated ? pack_gated_weights(views[0], views[1], bytes, matrices)
                            : pack_weights(views[0], bytes, matrices));
  }

  void copy_first() {
    packed_memory_.emplace_back(packed_memory_[0].size);
    const Memory& copy = packed_memory_.back();
    copy_bytes(packed_memory_[0].data.get(), copy.data.get(), copy.size, 0);
    packed_.push_back(packed_[0]);
    packed_.back().bytes = copy.span();
  }

  void make_input() {
    if (!c_.input) {
      dense_.resize(static_cast<std::size_t>(rows() * c_.k));
      for (std::size_t i = 0; i < dense_.size(); ++i) {
        const std::uint32_t r = mix32(static_cast<std::uint32_t>(i));
        dense_[i] = static_cast<std::uint16_t>((r & 0x807F) | ((118 + (r >> 8) % 9) << 7));
      }
      input_ = TensorView{dense_.data(), DType::bf16, rows(), c_.k, c_.k};
      return;
    }
    blocks_ = BlockTensor({rows(), c_.k, *c_.input});
    fill_blocks(*c_.input, blocks_.codes(), blocks_.scales(), 99);
    blocks_.global_scale = 0.01f;
    input_ = blocks_.view();
  }

  void multiply(std::size_t copy) {
    const MutableTensorView d{output_.data(), DType::bf16, rows(), c_.n, c_.n};
    if (c_.kind == Kind::gated)
      return gated_matmul({.a = input_, .gate = packed_[copy], .d = d}, options_.context);
    if (c_.kind == Kind::plain)
      return matmul({.a = input_, .b = packed_[copy], .d = d}, options_.context);
    GroupedMatmulOptions o{.a = input_, .b = packed_[copy], .d = d};
    o.groups = {offsets_.data(), OffsetType::i32, c_.experts};
    grouped_matmul(o, options_.context);
  }

  // Sampled elements of the first copy's product against FP64, in units of the bound for FP32 sums
  // of k terms in any order, then BF16.
  double worst_error() const {
    const MatmulInput& a = input_;
    const MatmulWeights b = packed_[0];
    const MatmulOutput d = MutableTensorView{};
    const MatmulCall call{.a = a, .b = b, .d = d};
    const ProductRun run = resolve_products(call).runs.at(0);
    double worst = 0;
    for (std::uint32_t s = 0; s < 64; ++s) {
      const std::int64_t i = mix32(s) % c_.m, j = mix32(s + 1000) % c_.n;
      double sum = 0, magnitude = 0;
      for (std::int64_t e = 0; e < c_.k; ++e) {
        const double p = matmul_element(run.product.a, i, e) * matmul_element(run.b.rows, j, e);
        sum += p, magnitude += std::fabs(p);
      }
      const double wanted = sum * run.product.factor,
                   got = bf16_to_float(output_[static_cast<std::size_t>(i * c_.n + j)]);
      const double bound = static_cast<double>(c_.k) * 0x1p-24 * magnitude * run.product.factor +
                           std::fabs(wanted) * 0x1p-8 + 1e-38;
      worst = std::max(worst, std::fabs(got - wanted) / bound);
    }
    return worst;
  }

  const Case& c_;
  const MatmulBenchOptions& options_;
  BlockShape shape_;
  std::size_t bytes_ = 0, copies_ = 1;
  std::vector<Memory> packed_memory_;
  std::vector<PackedWeights> packed_;
  std::vector<std::uint16_t> dense_, output_;
  BlockTensor blocks_;
  MatmulInput input_;
  std::vector<int> offsets_;
};

std::vector<Case> all_cases() {
  using enum Format;
  std::vector<Case> cases;
  for (Format w : {nvfp4, mxfp4, mxfp8_e4m3}) {
    const std::string name(info(w).name);
    for (std::int64_t m : {1, 4, 16})
      cases.push_back(
          {fmt::format("{} weights, m {}, 4096 x 14336", name, m), Kind::plain, m, 4096, 14336, w});
    cases.push_back({name + " weights, m 512, 4096 x 14336", Kind::plain, 512, 4096, 14336, w});
    cases.push_back({name + " gated, m 1, 2048 x 14336 twice", Kind::gated, 1, 2048, 14336, w});
    cases.push_back({name + " gated, m 512, 2048 x 14336 twice", Kind::gated, 512, 2048, 14336, w});
    cases.push_back(
        {name + " grouped, 8 x m 64, 512 x 14336", Kind::grouped, 64, 512, 14336, w, {}, 8});
    cases.push_back(
        {fmt::format("{0} x {0}, m 1, 4096 x 14336", name), Kind::plain, 1, 4096, 14336, w, w});
    cases.push_back(
        {fmt::format("{0} x {0}, m 512, 4096 x 14336", name), Kind::plain, 512, 4096, 14336, w, w});
  }
  return cases;
}

}  // namespace

void measure_matmul(const MatmulBenchOptions& options,
                    const std::function<void(const MatmulTiming&)>& take) {
  for (const Case& c : all_cases())
    if (c.name.find(options.filter) != std::string::npos) take(Measurement(c, options).run());
}

}  // namespace microscale::bench
