// A call of attention with many queries on the emulated Hopper GPU, and on the reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cuda/attention/attention.hpp"
#include "device_bytes.hpp"
#include "microscale/quantize.hpp"
#include "ops/attention_check.hpp"
#include "support/attention.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {

using cuda::DeviceBytes;
using test::Heads;

/// A dense type or a format.
struct Kind {
  std::optional<Format> format{};
  DType dtype = DType::f16;
};
inline constexpr Kind f32{{}, DType::f32}, f16{{}, DType::f16}, bf16{{}, DType::bf16},
    nvfp4{Format::nvfp4}, mxfp4{Format::mxfp4};

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(values.data());
  std::vector<std::uint8_t> bytes(first, first + values.size() * sizeof(T));
  if (bytes.empty()) bytes.resize(16);
  return bytes;
}

/// q, k or v on the host and on the device.
class Operand {
 public:
  Operand(const Kind& kind, const Heads& values) : dense_(values) {
    if (kind.format) blocks_ = quantize({.input = values.rows(), .format = *kind.format});
  }
  AttentionInput host() const {
    if (!blocks_) return dense_.view();
    return BlockHeadsView{blocks_->view(), dense_.batch, dense_.tokens, dense_.heads};
  }
  /// The same with magnitudes for values.
  Operand positive() const {
    Operand other = *this;
    if (blocks_) {
      const bool four = info(blocks_->shape().format).code_bits == 4;
      for (std::uint8_t& byte : other.blocks_->codes()) byte &= four ? 0x77 : 0x7F;
    }
    for (std::int64_t i = 0; i < dense_.batch * dense_.tokens * dense_.heads * dense_.d; ++i)
      store_dense(std::fabs(load_dense(dense_.bytes.data(), dense_.dtype, i)),
                  other.dense_.bytes.data(), dense_.dtype, i);
    return other;
  }
  AttentionInput upload(cuda::Device& gpu) {
    if (!blocks_) {
      memory_.emplace_back(gpu, dense_.bytes);
      HeadsView view = dense_.view();
      view.data = memory_.back().data();
      return view;
    }
    const auto move = [&](std::span<const std::uint8_t> bytes) {
      memory_.emplace_back(gpu, std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
      return std::span<const std::uint8_t>(memory_.back().data(), bytes.size());
    };
    BlockTensorView view = blocks_->view();
    view.codes = move(view.codes);
    view.scales = move(view.scales);
    memory_.emplace_back(gpu, bytes_of(std::vector<float>{view.global_scale.value()}));
    view.global_scale =
        GlobalScale::on_device(reinterpret_cast<const float*>(memory_.back().data()));
    return BlockHeadsView{view, dense_.batch, dense_.tokens, dense_.heads};
  }

 private:
  Operand(const Operand& other) : dense_(other.dense_), blocks_(other.blocks_) {}
  Heads dense_;
  std::optional<BlockTensor> blocks_;
  std::vector<DeviceBytes> memory_;
};

struct PrefillCall {
  Kind q = nvfp4, k = nvfp4, v = nvfp4;
  std::int64_t d = 64, batch = 1, q_len = 130, kv_len = 200, q_heads = 2, kv_heads = 1;
  DType type = DType::f32;
  bool causal = true, sinks = false;
  std::int64_t window = 0;
  float softcap = 0;
  std::optional<float> scale{};
  bool fp8 = false;  // probabilities; on the reference exact ones
  std::vector<std::int32_t> q_offsets{}, kv_offsets{};  // then batch is 1
  std::int64_t max_q_len = 0, max_kv_len = 0;
  std::function<float(std::int64_t, std::int64_t)> q_value{}, k_value{},
      v_value{};  // token, element
};

struct PrefillResult {
  Heads o;
  std::vector<float> lse;
};

class PrefillRun {
 public:
  explicit PrefillRun(const PrefillCall& c)
      : case_(c),
        q_(c.q, values(c.q, c.q_len, c.q_heads, 1, c.q_value)),
        k_(c.k, values(c.k, c.kv_len, c.kv_heads, 2, c.k_value)),
        v_(c.v, values(c.v, c.kv_len, c.kv_heads, 3, c.v_value)) {
    for (std::int64_t h = 0; h < c.q_heads; ++h) sinks_.push_back(std::cos(static_cast<float>(h)));
  }

  PrefillResult reference(bool magnitudes) const { return reference(magnitudes, case_.scale); }
  PrefillResult reference(bool magnitudes, std::optional<float> scale) const {
    PrefillResult r = untouched();
    AttentionOptions o = options(r.o, r.lse.data());
    o.scale = scale;
    o.q = q_.host();
    o.k = k_.host();
    const Operand positive = v_.positive();
    o.v = magnitudes ? positive.host() : v_.host();
    attention(o, {.backend = Backend::reference});
    return r;
  }

  PrefillResult on_device() {
    cuda::Device& gpu = device();
    PrefillResult r = untouched();
    const DeviceBytes output(gpu, r.o.bytes), lse(gpu, bytes_of(r.lse)),
        sinks(gpu, bytes_of(sinks_)), q_offsets(gpu, bytes_of(case_.q_offsets)),
        kv_offsets(gpu, bytes_of(case_.kv_offsets));
    AttentionOptions o = options(r.o, reinterpret_cast<float*>(lse.data()));
    o.q = q_.upload(gpu);
    o.k = k_.upload(gpu);
    o.v = v_.upload(gpu);
    if (case_.fp8)
      o.numerics = {.accuracy = AttentionAccuracy::one_term, .probabilities = ProbabilityRule::fp8};
    o.output.data = output.data();
    if (o.sinks) o.sinks = reinterpret_cast<const float*>(sinks.data());
    if (o.q_offsets) o.q_offsets = reinterpret_cast<const std::int32_t*>(q_offsets.data());
    if (o.kv_offsets) o.kv_offsets = reinterpret_cast<const std::int32_t*>(kv_offsets.data());
    run(gpu, o);
    r.o.bytes = output.to_host();
    gpu.copy_to_host(r.lse.data(), lse.data(), lse.size(), nullptr);
    return r;
  }

  static void run(cuda::Device& gpu, const AttentionOptions& o) {
    const AttentionCall call = check_attention(o, true);
    const cuda::attention::Plan plan{cuda::attention::prefill::plan_of(gpu.info(), call)};
    const std::int64_t bytes = plan.workspace_bytes();
    const DeviceBytes workspace(gpu, std::max<std::int64_t>(bytes, 1));
    cuda::attention::run(gpu, plan, call, {workspace.data(), static_cast<std::size_t>(bytes)},
                         nullptr);
  }

 private:
  Heads values(const Kind& kind, std::int64_t tokens, std::int64_t heads, unsigned seed,
               const std::function<float(std::int64_t, std::int64_t)>& value) const {
    const DType type = kind.format ? DType::f32 : kind.dtype;
    Heads h = test::random_heads(type, case_.batch, tokens, heads, case_.d, seed);
    for (std::int64_t i = 0; value && i < case_.batch * tokens * heads * case_.d; ++i)
      store_dense(value(i / case_.d / heads % tokens, i % case_.d), h.bytes.data(), type, i);
    return h;
  }
  PrefillResult untouched() const {
    return {Heads(case_.type, case_.batch, case_.q_len, case_.q_heads, case_.d),
            std::vector<float>(static_cast<std::size_t>(case_.batch * case_.q_len * case_.q_heads),
                               99.0f)};
  }
  AttentionOptions options(Heads& output, float* lse) const {
    AttentionOptions o;
    o.output = output.mutable_view();
    o.log_sum_exp = lse;
    o.causal = case_.causal;
    o.window = case_.window;
    o.softcap = case_.softcap;
    o.scale = case_.scale;
    if (case_.sinks) o.sinks = sinks_.data();
    if (!case_.q_offsets.empty()) {
      o.q_offsets = case_.q_offsets.data();
      o.kv_offsets = case_.kv_offsets.data();
      o.sequences = static_cast<std::int64_t>(case_.q_offsets.size()) - 1;
      o.max_q_len = case_.max_q_len;
      o.max_kv_len = case_.max_kv_len;
    }
    return o;
  }

  const PrefillCall case_;
  std::vector<float> sinks_;
  Operand q_, k_, v_;
};

/// Probabilities in FP16; of FP32 operands the scores' rounding, too.
inline ::testing::AssertionResult near(const PrefillResult& got, const PrefillResult& want,
                                       const PrefillResult& weighted, double relative) {
  const double unit = got.o.dtype == DType::f32   ? 0x1p-23
                      : got.o.dtype == DType::f16 ? 0x1p-10
                                                  : 0x1p-7;
  for (std::size_t i = 0; i < want.lse.size(); ++i) {
    const double error = std::fabs(want.lse[i] - got.lse[i]);
    if (want.lse[i] != got.lse[i] && !(error < 4 * relative))
      return ::testing::AssertionFailure()
             << "log-sum-exp " << i << " is " << got.lse[i] << ", wanted " << want.lse[i];
  }
  const std::int64_t count = want.o.batch * want.o.tokens * want.o.heads * want.o.d;
  for (std::int64_t i = 0; i < count; ++i) {
    const double w = load_dense(want.o.bytes.data(), want.o.dtype, i),
                 g = load_dense(got.o.bytes.data(), want.o.dtype, i),
                 a = load_dense(weighted.o.bytes.data(), want.o.dtype, i);
    if (!(std::fabs(w - g) <= relative * a + unit * std::fabs(w) + 1e-30))
      return ::testing::AssertionFailure()
             << "element " << i % want.o.d << " of row " << i / want.o.d << " is " << g
             << ", wanted " << w << " within " << relative * a;
  }
  return ::testing::AssertionSuccess();
}
inline ::testing::AssertionResult near(const PrefillCall& c) {
  PrefillRun attention(c);
  const auto wide = [](const Kind& kind) { return !kind.format && kind.dtype == DType::f32; };
  const double relative = wide(c.q) || wide(c.k) ? 0x1p-6 : 0x1p-9;
  return near(attention.on_device(), attention.reference(false), attention.reference(true),
              relative);
}

}  // namespace microscale::emulator
