// The cases of quantize and dequantize: along rows, along columns, along both.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/quantize/choose.hpp"
#include "gpu_timing.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {
namespace {

constexpr std::int64_t past_the_cache = std::int64_t{256} << 20;  // bytes to rotate through

struct Case {
  Format format;
  DType dtype;
  std::int64_t rows, cols;
  ScaleRule rule;
  Layout layout;
  bool own_global = false, decode = false, repack = false;
  Axes axes = Axes::rows;

  bool is_small() const { return rows * cols < (1 << 23); }
  bool is_search() const { return rule == ScaleRule::search; }
};

std::string kernel_of(const Case& c) {
  const KernelMode mode = c.is_search() ? KernelMode::search : KernelMode::plain;
  if (c.decode) return std::string(dequantize_kernel(c.format, c.dtype).name);
  if (c.axes != Axes::rows)
    return std::string(columns_kernel(c.format, c.dtype, mode, c.axes == Axes::both).name);
  return std::string(
      quantize_kernel(c.format, c.dtype, mode, c.repack ? Layout::row_major : c.layout).name);
}

std::int64_t bytes_of(const Case& c) {
  const BlockAxis axis = c.axes == Axes::columns ? BlockAxis::rows : BlockAxis::cols;
  const auto packed = [&](BlockAxis along) {
    const BlockShape shape{c.rows, c.cols, c.format, along, c.layout};
    return shape.code_bytes() + shape.scale_bytes();
  };
  return c.rows * c.cols * size_of(c.dtype) * (c.own_global ? 2 : 1) + packed(axis) +
         (c.axes == Axes::both ? packed(BlockAxis::rows) : 0);
}

/// The shares of the copy bandwidth that this project set out for; 0: none.
double share_to_reach(const Case& c) {
  const bool nvfp4 = c.format == Format::nvfp4, mxfp4 = c.format == Format::mxfp4;
  if (c.repack || c.is_small() || c.axes == Axes::columns) return 0;
  if (c.axes == Axes::both)
    return c.is_search() || c.own_global ? 0 : nvfp4 ? 0.65 : mxfp4 ? 0.75 : 0.85;
  if (c.is_search()) return nvfp4 ? 0.15 : 0.6;
  if (c.own_global) return c.rows < 16384 ? 0 : 0.90;  // smaller ones fit in the L2
  return nvfp4 || c.decode ? 0.92 : 0.95;
}

double share_to_stretch_to(const Case& c) {
  const double must = share_to_reach(c);
  if (must == 0 || c.is_search() || c.own_global || c.decode) return 0;
  const bool nvfp4 = c.format == Format::nvfp4, mxfp4 = c.format == Format::mxfp4;
  if (c.axes == Axes::both) return nvfp4 ? 0.75 : mxfp4 ? 0.85 : 0.95;
  return nvfp4 ? 0.95 : 0.98;
}

std::string name_of(const Case& c) {
  return fmt::format(
      "{}{}{} {} x {} {} {} {}{}{}",
      c.axes == Axes::rows      ? ""
      : c.axes == Axes::columns ? "columns of "
                                : "both axes of ",
      c.decode ? "dequantize to " : "", to_string(c.dtype), c.rows, c.cols, info(c.format).name,
      to_string(c.rule), c.layout == Layout::row_major ? "rows" : "128x4",
      c.own_global ? ", own amax (two reads)" : "", c.repack ? ", by rows and repack" : "");
}

void measure_case(Device& device, const Case& c, Timing& row, double copy_rate) {
  const BlockShape shape{c.rows, c.cols, c.format,
                         c.axes == Axes::columns ? BlockAxis::rows : BlockAxis::cols, c.layout};
  const BlockShape other{c.rows, c.cols, c.format, BlockAxis::rows, c.layout};  // of both axes
  const bool both = c.axes == Axes::both;
  const int sets =
      static_cast<int>(std::clamp<std::int64_t>(past_the_cache / row.bytes + 1, 2, 64));
  std::vector<DeviceBytes> inputs, codes, scales, column_codes, column_scales;
  DeviceBytes rows(device, shape.lines() * shape.blocks_per_line()), global(device, 4);
  const float one = 2e-5f;
  device.copy_to_device(global.data(), &one, 4, nullptr);
  for (int i = 0; i < sets; ++i) {
    inputs.push_back(random_matrix(device, c.dtype, c.rows * c.cols));
    codes.emplace_back(device, shape.code_bytes());
    scales.emplace_back(device, shape.scale_bytes());
    if (both) column_codes.emplace_back(device, other.code_bytes());
    if (both) column_scales.emplace_back(device, other.scale_bytes());
  }
  const auto span = [](const DeviceBytes& b) {
    return std::span<std::uint8_t>(b.data(), static_cast<std::size_t>(b.size()));
  };
  const auto quantize_call = [&](int i, Stream stream) {
    const auto s = static_cast<std::size_t>(i % sets);
    QuantizeOptions options{
        .input = {inputs[s].data(), c.dtype, c.rows, c.cols, c.cols, Memory::device},
        .format = c.format,
        .numerics = {.scale_rule = c.rule},
        .layout = c.repack ? Layout::row_major : c.layout};
    if (!both) options.axis = shape.axis;
    auto* scale = reinterpret_cast<float*>(global.data());
    if (c.format == Format::nvfp4 && c.own_global)
      options.computed_global_scale = scale;
    else if (c.format == Format::nvfp4)
      options.global_scale = GlobalScale::on_device(scale);
    const Context context{.backend = Backend::cuda, .stream = stream};
    if (both) {
      quantize_both_into(options, span(codes[s]), span(scales[s]), span(column_codes[s]),
                         span(column_scales[s]), context);
      return;
    }
    quantize_into(options, span(codes[s]), c.repack ? span(rows) : span(scales[s]), context);
    if (c.repack) {
      BlockShape row_shape = shape;
      row_shape.layout = Layout::row_major;
      repack_scales(on_device(BlockTensorView{row_shape, span(codes[s]), span(rows)}), c.layout,
                    span(scales[s]), context);
    }
  };
  const auto dequantize_call = [&](int i, Stream stream) {
    const auto s = static_cast<std::size_t>(i % sets);
    BlockTensorView view = on_device(BlockTensorView{shape, span(codes[s]), span(scales[s])});
    view.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(global.data()));
    dequantize(view, {inputs[s].data(), c.dtype, c.rows, c.cols, c.cols, Memory::device},
               {.backend = Backend::cuda, .stream = stream});
  };
  try {
    if (c.decode) {
      for (int i = 0; i < sets; ++i) quantize_call(i, nullptr);
      device.synchronize(nullptr);
      set_time(row, median_seconds(device, std::max(sets, 4), dequantize_call), copy_rate);
    } else {
      set_time(row, median_seconds(device, std::max(sets, 4), quantize_call), copy_rate);
    }
  } catch (const Error& error) {
    row.problem = error.what();
  }
}

std::vector<Case> cases() {
  using enum Format;
  using enum ScaleRule;
  constexpr std::int64_t n = 16384;
  constexpr Layout rows = Layout::row_major, tiles = Layout::tiled_128x4;
  std::vector<Case> all;
  for (Layout layout : {rows, tiles})
    for (DType dtype : {DType::bf16, DType::f16})
      for (auto [format, rule] : {std::pair{mxfp8_e4m3, floor}, {mxfp4, floor}, {nvfp4, nearest}})
        all.push_back({format, dtype, n, n, rule, layout});
  all.push_back({mxfp8_e5m2, DType::bf16, n, n, floor, rows});
  for (auto [r, c] : {std::pair<std::int64_t, std::int64_t>{8192, 4096}, {n, 8192}, {32768, n}})
    all.push_back({mxfp4, DType::f32, r, c, floor, rows});
  all.push_back({mxfp4, DType::f32, n, 8192, floor, tiles});
  all.push_back({nvfp4, DType::bf16, n, n, nearest, rows, true});
  all.push_back({nvfp4, DType::bf16, 4096, 4096, nearest, rows, true});
  for (Format format : {mxfp4, nvfp4, mxfp8_e4m3})
    all.push_back(
        {format, DType::bf16, n, n, format == nvfp4 ? nearest : floor, rows, false, true});
  for (Format format : {mxfp8_e4m3, mxfp4, nvfp4})
    all.push_back({format, DType::bf16, n, n, search, rows});
  for (std::int64_t small : {1024, 2048})
    for (Format format : {mxfp4, mxfp8_e4m3, nvfp4})
      all.push_back({format, DType::f32, small, small, format == nvfp4 ? nearest : floor, rows});
  all.push_back({mxfp8_e4m3, DType::bf16, n, n, floor, tiles, false, false, true});
  return all;
}

std::vector<Case> column_cases() {
  using enum Format;
  using enum ScaleRule;
  constexpr std::int64_t n = 16384;
  constexpr Layout rows = Layout::row_major, tiles = Layout::tiled_128x4;
  std::vector<Case> all;
  const auto add = [&](Format format, DType dtype, Layout layout, Axes axes) {
    Case c{format, dtype, n, n, format == nvfp4 ? nearest : floor, layout};
    c.axes = axes;
    all.push_back(c);
  };
  for (Axes axes : {Axes::both, Axes::columns})
    for (Format format : {mxfp8_e4m3, mxfp4, nvfp4}) {
      add(format, DType::bf16, rows, axes);
      add(format, DType::bf16, tiles, axes);
      add(format, DType::f16, tiles, axes);
      add(format, DType::f32, tiles, axes);
    }
  for (Format format : {mxfp8_e4m3, mxfp4, nvfp4}) {
    add(format, DType::bf16, tiles, Axes::both);
    all.back().rule = search;
  }
  add(nvfp4, DType::bf16, rows, Axes::both);
  all.back().own_global = true;
  return all;
}

}  // namespace

void measure_rows(Device& device, const Selection& selection, Timings& timings,
                  const TimingCallback& callback) {
  std::vector<Case> all = selection.rows ? cases() : std::vector<Case>{};
  if (selection.columns)
    for (const Case& c : column_cases()) all.push_back(c);
  for (const Case& c : all) {
    Timing row{.what = name_of(c), .kernel = kernel_of(c), .bytes = bytes_of(c)};
    row.must = share_to_reach(c);
    row.stretch = share_to_stretch_to(c);
    if (c.is_small() && c.axes == Axes::rows && !c.own_global && c.format == Format::mxfp4)
      row.must_microseconds = timings.empty_node_microseconds + 2 +
                              1e6 * static_cast<double>(row.bytes) / timings.copy_bytes_per_second;
    const bool wanted = row.must > 0 || row.must_microseconds > 0 || c.repack;
    if (!selection.takes(row) || (selection.wanted_only && !wanted)) continue;
    measure_case(device, c, row, timings.copy_bytes_per_second);
    timings.rows.push_back(std::move(row));
    if (callback && !callback(timings)) return;
  }
}

}  // namespace microscale::cuda
