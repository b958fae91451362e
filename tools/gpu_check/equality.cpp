#include "equality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "cpu/inputs.hpp"
#include "device_bytes.hpp"
#include "formats/random.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16};
constexpr Layout layouts[] = {Layout::row_major, Layout::tiled_128x4};

struct HostMatrix {
  std::string name;
  DType dtype;
  std::int64_t rows, cols, stride;
  std::vector<std::uint8_t> bytes;
  TensorView view(const void* data) const { return {data, dtype, rows, cols, stride}; }
};

// Rows of `cols` filled from `bits` again and again; `gap` elements after each row.
HostMatrix matrix_of(const test::Input& input, std::int64_t rows, std::int64_t cols,
                     std::int64_t gap) {
  const std::int64_t element = size_of(input.type), stride = cols + gap;
  HostMatrix m{input.name, input.type, rows, cols, stride, {}};
  m.bytes.resize(static_cast<std::size_t>(rows * stride * element));
  std::size_t next = 0;
  for (std::int64_t i = 0; i < rows * stride; ++i) {
    std::memcpy(m.bytes.data() + i * element, &input.bits[next], static_cast<std::size_t>(element));
    if (++next == input.bits.size()) next = 0;
  }
  return m;
}

// Row p, block b: pattern p at position b of the block, among numbers of its own size or of any. 32
// blocks a row.
HostMatrix every_pattern_everywhere(DType dtype) {
  HostMatrix m{"every pattern in every position", dtype, 65536, 1024, 1024, {}};
  m.bytes.resize(65536 * 1024 * 2);
  const std::uint32_t sign = 0x8000u;
  for (std::uint32_t p = 0; p < 65536; ++p) {
    for (std::uint32_t i = 0; i < 1024; ++i) {
      const std::uint32_t random = mix32(p * 1024 + i);
      std::uint32_t bits = random >> 16;                            // anything
      if (random & 3) bits = (p & ~sign) - (random >> 5 & 0x3FFu);  // a little below the pattern
      if ((p & ~sign) < 0x400u || (bits & ~sign) > (dtype == DType::f16 ? 0x7C00u : 0x7F80u))
        bits = random & 0x3FFFu;
      bits = (bits & ~sign) | (random & sign);
      if (i / 32 == i % 32) bits = p;
      const auto stored = static_cast<std::uint16_t>(bits);
      std::memcpy(m.bytes.data() + (p * 1024ull + i) * 2, &stored, 2);
    }
  }
  return m;
}

// As against what a device refuses.
bool is_no_offer(const Error& error) {
  return error.code() == ErrorCode::unsupported &&
         std::string_view(error.what()).find("backend cuda") != std::string_view::npos;
}

enum class Axes : std::uint8_t { rows, columns, both };

std::vector<BlockAxis> block_axes(Axes axes) {
  if (axes == Axes::both) return {BlockAxis::cols, BlockAxis::rows};
  return {axes == Axes::rows ? BlockAxis::cols : BlockAxis::rows};
}

// What one axis shall hold, and its memory on the device.
struct AxisCheck {
  AxisCheck(Device& device, const BlockShape& shape)
      : want(shape), codes(device, shape.code_bytes()), scales(device, shape.scale_bytes()) {}
  BlockTensor want;
  DeviceBytes codes, scales;
  std::span<std::uint8_t> device_codes() const {
    return {codes.data(), static_cast<std::size_t>(codes.size())};
  }
  std::span<std::uint8_t> device_scales() const {
    return {scales.data(), static_cast<std::size_t>(scales.size())};
  }
};

class Equality {
 public:
  explicit Equality(Device& device) : device_(device), global_(device, 4) {}
  EqualityTotals totals;

  // One input on the device, quantized in each way asked for.
  void quantize_all(const HostMatrix& m, Format format, const std::vector<Numerics>& choices,
                    bool compute_global, Axes axes = Axes::rows) {
    const int block = info(format).block;
    for (BlockAxis axis : block_axes(axes))
      if ((axis == BlockAxis::cols ? m.cols : m.rows) % block != 0) return;
    const DeviceBytes input(device_, m.bytes);
    for (const Numerics& numerics : choices)
      for (Layout layout : layouts) one(m, input, format, numerics, layout, compute_global, axes);
  }

 private:
  void one(const HostMatrix& m, const DeviceBytes& input, Format format, const Numerics& numerics,
           Layout layout, bool compute_global, Axes axes) {
    const char* along = axes == Axes::rows      ? ""
                        : axes == Axes::columns ? ", columns"
                                                : ", both axes";
    const std::string what = fmt::format(
        "{} {} x {} (stride {}) {} to {}{}, {}, {}, {}, nan {}, inf {}, zero {}{}", m.name, m.rows,
        m.cols, m.stride, to_string(m.dtype), info(format).name, along,
        to_string(numerics.scale_rule), to_string(numerics.rounding),
        layout == Layout::row_major ? "row_major" : "tiled_128x4", static_cast<int>(numerics.nan),
        static_cast<int>(numerics.inf), static_cast<int>(numerics.zero_code),
        compute_global ? ", own global scale" : "");
    QuantizeOptions options{
        .input = m.view(m.bytes.data()), .format = format, .numerics = numerics, .layout = layout};
    options.first_index = 12345;
    if (format == Format::nvfp4 && !compute_global) options.global_scale = 0.00137f;
    std::vector<AxisCheck> checks;
    float global = 1.0f;
    for (BlockAxis axis : block_axes(axes)) {
      options.axis = axis;
      AxisCheck& check =
          checks.emplace_back(device_, BlockShape{m.rows, m.cols, format, axis, layout});
      global = quantize_into(options, check.want.codes(), check.want.scales()).value();
    }

    options.input = on_device(m.view(input.data()));
    options.global_scale = {};
    auto* device_global = reinterpret_cast<float*>(global_.data());
    if (format == Format::nvfp4 && compute_global) options.computed_global_scale = device_global;
    if (format == Format::nvfp4 && !compute_global) {
      device_.copy_to_device(device_global, &global, 4, nullptr);
      options.global_scale = GlobalScale::on_device(device_global);
    }
    try {
      call(options, checks);
    } catch (const Error& error) {
      if (!is_no_offer(error)) throw;
      totals.not_offered.insert(fmt::format("{} {} {} {}{}", info(format).name, to_string(m.dtype),
                                            to_string(numerics.scale_rule),
                                            to_string(numerics.rounding), along));
      return;
    }
    ++totals.calls;
    totals.elements += m.rows * m.cols;
    std::string difference;
    for (const AxisCheck& check : checks)
      if (difference.empty()) difference = difference_of(check);
    if (format == Format::nvfp4 && compute_global && difference.empty()) {
      float got = 0;
      device_.copy_to_host(&got, device_global, 4, nullptr);
      device_.synchronize(nullptr);
      if (std::memcmp(&got, &global, 4) != 0)
        difference = fmt::format("global scale {} ({})", got, global);
    }
    if (!difference.empty())
      report(what + ": " + difference);
    else if (axes == Axes::rows && m.rows * m.cols <= 1 << 20)
      go_back(checks[0].want, global, checks[0].codes, checks[0].scales, what);
  }

  static void call(QuantizeOptions& options, const std::vector<AxisCheck>& checks) {
    const Context context{.backend = Backend::cuda};
    if (checks.size() == 1) {
      quantize_into(options, checks[0].device_codes(), checks[0].device_scales(), context);
      return;
    }
    options.axis = BlockAxis::cols;
    quantize_both_into(options, checks[0].device_codes(), checks[0].device_scales(),
                       checks[1].device_codes(), checks[1].device_scales(), context);
  }

  static std::string difference_of(const AxisCheck& check) {
    const char* axis = check.want.shape().axis == BlockAxis::cols ? "" : "column ";
    std::string difference = first_difference(fmt::format("{}scale byte", axis),
                                              check.scales.to_host(), check.want.scales());
    if (difference.empty())
      difference = first_difference(fmt::format("{}code byte", axis), check.codes.to_host(),
                                    check.want.codes());
    if (difference.empty() &&
        !(check.codes.margins_untouched() && check.scales.margins_untouched()))
      difference = "wrote outside its output";
    return difference;
  }

  // Dequantizes to every type, and puts the scales into the other layout.
  void go_back(const BlockTensor& tensor, float global, const DeviceBytes& codes,
               const DeviceBytes& scales, const std::string& what) {
    const BlockShape& shape = tensor.shape();
    BlockTensorView host = tensor.view();
    host.global_scale = global;
    BlockTensorView view{shape,
                         {codes.data(), static_cast<std::size_t>(codes.size())},
                         {scales.data(), static_cast<std::size_t>(scales.size())}};
    view.memory = Memory::device;
    view.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(global_.data()));
    for (DType dtype : dtypes) {
      const std::int64_t bytes = shape.rows * shape.cols * size_of(dtype);
      std::vector<std::uint8_t> want(static_cast<std::size_t>(bytes));
      dequantize(host, {want.data(), dtype, shape.rows, shape.cols, shape.cols});
      const DeviceBytes output(device_, bytes);
      try {
        dequantize(view, {output.data(), dtype, shape.rows, shape.cols, shape.cols, Memory::device},
                   {.backend = Backend::cuda});
      } catch (const Error& error) {
        if (!is_no_offer(error)) throw;
        totals.not_offered.insert(
            fmt::format("dequantize {} {}", info(shape.format).name, to_string(dtype)));
        continue;
      }
      ++totals.calls;
      totals.elements += shape.rows * shape.cols;
      std::string difference = first_difference("byte", output.to_host(), want);
      if (difference.empty() && !output.margins_untouched())
        difference = "wrote outside its output";
      if (!difference.empty())
        report(fmt::format("dequantize to {} after {}: {}", to_string(dtype), what, difference));
    }
    BlockShape other = shape;
    other.layout = shape.layout == Layout::row_major ? Layout::tiled_128x4 : Layout::row_major;
    std::vector<std::uint8_t> want(static_cast<std::size_t>(other.scale_bytes()));
    repack_scales(host, other.layout, want);
    const DeviceBytes output(device_, other.scale_bytes());
    repack_scales(view, other.layout, {output.data(), want.size()}, {.backend = Backend::cuda});
    ++totals.calls;
    std::string difference = first_difference("byte", output.to_host(), want);
    if (difference.empty() && !output.margins_untouched()) difference = "wrote outside its output";
    if (!difference.empty()) report(fmt::format("repack_scales after {}: {}", what, difference));
  }

  static std::string first_difference(const std::string& what, std::span<const std::uint8_t> got,
                                      std::span<const std::uint8_t> want) {
    if (std::memcmp(got.data(), want.data(), want.size()) == 0) return {};
    std::size_t first = want.size(), count = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
      if (got[i] != want[i]) first = std::min(first, i), ++count;
    return fmt::format("{} {} is {:#04x} ({:#04x} wanted), {} of {} differ", what, first,
                       got[first], want[first], count, want.size());
  }

  void report(const std::string& difference) {
    ++totals.failed;
    if (totals.differences.size() < 20) totals.differences.push_back(difference);
  }

  Device& device_;
  DeviceBytes global_;
};

// Every rule with nearest even and, for a few, every rounding and policy.
std::vector<Numerics> every_choice(Format format) {
  std::vector<Numerics> choices;
  for (ScaleRule rule : scale_rules(format)) choices.push_back({.scale_rule = rule});
  for (Rounding rounding : {Rounding::nearest_away, Rounding::nearest_toward_zero,
                            Rounding::toward_zero, Rounding::stochastic})
    for (ScaleRule rule : scale_rules(format))
      choices.push_back({.scale_rule = rule, .rounding = rounding, .seed = 0x1234567890ABCDEFu});
  for (ScaleRule rule : {scale_rules(format)[0], scale_rules(format)[2]})
    for (NanPolicy nan : {NanPolicy::propagate, NanPolicy::drop})
      for (InfPolicy inf : {InfPolicy::saturate, InfPolicy::nan_block})
        for (ZeroCode zero : {ZeroCode::keep_sign, ZeroCode::positive})
          choices.push_back({.scale_rule = rule, .nan = nan, .inf = inf, .zero_code = zero});
  return choices;
}

std::vector<Numerics> fast_choices(Format format) {
  std::vector<Numerics> choices;
  for (ScaleRule rule : scale_rules(format))
    if (rule != ScaleRule::full) choices.push_back({.scale_rule = rule});
  return choices;
}

void check_rows(Equality& equality, const Scope& scope) {
  const bool quick = scope.amount == Amount::quick;
  for (DType dtype : scope.dtypes) {
    const std::vector<test::Input> inputs = test::inputs(dtype, quick ? 4096 : 65536);
    for (Format format : scope.formats) {
      const auto all = every_choice(format);
      for (const test::Input& input : inputs)
        equality.quantize_all(matrix_of(input, quick ? 3 : 65, 1024, 0), format, all, false);
      const test::Input& gaussian = inputs[2];
      const std::int64_t shapes[][3] = {{1, 16, 0},     {1, 32, 0},     {1, 4096, 0},
                                        {3, 32, 8},     {7, 96, 32},    {127, 160, 0},
                                        {128, 128, 0},  {129, 64, 64},  {300, 2080, 0},
                                        {1000, 48, 16}, {513, 7168, 0}, {5000, 32, 0}};
      for (const auto& [rows, cols, gap] : shapes)
        if (!quick || rows < 130)
          equality.quantize_all(matrix_of(gaussian, rows, cols, gap), format, fast_choices(format),
                                format == Format::nvfp4 && rows % 2);
      if (format ==
          Format::nvfp4)  // own global scale, over infinities, zeros and subnormals as well
        for (const test::Input& input : inputs)
          equality.quantize_all(matrix_of(input, 65, 1024, 0), format, fast_choices(format), true);
    }
    if (quick || dtype == DType::f32) continue;
    const HostMatrix every = every_pattern_everywhere(dtype);
    for (Format format : scope.formats)
      equality.quantize_all(every, format, fast_choices(format), false);
  }
}

void check_columns(Equality& equality, const Scope& scope) {
  const bool quick = scope.amount == Amount::quick;
  const std::int64_t shapes[][3] = {{16, 16, 0},   {32, 17, 7},    {32, 32, 0},    {128, 128, 0},
                                    {160, 136, 0}, {96, 200, 8},   {256, 1001, 7}, {4096, 32, 0},
                                    {64, 4160, 0}, {1056, 384, 0}, {144, 48, 0}};
  for (DType dtype : scope.dtypes) {
    const std::vector<test::Input> inputs = test::inputs(dtype, quick ? 4096 : 65536);
    for (Format format : scope.formats)
      for (Axes axes : {Axes::columns, Axes::both}) {
        for (const test::Input& input : inputs)
          equality.quantize_all(matrix_of(input, 64, quick ? 96 : 1024, 0), format,
                                axes == Axes::both ? fast_choices(format) : every_choice(format),
                                false, axes);
        for (const auto& [rows, cols, gap] : shapes)
          if (!quick || rows * cols < 40000)
            equality.quantize_all(matrix_of(inputs[2], rows, cols, gap), format,
                                  fast_choices(format), format == Format::nvfp4 && rows != 32,
                                  axes);
      }
  }
}

// More than small_elements of cuda/quantize/args.hpp, where the device has one multiprocessor: the
// kernels for large matrices, with whole tiles and without.
void check_rows_least(Equality& equality, const test::Input& specials, const test::Input& ties,
                      const test::Input& gaussian, Format format) {
  equality.quantize_all(matrix_of(specials, 3, 160, 0), format, every_choice(format), false);
  equality.quantize_all(matrix_of(ties, 3, 1056, 0), format, fast_choices(format), false);
  for (const auto& [rows, cols, gap] :
       {std::array{1, 16, 0}, {1, 32, 0}, {3, 32, 8}, {7, 96, 32}, {129, 64, 64}, {2, 2080, 0}})
    equality.quantize_all(matrix_of(gaussian, rows, cols, gap), format, fast_choices(format),
                          format == Format::nvfp4 && rows % 2);
  const Numerics plain{.scale_rule =
                           format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::floor};
  const int rows = format == Format::nvfp4 ? 17 : 65;
  for (const int cols : {1024, 1056})
    equality.quantize_all(matrix_of(gaussian, rows, cols, 0), format, {plain}, false);
}

void check_columns_least(Equality& equality, const test::Input& specials,
                         const test::Input& gaussian, Format format, Axes axes) {
  equality.quantize_all(matrix_of(specials, 64, 32, 0), format,
                        axes == Axes::both ? fast_choices(format) : every_choice(format), false,
                        axes);
  for (const auto& [rows, cols, gap] :
       {std::array{16, 16, 0}, {32, 17, 7}, {32, 96, 8}, {160, 144, 0}, {160, 288, 0}})
    equality.quantize_all(matrix_of(gaussian, rows, cols, gap), format, fast_choices(format),
                          format == Format::nvfp4 && rows != 32, axes);
}

void check_least(Equality& equality, const Scope& scope, Parts parts) {
  for (DType dtype : scope.dtypes) {
    const std::vector<test::Input> inputs = test::inputs(dtype, 4096);
    const test::Input &gaussian = inputs[2], &ties = inputs[6], &specials = inputs[7];
    for (Format format : scope.formats) {
      if (parts.rows) check_rows_least(equality, specials, ties, gaussian, format);
      if (!parts.columns) continue;
      for (Axes axes : {Axes::columns, Axes::both})
        check_columns_least(equality, specials, gaussian, format, axes);
    }
  }
}

}  // namespace

EqualityTotals check_equality(Device& device, const Scope& scope, Parts parts) {
  Equality equality(device);
  if (scope.amount == Amount::least) {
    check_least(equality, scope, parts);
    return equality.totals;
  }
  if (parts.rows) check_rows(equality, scope);
  if (parts.columns) check_columns(equality, scope);
  return equality.totals;
}

}  // namespace microscale::cuda
