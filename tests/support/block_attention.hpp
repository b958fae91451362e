// Attention on an emulated consumer Blackwell GPU: operands of one call, dense or block-scaled,
// what the device makes of them, and the comparison with the FP64 model of the mode.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "cuda/attention/attention.hpp"
#include "device_bytes.hpp"
#include "microscale/quantize.hpp"
#include "ops/attention_check.hpp"
#include "support/attention_modes.hpp"

namespace microscale::test {

struct BlockAttentionCase {
  std::int64_t kv_len = 64, q_len = 32, q_heads = 2, kv_heads = 1, d = 128, batch = 1;
  AttentionAccuracy accuracy = AttentionAccuracy::one_term;
  ProbabilityRule rule = ProbabilityRule::of_mode;
  bool along_tokens = true;
  /// Of operands given as blocks; absent: dense.
  std::optional<Format> q_format{}, k_format{}, v_format{};
  Format format = Format::nvfp4;  // of dense ones
  DType q_type = DType::f32, kv_type = DType::f32, type = DType::f32;
  bool causal = false, sinks = false;
  std::int64_t window = 0;
  float softcap = 0;
  std::optional<float> scale{};
  int splits = 0;  // compare() takes more than one where all rows of a kv head are of one block
  /// Packed sequences: lengths of q and of k; batch, q_len and kv_len do not count.
  std::vector<std::int32_t> q_lengths{}, kv_lengths{};
};

struct BlockAttentionResult {
  Heads o;
  std::vector<float> lse;
};

class BlockAttention {
 public:
  explicit BlockAttention(const BlockAttentionCase& c)
      : c_(c),
        packed_(!c.q_lengths.empty()),
        q(tensor(c.q_type, packed_ ? total(c.q_lengths) : c.q_len, c.q_heads, 1)),
        k(tensor(c.kv_type, packed_ ? total(c.kv_lengths) : c.kv_len, c.kv_heads, 2)),
        v(tensor(c.kv_type, packed_ ? total(c.kv_lengths) : c.kv_len, c.kv_heads, 3)) {
    for (std::int64_t h = 0; h < c.q_heads; ++h)
      sinks_.push_back(1.5f * std::cos(static_cast<float>(h)));
  }

  BlockAttentionResult run(cuda::Device& gpu) {
    BlockAttentionResult r{
        Heads(c_.type, q.batch, q.tokens, q.heads, q.d),
        std::vector<float>(static_cast<std::size_t>(q.batch * q.tokens * q.heads), 99.0f)};
    const Moved mq(gpu, q, c_.q_format), mk(gpu, k, c_.k_format), mv(gpu, v, c_.v_format);
    const cuda::DeviceBytes output(gpu, r.o.bytes), lse(gpu, bytes_of(r.lse)),
        sinks(gpu, bytes_of(sinks_)), q_offsets(gpu, bytes_of(offsets(c_.q_lengths))),
        kv_offsets(gpu, bytes_of(offsets(c_.kv_lengths)));
    AttentionOptions o;
    o.q = mq.input(), o.k = mk.input(), o.v = mv.input();
    o.output = r.o.mutable_view();
    o.output.data = output.data();
    o.log_sum_exp = reinterpret_cast<float*>(lse.data());
    o.scale = c_.scale;
    o.causal = c_.causal;
    o.window = c_.window;
    o.softcap = c_.softcap;
    o.splits = c_.splits;
    if (c_.sinks) o.sinks = reinterpret_cast<const float*>(sinks.data());
    if (packed_) {
      o.q_offsets = reinterpret_cast<const std::int32_t*>(q_offsets.data());
      o.kv_offsets = reinterpret_cast<const std::int32_t*>(kv_offsets.data());
      o.sequences = static_cast<std::int64_t>(c_.q_lengths.size());
    }
    o.numerics.accuracy = c_.accuracy;
    o.numerics.probabilities = c_.rule;
    o.numerics.format = c_.format;
    o.numerics.v_along_tokens = c_.along_tokens;
    const AttentionCall call = check_attention(o, true);
    rule_ = call.probabilities;
    const std::int64_t bytes = cuda::attention::workspace_bytes(gpu, call);
    const cuda::DeviceBytes workspace(gpu, std::max<std::int64_t>(bytes, 1));
    cuda::attention::attend(gpu, call, {workspace.data(), static_cast<std::size_t>(bytes)},
                            nullptr);
    r.o.bytes = output.to_host();
    gpu.copy_to_host(r.lse.data(), lse.data(), lse.size(), nullptr);
    unchanged = mq.is(gpu) && mk.is(gpu) && mv.is(gpu);
    return r;
  }

  /// Every row against the model.
  ::testing::AssertionResult compare(const BlockAttentionResult& got) const {
    const std::int64_t group = c_.q_heads / c_.kv_heads;
    const auto sequences = static_cast<std::int64_t>(packed_ ? c_.q_lengths.size()
                                                             : static_cast<std::size_t>(c_.batch));
    std::int64_t q_first = 0, kv_first = 0;
    for (std::int64_t s = 0; s < sequences; ++s) {
      const auto at = static_cast<std::size_t>(s);
      const std::int64_t q_len = packed_ ? c_.q_lengths[at] : c_.q_len,
                         kv_len = packed_ ? c_.kv_lengths[at] : c_.kv_len;
      for (std::int64_t g = 0; g < c_.kv_heads; ++g) {
        OracleRow row;
        row.k = rows_of(k, c_.k_format, kv_first, kv_len, g, false);
        row.v = rows_of(v, c_.v_format, kv_first, kv_len, g, c_.along_tokens);
        row.scale = c_.scale ? *c_.scale : 1 / std::sqrt(static_cast<double>(c_.d));
        row.causal = c_.causal, row.window = c_.window, row.softcap = c_.softcap;
        parts_ = parts_of(q_len, kv_len);
        for (std::int64_t i = 0; i < q_len; ++i)
          for (std::int64_t h = g * group; h < (g + 1) * group; ++h) {
            row.q = query(q_first + i, h);
            row.position = kv_len - q_len + i;
            if (c_.sinks) row.sink = sinks_[static_cast<std::size_t>(h)];
            auto result = check(got, row, q_first + i, h);
            if (!result) {
              result << " (sequence " << s << ", query " << i << ")";
              return result;
            }
          }
      }
      q_first += q_len, kv_first += kv_len;
    }
    return ::testing::AssertionSuccess();
  }

  /// Rows of V as the mode has them; one sequence, one head.
  std::vector<std::vector<double>> values() const {
    return rows_of(v, c_.v_format, 0, v.tokens, 0, c_.along_tokens);
  }
  /// One head, one sequence, operands as they were given.
  std::vector<double> exact_result() const {
    OracleRow row;
    row.k = head_rows(k, 0, 0, 0, k.tokens);
    row.v = head_rows(v, 0, 0, 0, v.tokens);
    row.scale = 1 / std::sqrt(static_cast<double>(c_.d));
    row.causal = c_.causal;
    std::vector<double> all;
    for (std::int64_t t = 0; t < q.tokens; ++t) {
      row.q = head_rows(q, 0, 0, t, 1)[0];
      row.position = k.tokens - q.tokens + t;
      for (const double o : oracle(row).o) all.push_back(o);
    }
    return all;
  }

  const BlockAttentionCase c_;
  const bool packed_;
  Heads q, k, v;
  bool unchanged = false;  // operands on the device, by run()

 private:
  /// An operand on the device.
  struct Moved {
    const Heads& heads;
    std::optional<BlockTensor> blocks;
    std::vector<std::uint8_t> codes, scales;
    cuda::DeviceBytes first, second, global;
    Moved(cuda::Device& gpu, const Heads& h, const std::optional<Format>& format)
        : heads(h),
          blocks(format ? std::optional(blocks_of(h, *format)) : std::nullopt),
          codes(format ? std::vector<std::uint8_t>(blocks->codes().begin(), blocks->codes().end())
                       : h.bytes),
          scales(format
                     ? std::vector<std::uint8_t>(blocks->scales().begin(), blocks->scales().end())
                     : std::vector<std::uint8_t>(16)),
          first(gpu, nonempty(codes)),
          second(gpu, nonempty(scales)),
          global(gpu, bytes_of(std::vector<float>{format ? blocks->global_scale : 1.0f})) {}
    AttentionInput input() const {
      if (!blocks) {
        HeadsView view = heads.view();
        view.data = first.data();
        return view;
      }
      BlockTensorView view = blocks->view();
      view.codes = {first.data(), codes.size()};
      view.scales = {second.data(), scales.size()};
      view.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(global.data()));
      return BlockHeadsView{view, heads.batch, heads.tokens, heads.heads};
    }
    bool is(cuda::Device&) const {
      return first.to_host() == nonempty(codes) && second.to_host() == nonempty(scales);
    }
  };

  static std::int64_t total(const std::vector<std::int32_t>& lengths) {
    std::int64_t sum = 0;
    for (const std::int32_t each : lengths) sum += each;
    return sum;
  }
  static std::vector<std::int32_t> offsets(const std::vector<std::int32_t>& lengths) {
    std::vector<std::int32_t> result{0};
    for (const std::int32_t each : lengths) result.push_back(result.back() + each);
    return result;
  }
  template <class T>
  static std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(values.data());
    return nonempty({first, first + values.size() * sizeof(T)});
  }
  static std::vector<std::uint8_t> nonempty(std::vector<std::uint8_t> bytes) {
    if (bytes.empty()) bytes.resize(16);
    return bytes;
  }
  Heads tensor(DType type, std::int64_t tokens, std::int64_t heads, unsigned seed) const {
    return random_heads(type, packed_ ? 1 : c_.batch, tokens, heads, c_.d, seed);
  }
  static BlockTensor blocks_of(const Heads& h, Format format) {
    QuantizeOptions o;
    o.input = h.rows();
    o.format = format;
    return quantize(o);
  }

  /// The rows of a head as the mode has them. `token`: of all, batch by batch.
  std::vector<std::vector<double>> rows_of(const Heads& h, const std::optional<Format>& format,
                                           std::int64_t token, std::int64_t count,
                                           std::int64_t head, bool along_tokens) const {
    std::vector<float> values(static_cast<std::size_t>(count * h.d));
    if (count == 0) return {};
    const MutableTensorView to{values.data(), DType::f32, count, h.d, h.d};
    if (format) {
      const BlockTensor blocks = blocks_of(h, *format);
      std::vector<float> all(static_cast<std::size_t>(h.batch * h.tokens * h.heads * h.d));
      dequantize(blocks.view(), {all.data(), DType::f32, h.batch * h.tokens * h.heads, h.d, h.d});
      for (std::int64_t t = 0; t < count; ++t)
        std::copy_n(all.data() + ((token + t) * h.heads + head) * h.d, h.d,
                    values.data() + t * h.d);
    } else {
      QuantizeOptions o;
      o.input = {h.bytes.data() + (token * h.heads + head) * h.d * size_of(h.dtype), h.dtype, count,
                 h.d, h.heads * h.d};
      o.format = c_.format;
      o.numerics.scale_rule = c_.format == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::rceil;
      o.axis = along_tokens ? BlockAxis::rows : BlockAxis::cols;
      o.padding = Padding::zero;
      o.global_scale = 1.0f;
      dequantize(quantize(o).view(), to);
    }
    std::vector<std::vector<double>> rows;
    for (std::int64_t t = 0; t < count; ++t)
      rows.emplace_back(values.data() + t * h.d, values.data() + (t + 1) * h.d);
    return rows;
  }

  std::vector<double> query(std::int64_t token, std::int64_t head) const {
    if (c_.q_format) return rows_of(q, c_.q_format, token, 1, head, false)[0];
    std::vector<double> row;
    for (std::int64_t i = 0; i < q.d; ++i)
      row.push_back(load_dense(q.bytes.data(), q.dtype, (token * q.heads + head) * q.d + i));
    const bool wide = c_.format == Format::mxfp8_e4m3;
    round_query(c_.k_format && !wide ? *c_.k_format : c_.format,
                c_.accuracy == AttentionAccuracy::two_term, row.data(), q.d);
    return row;
  }

  /// The keys with which parts begin.
  std::vector<std::size_t> parts_of(std::int64_t q_len, std::int64_t kv_len) const {
    const std::int64_t tile = 64,
                       seen = c_.window > 0
                                  ? std::max<std::int64_t>(kv_len - q_len + 1 - c_.window, 0)
                                  : 0,
                       first = seen / tile, count = (kv_len + tile - 1) / tile - first;
    std::vector<std::size_t> keys;
    for (std::int64_t part = 0; part < c_.splits; ++part)
      keys.push_back(static_cast<std::size_t>((first + count * part / c_.splits) * tile));
    return keys;
  }

  ::testing::AssertionResult check(const BlockAttentionResult& got, const OracleRow& row,
                                   std::int64_t token, std::int64_t head) const {
    const ModeResult want =
        mode_result(row, rule_, Format::nvfp4, c_.accuracy == AttentionAccuracy::two_term,
                    c_.along_tokens ? 64 : 32, 0x1p-15, parts_);
    const std::int64_t index = token * q.heads + head;
    const double lse = got.lse[static_cast<std::size_t>(index)];
    const double tight = rule_ == ProbabilityRule::exact ? 0x1p-10 : 0x1p-14;
    if (lse != want.lse && !(std::fabs(lse - want.lse) < 0x1p-16 * (4 + std::fabs(want.lse))))
      return ::testing::AssertionFailure()
             << "log-sum-exp of head " << head << " is " << lse << ", wanted " << want.lse;
    const double unit = c_.type == DType::f32 ? 0x1p-22 : c_.type == DType::f16 ? 0x1p-11 : 0x1p-8;
    for (std::int64_t i = 0; i < q.d; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double g = load_dense(got.o.bytes.data(), c_.type, index * q.d + i), w = want.o[at];
      const double allowed =
          tight * want.weighted[at] + 1.1 * want.ties[at] + unit * std::fabs(w) + 1e-30;
      if (!(std::fabs(g - w) <= allowed))
        return ::testing::AssertionFailure() << "element " << i << " of head " << head << " is "
                                             << g << ", wanted " << w << " within " << allowed;
    }
    return ::testing::AssertionSuccess();
  }

  std::vector<float> sinks_;
  mutable std::vector<std::size_t> parts_;
  ProbabilityRule rule_ = ProbabilityRule::two_level;
};

}  // namespace microscale::test
