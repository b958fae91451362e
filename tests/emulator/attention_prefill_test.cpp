// Attention of many queries as the kernels for Hopper compute it, on the emulator: against the
// reference in FP64, in every type, with every option, and in cases whose result is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "cuda/attention_prefill.hpp"
#include "cuda/kernel_images.hpp"
#include "device_bytes.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "support/caches.hpp"
#include "support/wide_products.hpp"

namespace microscale::emulator {
namespace {

using cuda::DeviceBytes;
using test::CacheLayout;
using test::Heads;
using test::OwnedCache;

/// A dense type or a format.
struct Kind {
  std::optional<Format> format{};
  DType dtype = DType::f16;
};
constexpr Kind f32{{}, DType::f32}, f16{{}, DType::f16}, bf16{{}, DType::bf16},
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
    memory_.emplace_back(gpu, bytes_of(std::vector<float>{view.global_scale}));
    view.device_global_scale = reinterpret_cast<const float*>(memory_.back().data());
    return BlockHeadsView{view, dense_.batch, dense_.tokens, dense_.heads};
  }

 private:
  Operand(const Operand& other) : dense_(other.dense_), blocks_(other.blocks_) {}
  Heads dense_;
  std::optional<BlockTensor> blocks_;
  std::vector<DeviceBytes> memory_;
};

struct Case {
  Kind q = nvfp4, k = nvfp4, v = nvfp4;
  std::int64_t d = 64, batch = 1, q_len = 130, kv_len = 200, q_heads = 2, kv_heads = 1;
  DType type = DType::f32;
  bool causal = true, sinks = false;
  std::int64_t window = 0;
  float softcap = 0;
  std::optional<float> scale{};
  std::vector<std::int32_t> q_offsets{}, kv_offsets{};  // then batch is 1
  std::int64_t max_q_len = 0, max_kv_len = 0;
  std::function<float(std::int64_t, std::int64_t)> q_value{}, k_value{},
      v_value{};  // token, element
};

struct Result {
  Heads o;
  std::vector<float> lse;
};

class Attention {
 public:
  explicit Attention(const Case& c)
      : case_(c),
        q_(c.q, values(c.q, c.q_len, c.q_heads, 1, c.q_value)),
        k_(c.k, values(c.k, c.kv_len, c.kv_heads, 2, c.k_value)),
        v_(c.v, values(c.v, c.kv_len, c.kv_heads, 3, c.v_value)) {
    for (std::int64_t h = 0; h < c.q_heads; ++h) sinks_.push_back(std::cos(static_cast<float>(h)));
  }

  Result reference(bool magnitudes) const {
    Result r = untouched();
    AttentionOptions o = options(r.o, r.lse.data());
    o.q = q_.host();
    o.k = k_.host();
    const Operand positive = v_.positive();
    o.v = magnitudes ? positive.host() : v_.host();
    attention(o, {.backend = Backend::reference});
    return r;
  }

  Result on_device() {
    cuda::Device& gpu = device();
    Result r = untouched();
    const DeviceBytes output(gpu, r.o.bytes), lse(gpu, bytes_of(r.lse)),
        sinks(gpu, bytes_of(sinks_)), q_offsets(gpu, bytes_of(case_.q_offsets)),
        kv_offsets(gpu, bytes_of(case_.kv_offsets));
    AttentionOptions o = options(r.o, reinterpret_cast<float*>(lse.data()));
    o.q = q_.upload(gpu);
    o.k = k_.upload(gpu);
    o.v = v_.upload(gpu);
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
    const std::int64_t bytes = cuda::attention_prefill_workspace_bytes(gpu, call);
    const DeviceBytes workspace(gpu, std::max<std::int64_t>(bytes, 1));
    cuda::attention_prefill(gpu, call, {workspace.data(), static_cast<std::size_t>(bytes)},
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
  Result untouched() const {
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

  const Case case_;
  std::vector<float> sinks_;
  Operand q_, k_, v_;
};

/// Probabilities in FP16; of FP32 operands the scores' rounding, too.
::testing::AssertionResult near(const Result& got, const Result& want, const Result& weighted,
                                double relative) {
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
::testing::AssertionResult near(const Case& c) {
  Attention attention(c);
  const auto wide = [](const Kind& kind) { return !kind.format && kind.dtype == DType::f32; };
  const double relative = wide(c.q) || wide(c.k) ? 0x1p-6 : 0x1p-9;
  return near(attention.on_device(), attention.reference(false), attention.reference(true),
              relative);
}

class AttentionPrefill : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_F(AttentionPrefill, takes_every_type) {
  for (const Kind& kind :
       {f32, f16, bf16, nvfp4, mxfp4, Kind{Format::mxfp8_e4m3}, Kind{Format::mxfp8_e5m2}})
    EXPECT_TRUE(near({.q = kind, .k = kind, .v = kind, .q_len = 70, .kv_len = 150}))
        << (kind.format ? info(*kind.format).name : to_string(kind.dtype));
  EXPECT_TRUE(near({.q = bf16, .k = mxfp4, .v = nvfp4, .type = DType::bf16}));
  EXPECT_TRUE(near({.q = mxfp4, .k = f16, .v = bf16, .type = DType::f16}));
}

TEST_F(AttentionPrefill, has_rows_of_every_width) {
  for (const std::int64_t d : {32, 64, 96, 128, 160, 256})
    EXPECT_TRUE(near({.d = d, .q_len = 66, .kv_len = 141, .type = DType::bf16})) << d;
}

TEST_F(AttentionPrefill, takes_groups_of_any_size) {
  for (const auto& [q_heads, kv_heads] : {std::pair{2, 2}, {8, 2}, {3, 1}, {20, 1}})
    EXPECT_TRUE(
        near({.batch = 2, .q_len = 33, .kv_len = 70, .q_heads = q_heads, .kv_heads = kv_heads}))
        << q_heads << " " << kv_heads;
}

TEST_F(AttentionPrefill, masks_caps_and_sinks) {
  for (const bool causal : {false, true})
    for (const auto& [q_len, kv_len] : {std::pair{140, 140}, {40, 300}, {150, 90}}) {
      const Case plain{.q_len = q_len, .kv_len = kv_len, .q_heads = 1, .causal = causal};
      Case c = plain;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c.window = 75;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c.sinks = true;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c.softcap = 2.5f;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c = plain, c.softcap = 30, c.scale = -0.3f;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c = plain, c.scale = 0.0f, c.q = bf16, c.k = bf16;
      EXPECT_TRUE(near(c)) << causal << q_len;
    }
}

TEST_F(AttentionPrefill, has_tails_of_every_length) {
  for (const std::int64_t length : {1, 7, 63, 64, 65, 127, 128, 129})
    EXPECT_TRUE(near({.q_len = length, .kv_len = length, .q_heads = 1})) << length;
}

TEST_F(AttentionPrefill, has_packed_sequences) {
  for (const bool causal : {false, true})
    EXPECT_TRUE(near({.q_len = 215,
                      .kv_len = 420,
                      .q_heads = 2,
                      .causal = causal,
                      .q_offsets = {0, 130, 130, 134, 204, 215},
                      .kv_offsets = {0, 130, 175, 175, 180, 420},
                      .max_q_len = 130,
                      .max_kv_len = 240}));
}

TEST_F(AttentionPrefill, gives_one_for_uniform_scores) {
  const auto zero = [](std::int64_t, std::int64_t) { return 0.0f; };
  const auto one = [](std::int64_t, std::int64_t) { return 1.0f; };
  for (const std::int64_t length : {1, 100, 128, 333}) {
    const Result r =
        Attention({.q_len = 3, .kv_len = length, .causal = false, .q_value = zero, .v_value = one})
            .on_device();
    for (std::int64_t i = 0; i < 3 * 2 * 64; ++i)
      ASSERT_EQ(load_dense(r.o.bytes.data(), DType::f32, i), 1.0f);
    for (const float lse : r.lse) ASSERT_NEAR(lse, std::log(static_cast<double>(length)), 2e-6);
  }
}

TEST_F(AttentionPrefill, returns_rows_of_v_for_scores_of_one_key) {
  // Query i asks for key 5 i + 1 with 2^16 more than for the others, in binary.
  const auto bit = [](std::int64_t key, std::int64_t i) {
    return i < 32 ? (key >> (i % 8) & 1 ? 1.0f : -1.0f) : 0.0f;
  };
  const Case c{.q = f16,
               .k = f16,
               .v = f16,
               .q_len = 50,
               .kv_len = 251,
               .causal = false,
               .scale = 512.0f,
               .q_value = [&](std::int64_t t, std::int64_t i) { return bit(5 * t + 1, i); },
               .k_value = bit,
               .v_value =
                   [](std::int64_t t, std::int64_t i) {
                     return static_cast<float>(t) + static_cast<float>(i) / 8.0f;
                   }};
  const Result r = Attention(c).on_device();
  for (std::int64_t t = 0; t < 50; ++t)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < 64; ++i)
        ASSERT_EQ(r.o.at(0, t, h, i), c.v_value(5 * t + 1, i)) << t;
}

TEST_F(AttentionPrefill, keeps_tiles_of_very_different_sizes_apart) {
  // Exponents of tiles rise and fall along the keys, in K and in V.
  for (const Kind& kind : {bf16, mxfp4}) {
    const auto size = [](std::int64_t t) {
      return std::ldexp(1.0f, static_cast<int>(t / 64 % 3) * 9 - static_cast<int>(t / 128) * 5);
    };
    EXPECT_TRUE(near({.q = kind,
                      .k = kind,
                      .v = kind,
                      .q_len = 20,
                      .kv_len = 500,
                      .scale = 0.01f,
                      .v_value = [&](std::int64_t t, std::int64_t i) {
                        return size(t) * std::cos(static_cast<float>(7 * t + i));
                      }}));
    EXPECT_TRUE(near({.q = kind,
                      .k = kind,
                      .v = kind,
                      .q_len = 20,
                      .kv_len = 500,
                      .scale = 0.001f,
                      .k_value = [&](std::int64_t t, std::int64_t i) {
                        return size(t) * std::cos(static_cast<float>(7 * t + i));
                      }}));
  }
}

TEST_F(AttentionPrefill, passes_nan_on_to_the_rows_that_see_it) {
  for (const Kind& kind : {f16, bf16, f32}) {
    const auto value = [](std::int64_t t, std::int64_t) {
      return t == 140 ? std::numeric_limits<float>::quiet_NaN() : 0.25f;
    };
    const Result r = Attention({.q = kind,
                                .k = kind,
                                .v = kind,
                                .q_len = 150,
                                .kv_len = 150,
                                .q_heads = 1,
                                .k_value = value})
                         .on_device();
    for (std::int64_t t = 0; t < 150; ++t) ASSERT_EQ(std::isnan(r.o.at(0, t, 0, 5)), t >= 140) << t;
  }
}

/// A cache of random tokens, and one with magnitudes in place of its values.
::testing::AssertionResult reads_cache(KvFormat format, CacheLayout layout, std::int64_t page,
                                       const std::vector<std::int32_t>& lengths, std::int64_t q_len,
                                       bool absent) {
  constexpr std::int64_t d = 64, kv_heads = 2, q_heads = 4;
  const auto batch = static_cast<std::int64_t>(lengths.size());
  const std::int64_t most = std::max(16, *std::max_element(lengths.begin(), lengths.end()));
  OwnedCache cache(format, layout, batch, kv_heads, d, page, most),
      magnitudes(format, layout, batch, kv_heads, d, page, most);
  const Heads q = test::random_heads(DType::bf16, batch, q_len, q_heads, d, 1),
              k = test::random_heads(DType::f32, batch, most, kv_heads, d, 2),
              v = test::random_heads(DType::f32, batch, most, kv_heads, d, 3);
  Heads positive = v;
  for (std::int64_t i = 0; i < batch * most * kv_heads * d; ++i)
    store_dense(std::fabs(load_dense(v.bytes.data(), DType::f32, i)), positive.bytes.data(),
                DType::f32, i);
  const auto fill = [&](OwnedCache& to, const Heads& values) {
    if (format == KvFormat::nvfp4) to.view.k_global_scale = 0.2f, to.view.v_global_scale = 0.3f;
    if (format == KvFormat::fp8) to.view.k_global_scale = 0.02f, to.view.v_global_scale = 0.01f;
    to.append(k, values, 0, most);
    to.lengths.assign(lengths.begin(), lengths.end());
  };
  fill(cache, v);
  fill(magnitudes, positive);
  const auto options = [&](const KvCache& view, Result& r) {
    AttentionOptions o{.q = q.view()};
    o.cache = view;
    o.output = r.o.mutable_view();
    o.log_sum_exp = r.lse.data();
    o.causal = true;
    return o;
  };
  const auto empty = [&] {
    return Result{Heads(DType::f32, batch, q_len, q_heads, d),
                  std::vector<float>(static_cast<std::size_t>(batch * q_len * q_heads))};
  };
  Result want = empty(), weighted = empty(), got = empty();
  attention(options(cache.view, want), {.backend = Backend::reference});
  attention(options(magnitudes.view, weighted), {.backend = Backend::reference});
  cuda::Device& gpu = device();
  std::vector<std::int32_t> table = cache.table;
  if (absent)  // behind what the lengths reach
    for (std::int64_t s = 0; s < batch; ++s)
      for (std::int64_t e = kv_page::entries(lengths[static_cast<std::size_t>(s)], page);
           e < cache.view.max_pages; ++e)
        table[static_cast<std::size_t>(s * cache.view.max_pages + e)] = e % 2 ? -7 : 1 << 30;
  const DeviceBytes memory(gpu, bytes_of(cache.memory)), k_codes(gpu, bytes_of(cache.k_codes)),
      k_scales(gpu, bytes_of(cache.k_scales)), v_codes(gpu, bytes_of(cache.v_codes)),
      v_scales(gpu, bytes_of(cache.v_scales)), tables(gpu, bytes_of(table)),
      there(gpu, bytes_of(cache.lengths)), query(gpu, q.bytes), output(gpu, got.o.bytes),
      lse(gpu, bytes_of(got.lse)),
      globals(gpu,
              bytes_of(std::vector<float>{cache.view.k_global_scale, cache.view.v_global_scale}));
  KvCache view = cache.view;
  const auto move = [&](KvPart& part) {
    const std::pair<const std::vector<std::uint8_t>*, const DeviceBytes*> homes[] = {
        {&cache.memory, &memory},
        {&cache.k_codes, &k_codes},
        {&cache.k_scales, &k_scales},
        {&cache.v_codes, &v_codes},
        {&cache.v_scales, &v_scales}};
    for (const auto& [host, home] : homes)
      if (!host->empty() && part.data >= host->data() && part.data < host->data() + host->size()) {
        part.data = home->data() + (part.data - host->data());
        return;
      }
  };
  move(view.k_codes), move(view.k_scales), move(view.v_codes), move(view.v_scales);
  if (view.page_table) view.page_table = reinterpret_cast<const std::int32_t*>(tables.data());
  view.lengths = reinterpret_cast<const std::int32_t*>(there.data());
  view.device_global_scales = reinterpret_cast<const float*>(globals.data());
  AttentionOptions o = options(view, got);
  HeadsView on_device = q.view();
  on_device.data = query.data();
  o.q = on_device;
  o.output.data = output.data();
  o.log_sum_exp = reinterpret_cast<float*>(lse.data());
  Attention::run(gpu, o);
  got.o.bytes = output.to_host();
  gpu.copy_to_host(got.lse.data(), lse.data(), lse.size(), nullptr);
  return near(got, want, weighted, 0x1p-9);
}

TEST_F(AttentionPrefill, reads_caches) {
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8, KvFormat::fp8}) {
    EXPECT_TRUE(reads_cache(format, CacheLayout::contiguous, 0, {150, 0, 31}, 40, false));
    EXPECT_TRUE(reads_cache(format, CacheLayout::records, 32, {150, 129}, 70, true));
  }
  EXPECT_TRUE(reads_cache(KvFormat::nvfp4, CacheLayout::nhd, 16, {140, 77}, 65, true));
  EXPECT_TRUE(reads_cache(KvFormat::nvfp4, CacheLayout::hnd, 64, {140, 77}, 65, true));
}

TEST_F(AttentionPrefill, gives_the_same_bytes_every_time) {
  const Case c{.q_len = 200, .kv_len = 200, .q_heads = 4, .kv_heads = 2};
  const Result first = Attention(c).on_device();
  device().set(1);  // all items in one block
  EXPECT_EQ(Attention(c).on_device().o.bytes, first.o.bytes);
  device().set(2);
}

}  // namespace
}  // namespace microscale::emulator
