#include "grouped.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "seam/expert_rows.hpp"
#include "cpu/inputs.hpp"
#include "device_bytes.hpp"
#include "microscale/container.hpp"
#include "microscale/error.hpp"
#include "microscale/grouped.hpp"
#include "microscale/quantize.hpp"

namespace microscale::cuda {
namespace {

constexpr std::uint8_t pattern = 0xA5;  // of DeviceBytes before anything is written

std::vector<std::uint8_t> bytes_of(const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::uint8_t*>(data);
  return {first, first + bytes};
}

std::span<std::uint8_t> span_of(const DeviceBytes& bytes) {
  return {bytes.data(), static_cast<std::size_t>(bytes.size())};
}

void compare(const std::string& what, const DeviceBytes& got,
             const std::vector<std::uint8_t>& wanted, EqualityTotals& totals) {
  const std::vector<std::uint8_t> bytes = got.to_host();
  std::string difference;
  const auto at = std::mismatch(bytes.begin(), bytes.end(), wanted.begin());
  if (at.first != bytes.end())
    difference = fmt::format("byte {} is {:#04x} ({:#04x} wanted)", at.first - bytes.begin(),
                             *at.first, *at.second);
  else if (!got.margins_untouched())
    difference = "wrote outside its output";
  if (difference.empty()) return;
  ++totals.failed;
  if (totals.differences.size() < 20) totals.differences.push_back(what + ": " + difference);
}

// Row counts: uneven, some experts empty, some rows of no expert.
struct Distribution {
  const char* name;
  std::vector<std::int64_t> numbers;  // offsets, or counts
  std::int64_t rows;                  // of the input
  std::int64_t capacity = 0;          // with counts

  ExpertRows groups(const void* numbers_at, OffsetType type) const {
    const auto count = static_cast<std::int64_t>(numbers.size());
    if (capacity == 0) return {numbers_at, type, count - 1};
    return {nullptr, type, count, numbers_at, capacity};
  }
};

std::vector<Distribution> distributions(Amount amount) {
  if (amount == Amount::least)
    return {{"uneven", {3, 3, 4, 20, 20, 148, 149}, 151},
            {"none has any", {5, 5, 5}, 9},
            {"counts", {0, 130, 1, 17}, 4 * 130 + 1, 130}};
  std::vector<Distribution> all{
      {"uneven", {3, 3, 4, 20, 20, 148, 277, 277, 290}, 300},
      {"one has all", {0, 0, 0, 257, 257}, 257},
      {"none has any", {5, 5, 5, 5}, 9},
      {"one expert, one row", {0, 1}, 1},
      {"counts", {0, 130, 1, 17, 128, 0, 129}, 7 * 130 + 1, 130},
      {"full counts", {64, 64, 64}, 3 * 64, 64},
      {"counts of 0", {0, 0, 0}, 3 * 64, 64},
  };
  Distribution many{"300 experts", {0}, 0};
  std::mt19937 generator(7);
  for (int e = 0; e < 300; ++e)
    many.numbers.push_back(many.numbers.back() +
                           (generator() % 3 ? 0 : static_cast<std::int64_t>(generator() % 40)));
  many.rows = many.numbers.back() + 2;
  if (amount == Amount::full) all.push_back(std::move(many));
  return all;
}

void check_call(Device& device, const GroupedQuantizeOptions& host,
                const std::vector<float>& global_scales, const std::string& what,
                std::int64_t input_bytes, EqualityTotals& totals) {
  const std::int64_t experts = host.groups.experts;
  const std::int64_t code_bytes =
      BlockShape{host.input.rows, host.input.cols, host.format}.code_bytes();
  const std::int64_t scale_bytes =
      grouped_scale_bytes(host.input.rows, host.input.cols, experts, host.format, host.layout);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(code_bytes), pattern);
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(scale_bytes), pattern);
  grouped_quantize_into(host, codes, scales);

  const auto count = static_cast<std::size_t>(experts);
  const ExpertNumbers numbers = expert_numbers(host.groups);
  const DeviceBytes input(device, bytes_of(host.input.data, static_cast<std::size_t>(input_bytes)));
  const DeviceBytes places(device, bytes_of(numbers.data, static_cast<std::size_t>(numbers.bytes)));
  const DeviceBytes globals(device, bytes_of(global_scales.data(), count * 4));
  const DeviceBytes got_codes(device, code_bytes), got_scales(device, scale_bytes);
  GroupedQuantizeOptions there = host;
  there.input.data = input.data();
  there.input.memory = Memory::device;
  (host.groups.counts ? there.groups.counts : there.groups.offsets) = places.data();
  there.global_scale =
      GlobalScale::per_expert(reinterpret_cast<const float*>(globals.data()), Memory::device);
  grouped_quantize_into(there, span_of(got_codes), span_of(got_scales), {.backend = Backend::cuda});
  ++totals.calls;
  totals.elements += host.input.rows * host.input.cols;
  compare(what + ", codes", got_codes, codes, totals);
  compare(what + ", scales", got_scales, scales, totals);
}

void check_distribution(Device& device, const Distribution& d, const test::Input& values,
                        std::int64_t cols, Format format, EqualityTotals& totals) {
  const std::int64_t element = size_of(values.type), stride = cols + 32;
  std::vector<std::uint8_t> input(static_cast<std::size_t>(d.rows * stride * element));
  for (std::int64_t i = 0; i < d.rows * stride; ++i)
    std::memcpy(input.data() + i * element,
                &values.bits[static_cast<std::size_t>(i) % values.bits.size()],
                static_cast<std::size_t>(element));
  const std::vector<std::int32_t> narrow(d.numbers.begin(), d.numbers.end());
  std::vector<float> globals;
  for (std::size_t e = 0; e < d.numbers.size(); ++e)
    globals.push_back(1e-4f * static_cast<float>(1 + e % 17));
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4})
    for (const OffsetType type : {OffsetType::i32, OffsetType::i64})
      for (const ScaleRule rule :
           {format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::rceil, ScaleRule::search}) {
        GroupedQuantizeOptions o;
        o.input = {input.data(), values.type, d.rows, cols, stride};
        const bool wide = type == OffsetType::i64;
        o.groups =
            d.groups(wide ? static_cast<const void*>(d.numbers.data()) : narrow.data(), type);
        o.format = format;
        o.numerics.scale_rule = rule;
        o.layout = layout;
        o.global_scale = GlobalScale::per_expert(globals.data());
        check_call(
            device, o, globals,
            fmt::format("grouped {}, {} {} x {} to {}, {}, {}, {}", d.name, to_string(values.type),
                        d.rows, cols, info(format).name, to_string(rule),
                        layout == Layout::row_major ? "rows" : "128x4", wide ? "i64" : "i32"),
            static_cast<std::int64_t>(input.size()), totals);
      }
}

void check_count(Device& device, std::int64_t count, EqualityTotals& totals) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count)),
      containers(static_cast<std::size_t>(2 * count));
  std::mt19937 generator(3);
  for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(generator());
  repack_to_containers({codes, containers});
  const DeviceBytes input(device, codes), wide(device, 2 * count), back(device, count);
  const Context context{.backend = Backend::cuda};
  repack_to_containers({span_of(input), span_of(wide), Memory::device}, context);
  repack_from_containers({span_of(wide), span_of(back), Memory::device}, context);
  totals.calls += 2;
  compare(fmt::format("{} packed bytes to containers", count), wide, containers, totals);
  compare(fmt::format("{} packed bytes from containers", count), back, codes, totals);
}

}  // namespace

void check_grouped(Device& device, const Scope& scope, EqualityTotals& totals) {
  const bool full = scope.amount == Amount::full;
  for (const DType dtype : scope.dtypes) {
    const std::vector<test::Input> inputs = test::inputs(dtype, 4096);
    for (const Format format : scope.formats) {
      for (const Distribution& d : distributions(scope.amount))
        for (const std::int64_t cols : {32, 96, 2080})
          if (full || cols < 2080) check_distribution(device, d, inputs[2], cols, format, totals);
      if (!full) continue;
      const Distribution uneven = distributions(Amount::quick)[0];
      for (const test::Input& values : inputs)
        check_distribution(device, uneven, values, 1024, format, totals);
      check_distribution(device, uneven, inputs[2], 7168, format, totals);
    }
  }
}

void check_containers(Device& device, EqualityTotals& totals) {
  for (const std::int64_t count : {1, 7, 8, 4096, 8191, 8193, 1000003})
    check_count(device, count, totals);
}

}  // namespace microscale::cuda
