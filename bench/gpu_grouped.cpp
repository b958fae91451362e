// The cases of grouped quantize, each with one matrix of the same size beside it, and of
// containers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "cuda/quantize/choose.hpp"
#include "gpu_timing.hpp"
#include "microscale/container.hpp"
#include "microscale/error.hpp"
#include "microscale/grouped.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {
namespace {

constexpr std::int64_t rows = 65536, cols = 7168, experts = 128;

std::vector<std::uint8_t> bytes_of(const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::uint8_t*>(data);
  return {first, first + bytes};
}

std::span<std::uint8_t> span_of(const DeviceBytes& bytes) {
  return {bytes.data(), static_cast<std::size_t>(bytes.size())};
}

// `rows` rows shared out so that expert e gets about 1 / (e + 10) of them, in a scattered order.
std::vector<std::int32_t> uneven_offsets() {
  std::vector<double> shares;
  double all = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    shares.push_back(1.0 / static_cast<double>(e * 37 % experts + 10));
    all += shares.back();
  }
  std::vector<std::int32_t> offsets{0};
  double sum = 0;
  for (const double share : shares) {
    sum += share / all;
    offsets.push_back(static_cast<std::int32_t>(std::lround(sum * static_cast<double>(rows))));
  }
  return offsets;
}

struct Case {
  Format format;
  Layout layout;
  bool grouped;
};

void measure_case(Device& device, const Case& c, const std::vector<DeviceBytes>& inputs,
                  Timing& row, double copy_rate) {
  const std::vector<std::int32_t> offsets = uneven_offsets();
  const std::vector<float> globals(experts, 2e-3f);
  const DeviceBytes there(device, bytes_of(offsets.data(), offsets.size() * 4));
  const DeviceBytes scale_numbers(device, bytes_of(globals.data(), globals.size() * 4));
  const BlockShape shape{rows, cols, c.format};
  const DeviceBytes codes(device, shape.code_bytes());
  const DeviceBytes scales(device, grouped_scale_bytes(rows, cols, experts, c.format, c.layout));
  const auto* numbers = reinterpret_cast<const float*>(scale_numbers.data());
  const auto call = [&](int i, Stream stream) {
    const Context context{.backend = Backend::cuda, .stream = stream};
    const TensorView input{inputs[static_cast<std::size_t>(i % 2)].data(),
                           DType::bf16,
                           rows,
                           cols,
                           cols,
                           Memory::device};
    const ScaleRule rule = c.format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
    if (c.grouped) {
      GroupedQuantizeOptions o;
      o.input = input;
      o.groups = {there.data(), OffsetType::i32, experts};
      o.format = c.format;
      o.numerics.scale_rule = rule;
      o.layout = c.layout;
      if (c.format == Format::nvfp4)
        o.global_scale = GlobalScale::per_expert(numbers, Memory::device);
      grouped_quantize_into(o, span_of(codes), span_of(scales), context);
      return;
    }
    QuantizeOptions o;
    o.input = input;
    o.format = c.format;
    o.numerics.scale_rule = rule;
    o.layout = c.layout;
    if (c.format == Format::nvfp4) o.global_scale = GlobalScale::on_device(numbers);
    const auto bytes = static_cast<std::size_t>(rows * shape.blocks_per_line());
    quantize_into(o, span_of(codes), span_of(scales).first(bytes), context);
  };
  try {
    set_time(row, median_seconds(device, 4, call), copy_rate);
  } catch (const Error& error) {
    row.problem = error.what();
  }
}

std::vector<DeviceBytes> make_inputs(Device& device) {
  constexpr std::int64_t bytes = rows * cols * 2;
  std::vector<std::uint8_t> seed(1 << 20);
  std::mt19937 generator(1);
  for (std::size_t i = 0; i < seed.size(); i += 2) {  // magnitudes 2^-12 to 2^-4
    seed[i] = static_cast<std::uint8_t>(generator());
    seed[i + 1] = static_cast<std::uint8_t>((generator() & 0x80) | (0x3A + (generator() & 3)));
  }
  std::vector<DeviceBytes> inputs;
  for (int i = 0; i < 2; ++i) {
    inputs.emplace_back(device, bytes);
    for (std::int64_t at = 0; at < bytes; at += 1 << 20)
      device.copy_to_device(inputs.back().data() + at, seed.data(),
                            std::min<std::int64_t>(1 << 20, bytes - at), nullptr);
  }
  device.synchronize(nullptr);
  return inputs;
}

void measure_containers(Device& device, const std::vector<DeviceBytes>& inputs, bool back,
                        Timing& row, double copy_rate) {
  const std::int64_t packed = inputs[0].size() / 2;
  const DeviceBytes wide(device, inputs[0].size());
  set_time(row,
           median_seconds(
               device, 4,
               [&](int i, Stream stream) {
                 const std::span<std::uint8_t> codes(inputs[static_cast<std::size_t>(i % 2)].data(),
                                                     static_cast<std::size_t>(packed));
                 const Context context{.backend = Backend::cuda, .stream = stream};
                 back ? repack_from_containers({span_of(wide), codes, Memory::device}, context)
                      : repack_to_containers({codes, span_of(wide), Memory::device}, context);
               }),
           copy_rate);
}

}  // namespace

void measure_grouped(Device& device, const Selection& selection, Timings& timings,
                     const TimingCallback& callback) {
  std::vector<DeviceBytes> inputs;  // made where a case is wanted
  const auto add = [&](Timing row, auto&& measure_it) {
    if (!selection.takes(row) || (selection.wanted_only && row.must == 0)) return;
    if (inputs.empty()) inputs = make_inputs(device);
    measure_it(row);
    timings.rows.push_back(std::move(row));
    if (callback && !callback(timings)) return;
  };
  for (const Layout layout : {Layout::tiled_128x4, Layout::row_major})
    for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3})
      for (const bool grouped : {true, false}) {
        const Case c{format, layout, grouped};
        const BlockShape shape{rows, cols, format};
        const EntryName one =
            grouped ? grouped_kernel(format, DType::bf16, KernelMode::plain, layout).name
                    : quantize_kernel(format, DType::bf16, KernelMode::plain, layout).name;
        Timing row{
            .what = fmt::format("{}, bf16 65536 x 7168 {} {}",
                                grouped ? "grouped, 128 experts" : "one matrix beside it",
                                info(format).name, layout == Layout::row_major ? "rows" : "128x4"),
            .kernel = std::string(one),
            .bytes = rows * cols * 2 + shape.code_bytes() + rows * shape.blocks_per_line(),
            .must = grouped ? 0.85 : 0};
        add(std::move(row),
            [&](Timing& r) { measure_case(device, c, inputs, r, timings.copy_bytes_per_second); });
      }
  for (const bool back : {false, true}) {
    Timing row{.what = fmt::format("repack {} containers, 448 MiB packed", back ? "from" : "to"),
               .kernel = back ? "codes_from_containers" : "containers_from_codes",
               .bytes = 3 * rows * cols};
    add(std::move(row), [&](Timing& r) {
      measure_containers(device, inputs, back, r, timings.copy_bytes_per_second);
    });
  }
}

}  // namespace microscale::cuda
