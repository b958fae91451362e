#include "gpu_append.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "device_bytes.hpp"
#include "gpu_timing.hpp"
#include "layouts/kv_page.hpp"

namespace microscale::cuda {
namespace {

constexpr std::int64_t kv_heads = 8, d = 128;

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

class AppendMeasurement {
 public:
  AppendMeasurement(Device& device, const bench::AttentionCase& c)
      : device_(device),
        case_(c),
        per_sequence_(kv_page::entries(c.length, c.page_size)),
        shape_{c.format, kv_heads, d, c.page_size},
        pages_(c.batch * per_sequence_),
        table_(static_cast<std::size_t>(pages_)),
        cos_(static_cast<std::size_t>(c.length * d / 2)),
        sin_(cos_),
        mean_(static_cast<std::size_t>(kv_heads * d), 0.001f),
        lengths_(static_cast<std::size_t>(c.batch), static_cast<std::int32_t>(c.length)),
        k_(random_matrix(device, DType::bf16, c.batch * c.length * kv_heads * d)),
        v_(random_matrix(device, DType::bf16, c.batch * c.length * kv_heads * d)),
        memory_(device, pages_ * shape_.page_bytes()) {
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(1));
    fill_rope_tables(10000.0, c.length, d, cos_, sin_);
    for (const auto& host : {bytes_of(table_), bytes_of(lengths_), bytes_of(globals_),
                             bytes_of(cos_), bytes_of(sin_), bytes_of(mean_)})
      there_.emplace_back(device, host);
    device.synchronize(nullptr);
  }

  bool agrees() const {
    append(nullptr);
    device_.synchronize(nullptr);
    return same();
  }

  void run(bench::Result& row) {
    row.error = agrees() ? 0 : 2;
    row.seconds = median_seconds(device_, 4, [&](int, Stream stream) { append(stream); });
  }

 private:
  template <class T>
  const T* at(std::size_t i) const {
    return reinterpret_cast<const T*>(there_[i].data());
  }

  void append(Stream stream) const {
    AppendKvOptions o;
    o.cache = on_device(
        kv_cache_of_records(shape_, {memory_.data(), static_cast<std::size_t>(memory_.size())}));
    o.cache.batch = case_.batch;
    o.cache.page_table = at<std::int32_t>(0);
    o.cache.max_pages = per_sequence_;
    o.cache.lengths = at<std::int32_t>(1);
    o.cache.k_global_scale = GlobalScale::on_device(at<float>(2));
    o.cache.v_global_scale = GlobalScale::on_device(at<float>(2) + 1);
    o.k = on_device(HeadsView{k_.data(), DType::bf16, case_.batch, case_.length, kv_heads, d});
    o.v = o.k;
    o.v.data = v_.data();
    transform(o, at<float>(3), at<float>(4), at<float>(5));
    append_kv(o, {.backend = Backend::cuda, .stream = stream});
  }
  void transform(AppendKvOptions& o, const float* cos, const float* sin, const float* mean) const {
    if (case_.format != KvFormat::fp8) o.numerics.scale_rule = case_.rule;
    if (!case_.transformed) return;
    o.rope = {cos, sin, case_.length, d};
    o.cache.k_mean = mean;
    o.cache.hadamard = 16;
  }

  // The last page of the last sequence, on a host.
  bool same() const {
    const std::int64_t page = case_.page_size, last = (case_.length - 1) % page + 1,
                       row_bytes = kv_heads * d * 2, end = case_.batch * case_.length * row_bytes;
    const auto tokens = [&](const DeviceBytes& from) {
      std::vector<std::uint8_t> rows(static_cast<std::size_t>(last * row_bytes));
      device_.copy_to_host(rows.data(), from.data() + end - last * row_bytes, last * row_bytes,
                           nullptr);
      return rows;
    };
    const std::vector<std::uint8_t> k = tokens(k_), v = tokens(v_);
    std::vector<std::uint8_t> got(static_cast<std::size_t>(shape_.page_bytes()));
    device_.copy_to_host(got.data(), memory_.data() + table_.back() * shape_.page_bytes(),
                         shape_.page_bytes(), nullptr);
    device_.synchronize(nullptr);
    // The same page there; what was not written stays.
    std::vector<std::uint8_t> want = got;
    for (std::int64_t h = 0; h < kv_heads; ++h) spoil(want, h, last);
    std::vector<std::int32_t> table(static_cast<std::size_t>(per_sequence_), 0);
    const auto length = static_cast<std::int32_t>(case_.length);
    AppendKvOptions o;
    o.cache = kv_cache_of_records(shape_, want);
    o.cache.batch = 1;
    o.cache.page_table = table.data();
    o.cache.max_pages = per_sequence_;
    o.cache.lengths = &length;
    o.cache.k_global_scale = globals_[0];
    o.cache.v_global_scale = globals_[1];
    o.k = {k.data(), DType::bf16, 1, last, kv_heads, d};
    o.v = o.k;
    o.v.data = v.data();
    transform(o, cos_.data(), sin_.data(), mean_.data());
    append_kv(o);
    return got == want;
  }
  // Bytes of the tokens to be appended, so that the host has to write them.
  void spoil(std::vector<std::uint8_t>& page, std::int64_t head, std::int64_t tokens) const {
    const kv_page::Record r = kv_page::record(shape_.format, case_.page_size, d);
    const std::int64_t codes = tokens * kv_page::token_code_bytes(shape_.format, d);
    for (const std::int64_t part : {r.k_codes, r.v_codes})
      for (std::int64_t i = 0; i < codes; ++i)
        page[static_cast<std::size_t>(head * r.bytes + part + i)] ^= 0xFF;
  }

  Device& device_;
  const bench::AttentionCase& case_;
  const std::int64_t per_sequence_;
  const KvPageShape shape_;
  const std::int64_t pages_;
  std::vector<std::int32_t> table_;
  std::vector<float> cos_, sin_;
  const std::vector<float> mean_, globals_{0.0005f, 0.0005f};
  const std::vector<std::int32_t> lengths_;
  const DeviceBytes k_, v_, memory_;
  std::vector<DeviceBytes> there_;
};

}  // namespace

bool append_agrees(Device& device, const bench::AttentionCase& c) {
  return AppendMeasurement(device, c).agrees();
}

void measure_append(Device& device, const bench::AttentionCase& c, bench::Result& row) {
  AppendMeasurement(device, c).run(row);
}

}  // namespace microscale::cuda
