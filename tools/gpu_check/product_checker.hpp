// Single products of backend cuda against the reference's FP64 sums: what products.cpp calls for
// many operands.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>

#include "equality.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "product_operand.hpp"
#include "support/roundings.hpp"

namespace microscale::cuda {

// Roundings of 2^-24 that a term goes through at most (docs/matmul.md, docs/matmul_hopper.md).
inline double roundings(std::int64_t m, std::int64_t k, bool fast = false) {
  if (fast) return static_cast<double>(test::hopper_fp8_roundings(k));
  if (m > 8) return 11.0 * std::ceil(static_cast<double>(k) / 16) + 64;
  return 22.0 * std::ceil(static_cast<double>(k) / 128) + 160;
}

class ProductChecker {
 public:
  ProductChecker(Device& device, EqualityTotals& totals) : device_(device), totals_(totals) {}

  // Of `matrices`, m and n rows of a and b each.
  void product(const CheckedOperand& a, const CheckedOperand& b, std::int64_t m, std::int64_t n,
               bool packed, DType type, bool fast = false, std::int64_t matrices = 1) {
    const std::int64_t rows = matrices * m, k = b.blocks->shape().cols;
    const std::string what = fmt::format("{} x {} {}, {} of {} x {} x {}", a.name(), b.name(),
                                         packed ? "packed" : "plain", matrices, m, n, k);
    const DeviceBytes d(device_, rows * n * size_of(type));
    BlockTensorView weights = b.device_blocks();
    weights.shape.rows = n;
    std::unique_ptr<DeviceBytes> memory;
    MatmulOptions options{.a = rows_of(a.on_device(), m), .b = weights, .d = {}, .batch = matrices};
    options.d = MutableTensorView{d.data(), type, m, n, n, Memory::device};
    options.fast_accumulation = fast;
    if (packed) options.b = pack(memory, weights, nullptr, matrices);
    const Matrix bias = test::gaussian(DType::bf16, 1, n, 13, 3.0f), bias_size = absolute(bias);
    const DeviceBytes bias_there(device_, bias.bytes);
    const bool more = calls_ % 3 == 0;  // a factor, and a bias
    if (more) options.alpha = -0.75f;
    if (more) options.bias = {bias_there.data(), DType::bf16, 1, n, n, Memory::device};
    run(options);

    Matrix wanted(DType::f32, rows, n), magnitude(DType::f32, rows, n);
    const auto sums = [&](const MatmulInput& input, BlockTensorView of, float alpha,
                          const Matrix& added, Matrix& result) {
      of.shape.rows = n;
      MatmulOptions host{.a = rows_of(input, m), .b = of, .d = {}, .batch = matrices};
      host.d = MutableTensorView{result.bytes.data(), DType::f32, m, n, n};
      host.alpha = alpha;
      if (more) host.bias = added.view();
      matmul(host, reference);
    };
    sums(a.host(), b.blocks->view(), options.alpha, bias, wanted);
    sums(a.host_magnitude(), b.magnitude->view(), std::fabs(options.alpha), bias_size, magnitude);
    compare(what, d, type, wanted, [&](std::int64_t i, std::int64_t j) {
      return bound(magnitude.at(i, j), roundings(m, k, fast));
    });
  }

  // Of operands whose sums are exact (support/exact_products.hpp), so that a chunk of k that is
  // lost shows in each element that lost it, also where the bound is wide: FP8 (`fast`).
  void exact(const CheckedOperand& a, const CheckedOperand& b, std::int64_t m, std::int64_t n,
             bool packed, bool fast) {
    const DeviceBytes d(device_, m * n * 4);
    std::unique_ptr<DeviceBytes> memory;
    const BlockTensorView weights = b.device_blocks();
    MatmulOptions options{.a = a.on_device(), .b = weights, .d = {}};
    options.fast_accumulation = fast;
    if (packed) options.b = pack(memory, weights, nullptr);
    options.d = MutableTensorView{d.data(), DType::f32, m, n, n, Memory::device};
    run(options);
    Matrix wanted(DType::f32, m, n);
    matmul({.a = a.host(), .b = b.blocks->view(), .d = wanted.mutable_view()}, reference);
    ++totals_.calls;
    totals_.elements += m * n;
    const std::string what = fmt::format("exact {} x {} {}{}, {} x {} x {}", a.name(), b.name(),
                                         packed ? "packed" : "plain", fast ? " in FP8" : "", m, n,
                                         b.blocks->shape().cols);
    if (!d.margins_untouched()) return fail(what + ": wrote outside its output");
    Matrix result(DType::f32, m, n);
    result.bytes = d.to_host();
    std::int64_t others = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) others += result.at(i, j) != wanted.at(i, j);
    if (others > 0) fail(fmt::format("{}: {} of {} elements differ", what, others, m * n));
  }

  // A quantized d against the FP32 d of the same product, quantized on the host: the same bytes.
  void quantized(const CheckedOperand& a, const CheckedOperand& b, std::int64_t m, std::int64_t n,
                 bool packed, Format format, Layout layout, bool fast = false) {
    const std::string what =
        fmt::format("{} x {} {}, {} x {} to {} {}", a.name(), b.name(), packed ? "packed" : "plain",
                    m, n, info(format).name, layout == Layout::row_major ? "rows" : "tiled");
    const BlockShape shape{m, n, format, BlockAxis::cols, layout};
    const float one = 0.75f;
    const DeviceBytes d(device_, m * n * 4), codes(device_, shape.code_bytes()),
        scales(device_, shape.scale_bytes()), global(device_, raw(&one, 4));
    const BlockTensorView weights = b.device_blocks();
    std::unique_ptr<DeviceBytes> memory;
    MatmulOptions options{.a = a.on_device(), .b = weights, .d = {}};
    options.fast_accumulation = fast;
    if (packed) options.b = pack(memory, weights, nullptr);
    options.d = MutableTensorView{d.data(), DType::f32, m, n, n, Memory::device};
    run(options);
    QuantizedOutput out{.format = format, .layout = layout};
    out.numerics.scale_rule = info(format).e8m0_scale ? ScaleRule::rceil : ScaleRule::nearest;
    out.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(global.data()));
    out.codes = span_of(codes), out.scales = span_of(scales);
    out.memory = Memory::device;
    options.d = out;
    run(options);

    Matrix sums(DType::f32, m, n);
    sums.bytes = d.to_host();
    BlockTensor wanted(shape);
    QuantizeOptions quantize{.input = sums.view(), .format = format, .numerics = out.numerics};
    quantize.layout = layout;
    if (format == Format::nvfp4) quantize.global_scale = one;
    quantize_into(quantize, wanted.codes(), wanted.scales(), reference);
    ++totals_.calls;
    totals_.elements += m * n;
    if (!codes.margins_untouched() || !scales.margins_untouched())
      return fail(what + ": wrote outside its output");
    if (codes.to_host() != bytes_of(std::as_const(wanted).codes())) fail(what + ": other codes");
    if (scales.to_host() != bytes_of(std::as_const(wanted).scales())) fail(what + ": other scales");
  }

  // The same call again and again: the same bytes.
  void repeated(const CheckedOperand& a, const CheckedOperand& b, std::int64_t m, std::int64_t n,
                bool packed, int times) {
    std::unique_ptr<DeviceBytes> memory;
    const BlockTensorView weights = b.device_blocks();
    MatmulOptions options{.a = a.on_device(), .b = weights, .d = {}};
    if (packed) options.b = pack(memory, weights, nullptr);
    const DeviceBytes d(device_, m * n * 4);
    options.d = MutableTensorView{d.data(), DType::f32, m, n, n, Memory::device};
    std::vector<std::uint8_t> first;
    int others = 0;
    for (int i = 0; i < times; ++i) {
      run(options);
      if (i == 0) first = d.to_host();
      others += d.to_host() != first;
    }
    totals_.calls += times;
    totals_.elements += times * m * n;
    if (others > 0)
      fail(fmt::format("{} x {} {}, {} x {}: {} of {} calls gave other bytes than the first",
                       a.name(), b.name(), packed ? "packed" : "plain", m, n, others, times));
  }

  void gated(const CheckedOperand& a, const CheckedOperand& gate, const CheckedOperand& up,
             std::int64_t m, std::int64_t n, bool packed) {
    const std::string what = fmt::format("gated {} x {} {}, {} x {}", a.name(), gate.name(),
                                         packed ? "packed" : "plain", m, n);
    const DeviceBytes d(device_, m * n * 4);
    std::unique_ptr<DeviceBytes> memory;
    const BlockTensorView gate_view = gate.device_blocks(), up_view = up.device_blocks();
    GatedMatmulOptions options{.a = a.on_device(), .gate = gate_view, .up = up_view, .d = {}};
    options.d = MutableTensorView{d.data(), DType::f32, m, n, n, Memory::device};
    if (calls_ % 3 == 0) options.activation = Activation::gelu_tanh;
    if (packed) {
      options.gate = pack(memory, gate_view, &up_view);
      options.up = {};
    }
    run(options);

    const auto plain = [&](const MatmulInput& input, const BlockTensor& weights) {
      Matrix result(DType::f32, m, n);
      matmul({.a = input, .b = weights.view(), .d = result.mutable_view()}, reference);
      return result;
    };
    const Matrix g = plain(a.host(), *gate.blocks), u = plain(a.host(), *up.blocks),
                 g_size = plain(a.host_magnitude(), *gate.magnitude),
                 u_size = plain(a.host_magnitude(), *up.magnitude);
    Matrix wanted(DType::f32, m, n);
    gated_matmul({.a = a.host(),
                  .gate = gate.blocks->view(),
                  .up = up.blocks->view(),
                  .d = wanted.mutable_view(),
                  .activation = options.activation},
                 reference);
    const std::int64_t k = gate.blocks->shape().cols;
    constexpr double steepest = 1.2;  // slope of SiLU and of GELU, a little above
    compare(what, d, DType::f32, wanted, [&](std::int64_t i, std::int64_t j) {
      const double eg = bound(g_size.at(i, j), roundings(m, k)),
                   eu = bound(u_size.at(i, j), roundings(m, k)), up_value = std::fabs(u.at(i, j));
      return steepest * eg * (up_value + eu) + std::fabs(g.at(i, j)) * eu +
             std::fabs(wanted.at(i, j)) * 0x1p-16;
    });
  }

  // Rows of experts, some of them empty, against the reference: by offsets, or by counts of a
  // capacity each.
  void grouped(Format input, const CheckedOperand& b, std::int64_t experts, std::int64_t n,
               bool packed, std::int64_t capacity = 0) {
    const std::vector<std::int64_t> numbers = capacity == 0
                                                  ? std::vector<std::int64_t>{2, 2, 9, 30, 31}
                                                  : std::vector<std::int64_t>{0, 1, capacity, 3};
    const auto groups = [&](const void* at) {
      return capacity == 0 ? ExpertRows{at, OffsetType::i64, experts}
                           : ExpertRows{nullptr, OffsetType::i64, experts, at, capacity};
    };
    const auto owned = [&](std::int64_t row) {
      if (capacity == 0) return row >= numbers.front() && row < numbers.back();
      const std::int64_t expert = row / capacity;
      return expert < experts && row % capacity < numbers[static_cast<std::size_t>(expert)];
    };
    const std::int64_t rows = capacity == 0 ? 33 : experts * capacity + 2,
                       k = b.blocks->shape().cols;
    BlockTensor part = test::random_blocks(input, rows, k, Layout::row_major, 5);
    const CheckedOperand a(device_, part);
    const std::string what =
        fmt::format("grouped by {} {} x {} {}", capacity == 0 ? "offsets" : "counts", a.name(),
                    b.name(), packed ? "packed" : "plain");
    BlockTensorView one = b.device_blocks();
    one.shape.rows = n;
    const DeviceBytes d(device_, rows * n * 4);
    const DeviceBytes places(device_, raw(numbers.data(), numbers.size() * 8));
    std::vector<float> a_globals, b_globals, weights;
    for (std::int64_t e = 0; e < experts; ++e) {
      a_globals.push_back(0.5f + static_cast<float>(e));
      b_globals.push_back(2.0f - 0.25f * static_cast<float>(e));
    }
    for (std::int64_t r = 0; r < rows; ++r) weights.push_back(0.125f * static_cast<float>(r + 1));
    const DeviceBytes a_scales(device_, raw(a_globals.data(), a_globals.size() * 4)),
        b_scales(device_, raw(b_globals.data(), b_globals.size() * 4)),
        row_weights(device_, raw(weights.data(), weights.size() * 4));
    const auto each = [](const DeviceBytes& scales) {
      return GlobalScale::per_expert(reinterpret_cast<const float*>(scales.data()), Memory::device);
    };
    std::unique_ptr<DeviceBytes> memory;
    GroupedMatmulOptions options{.a = a.on_device(), .b = one, .d = {}};
    if (packed) options.b = pack(memory, one, nullptr, experts);
    options.d = MutableTensorView{d.data(), DType::f32, rows, n, n, Memory::device};
    options.groups = groups(places.data());
    options.row_weights = reinterpret_cast<const float*>(row_weights.data());
    std::get<BlockTensorView>(options.a).global_scale = each(a_scales);
    std::visit([&](auto& weights) { weights.global_scale = each(b_scales); }, options.b);
    run(options);

    Matrix wanted(DType::f32, rows, n), magnitude(DType::f32, rows, n);
    for (std::int64_t i = 0; i < rows * n; ++i)  // rows of no expert stay as they were
      std::memset(wanted.bytes.data() + 4 * i, 0xA5, 4);
    GroupedMatmulOptions host{.a = a.host(), .b = b.blocks->view(), .d = wanted.mutable_view()};
    std::get<BlockTensorView>(host.b).shape.rows = n;
    host.groups = groups(numbers.data());
    host.row_weights = weights.data();
    const auto of_a = GlobalScale::per_expert(a_globals.data()),
               of_b = GlobalScale::per_expert(b_globals.data());
    std::get<BlockTensorView>(host.a).global_scale = of_a;
    std::get<BlockTensorView>(host.b).global_scale = of_b;
    grouped_matmul(host, reference);
    host.a = a.host_magnitude();
    std::get<BlockTensorView>(host.a).global_scale = of_a;
    BlockTensorView sizes = b.magnitude->view();
    sizes.shape.rows = n;
    sizes.global_scale = of_b;
    host.b = sizes;
    host.d = magnitude.mutable_view();
    grouped_matmul(host, reference);
    compare(what, d, DType::f32, wanted, [&](std::int64_t i, std::int64_t j) {
      return owned(i) ? bound(magnitude.at(i, j), roundings(rows, k)) : 0.0;
    });
  }

 private:
  static constexpr Context reference{.backend = Backend::reference};

  static std::vector<std::uint8_t> raw(const void* data, std::size_t bytes) {
    const auto* first = static_cast<const std::uint8_t*>(data);
    return {first, first + bytes};
  }
  static MatmulInput rows_of(MatmulInput input, std::int64_t rows) {
    if (auto* dense = std::get_if<TensorView>(&input))
      dense->rows = rows;
    else
      std::get<BlockTensorView>(input).shape.rows = rows;
    return input;
  }
  static double bound(double magnitude, double roundings) {
    return roundings * 0x1p-24 * magnitude + 0x1p-140;
  }

  PackedWeights pack(std::unique_ptr<DeviceBytes>& memory, const BlockTensorView& b,
                     const BlockTensorView* up, std::int64_t matrices = 1) {
    const Context context{.backend = Backend::cuda};
    PackOptions options{.b = b, .matrices = matrices};
    if (up) options.up = *up;
    memory = std::make_unique<DeviceBytes>(device_, packed_weights_bytes(options, context));
    return pack_weights(options, span_of(*memory), context);
  }

  template <class Options>
  void run(Options options) {
    Context context{.backend = Backend::cuda};
    options.constant_weights = ++calls_ / 2 % 2 != 0;
    if (options.constant_weights) device_.synchronize(nullptr);
    const DeviceBytes workspace(device_, microscale::matmul_workspace_bytes(options, context));
    context.workspace = span_of(workspace);
    if constexpr (std::is_same_v<Options, MatmulOptions>)
      microscale::matmul(options, context);
    else if constexpr (std::is_same_v<Options, GatedMatmulOptions>)
      gated_matmul(options, context);
    else
      grouped_matmul(options, context);
    if (!workspace.margins_untouched()) fail("wrote outside the workspace");
  }

  template <class Bound>
  void compare(const std::string& what, const DeviceBytes& got, DType type, const Matrix& wanted,
               Bound&& allowed) {
    ++totals_.calls;
    totals_.elements += wanted.rows * wanted.cols;
    Matrix result(type, wanted.rows, wanted.cols);
    result.bytes = got.to_host();
    if (!got.margins_untouched()) return fail(what + ": wrote outside its output");
    for (std::int64_t i = 0; i < wanted.rows; ++i)
      for (std::int64_t j = 0; j < wanted.cols; ++j) {
        const double exact = wanted.at(i, j), value = result.at(i, j);
        const double unit = type == DType::f32 ? 0x1p-22 : type == DType::f16 ? 0x1p-11 : 0x1p-8;
        if (type == DType::f16 && std::fabs(exact) + allowed(i, j) >= 65504 && value * exact > 0)
          continue;
        const double limit = allowed(i, j) +
                             (limit_is_zero(exact, value) ? 0 : unit * std::fabs(exact)) +
                             (type == DType::f16 ? 0x1p-24 : 0);
        if (exact != exact ? value == value : !(std::fabs(value - exact) <= limit))
          return fail(fmt::format("{}: d[{}, {}] is {}, exactly {}; allowed {}", what, i, j, value,
                                  exact, limit));
      }
  }
  static bool limit_is_zero(double exact, double value) { return exact == value; }

  void fail(const std::string& what) {
    ++totals_.failed;
    if (totals_.differences.size() < 20) totals_.differences.push_back(what);
  }

  Device& device_;
  int calls_ = 0;  // so far: weights of every second two, plain and packed, are declared constant
  EqualityTotals& totals_;
};

}  // namespace microscale::cuda
