#include "fused.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>

#include "device_bytes.hpp"
#include "formats/half.hpp"
#include "microscale/error.hpp"
#include "microscale/fused.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {
namespace {

constexpr Layout layouts[] = {Layout::row_major, Layout::tiled_128x4};
constexpr float global_scale = 0.0137f;

std::uint32_t bits_of(float value, DType dtype) {
  if (dtype == DType::f16) return float_to_f16(value);
  return dtype == DType::bf16 ? float_to_bf16(value) : std::bit_cast<std::uint32_t>(value);
}

// Rows of a bell curve of width `spread`; one row in four of any bits at all, one with a few
// specials.
std::vector<std::uint8_t> values(DType dtype, std::int64_t rows, std::int64_t stride, float spread,
                                 unsigned seed) {
  const float specials[] = {0.0f,  -0.0f, 1e-38f, -1e-40f, -43.5f,   -88.0f,    81.0f,
                            -1e4f, 1e4f,  3e37f,  -3e37f,  INFINITY, -INFINITY, NAN};
  const auto element = static_cast<std::size_t>(size_of(dtype));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows * stride) * element);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  for (std::int64_t i = 0; i < rows * stride; ++i) {
    const std::int64_t row = i / stride;
    const std::uint32_t random = generator();
    std::uint32_t bits = bits_of(normal(generator), dtype);
    if (row % 4 == 3) bits = random;
    if (row % 4 == 2 && random % 64 == 0) bits = bits_of(specials[(random >> 8) % 14], dtype);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * element, &bits, element);
  }
  return bytes;
}

struct Case {
  int producer;  // 0 SiLU * up, 1 RMSNorm, 2 RMSNorm with a residual, 3 Hadamard
  int order;     // of the Hadamard matrix; for RMSNorm, 0: without a weight
  DType dtype;
  std::int64_t rows, cols, gap;
};

std::string name_of(const Case& c) {
  if (c.producer == 3) return fmt::format("Hadamard-{}", c.order);
  return c.producer == 0   ? "SiLU*up"
         : c.producer == 1 ? c.order ? "RMSNorm" : "RMSNorm, no weight"
                           : "RMSNorm + residual";
}

// One call, where the pointers say.
struct Call {
  void *first = nullptr, *second = nullptr, *sum = nullptr, *weight = nullptr;
  void run(const Case& c, const QuantizedOutput& output, const Context& context) const {
    const std::int64_t stride = c.cols + c.gap;
    const TensorView a{first, c.dtype, c.rows, c.cols, stride, output.memory},
        b{second, c.dtype, c.rows, c.cols, stride, output.memory};
    if (c.producer == 0) return silu_mul_quantize_into({a, b, output}, context);
    if (c.producer == 3)
      return hadamard_quantize_into({a, c.order,
                                     c.gap ? std::array{0x80C3A551u, 0x12345678u, 0xFFFF0000u, 1u}
                                           : std::array<std::uint32_t, 4>{},
                                     output},
                                    context);
    RmsNormOptions options{a, c.order ? weight : nullptr, 1e-5f, {}, {}, output};
    if (c.producer == 2) {
      options.residual = b;
      options.sum = {sum, c.dtype, c.rows, c.cols, stride, output.memory};
    }
    rms_norm_quantize_into(options, context);
  }
};

std::string difference_of(const char* what, const std::vector<std::uint8_t>& got,
                          std::span<const std::uint8_t> want) {
  std::size_t count = 0, first = 0;
  for (std::size_t i = want.size(); i-- > 0;)
    if (got[i] != want[i]) first = i, ++count;
  if (count == 0) return {};
  return fmt::format("{} {} is {:#04x} ({:#04x} wanted), {} of {} differ", what, first, got[first],
                     want[first], count, want.size());
}

void check_case(Device& device, const Case& c, const std::vector<Numerics>& choices, Format format,
                EqualityTotals& totals) {
  if (c.cols % info(format).block != 0) return;
  const std::int64_t stride = c.cols + c.gap;
  std::vector<std::uint8_t> first = values(c.dtype, c.rows, stride, 3.0f, 1),
                            second = values(c.dtype, c.rows, stride, 1.0f, 2),
                            weight = values(c.dtype, 1, c.cols, 1.0f, 3);
  const DeviceBytes device_first(device, first), device_weight(device, weight), global(device, 4);
  device.copy_to_device(global.data(), &global_scale, 4, nullptr);
  for (const Numerics& numerics : choices)
    for (Layout layout : layouts) {
      const BlockShape shape{c.rows, c.cols, format, BlockAxis::cols, layout};
      BlockTensor want(shape);
      std::vector<std::uint8_t> sum = second;  // the sum replaces the residual
      QuantizedOutput output{.format = format, .numerics = numerics, .layout = layout};
      if (format == Format::nvfp4) output.global_scale = global_scale;
      output.codes = want.codes();
      output.scales = want.scales();
      Call{first.data(), sum.data(), sum.data(), weight.data()}.run(c, output, {});

      const DeviceBytes device_second(device, second);
      const DeviceBytes codes(device, shape.code_bytes()), scales(device, shape.scale_bytes());
      output.codes = {codes.data(), static_cast<std::size_t>(codes.size())};
      output.scales = {scales.data(), static_cast<std::size_t>(scales.size())};
      output.memory = Memory::device;
      output.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(global.data()));
      Call{device_first.data(), device_second.data(), device_second.data(), device_weight.data()}
          .run(c, output, {.backend = Backend::cuda});
      ++totals.calls;
      totals.elements += c.rows * c.cols;
      std::string difference = difference_of("scale byte", scales.to_host(), want.scales());
      if (difference.empty())
        difference = difference_of("code byte", codes.to_host(), want.codes());
      if (difference.empty() && c.producer == 2)
        difference = difference_of("sum byte", device_second.to_host(), sum);
      if (difference.empty() && !(codes.margins_untouched() && scales.margins_untouched() &&
                                  device_second.margins_untouched()))
        difference = "wrote outside its output";
      if (difference.empty()) continue;
      ++totals.failed;
      if (totals.differences.size() < 20)
        totals.differences.push_back(fmt::format(
            "{} {} x {} (stride {}) {} to {}, {}, {}: {}", name_of(c), c.rows, c.cols, stride,
            to_string(c.dtype), info(format).name, to_string(numerics.scale_rule),
            layout == Layout::row_major ? "row_major" : "tiled_128x4", difference));
    }
}

// Both ways of sharing rows out, narrow and long rows, whole warps and their lack.
void check_least(Device& device, DType dtype, Format format, const std::vector<Numerics>& policies,
                 EqualityTotals& totals) {
  const std::vector<Numerics> search{{.scale_rule = ScaleRule::search}},
      plain{{.scale_rule = format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::rceil}};
  for (int producer : {0, 1, 2}) {
    for (const auto& [rows, cols, gap] :
         {std::array<std::int64_t, 3>{1, 32, 0}, {3, 48, 8}, {7, 96, 32}, {5, 1056, 0}})
      for (const auto& choice : {search, plain})
        check_case(device, {producer, gap == 0 || producer == 2, dtype, rows, cols, gap}, choice,
                   format, totals);
    check_case(device, {producer, 1, dtype, 4, 96, 0}, policies, format, totals);
    check_case(device, {producer, 1, dtype, 2, 2048, 0}, plain, format, totals);
    if (producer > 0) check_case(device, {producer, 1, dtype, 1, 16416, 0}, plain, format, totals);
  }
  for (int order : {16, 32, 64, 128})
    for (const auto& choice : {search, plain})
      check_case(device, {3, order, dtype, 5, 3 * order, 8}, choice, format, totals);
  check_case(device, {3, 64, dtype, 3, 2048, 0}, plain, format, totals);
}

}  // namespace

void check_fused(Device& device, const Scope& scope, EqualityTotals& totals) {
  const bool quick = scope.amount == Amount::quick;
  for (DType dtype : scope.dtypes)
    for (Format format : scope.formats) {
      std::vector<Numerics> choices{{.scale_rule = ScaleRule::search}};
      if (format == Format::nvfp4) {
        choices.push_back({.scale_rule = ScaleRule::nearest});
      } else {
        choices.push_back({.scale_rule = ScaleRule::floor});
        choices.push_back({.scale_rule = ScaleRule::rceil});
      }
      std::vector<Numerics> policies = choices;
      for (const Numerics& n : choices) {
        policies.push_back(n);
        policies.back().nan = NanPolicy::drop;
        policies.back().zero_code = ZeroCode::positive;
        policies.push_back(n);
        policies.back().inf = InfPolicy::nan_block;
      }
      if (scope.amount == Amount::least) {
        check_least(device, dtype, format, policies, totals);
        continue;
      }
      const std::int64_t shapes[][3] = {{1, 32, 0},    {5, 16, 0},    {3, 48, 8},    {7, 96, 32},
                                        {33, 160, 0},  {129, 64, 64}, {13, 1056, 0}, {9, 2080, 0},
                                        {130, 128, 0}, {6, 7168, 0},  {4, 14336, 8}, {3, 16384, 0},
                                        {5, 16416, 0}, {2, 40032, 0}};
      for (const auto& [rows, cols, gap] : shapes) {
        if (quick && cols > 2080) continue;
        for (int producer : {0, 1, 2})
          check_case(device, {producer, gap == 0 || producer == 2, dtype, rows, cols, gap}, choices,
                     format, totals);
      }
      for (int producer : {0, 1, 2})
        check_case(device, {producer, 1, dtype, quick ? 8 : 400, 512, 0}, policies, format, totals);
      for (int order : {16, 32, 64, 128})
        for (const auto& [rows, cols, gap] : std::vector<std::array<std::int64_t, 3>>{
                 {65, 128, 0}, {129, 384, 64}, {9, 2048, 8}, {3, order, 8}, {21, 3 * order, 0}})
          check_case(device, {3, order, dtype, rows, cols, gap}, choices, format, totals);
    }
}

}  // namespace microscale::cuda
