#include "gpu_attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "device_bytes.hpp"
#include "formats/half.hpp"
#include "formats/random.hpp"
#include "gpu_append.hpp"
#include "gpu_timing.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/attention_plan.hpp"
#include "microscale/error.hpp"
#include "seam/kv_cache_view.hpp"

namespace microscale::cuda {
namespace {

using bench::AttentionCase;
using bench::Result;

constexpr std::int64_t past_the_cache = std::int64_t{256} << 20;  // bytes to rotate through
constexpr std::int64_t kv_heads = 8, d = 128;

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

/// A cache whose records repeat after about a megabyte, or one record where that is longer.
class Measurement {
 public:
  Measurement(Device& device, const AttentionCase& c)
      : device_(device),
        case_(c),
        page_(c.page_size > 0 ? c.page_size : (c.length + 15) / 16 * 16),
        per_sequence_(kv_page::entries(c.length, page_)),
        shape_{c.format, kv_heads, d, page_},
        pages_(c.batch * per_sequence_),
        distinct_(std::min<std::int64_t>((1 << 20) / shape_.record_bytes() + 1, pages_ * kv_heads)),
        records_(random_records()),
        table_(random_table()),
        query_(random_query()),
        query_there_(device, bytes_of(query_)),
        output_(device, static_cast<std::int64_t>(query_.size()) * 4),
        table_there_(device, bytes_of(table_)),
        lengths_(device, bytes_of(std::vector<std::int32_t>(static_cast<std::size_t>(c.batch),
                                                            static_cast<std::int32_t>(c.length)))),
        globals_(device, bytes_of(std::vector<float>{1.0f, 1.0f})),
        copies_(random_copies()),
        copies_there_(device, bytes_of(copies_)) {
    const std::int64_t bytes = pages_ * shape_.page_bytes(),
                       sets = bytes > past_the_cache ? 1 : past_the_cache / bytes + 2;
    for (std::int64_t i = 0; i < sets; ++i) caches_.push_back(filled(bytes));
    device.synchronize(nullptr);
    workspace_.emplace_back(
        device,
        std::max<std::int64_t>(
            attention_workspace_bytes(call(0, DType::bf16), {.backend = Backend::cuda}), 16));
  }

  double checked() const {
    attention(call(0, DType::f32), context(nullptr));
    device_.synchronize(nullptr);
    return error();
  }

  void run(Result& row) {
    row.error = checked();
    const auto sets = static_cast<int>(caches_.size());
    row.seconds = median_seconds(device_, std::max(sets, 4), [&](int i, Stream stream) {
      attention(call(static_cast<std::size_t>(i % sets), DType::bf16), context(stream));
    });
    constexpr double short_seconds = 200e-6;  // 64 calls of more keep the GPU busy for nothing
    if (row.seconds < short_seconds) add_host_times(row);
  }

 private:
  void add_host_times(Result& row) {
    const AttentionOptions options = call(0, DType::bf16);
    const AttentionPlan plan(options, context(nullptr));
    const double eager =
        host_seconds(device_, [&](int, Stream stream) { attention(options, context(stream)); });
    const double kept =
        host_seconds(device_, [&](int, Stream stream) { plan.run(options, context(stream)); });
    row.extras.push_back({"host us", "host_microseconds", eager * 1e6});
    row.extras.push_back({"by a plan", "host_microseconds_by_plan", kept * 1e6});
  }

  bool eight_bits() const { return kv_page::code_bits(shape_.format) == 8; }

  // Codes at random, those of 8 bits below 2; scales around 1.
  std::vector<std::uint8_t> random_records() const {
    const kv_page::Record r = kv_page::record(shape_.format, page_, d);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(distinct_ * r.bytes));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i) % r.bytes;
      const auto random = static_cast<std::uint8_t>(random16(5, i));
      const bool codes = at < r.k_scales || (at >= r.v_codes && at < r.v_scales);
      bytes[i] = codes ? static_cast<std::uint8_t>(random & (eight_bits() ? 0xBF : 0xFF))
                 : shape_.format == KvFormat::nvfp4 ? static_cast<std::uint8_t>(0x20 + random % 16)
                                                    : static_cast<std::uint8_t>(125 + random % 3);
    }
    return bytes;
  }
  std::vector<std::int32_t> random_table() const {
    std::vector<std::int32_t> table(static_cast<std::size_t>(pages_));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(1));
    return table;
  }
  // BF16 between -2 and 2.
  std::vector<std::uint16_t> random_query() const {
    std::vector<std::uint16_t> q(static_cast<std::size_t>(case_.batch * case_.q_heads() * d));
    for (std::size_t i = 0; i < q.size(); ++i)
      q[i] = float_to_bf16(static_cast<float>(random16(1, i)) / 16384.0f - 2.0f);
    return q;
  }

  // K's, then V's, between -2 and 2; never empty.
  std::vector<std::uint16_t> random_copies() const {
    std::vector<std::uint16_t> copies(
        static_cast<std::size_t>(std::max<std::int64_t>(2 * copies_of_side(), 8)));
    for (std::size_t i = 0; i < copies.size(); ++i)
      copies[i] = float_to_bf16(static_cast<float>(random16(3, i)) / 16384.0f - 2.0f);
    return copies;
  }
  std::int64_t copies_of_side() const { return case_.batch * case_.recent * kv_heads * d; }

  DeviceBytes filled(std::int64_t bytes) const {
    DeviceBytes memory(device_, bytes);
    const auto part = static_cast<std::int64_t>(records_.size());
    device_.copy_to_device(memory.data(), records_.data(), std::min(part, bytes), nullptr);
    for (std::int64_t done = part; done < bytes; done *= 2)
      device_.copy_on_device(memory.data() + done, memory.data(), std::min(done, bytes - done),
                             nullptr);
    return memory;
  }

  Context context(Stream stream) const {
    const DeviceBytes& w = workspace_.front();
    return {.backend = Backend::cuda,
            .stream = stream,
            .workspace = {w.data(), static_cast<std::size_t>(w.size())}};
  }

  AttentionOptions call(std::size_t set, DType type) const {
    const DeviceBytes& memory = caches_[set];
    AttentionOptions o{.q = on_device(HeadsView{query_there_.data(), DType::bf16, case_.batch, 1,
                                                case_.q_heads(), d})};
    o.output =
        on_device(MutableHeadsView{output_.data(), type, case_.batch, 1, case_.q_heads(), d});
    KvCache cache = on_device(
        kv_cache_of_records(shape_, {memory.data(), static_cast<std::size_t>(memory.size())}));
    cache.batch = case_.batch;
    cache.lengths = reinterpret_cast<const std::int32_t*>(lengths_.data());
    const auto* globals = reinterpret_cast<const float*>(globals_.data());
    cache.k_global_scale = GlobalScale::on_device(globals);
    cache.v_global_scale = GlobalScale::on_device(globals + 1);
    if (case_.page_size > 0) {
      cache.page_table = reinterpret_cast<const std::int32_t*>(table_there_.data());
      cache.max_pages = per_sequence_;
    }
    if (case_.recent > 0) {
      auto* const k = reinterpret_cast<std::uint16_t*>(copies_there_.data());
      cache.recent = {case_.recent, k, k + copies_of_side()};
    }
    o.cache = cache;
    o.causal = true;
    o.window = case_.window;
    return o;
  }

  // The last sequence's last kv head on a host. What is left of the result is probabilities in FP16
  // and sums of 16 products at a time.
  double error() const {
    const std::int64_t group = case_.q_heads() / kv_heads, b = case_.batch - 1;
    const std::size_t first = static_cast<std::size_t>(
                          (b * case_.q_heads() + case_.q_heads() - group) * d),
                      count = static_cast<std::size_t>(group * d);
    std::vector<float> got(count);
    device_.copy_to_host(got.data(), output_.data() + first * 4,
                         static_cast<std::int64_t>(count) * 4, nullptr);
    device_.synchronize(nullptr);
    std::vector<std::uint8_t> records = records_;
    std::vector<std::uint16_t> copies = copies_of_head(b);
    const std::vector<float> want = on_host(records, copies, b, first, count);
    const kv_page::Record r = kv_page::record(shape_.format, page_, d);
    for (std::size_t i = 0; i < records.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i) % r.bytes;
      if (at >= r.v_codes && at < r.v_scales) records[i] &= eight_bits() ? 0x7F : 0x77;
    }
    for (std::size_t i = copies.size() / 2; i < copies.size(); ++i) copies[i] &= 0x7FFF;
    const std::vector<float> weighted = on_host(records, copies, b, first, count);
    double worst = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double difference = std::fabs(got[i] - want[i]);
      worst = std::max(worst, difference / (0x1p-9 * weighted[i] + 1e-30));
    }
    return worst;
  }
  // Of the last kv head of a sequence.
  std::vector<std::uint16_t> copies_of_head(std::int64_t b) const {
    std::vector<std::uint16_t> result;
    for (int side = 0; side < 2; ++side)
      for (std::int64_t t = 0; t < case_.recent; ++t) {
        const auto row = copies_.begin() + side * copies_of_side() +
                         ((b * case_.recent + t + 1) * kv_heads - 1) * d;
        result.insert(result.end(), row, row + d);
      }
    return result;
  }
  std::vector<float> on_host(std::vector<std::uint8_t>& records, std::vector<std::uint16_t>& copies,
                             std::int64_t b, std::size_t first, std::size_t count) const {
    const KvPageShape one{shape_.format, 1, d, page_};
    KvCache cache = kv_cache_of_records(one, records);
    std::vector<std::int32_t> table;
    for (std::int64_t i = 0; i < per_sequence_; ++i) {
      const std::int64_t page =
          case_.page_size > 0 ? table_[static_cast<std::size_t>(b * per_sequence_ + i)] : b;
      table.push_back(static_cast<std::int32_t>((page * kv_heads + kv_heads - 1) % distinct_));
    }
    const auto length = static_cast<std::int32_t>(case_.length);
    cache.batch = 1;
    cache.lengths = &length;
    if (case_.page_size > 0) {
      cache.page_table = table.data();
      cache.max_pages = per_sequence_;
    } else {
      for (KvPart* part : {&cache.k_codes, &cache.k_scales, &cache.v_codes, &cache.v_scales})
        part->data += table.front() * one.record_bytes();
      cache.pages = 1;
    }
    if (case_.recent > 0)
      cache.recent = {case_.recent, copies.data(), copies.data() + case_.recent * d};
    std::vector<float> output(count);
    const std::int64_t heads = static_cast<std::int64_t>(count) / d;
    AttentionOptions o{.q = HeadsView{query_.data() + first, DType::bf16, 1, 1, heads, d}};
    o.output = {output.data(), DType::f32, 1, 1, heads, d};
    o.cache = cache;
    o.causal = true;
    o.window = case_.window;
    attention(o, {.backend = attention_oracle});
    return output;
  }

  Device& device_;
  const AttentionCase& case_;
  const std::int64_t page_, per_sequence_;
  const KvPageShape shape_;
  const std::int64_t pages_, distinct_;
  const std::vector<std::uint8_t> records_;
  const std::vector<std::int32_t> table_;
  const std::vector<std::uint16_t> query_;
  const DeviceBytes query_there_, output_, table_there_, lengths_, globals_;
  const std::vector<std::uint16_t> copies_;
  const DeviceBytes copies_there_;
  std::vector<DeviceBytes> caches_, workspace_;
};

}  // namespace

double attention_error(Device& device, const AttentionCase& c) {
  return Measurement(device, c).checked();
}

std::vector<AttentionCase> gpu_attention_cases(bool quick) {
  const std::int64_t k = quick ? 16 : 1024;
  std::vector<AttentionCase> cases;
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8, KvFormat::fp8}) {
    const std::string name =
        fmt::format("decode {} ", format == KvFormat::fp8     ? "fp8"
                                  : format == KvFormat::mxfp8 ? "mxfp8"
                                                              : info(block_format(format)).name);
    cases.push_back({.name = name + "64 x 8k", .format = format, .batch = 64, .length = 8 * k});
    cases.push_back({.name = name + "16 x 32k", .format = format, .batch = 16, .length = 32 * k});
    cases.push_back({.name = name + "1 x 32k", .format = format, .length = 32 * k});
    cases.push_back({.name = name + "1 x 128k", .format = format, .length = 128 * k});
    for (const std::int64_t page : {64, 16}) {
      cases.push_back({.name = name + "64 x 8k, pages of " + std::to_string(page),
                       .format = format,
                       .batch = 64,
                       .length = 8 * k,
                       .page_size = page});
    }
    cases.push_back({.name = name + "64 x 8k, window",
                     .format = format,
                     .batch = 64,
                     .length = 8 * k,
                     .window = 4 * k});
    cases.push_back({.name = name + "64 x 8k, 64 tokens in bf16",
                     .format = format,
                     .batch = 64,
                     .length = 8 * k,
                     .recent = 64});
  }
  for (bench::AttentionCase& c : bench::append_cases(16, 4 * k, "16 x 4k"))
    cases.push_back(std::move(c));
  cases.push_back(bench::append_cases(64, 1, "64 x 1").front());
  return cases;
}

void measure_attention(Device& device, const std::vector<AttentionCase>& cases,
                       const std::string& filter, const MatmulLimits& limits,
                       const bench::Watcher& watcher) {
  bench::measure_each(cases, filter, watcher, [&](const AttentionCase& c) {
    Result row{.name = c.name, .bytes = c.bytes(), .operations = c.operations()};
    const bool append = c.kind == bench::AttentionKind::append;
    row.limit = append ? "copy" : "read";
    row.limit_seconds = row.bytes / (append ? limits.copy : limits.read);
    if (append ? !c.transformed && c.rule != ScaleRule::search && c.length > 1
               : c.batch > 1 && c.window == 0 && c.page_size == 0 && c.recent == 0)
      row.must = 0.8;
    try {
      if (append)
        measure_append(device, c, row);
      else
        Measurement(device, c).run(row);
    } catch (const Error& error) {
      row.problem = error.what();
    }
    return row;
  });
}

}  // namespace microscale::cuda
