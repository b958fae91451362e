#include "cpu_attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "clock.hpp"
#include "core/threads.hpp"
#include "formats/half.hpp"
#include "formats/random.hpp"
#include "host_memory.hpp"
#include "layouts/kv_page.hpp"
#include "memory_limits.hpp"
#include "seam/kv_cache_view.hpp"
#include "reference/matmul.hpp"

namespace microscale::bench {
namespace {

constexpr const char* option = "--rotate-mib";
constexpr std::int64_t kv_heads = 8, d = 128;

/// BF16 numbers between -2 and 2.
void fill_bf16(std::uint16_t* values, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint16_t>(random16(seed, static_cast<std::uint64_t>(i)));
    values[i] =
        static_cast<std::uint16_t>((bits & 0x807Fu) | 0x3F00u | (bits & 0x0100u ? 0x80u : 0u));
  }
}

class Measurement {
 public:
  Measurement(const AttentionCase& c, const CpuAttentionOptions& options)
      : case_(c),
        options_(options),
        threads_(options.context.threads > 0 ? options.context.threads : available_cores()) {
    const std::int64_t tokens = c.batch * c.length;
    make_query();
    if (c.dense || c.kind == AttentionKind::append) {
      const std::int64_t count = tokens * kv_heads * d;
      for (HostMemory* side : {&keys_, &values_}) {
        *side = HostMemory(static_cast<std::size_t>(count) * 2, "--filter");
        fill_bf16(bf16(*side), count, side == &keys_ ? 2 : 3);
      }
      if (c.dense) return;
    }
    if (c.transformed) {
      cos_.resize(static_cast<std::size_t>(c.length * d / 2));
      sin_.resize(cos_.size());
      fill_rope_tables(10000.0, c.length, d, cos_, sin_);
      mean_.assign(static_cast<std::size_t>(kv_heads * d), 0.001f);
    }
    make_cache();
  }

  Result run(const Watcher& watcher) {
    Result row{.name = case_.name, .threads = threads_};
    row.operations = case_.operations();
    row.bytes = case_.bytes();
    call(0);
    if (case_.kind == AttentionKind::decode && !case_.dense) row.error = worst_error();
    std::vector<double> times, limits, peaks;
    std::size_t copy = 0;
    for (int r = 0; r < options_.runs && !watcher.stopped(); ++r) {
      times.push_back(seconds_of([&] { call(copy++ % copies()); }));
      limits.push_back(seconds_of([&] { move(copy++ % copies()); }));
      peaks.push_back(
          arithmetic_peak(options_.context.backend, threads_, options_.brief).operations);
    }
    if (times.empty()) return row;
    row.seconds = median(times);
    const double peak = median(peaks);
    const double multiply =
        peak > 0 && case_.kind != AttentionKind::append ? row.operations / peak : 0;
    row.arithmetic = multiply > median(limits);
    row.limit = row.arithmetic ? arithmetic_peak(options_.context.backend, 1, true).name
                : case_.kind == AttentionKind::append ? "loop"
                                                      : "read";
    row.limit_seconds = std::max(median(limits), multiply);
    if (row.limit == "read" && case_.format == KvFormat::nvfp4 && !case_.dense) row.must = 0.6;
    return row;
  }

 private:
  static std::uint16_t* bf16(const HostMemory& memory) {
    return reinterpret_cast<std::uint16_t*>(memory.data());
  }

  void make_query() {
    query_.resize(static_cast<std::size_t>(case_.batch * case_.q_length() * case_.q_heads() * d));
    output_.resize(query_.size());
    fill_bf16(query_.data(), static_cast<std::int64_t>(query_.size()), 1);
  }

  void make_cache() {
    const std::int64_t page = case_.page_size > 0 ? case_.page_size : (case_.length + 15) / 16 * 16;
    const KvPageShape shape{case_.format, kv_heads, d, page};
    const std::int64_t per_sequence = kv_page::entries(case_.length, page);
    const auto bytes = static_cast<std::size_t>(case_.batch * per_sequence * shape.page_bytes());
    const std::size_t count = case_.kind == AttentionKind::decode
                                  ? std::max<std::size_t>(1, (options_.rotate + bytes - 1) / bytes)
                                  : 1;
    for (std::size_t i = 0; i < count; ++i) memory_.emplace_back(bytes, option);
    cache_ = kv_cache_of_records(shape, memory_[0].span());
    cache_.batch = case_.batch;
    lengths_.assign(static_cast<std::size_t>(case_.batch), static_cast<std::int32_t>(case_.length));
    cache_.lengths = lengths_.data();
    if (case_.page_size > 0) {
      table_.resize(static_cast<std::size_t>(case_.batch * per_sequence));
      std::iota(table_.begin(), table_.end(), 0);
      std::shuffle(table_.begin(), table_.end(), std::mt19937(1));
      cache_.page_table = table_.data();
      cache_.max_pages = per_sequence;
    }
    if (case_.recent > 0) {
      const std::int64_t copied = case_.batch * case_.recent * kv_heads * d;
      recent_.resize(static_cast<std::size_t>(2 * copied));
      fill_bf16(recent_.data(), 2 * copied, 4);
      cache_.recent = {case_.recent, recent_.data(), recent_.data() + copied};
    }
    if (case_.kind == AttentionKind::append) return;
    fill_pages(shape);
    for (std::size_t i = 1; i < count; ++i)
      copy_bytes(memory_[0].data(), memory_[i].data(), bytes, 0);
  }

  // Codes at random but for NaN; scales around 1.
  void fill_pages(const KvPageShape& shape) {
    const kv_page::Record r = kv_page::record(shape.format, shape.page_size, shape.d);
    const bool e4m3_codes = kv_page::code_bits(shape.format) == 8;
    std::uint8_t* bytes = memory_[0].data();
    for (std::size_t i = 0; i < memory_[0].size(); ++i) {
      const auto at = static_cast<std::int64_t>(i) % r.bytes;
      const auto random = static_cast<std::uint8_t>(random16(5, i));
      const bool codes = at < r.k_scales || (at >= r.v_codes && at < r.v_scales);
      bytes[i] = codes ? (e4m3_codes ? random & 0xB7 : random)  // E4M3: below 2
                 : shape.format == KvFormat::nvfp4 ? static_cast<std::uint8_t>(0x20 + random % 16)
                                                   : static_cast<std::uint8_t>(125 + random % 3);
    }
  }

  std::size_t copies() const { return std::max<std::size_t>(1, memory_.size()); }

  KvCache cache_in(std::size_t copy) const {
    KvCache cache = cache_;
    const std::ptrdiff_t offset = memory_[copy].data() - memory_[0].data();
    for (KvPart* part : {&cache.k_codes, &cache.k_scales, &cache.v_codes, &cache.v_scales})
      if (part->data) part->data += offset;
    return cache;
  }

  HeadsView view(const std::uint16_t* data, std::int64_t tokens, std::int64_t heads) const {
    return {.data = data,
            .dtype = DType::bf16,
            .batch = case_.batch,
            .tokens = tokens,
            .heads = heads,
            .d = d};
  }

  AttentionOptions attention_call(std::size_t copy) {
    AttentionOptions o{.q = view(query_.data(), case_.q_length(), case_.q_heads())};
    o.output = {.data = output_.data(),
                .dtype = DType::bf16,
                .batch = case_.batch,
                .tokens = case_.q_length(),
                .heads = case_.q_heads(),
                .d = d};
    o.causal = true;
    o.window = case_.window;
    if (case_.dense) {
      o.k = view(bf16(keys_), case_.length, kv_heads);
      o.v = view(bf16(values_), case_.length, kv_heads);
    } else {
      o.cache = cache_in(copy);
    }
    return o;
  }

  void call(std::size_t copy) {
    if (case_.kind != AttentionKind::append)
      return attention(attention_call(copy), options_.context);
    AppendKvOptions o{.cache = cache_,
                      .k = view(bf16(keys_), case_.length, kv_heads),
                      .v = view(bf16(values_), case_.length, kv_heads)};
    if (case_.format != KvFormat::fp8) o.numerics.scale_rule = case_.rule;
    if (case_.transformed) {
      o.rope = {cos_.data(), sin_.data(), case_.length, d};
      o.cache.k_mean = mean_.data();
      o.cache.hadamard = 16;
    }
    append_kv(o, options_.context);
  }

  void move(std::size_t copy) {
    if (case_.kind == AttentionKind::append) {
      const std::size_t half = memory_[0].size() / 128 * 64;
      move_bytes(keys_.data(), keys_.size(), memory_[0].data(), half, threads_);
      return move_bytes(values_.data(), values_.size(), memory_[0].data() + half, half, threads_);
    }
    if (case_.dense) {
      move_bytes(keys_.data(), keys_.size(), nullptr, 0, threads_);
      return move_bytes(values_.data(), values_.size(), nullptr, 0, threads_);
    }
    const auto share = case_.bytes() / static_cast<double>(memory_[copy].size());
    const auto bytes =
        static_cast<std::size_t>(static_cast<double>(memory_[copy].size()) * std::min(share, 1.0));
    move_bytes(memory_[copy].data(), bytes, nullptr, 0, threads_);
  }

  // The last sequence's last kv head in FP64, and the bound of docs/attention.md.
  double worst_error() {
    const std::int64_t group = case_.q_heads() / kv_heads, b = case_.batch - 1,
                       first = (kv_heads - 1) * group;
    std::vector<float> got(query_.size());
    AttentionOptions o = attention_call(0);
    o.output.data = got.data();
    o.output.dtype = DType::f32;
    attention(o, options_.context);
    double worst = 0;
    for (std::int64_t h = first; h < first + group; ++h) {
      const std::int64_t at = (b * case_.q_heads() + h) * d;
      worst = std::max(worst, row_error(b, query_.data() + at, got.data() + at));
    }
    return worst;
  }

  std::array<double, d> key_row(std::int64_t b, std::int64_t position, bool value) const {
    std::array<double, d> row{};
    const kv_page::Place place = kv_page::place(position, cache_.page_size);
    const std::int64_t head = kv_heads - 1, page = page_of(cache_, b, place.entry);
    const bool copied = position >= case_.length - case_.recent;
    for (std::int64_t i = 0; i < d; ++i) {
      const auto to = static_cast<std::size_t>(i);
      if (copied) {
        const std::int64_t at =
            ((b * case_.recent + position % case_.recent) * kv_heads + head) * d;
        row[to] = bf16_to_float((value ? cache_.recent.v : cache_.recent.k)[at + i]);
      } else {
        row[to] = matmul_element(
            value ? page_rows(cache_, cache_.v_codes, cache_.v_scales, page, head, place.token)
                  : page_rows(cache_, cache_.k_codes, cache_.k_scales, page, head, place.token),
            0, i);
      }
    }
    return row;
  }

  double row_error(std::int64_t b, const std::uint16_t* q, const float* got) const {
    const double scale = 1 / std::sqrt(static_cast<double>(d));
    const std::int64_t begin =
        case_.window > 0 ? std::max<std::int64_t>(0, case_.length - case_.window) : 0;
    std::vector<double> scores;
    double a = 0, largest = -INFINITY, most = 0;
    for (std::int64_t j = begin; j < case_.length; ++j) {
      const std::array<double, d> k = key_row(b, j, false);
      double dot = 0, magnitude = 0;
      for (std::size_t i = 0; i < d; ++i) {
        dot += bf16_to_float(q[i]) * k[i];
        magnitude += std::fabs(bf16_to_float(q[i]) * k[i]);
      }
      scores.push_back(scale * dot);
      a = std::max(a, scale * magnitude);
      largest = std::max(largest, scores.back());
      most = std::max(most, std::fabs(scores.back()));
    }
    double sum = 0, distance = 0;
    for (double& score : scores) {
      const double p = std::exp(score - largest);
      sum += p;
      distance += p * (largest - score);
      score = p;
    }
    std::array<double, d> wanted{}, weighted{};
    for (std::int64_t j = begin; j < case_.length; ++j) {
      const std::array<double, d> v = key_row(b, j, true);
      const double p = scores[static_cast<std::size_t>(j - begin)] / sum;
      for (std::size_t i = 0; i < d; ++i) wanted[i] += p * v[i], weighted[i] += p * std::fabs(v[i]);
    }
    constexpr double u = 0x1p-24;
    // The widest of the CPU backends' rows there: amx rounds probabilities to BF16.
    const double keys = static_cast<double>(case_.length), score_roundings = 3 * d + 12,
                 output_roundings = 0x1p16 + 130 * (keys / 128 + 2) + 9;
    const double relative = 2 * (score_roundings * u * a + 4 * u * most) + output_roundings * u +
                            8 * u * distance / sum;
    double worst = 0;
    for (std::size_t i = 0; i < d; ++i)
      worst = std::max(worst, std::fabs(got[i] - wanted[i]) /
                                  (relative * weighted[i] + u * std::fabs(wanted[i])));
    return worst;
  }

  const AttentionCase& case_;
  const CpuAttentionOptions& options_;
  int threads_;
  std::vector<std::uint16_t> query_, output_, recent_;
  std::vector<float> cos_, sin_, mean_;
  HostMemory keys_, values_;  // dense, BF16
  std::vector<HostMemory> memory_;
  std::vector<std::int32_t> lengths_, table_;
  KvCache cache_{};
};

}  // namespace

double AttentionCase::operations() const {
  if (kind == AttentionKind::append) return 0;
  const auto keys = static_cast<double>(window > 0 ? std::min(window, length) : length);
  const double seen = kind == AttentionKind::prefill ? (keys + 1) / 2 : keys;
  return 4.0 * static_cast<double>(batch * q_heads() * q_length() * d) * seen;
}

double AttentionCase::bytes() const {
  const std::int64_t keys = window > 0 ? std::min(window, length) : length;
  const double rows = 2.0 * static_cast<double>(batch * kv_heads);
  const auto row = static_cast<double>(kv_page::token_code_bytes(format, d) +
                                       kv_page::token_scale_bytes(format, d));
  if (dense) return rows * static_cast<double>(keys * d * 2);
  if (kind == AttentionKind::append) return rows * static_cast<double>(keys) * (row + d * 2);
  return rows * (static_cast<double>(keys - recent) * row + static_cast<double>(recent * d * 2));
}

std::vector<AttentionCase> append_cases(std::int64_t batch, std::int64_t length,
                                        const std::string& shape) {
  std::vector<AttentionCase> cases;
  const auto add = [&](const std::string& what, KvFormat format, ScaleRule rule,
                       bool transformed = false) {
    cases.push_back(
        {.name = "append " + what + " " + shape + (transformed ? ", keys transformed" : ""),
         .kind = AttentionKind::append,
         .format = format,
         .batch = batch,
         .length = length,
         .page_size = 64,
         .rule = rule,
         .transformed = transformed});
  };
  add("nvfp4 nearest", KvFormat::nvfp4, ScaleRule::nearest);
  add("nvfp4 search", KvFormat::nvfp4, ScaleRule::search);
  add("nvfp4 4 over 6", KvFormat::nvfp4, ScaleRule::four_over_six);
  add("mxfp4 rceil", KvFormat::mxfp4, ScaleRule::rceil);
  add("mxfp4 search", KvFormat::mxfp4, ScaleRule::search);
  add("mxfp8 rceil", KvFormat::mxfp8, ScaleRule::rceil);
  add("fp8", KvFormat::fp8, ScaleRule::search);
  add("nvfp4 nearest", KvFormat::nvfp4, ScaleRule::nearest, true);
  return cases;
}

std::vector<AttentionCase> cpu_attention_cases(bool quick) {
  using enum AttentionKind;
  const std::int64_t l = quick ? 256 : 32768, short_l = quick ? 64 : 8192, p = quick ? 64 : 2048;
  const std::string n = quick ? "256" : "32k", m = quick ? "64" : "8k", t = quick ? "64" : "2k";
  std::vector<AttentionCase> cases{
      {.name = "decode nvfp4 1 x " + n, .length = l},
      {.name = "decode nvfp4 8 x " + m, .batch = 8, .length = short_l},
      {.name = "decode nvfp4 1 x " + n + ", pages of 64", .length = l, .page_size = 64},
      {.name = "decode nvfp4 1 x " + n + ", pages of 16", .length = l, .page_size = 16},
      {.name = "decode nvfp4 1 x " + n + ", window", .length = l, .window = l / 2},
      {.name = "decode nvfp4 1 x " + n + ", 64 tokens in bf16", .length = l, .recent = 64},
      {.name = "decode mxfp4 1 x " + n, .format = KvFormat::mxfp4, .length = l},
      {.name = "decode mxfp8 1 x " + n, .format = KvFormat::mxfp8, .length = l},
      {.name = "decode fp8 1 x " + n, .format = KvFormat::fp8, .length = l},
      {.name = "decode bf16 1 x " + n, .dense = true, .length = l},
      {.name = "prefill nvfp4 " + t + ", causal", .kind = prefill, .length = p},
      {.name = "prefill bf16 " + t + ", causal", .kind = prefill, .dense = true, .length = p},
  };
  for (AttentionCase& c : append_cases(1, short_l, "1 x " + m)) cases.push_back(std::move(c));
  return cases;
}

void measure_attention_cases(const std::vector<AttentionCase>& cases,
                             const CpuAttentionOptions& options, const Watcher& watcher) {
  measure_each(cases, options.filter, watcher,
               [&](const AttentionCase& c) { return Measurement(c, options).run(watcher); });
}

}  // namespace microscale::bench
