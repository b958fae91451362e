// Attention of few rows over caches of keys and values, as the kernels for Hopper compute it,
// on the emulator: against the reference in FP64.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "cuda/device/kernel_images.hpp"
#include "microscale/error.hpp"
#include "support/decode_calls.hpp"

namespace microscale::emulator {
namespace {

struct Case {
  KvFormat format = KvFormat::nvfp4;
  CacheLayout layout = CacheLayout::records;
  std::int64_t page = 16, d = 128;
  std::vector<std::int32_t> lengths{75, 40};
  std::int64_t q_len = 1, q_heads = 8, kv_heads = 2;
  DType q_type = DType::bf16, type = DType::f32;
  bool causal = true, sinks = false, offsets = false, garbage = false;
  bool mean = false, hadamard = false;
  std::int64_t first = 0, recent = 0;
  std::int64_t window = 0;
  float softcap = 0;
  int splits = 1;
};

struct Result {
  Heads o;
  std::vector<float> lse;
};

/// A cache of random tokens, and one with magnitudes in place of its values.
class Attention {
 public:
  explicit Attention(const Case& c)
      : case_(c),
        batch_(static_cast<std::int64_t>(c.lengths.size())),
        most_(std::max(16, *std::max_element(c.lengths.begin(), c.lengths.end()))),
        cache(c.format, c.layout, batch_, c.kv_heads, c.d, c.page, most_),
        magnitudes(c.format, c.layout, batch_, c.kv_heads, c.d, c.page, most_),
        q(test::random_heads(c.q_type, c.offsets ? 1 : batch_,
                             c.offsets ? batch_ * c.q_len : c.q_len, c.q_heads, c.d, 1)) {
    const Heads k = test::random_heads(DType::f32, batch_, most_, c.kv_heads, c.d, 2),
                v = test::random_heads(DType::f32, batch_, most_, c.kv_heads, c.d, 3);
    Heads positive = v;
    for (std::int64_t i = 0; i < batch_ * most_ * c.kv_heads * c.d; ++i)
      store_dense(std::fabs(load_dense(v.bytes.data(), DType::f32, i)), positive.bytes.data(),
                  DType::f32, i);
    fill(cache, k, v);
    fill(magnitudes, k, positive);
    for (std::int64_t b = 0; b <= batch_; ++b)
      offsets_.push_back(static_cast<std::int32_t>(b * c.q_len));
    for (std::int64_t h = 0; h < c.q_heads; ++h) sinks_.push_back(std::cos(static_cast<float>(h)));
  }

  Result reference(const OwnedCache& from) const {
    Result r = untouched();
    AttentionOptions o = options(from.view, r.o, r.lse.data());
    o.q = q.view();
    attention(o, {.backend = Backend::reference});
    return r;
  }

  Result device_result() {
    cuda::Device& gpu = device();
    Result r = untouched();
    std::vector<std::int32_t> table = cache.table;
    if (case_.garbage)  // behind what the lengths reach
      for (std::int64_t s = 0; s < batch_; ++s)
        for (std::int64_t e =
                 kv_page::entries(case_.lengths[static_cast<std::size_t>(s)], case_.page);
             e < cache.view.max_pages; ++e)
          table[static_cast<std::size_t>(s * cache.view.max_pages + e)] = e % 2 ? -7 : 1 << 30;
    const test::DeviceCache there(gpu, cache, table);
    const DeviceBytes query(gpu, q.bytes), output(gpu, r.o.bytes),
        lse(gpu, test::device_bytes(r.lse)), offsets(gpu, test::device_bytes(offsets_)),
        sinks(gpu, test::device_bytes(sinks_));
    AttentionOptions o = options(there.view(), r.o, reinterpret_cast<float*>(lse.data()));
    HeadsView on_device = q.view();
    on_device.data = query.data();
    o.q = on_device;
    o.output.data = output.data();
    if (o.sinks) o.sinks = reinterpret_cast<const float*>(sinks.data());
    if (o.q_offsets) o.q_offsets = reinterpret_cast<const std::int32_t*>(offsets.data());
    attend_on(gpu, o);
    r.o.bytes = output.to_host();
    gpu.copy_to_host(r.lse.data(), lse.data(), lse.size(), nullptr);
    return r;
  }

 private:
  void fill(OwnedCache& to, const Heads& k, const Heads& v) const {
    to.view.k_global_scale = 0.2f;
    to.view.v_global_scale = 0.3f;
    if (case_.format == KvFormat::mxfp4 || case_.format == KvFormat::mxfp8)
      to.view.k_global_scale = to.view.v_global_scale = 1.0f;
    if (case_.format == KvFormat::fp8) to.view.k_global_scale = to.view.v_global_scale = 0.01f;
    std::vector<float> mean;
    for (std::int64_t i = 0; i < case_.kv_heads * case_.d; ++i)
      mean.push_back(0.02f * static_cast<float>(i % 23 - 5));
    if (case_.mean) to.set_mean(mean);
    if (case_.hadamard) to.view.hadamard = 16;
    if (case_.first + case_.recent > 0) to.keep(case_.first, case_.recent);
    to.lengths.assign(case_.lengths.begin(), case_.lengths.end());
    std::vector<std::int32_t> offsets{0};
    for (const std::int32_t length : case_.lengths) offsets.push_back(offsets.back() + length);
    const Heads packed_k = packed(k), packed_v = packed(v);
    append_kv(
        {.cache = to.view, .k = packed_k.view(), .v = packed_v.view(), .offsets = offsets.data()});
  }
  /// The tokens that sequences have, one sequence behind the other.
  Heads packed(const Heads& all) const {
    std::int64_t tokens = 0;
    for (const std::int32_t length : case_.lengths) tokens += length;
    Heads result(all.dtype, 1, tokens, all.heads, all.d);
    std::uint8_t* to = result.bytes.data();
    for (std::int64_t b = 0; b < batch_; ++b) {
      const std::int64_t row = all.heads * all.d * size_of(all.dtype),
                         bytes = case_.lengths[static_cast<std::size_t>(b)] * row;
      std::memcpy(to, all.bytes.data() + b * all.tokens * row, static_cast<std::size_t>(bytes));
      to += bytes;
    }
    return result;
  }
  Result untouched() const {
    return {Heads(case_.type, q.batch, q.tokens, q.heads, q.d),
            std::vector<float>(static_cast<std::size_t>(q.batch * q.tokens * q.heads), 99.0f)};
  }
  AttentionOptions options(const KvCache& view, Heads& output, float* lse) const {
    AttentionOptions o;
    o.cache = view;
    o.output = output.mutable_view();
    o.log_sum_exp = lse;
    o.causal = case_.causal;
    o.window = case_.window;
    o.softcap = case_.softcap;
    o.splits = case_.splits;
    if (case_.sinks) o.sinks = sinks_.data();
    if (case_.offsets)
      o.q_offsets = offsets_.data(), o.sequences = batch_, o.max_q_len = case_.q_len;
    return o;
  }

  const Case case_;
  const std::int64_t batch_, most_;
  std::vector<std::int32_t> offsets_;
  std::vector<float> sinks_;

 public:
  OwnedCache cache, magnitudes;
  const Heads q;
};

::testing::AssertionResult near(const Case& c) {
  Attention attention(c);
  const Result want = attention.reference(attention.cache),
               weighted = attention.reference(attention.magnitudes),
               got = attention.device_result();
  // Probabilities in FP16, sums of 16 products at a time; q in FP32, or transformed, becomes FP16.
  const double relative = c.q_type == DType::f32 || c.hadamard ? 0x1p-6 : 0x1p-9;
  const double unit = c.type == DType::f32 ? 0x1p-23 : c.type == DType::f16 ? 0x1p-10 : 0x1p-7;
  for (std::size_t i = 0; i < want.lse.size(); ++i) {
    const double error = std::fabs(want.lse[i] - got.lse[i]);
    if (want.lse[i] != got.lse[i] && !(error < 4 * relative))
      return ::testing::AssertionFailure()
             << "log-sum-exp " << i << " is " << got.lse[i] << ", wanted " << want.lse[i];
  }
  const std::int64_t count = want.o.batch * want.o.tokens * want.o.heads * want.o.d;
  for (std::int64_t i = 0; i < count; ++i) {
    const double w = load_dense(want.o.bytes.data(), c.type, i),
                 g = load_dense(got.o.bytes.data(), c.type, i),
                 a = load_dense(weighted.o.bytes.data(), c.type, i);
    if (!(std::fabs(w - g) <= relative * a + unit * std::fabs(w) + 1e-30))
      return ::testing::AssertionFailure()
             << "element " << i % c.d << " of row " << i / c.d << " is " << g << ", wanted " << w
             << " within " << relative * a;
  }
  return ::testing::AssertionSuccess();
}

class AttentionDecode : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

using test::kv_formats;

TEST_F(AttentionDecode, reads_each_format_layout_and_width) {
  for (const KvFormat format : kv_formats) {
    for (std::int64_t d = 32; d <= 256; d += 32)
      for (const std::int64_t q_heads : {8, 32})
        EXPECT_TRUE(near({.format = format, .d = d, .q_heads = q_heads})) << d << " " << q_heads;
    for (const std::int64_t page : {16, 32, 64})
      for (const CacheLayout layout :
           {CacheLayout::records, CacheLayout::contiguous, CacheLayout::hnd})
        EXPECT_TRUE(near({.format = format, .layout = layout, .page = page})) << page;
  }
}

TEST_F(AttentionDecode, takes_groups_of_any_size) {
  for (const KvFormat format : kv_formats)
    for (const auto& [q_heads, kv_heads] :
         {std::pair{2, 2}, {8, 2}, {8, 1}, {16, 1}, {20, 1}, {9, 3}})
      EXPECT_TRUE(near({.format = format,
                        .d = 64,
                        .lengths = {33, 90},
                        .q_heads = q_heads,
                        .kv_heads = kv_heads}))
          << q_heads << " " << kv_heads;
}

TEST_F(AttentionDecode, masks_caps_and_sinks) {
  for (const KvFormat format : kv_formats)
    for (const std::int64_t q_len : {1, 3})
      for (const bool causal : {false, true}) {
        const Case plain{.format = format, .page = 32, .q_len = q_len, .causal = causal};
        Case c = plain;
        EXPECT_TRUE(near(c));
        c.window = 21;
        EXPECT_TRUE(near(c));
        c.sinks = true;
        EXPECT_TRUE(near(c));
        c = plain, c.softcap = 2.5f, c.splits = 3;
        EXPECT_TRUE(near(c));
        c.offsets = true, c.q_type = DType::f16, c.type = DType::bf16;
        EXPECT_TRUE(near(c));
        c = plain, c.q_type = DType::f32, c.type = DType::f16;
        EXPECT_TRUE(near(c));
      }
}

TEST_F(AttentionDecode, adds_the_mean_of_keys_back_where_it_shows) {
  for (const KvFormat format : kv_formats)
    for (const std::int64_t q_heads : {8, 32})
      for (const bool hadamard : {false, true}) {
        Case c{.format = format, .q_heads = q_heads, .mean = true, .hadamard = hadamard};
        EXPECT_TRUE(near(c));
        c.sinks = true, c.softcap = 3.0f, c.splits = 2;
        EXPECT_TRUE(near(c));
        c.d = 64, c.q_type = DType::f32, c.q_len = 3, c.mean = false;
        EXPECT_TRUE(near(c));
      }
}

TEST_F(AttentionDecode, reads_first_and_recent_tokens_from_their_copies) {
  for (const auto& [format, d] : {std::pair{KvFormat::nvfp4, 64},
                                  {KvFormat::mxfp4, 128},
                                  {KvFormat::fp8, 128},
                                  {KvFormat::nvfp4, 96},
                                  {KvFormat::mxfp8, 224},
                                  {KvFormat::mxfp8, 256}})
    for (const std::int64_t q_heads : {8, 32}) {
      Case c{.format = format, .d = d, .lengths = {75, 40, 3, 0, 100}, .q_heads = q_heads};
      c.first = 5, c.recent = 37;
      EXPECT_TRUE(near(c)) << d;
      c.splits = 3, c.q_len = 3, c.window = 50;
      EXPECT_TRUE(near(c)) << d;
      c.sinks = c.mean = c.hadamard = true, c.softcap = 3.0f, c.first = 0;
      EXPECT_TRUE(near(c)) << d;
      c.first = 90, c.recent = 20, c.window = 0, c.causal = false;
      EXPECT_TRUE(near(c)) << d;
    }
}

TEST_F(AttentionDecode, shares_groups_of_copies_out_to_warps_and_parts) {
  struct Share {
    KvFormat format;
    std::int64_t d, q_heads;
    int splits;
  };
  for (const Share& s : {Share{KvFormat::nvfp4, 128, 8, 1},
                         {KvFormat::nvfp4, 256, 8, 5},
                         {KvFormat::mxfp4, 192, 8, 2},
                         {KvFormat::mxfp8, 64, 32, 30},
                         {KvFormat::fp8, 32, 32, 2}}) {
    Case c{.format = s.format, .page = 32, .d = s.d, .lengths = {300, 211}, .q_heads = s.q_heads};
    c.first = 40, c.recent = 150, c.splits = s.splits;
    EXPECT_TRUE(near(c)) << s.d;
    c.q_len = 3, c.recent = 400, c.offsets = true;  // no tokens are read from pages
    EXPECT_TRUE(near(c)) << s.d;
  }
}

TEST_F(AttentionDecode, reads_every_length) {
  Case c{.page = 32, .d = 64, .lengths = {}, .q_heads = 2, .kv_heads = 1, .garbage = true};
  for (std::int32_t length = 0; length <= 130; ++length) c.lengths.push_back(length);
  for (const KvFormat format : kv_formats)
    for (const int splits : {1, 2, 7}) {
      c.format = format, c.splits = splits;
      EXPECT_TRUE(near(c)) << splits;
    }
}

TEST_F(AttentionDecode, reads_many_keys) {
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4})
    for (const std::int64_t d : {64, 128})
      for (const std::int64_t q_heads : {4, 16}) {
        Case c{.format = format, .d = d, .lengths = {1001, 850}, .q_heads = q_heads, .kv_heads = 1};
        EXPECT_TRUE(near(c)) << d;
        c.page = 64, c.garbage = true, c.window = 700;
        EXPECT_TRUE(near(c)) << d;
        c.page = 16, c.layout = CacheLayout::hnd, c.q_len = 2;
        EXPECT_TRUE(near(c)) << d;
        c.lengths = {1630, 3}, c.splits = 2, c.window = 0, c.layout = CacheLayout::contiguous;
        EXPECT_TRUE(near(c)) << d;
      }
}

TEST_F(AttentionDecode, merges_as_many_parts_as_there_may_be) {
  struct Parts {
    std::int64_t d;
    int splits;
    std::int32_t length;  // a run of 32 keys for each warp of all parts
  };
  for (const Parts& p :
       {Parts{64, 33, 3300}, {64, 256, 24700}, {128, 130, 12700}, {256, 65, 6400}}) {
    Case c{.d = p.d, .lengths = {p.length, 90}, .q_heads = 4, .kv_heads = 1};
    c.sinks = true, c.splits = p.splits, c.garbage = true;
    EXPECT_TRUE(near(c)) << p.d << " " << p.splits;
  }
}

TEST_F(AttentionDecode, leaves_out_absent_pages_of_records) {
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4})
    for (const std::int64_t page : {16, 32}) {
      Case c{.format = format, .page = page, .lengths = {300, 77, 0, 1}, .garbage = true};
      for (const int splits : {1, 3}) {
        c.splits = splits;
        EXPECT_TRUE(near(c)) << page;
      }
      c.window = 90, c.first = 3, c.recent = 40;
      EXPECT_TRUE(near(c)) << page;
    }
}

TEST_F(AttentionDecode, gives_the_same_bytes_paged_and_contiguous) {
  Case c{.lengths = {128, 101}, .splits = 2};
  const Result first = Attention(c).device_result();
  for (const std::int64_t page : {32, 64}) {
    c.page = page;
    EXPECT_EQ(Attention(c).device_result().o.bytes, first.o.bytes);
  }
  c.layout = CacheLayout::contiguous;
  EXPECT_EQ(Attention(c).device_result().o.bytes, first.o.bytes);
}

}  // namespace
}  // namespace microscale::emulator
