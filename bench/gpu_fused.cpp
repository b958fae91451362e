// The cases of the fused producers: SiLU*up, RMSNorm with and without a residual, Hadamard.
#include <fmt/format.h>

#include "cuda/quantize/choose.hpp"
#include "cuda/quantize/args.hpp"
#include "gpu_timing.hpp"
#include "microscale/error.hpp"
#include "microscale/fused.hpp"

namespace microscale::cuda {
namespace {

enum class Producer : std::uint8_t {
  silu_mul,
  rms_norm,
  add_rms_norm,
  hadamard
};  // as fused_producers

struct Case {
  Producer producer;
  Format format;
  Layout layout;
  DType dtype = DType::bf16;
  bool search = false;
  int order = 32;  // of the Hadamard matrix
  std::int64_t rows = 16384, cols = 7168;
};

ScaleRule rule_of(const Case& c) {
  if (c.search) return ScaleRule::search;
  return c.format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
}

std::string name_of(const Case& c) {
  constexpr const char* names[] = {"SiLU*up", "RMSNorm", "RMSNorm + residual"};
  return fmt::format("{} {} {} x {} to {} {} {}",
                     c.producer == Producer::hadamard ? fmt::format("Hadamard-{}", c.order)
                                                      : names[static_cast<int>(c.producer)],
                     to_string(c.dtype), c.rows, c.cols, info(c.format).name, to_string(rule_of(c)),
                     c.layout == Layout::row_major ? "rows" : "128x4");
}

/// Shares of the copy bandwidth that this project set out for; 0: none.
double share_to_reach(const Case& c) {
  if (c.search || c.dtype != DType::bf16) return 0;
  if (c.producer == Producer::hadamard) return c.order == 32 ? 0.78 : 0;
  return c.format == Format::mxfp4 ? 0 : 0.88;
}

std::vector<Case> cases() {
  using enum Format;
  using enum Producer;
  constexpr Layout rows = Layout::row_major, tiles = Layout::tiled_128x4;
  std::vector<Case> all;
  for (const Producer producer : {silu_mul, rms_norm, add_rms_norm})
    for (const Format format : {nvfp4, mxfp8_e4m3, mxfp4}) {
      all.push_back({producer, format, rows});
      if (format != mxfp4) {
        all.push_back({producer, format, rows});
        all.back().rows = 8192, all.back().cols = 14336;
      }
      all.push_back({producer, format, tiles});
    }
  for (const Format format : {nvfp4, mxfp8_e4m3, mxfp4})
    for (const Layout layout : {rows, tiles}) all.push_back({hadamard, format, layout});
  for (const int order : {16, 64, 128})
    all.push_back({hadamard, nvfp4, rows, DType::bf16, false, order});
  for (const DType dtype : {DType::f16, DType::f32})
    for (const Producer producer : {silu_mul, rms_norm})
      all.push_back({producer, nvfp4, rows, dtype});
  all.push_back({silu_mul, mxfp8_e4m3, rows, DType::bf16, true});
  all.push_back({rms_norm, nvfp4, rows, DType::bf16, true});
  return all;
}

void measure_case(Device& device, const Case& c, Timing& row, double copy_rate) {
  const BlockShape shape{c.rows, c.cols, c.format, BlockAxis::cols, c.layout};
  constexpr std::size_t sets = 2;  // each several times the cache
  std::vector<DeviceBytes> first, second, codes, scales;
  const DeviceBytes weight = random_matrix(device, c.dtype, c.cols), global(device, 4);
  constexpr float global_scale = 0.0137f;
  device.copy_to_device(global.data(), &global_scale, 4, nullptr);
  for (std::size_t i = 0; i < sets; ++i) {
    first.push_back(random_matrix(device, c.dtype, c.rows * c.cols, 2.0f));
    second.push_back(random_matrix(device, c.dtype, c.rows * c.cols));
    codes.emplace_back(device, shape.code_bytes());
    scales.emplace_back(device, shape.scale_bytes());
  }
  const auto call = [&](int i, Stream stream) {
    const std::size_t s = static_cast<std::size_t>(i) % sets;
    const Context context{.backend = Backend::cuda, .stream = stream};
    const TensorView a{first[s].data(), c.dtype, c.rows, c.cols, c.cols, Memory::device},
        b{second[s].data(), c.dtype, c.rows, c.cols, c.cols, Memory::device};
    QuantizedOutput output{
        .format = c.format, .numerics = {.scale_rule = rule_of(c)}, .layout = c.layout};
    if (c.format == Format::nvfp4)
      output.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(global.data()));
    output.memory = Memory::device;
    output.codes = {codes[s].data(), static_cast<std::size_t>(codes[s].size())};
    output.scales = {scales[s].data(), static_cast<std::size_t>(scales[s].size())};
    if (c.producer == Producer::silu_mul) return silu_mul_quantize_into({a, b, output}, context);
    if (c.producer == Producer::hadamard)
      return hadamard_quantize_into({a, c.order, {}, output}, context);
    RmsNormOptions options{a, weight.data(), 1e-5f, {}, {}, output};
    if (c.producer == Producer::add_rms_norm) {
      options.residual = b;
      options.sum = {second[s].data(), c.dtype, c.rows, c.cols, c.cols, Memory::device};
    }
    rms_norm_quantize_into(options, context);
  };
  try {
    set_time(row, median_seconds(device, 4, call), copy_rate);
  } catch (const Error& error) {
    row.problem = error.what();
  }
}

}  // namespace

void measure_fused(Device& device, const Selection& selection, Timings& timings,
                   const TimingCallback& callback) {
  for (const Case& c : cases()) {
    Timing row{.what = name_of(c)};
    row.kernel =
        std::string(fused_kernel(fused_producers[static_cast<std::size_t>(c.producer)], c.format,
                                 c.dtype, c.search ? KernelMode::search : KernelMode::plain)
                        .name);
    const BlockShape shape{c.rows, c.cols, c.format, BlockAxis::cols, c.layout};
    const int dense = c.producer == Producer::silu_mul       ? 2
                      : c.producer == Producer::add_rms_norm ? 3
                                                             : 1;
    row.bytes =
        dense * c.rows * c.cols * size_of(c.dtype) + shape.code_bytes() + shape.scale_bytes();
    row.must = share_to_reach(c);
    if (!selection.takes(row) || (selection.wanted_only && row.must == 0)) continue;
    measure_case(device, c, row, timings.copy_bytes_per_second);
    timings.rows.push_back(std::move(row));
    if (callback && !callback(timings)) return;
  }
}

}  // namespace microscale::cuda
