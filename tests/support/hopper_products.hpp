// A product on the emulated Hopper GPU, whatever takes part in it, and its exact result with the
// bound that a kernel must keep.
//
// Of kernels for many rows the bound is hopper_roundings(k) roundings of 2^-24 of the sum of
// magnitudes: an instruction aligns 16 products and the sum so far to the largest of the 17 and
// cuts each below 2^-25 of it, then the result toward zero. Products in FP8 of exact_products.hpp
// have none (Product::exact).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "cuda/matmul/expanded/plan.hpp"
#include "cuda/matmul/in_registers/plan.hpp"
#include "emulator/device.hpp"
#include "layouts/tiled_128x4.hpp"
#include "support/packed_tiles.hpp"
#include "support/products.hpp"

namespace microscale::emulator {

using test::Matrix;
using test::Side;

/// Says that it has a few multiprocessors, so that a block has several tiles and there is more than
/// one block.
class HopperDevice final : public EmulatorDevice {
 public:
  HopperDevice() : EmulatorDevice(9, 0, {.instruction_budget = 2'000'000'000}) { set(2); }
  const cuda::DeviceInfo& info() const override { return info_; }
  int most_clusters(cuda::Kernel kernel, int cluster, int threads, int shared_bytes) override {
    const bool fits = EmulatorDevice::most_clusters(kernel, cluster, threads, shared_bytes) > 0;
    return fits ? info_.multiprocessors / cluster : 0;
  }
  void set(int multiprocessors) {
    info_ = EmulatorDevice::info();
    info_.multiprocessors = multiprocessors;
  }

 private:
  cuda::DeviceInfo info_;
};

/// One for all tests: reading its kernels takes longer than running them.
inline HopperDevice& device() {
  static HopperDevice made;
  return made;
}

/// Operands at random: blocks with scales one after the other, and normal numbers.
inline Side blocks(Format format, std::int64_t rows, std::int64_t cols, unsigned seed = 1) {
  return Side(test::random_blocks(format, rows, cols, Layout::row_major, seed));
}
inline Side dense(DType type, std::int64_t rows, std::int64_t cols, unsigned seed = 1) {
  return Side(test::gaussian(type, rows, cols, seed, 1.0f));
}

/// A product to be computed, on the host; what is not set does not take part.
struct Product {
  Side a, b;  // of all matrices, one below the other
  std::int64_t m, matrices = 1;
  std::vector<std::int64_t> offsets{};  // experts, or these
  std::vector<std::int64_t> counts{};
  std::int64_t capacity = 0;
  std::vector<std::int64_t> scales_of{};  // instead of offsets that decrease: whose tiles there are
  bool wide_offsets = false, tiled = false, fp8 = false;
  bool expanded = false;        // by the kernels of expanded weights
  bool constant = false;        // MatmulOptions::constant_weights
  bool unpacked = false;        // its weights are not packed,
  bool unpacked_tiled = false;  // and their scales are in 128x4 tiles
  bool unaligned = false;       // dense a begins 2 bytes behind a multiple of 16
  double roundings = 0;         // of 2^-24 a term; 0: those of the kernels for many rows
  bool exact = false;           // sums are exact, and only what comes behind them rounds
  std::optional<Side> up{};
  bool gelu = false;
  DType d_type = DType::f32;
  std::int64_t d_more = 0;  // elements between d's rows
  float alpha = 1.0f;
  std::optional<Matrix> bias{}, up_bias{};  // matrices x n
  std::vector<float> row_weights{}, a_globals{}, b_globals{}, up_globals{};

  std::int64_t n() const { return b.values.rows / matrices; }
  std::int64_t k() const { return b.values.cols; }
  std::int64_t rows() const { return a.values.rows; }
  bool experts() const { return !offsets.empty() || !counts.empty(); }
  /// The rows of a matrix, as numbers of all rows.
  std::pair<std::int64_t, std::int64_t> rows_of(std::int64_t matrix) const {
    if (!counts.empty())
      return {matrix * capacity, matrix * capacity + counts[static_cast<std::size_t>(matrix)]};
    if (offsets.empty()) return {matrix * m, (matrix + 1) * m};
    return {offsets[static_cast<std::size_t>(matrix)],
            offsets[static_cast<std::size_t>(matrix) + 1]};
  }
};

/// Device memory of one call.
class Buffers {
 public:
  ~Buffers() {
    for (void* memory : all_) device().release(memory);
  }
  void* raw(std::size_t bytes) {
    all_.push_back(device().allocate(static_cast<std::int64_t>(bytes + 1)));
    return all_.back();
  }
  template <class T>
  T* put(const T* from, std::size_t count) {
    void* to = raw(count * sizeof(T));
    device().copy_to_device(to, from, static_cast<std::int64_t>(count * sizeof(T)), nullptr);
    return static_cast<T*>(to);
  }
  template <class Range>
  auto* put(const Range& from) {
    return put(from.data(), from.size());
  }
  const float* floats(const std::vector<float>& from) { return from.empty() ? nullptr : put(from); }

 private:
  std::vector<void*> all_;
};

/// Scales in tiles, those of each matrix by themselves.
inline std::vector<std::uint8_t> tiled_scales(const Product& product) {
  Product p = product;
  if (!p.scales_of.empty()) p.offsets = p.scales_of;
  const BlockTensor& a = *p.a.blocks;
  const std::int64_t blocks = a.shape().blocks_per_line();
  std::vector<std::uint8_t> tiled;
  for (std::int64_t matrix = 0; matrix < p.matrices; ++matrix) {
    const auto [first, end] = p.rows_of(matrix);
    const std::size_t begin = tiled.size();
    const std::int64_t region = p.counts.empty() ? end - first : p.capacity;
    tiled.resize(begin + static_cast<std::size_t>(tiled_128x4::bytes(region, blocks)));
    for (std::int64_t row = first; row < end; ++row)
      for (std::int64_t block = 0; block < blocks; ++block)
        tiled[begin + static_cast<std::size_t>(tiled_128x4::offset(row - first, block, blocks))] =
            a.scales()[static_cast<std::size_t>(row * blocks + block)];
  }
  return tiled;
}

inline constexpr std::uint8_t untouched = 0x5A;

inline cuda::ProductRows rows_of(const Product& p, Buffers& memory) {
  cuda::ProductRows rows{p.experts() ? p.rows() : p.m, p.matrices, nullptr, 0};
  if (p.experts()) {
    const std::vector<std::int64_t>& numbers = p.counts.empty() ? p.offsets : p.counts;
    const std::vector<std::int32_t> narrow(numbers.begin(), numbers.end());
    rows.expert_rows = p.wide_offsets ? static_cast<const void*>(memory.put(numbers))
                                      : static_cast<const void*>(memory.put(narrow));
    rows.wide_numbers = p.wide_offsets;
    if (!p.counts.empty()) rows.capacity = p.capacity;
  }
  return rows;
}

inline Matrix untouched_rows(const Product& p) {
  Matrix d(p.d_type, p.rows(), p.n() + p.d_more);
  std::fill(d.bytes.begin(), d.bytes.end(), untouched);
  return d;
}

inline cuda::ProductOutput output_of(const Product& p, Buffers& memory, const Matrix& d) {
  cuda::ProductOutput out{};
  out.d = memory.put(d.bytes);
  out.d_stride = d.cols;
  out.d_matrix = p.experts() ? 0 : p.m * d.cols;
  out.d_type = static_cast<std::int32_t>(p.d_type);
  if (p.bias) {
    out.bias = memory.put(p.bias->bytes);
    out.bias_type = static_cast<std::int32_t>(p.bias->dtype);
  }
  if (p.up_bias) {
    out.up_bias = memory.put(p.up_bias->bytes);
    out.up_bias_type = static_cast<std::int32_t>(p.up_bias->dtype);
  }
  out.bias_matrix = p.n();
  out.a_global = memory.floats(p.a_globals);
  out.b_global = memory.floats(p.b_globals);
  out.up_global = memory.floats(p.up_globals);
  out.a_global_step = p.a_globals.size() > 1;
  out.b_global_step = p.b_globals.size() > 1;
  out.row_weights = memory.floats(p.row_weights);
  out.alpha = p.alpha;
  out.gated = p.up.has_value();
  out.gelu = p.gelu;
  return out;
}

/// Everything but the output.
inline cuda::Product operands_of(const Product& p, Buffers& memory) {
  cuda::Product call;
  if (p.a.dense) {
    std::vector<std::uint8_t> bytes(p.unaligned ? 2 : 0);
    bytes.insert(bytes.end(), p.a.dense->bytes.begin(), p.a.dense->bytes.end());
    call.a = {.type = p.a.dense->dtype, .data = memory.put(bytes) + (p.unaligned ? 2 : 0)};
    call.a.stride = 2 * p.k();
  } else {
    const BlockTensor& a = *p.a.blocks;
    call.a = {.format = a.shape().format, .data = memory.put(a.codes())};
    call.a.stride = a.shape().code_bytes_per_line();
    call.a.scales = p.tiled ? memory.put(tiled_scales(p)) : memory.put(a.scales());
    call.a.layout = p.tiled ? Layout::tiled_128x4 : Layout::row_major;
  }
  if (p.unpacked) {
    const auto plain = [&](const BlockTensor& b) {
      const Product rows{.a = Side(b), .b = p.b, .m = p.n(), .matrices = p.matrices};
      return cuda::ProductOperand{
          .format = b.shape().format,
          .data = memory.put(b.codes()),
          .stride = b.shape().code_bytes_per_line(),
          .scales = p.unpacked_tiled ? memory.put(tiled_scales(rows)) : memory.put(b.scales()),
          .layout = p.unpacked_tiled ? Layout::tiled_128x4 : Layout::row_major};
    };
    call.b = plain(*p.b.blocks);
    if (p.up) call.up = plain(*p.up->blocks);
    call.constant_weights = p.constant;
  } else {
    call.constant_weights = p.constant;
    call.b = {.format = p.b.blocks->shape().format,
              .data = memory.put(
                  test::packed_tiles(*p.b.blocks, p.matrices, p.up ? &*p.up->blocks : nullptr)),
              .packed = true};
  }
  call.n = p.n(), call.k = p.k();
  call.fast_accumulation = p.fp8;
  call.grouped = p.experts();
  call.rows = rows_of(p, memory);
  EXPECT_TRUE(cuda::in_registers::takes(device().info(), call));
  return call;
}

/// By the kernels of expanded weights; the workspace that they had. With FP8 the words behind all
/// else may hold anything.
inline std::uint8_t* run_expanded(const cuda::Product& call, Buffers& memory) {
  const cuda::expanded::Plan plan =
      cuda::expanded::plan_of(device().info(), call, call.quantized != nullptr);
  auto* const workspace =
      static_cast<std::uint8_t*>(memory.raw(static_cast<std::size_t>(plan.workspace_bytes)));
  if (plan.fp8) device().set_bytes(workspace + plan.workspace_bytes - 256, 0xFF, 256, nullptr);
  cuda::expanded::run(device(), plan, call, workspace, nullptr);
  return workspace;
}

/// By the kernels that decode in registers; the workspace that they had: flags may hold anything;
/// sums that no block has put would be NaN.
inline std::uint8_t* run_in_registers(const cuda::Product& call, Buffers& memory) {
  const cuda::in_registers::Plan plan = cuda::in_registers::plan_of(device().info(), call);
  std::uint8_t* const workspace =
      memory.put(std::vector<std::uint8_t>(static_cast<std::size_t>(plan.workspace_bytes), 0xFF));
  cuda::in_registers::run(device(), plan, call, workspace, nullptr);
  return workspace;
}

/// d, all rows; what no kernel wrote is `untouched`.
inline Matrix computed(const Product& p) {
  Buffers memory;
  cuda::Product call = operands_of(p, memory);
  Matrix d = untouched_rows(p);
  call.output = output_of(p, memory, d);
  if (p.expanded)
    run_expanded(call, memory);
  else
    run_in_registers(call, memory);
  device().copy_to_host(d.bytes.data(), call.output.d, static_cast<std::int64_t>(d.bytes.size()),
                        nullptr);
  return d;
}

/// A sum with its factor and bias, and how far from it a kernel's may be.
struct Sum {
  double value, off;
};
inline Sum sum_of(const Product& p, const Side& b, std::int64_t matrix, std::int64_t row,
                  std::int64_t col, const std::vector<float>& b_globals,
                  const std::optional<Matrix>& bias) {
  const auto global = [&](const std::vector<float>& all) {
    return all.empty() ? 1.0 : all[all.size() > 1 ? static_cast<std::size_t>(matrix) : 0];
  };
  double sum = 0, magnitude = 0;
  for (std::int64_t i = 0; i < p.k(); ++i) {
    const double product =
        static_cast<double>(p.a.values.at(row, i)) * b.values.at(matrix * p.n() + col, i);
    sum += product, magnitude += std::fabs(product);
  }
  const double factor = p.alpha * global(p.a_globals) * global(b_globals);
  const double value = sum * factor + (bias ? bias->at(matrix, col) : 0);
  if (p.exact) return {value, 0};
  const double roundings = p.roundings > 0
                               ? p.roundings
                               : static_cast<double>(p.fp8 ? test::hopper_fp8_roundings(p.k())
                                                           : test::hopper_roundings(p.k()));
  return {value, roundings * 0x1p-24 * magnitude * std::fabs(factor) * 1.001 +
                     4 * 0x1p-24 * (std::fabs(sum * factor) + std::fabs(value)) + 0x1p-140};
}

/// Activation of the gate times up.
inline Sum gated(const Product& p, Sum gate, Sum up) {
  const double x = gate.value;
  const double z = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  const double active = x / (1 + std::exp(p.gelu ? -2 * z : -x));
  const double value = active * up.value;
  return {value, 1.2 * gate.off * (std::fabs(up.value) + up.off) + std::fabs(active) * up.off +
                     0x1p-15 * std::fabs(value) + 1e-15 * std::fabs(up.value)};
}

inline ::testing::AssertionResult near_exact(const Product& p, const Matrix& d) {
  std::vector<bool> owned(static_cast<std::size_t>(p.rows()));
  for (std::int64_t matrix = 0; matrix < p.matrices; ++matrix) {
    const auto [first, end] = p.rows_of(matrix);
    for (std::int64_t row = first; row < end; ++row) {
      owned[static_cast<std::size_t>(row)] = true;
      for (std::int64_t col = 0; col < p.n(); ++col) {
        Sum s = sum_of(p, p.b, matrix, row, col, p.b_globals, p.bias);
        if (p.up) s = gated(p, s, sum_of(p, *p.up, matrix, row, col, p.up_globals, p.up_bias));
        if (!p.row_weights.empty()) {
          const double weight = p.row_weights[static_cast<std::size_t>(row)];
          s.value *= weight;
          s.off = s.off * std::fabs(weight) + 0x1p-23 * std::fabs(s.value);
        }
        const double limit = s.off + test::half_unit(std::fabs(s.value) + s.off, p.d_type);
        const double got = d.at(row, col);
        const bool same = std::isfinite(s.value) ? std::fabs(got - s.value) <= limit
                          : std::isnan(s.value)  ? std::isnan(got)
                                                 : got == s.value;
        if (!same)
          return ::testing::AssertionFailure()
                 << "d[" << row << ", " << col << "] of matrix " << matrix << " is " << got
                 << ", exactly " << s.value << ", allowed " << limit;
      }
    }
  }
  const std::int64_t element = size_of(p.d_type);
  for (std::int64_t i = 0; i < d.rows * d.cols; ++i)
    if (!owned[static_cast<std::size_t>(i / d.cols)] || i % d.cols >= p.n())
      for (std::int64_t byte = 0; byte < element; ++byte)
        if (d.bytes[static_cast<std::size_t>(i * element + byte)] != untouched)
          return ::testing::AssertionFailure()
                 << "d[" << i / d.cols << ", " << i % d.cols << "] is nobody's, and was written";
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult is_right(const Product& p) { return near_exact(p, computed(p)); }

/// The product, and its bytes whichever warp and copy comes first.
inline void expect_right_in_any_order(const Product& p) {
  const Matrix d = computed(p);
  EXPECT_TRUE(near_exact(p, d));
  const LaunchOptions before = device().options;
  for (const auto& [schedule, completion] :
       {std::pair{Schedule::reverse, Completion::eager}, {Schedule::random, Completion::random}}) {
    device().options.schedule = schedule;
    device().options.completion = completion;
    EXPECT_EQ(computed(p).bytes, d.bytes) << "in another order";
  }
  device().options = before;
}

}  // namespace microscale::emulator
