#include "timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <random>

#include "cuda/args.hpp"
#include "cuda/geometry.hpp"
#include "cuda/kernels.hpp"
#include "device_bytes.hpp"
#include "formats/half.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {
namespace {

constexpr std::int64_t past_the_cache = std::int64_t{256} << 20;  // bytes to rotate through

// Median seconds of one copy, straight into a stream: a copy in a graph may be given to a copy
// engine, which is slower than the memory.
double copy_seconds(Device& device, const DeviceBytes& to, const DeviceBytes& from) {
  Stream stream = device.make_stream();
  Event begin = device.make_event(), end = device.make_event();
  std::vector<double> samples;
  for (int sample = 0; sample < 12; ++sample) {
    device.record(begin, stream);
    for (int i = 0; i < 8; ++i) device.copy_on_device(to.data(), from.data(), from.size(), stream);
    device.record(end, stream);
    const double seconds = device.milliseconds_between(begin, end) / 8e3;
    if (sample >= 2) samples.push_back(seconds);
  }
  device.release_event(begin);
  device.release_event(end);
  device.release_stream(stream);
  std::nth_element(samples.begin(), samples.begin() + 5, samples.end());
  return samples[5];
}

enum class Axes : std::uint8_t { rows, columns, both };

struct Case {
  Format format;
  DType dtype;
  std::int64_t rows, cols;
  ScaleRule rule;
  Layout layout;
  bool own_global = false, decode = false, repack = false;
  Axes axes = Axes::rows;
};

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

Timing measure_case(Device& device, const Case& c, double copy_rate) {
  Timing row{.what = name_of(c), .problem = {}};
  const BlockShape shape{c.rows, c.cols, c.format,
                         c.axes == Axes::columns ? BlockAxis::rows : BlockAxis::cols, c.layout};
  const BlockShape other{c.rows, c.cols, c.format, BlockAxis::rows, c.layout};  // of both axes
  const bool both = c.axes == Axes::both;
  const std::int64_t dense = c.rows * c.cols * size_of(c.dtype),
                     packed = shape.code_bytes() + shape.scale_bytes() +
                              (both ? other.code_bytes() + other.scale_bytes() : 0);
  row.bytes = dense * (c.own_global ? 2 : 1) + packed;
  const int sets =
      static_cast<int>(std::clamp<std::int64_t>(past_the_cache / (dense + packed) + 1, 2, 64));
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
    QuantizeOptions options{.input = {inputs[s].data(), c.dtype, c.rows, c.cols, c.cols},
                            .format = c.format,
                            .numerics = {.scale_rule = c.rule},
                            .layout = c.repack ? Layout::row_major : c.layout};
    if (!both) options.axis = shape.axis;
    auto* scale = reinterpret_cast<float*>(global.data());
    if (c.format == Format::nvfp4 && c.own_global)
      options.computed_global_scale = scale;
    else if (c.format == Format::nvfp4)
      options.device_global_scale = scale;
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
      repack_scales({row_shape, span(codes[s]), span(rows)}, c.layout, span(scales[s]), context);
    }
  };
  const auto dequantize_call = [&](int i, Stream stream) {
    const auto s = static_cast<std::size_t>(i % sets);
    BlockTensorView view{shape, span(codes[s]), span(scales[s])};
    view.device_global_scale = reinterpret_cast<const float*>(global.data());
    dequantize(view, {inputs[s].data(), c.dtype, c.rows, c.cols, c.cols},
               {.backend = Backend::cuda, .stream = stream});
  };
  try {
    if (c.decode) {
      for (int i = 0; i < sets; ++i) quantize_call(i, nullptr);
      device.synchronize(nullptr);
      row.microseconds = median_seconds(device, std::max(sets, 4), dequantize_call) * 1e6;
    } else {
      row.microseconds = median_seconds(device, std::max(sets, 4), quantize_call) * 1e6;
    }
    row.share = static_cast<double>(row.bytes) / (row.microseconds * 1e-6) / copy_rate;
  } catch (const Error& error) {
    row.problem = error.what();
  }
  return row;
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

double median_seconds(Device& device, int calls, const std::function<void(int, Stream)>& call) {
  Stream stream = device.make_stream();
  call(0, stream);
  device.synchronize(stream);
  device.begin_capture(stream);
  for (int i = 0; i < calls; ++i) call(i, stream);
  Graph graph = device.end_capture(stream);
  Event begin = device.make_event(), end = device.make_event();
  std::vector<double> samples;
  for (int sample = 0; sample < 13; ++sample) {
    device.record(begin, stream);
    device.launch_graph(graph, stream);
    device.record(end, stream);
    const double seconds = device.milliseconds_between(begin, end) / 1e3 / calls;
    if (sample >= 2) samples.push_back(seconds);
  }
  device.release_event(begin);
  device.release_event(end);
  device.release_graph(graph);
  device.release_stream(stream);
  std::nth_element(samples.begin(),
                   samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2),
                   samples.end());
  return samples[samples.size() / 2];
}

DeviceBytes random_matrix(Device& device, DType dtype, std::int64_t elements, float spread) {
  const std::int64_t bytes = elements * size_of(dtype), seed_elements = 1 << 19;
  std::vector<std::uint8_t> seed(static_cast<std::size_t>(seed_elements * size_of(dtype)));
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0f, spread);
  for (std::int64_t i = 0; i < seed_elements; ++i) {
    const float value = normal(generator);
    std::uint32_t stored = std::bit_cast<std::uint32_t>(value);
    if (dtype == DType::f16) stored = float_to_f16(value);
    if (dtype == DType::bf16) stored = float_to_bf16(value);
    std::memcpy(seed.data() + i * size_of(dtype), &stored,
                static_cast<std::size_t>(size_of(dtype)));
  }
  DeviceBytes memory(device, bytes);
  const auto seed_bytes = static_cast<std::int64_t>(seed.size());
  for (std::int64_t at = 0; at < bytes; at += seed_bytes)
    device.copy_to_device(memory.data() + at, seed.data(), std::min(seed_bytes, bytes - at),
                          nullptr);
  device.synchronize(nullptr);
  return memory;
}

double copy_bytes_per_second(Device& device) {
  const std::int64_t bytes = std::int64_t{512} << 20;
  const DeviceBytes from(device, bytes), to(device, bytes);
  return 2.0 * static_cast<double>(bytes) / copy_seconds(device, to, from);
}

namespace {

// Seconds of a graph's node whose kernel returns at once.
double empty_node_seconds(Device& device) {
  const Kernel kernel = load_kernel(device, "containers_from_codes", "gpu_check");
  const ContainerArgs nothing{};
  return median_seconds(device, 64, [&](int, Stream stream) {
    LaunchCall call;
    call.kernel = kernel;
    call.threads = threads_per_block;
    call.stream = stream;
    call.args = &nothing;
    call.args_bytes = sizeof nothing;
    device.launch(call);
  });
}

}  // namespace

Timings measure(Device& device, Parts parts) {
  Timings timings;
  timings.copy_bytes_per_second = copy_bytes_per_second(device);
  std::vector<Case> all = parts.rows ? cases() : std::vector<Case>{};
  if (parts.columns)
    for (const Case& c : column_cases()) all.push_back(c);
  const double empty = empty_node_seconds(device);
  timings.rows.push_back(
      {.what = "a kernel that returns at once", .microseconds = empty * 1e6, .problem = {}});
  for (const Case& c : all) {
    Timing row = measure_case(device, c, timings.copy_bytes_per_second);
    if (c.rows * c.cols <= std::int64_t{2048} * 2048)  // what it may take: a node, its bytes, 2 us
      row.what += fmt::format(
          ", limit {:.2f} us",
          (empty + static_cast<double>(row.bytes) / timings.copy_bytes_per_second) * 1e6 + 2);
    timings.rows.push_back(std::move(row));
  }
  return timings;
}

}  // namespace microscale::cuda
