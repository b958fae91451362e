// append_kv's kernels on the emulator: the bytes of a host's append_kv, for every format, rule,
// layout and type, and nothing else written.
#include "cuda/operations.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>

#include "cuda/device/kernel_images.hpp"
#include "support/device_caches.hpp"
#include "support/executed_kernels.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {
namespace {

using cuda::DeviceBytes;
using test::CacheLayout;
using test::DeviceCache;
using test::Heads;
using test::OwnedCache;

struct Case {
  KvFormat format = KvFormat::nvfp4;
  CacheLayout layout = CacheLayout::records;
  std::int64_t page = 16, d = 128, kv_heads = 2;
  std::vector<std::int32_t> before{0, 5}, added{37, 37};
  DType k_type = DType::bf16, v_type = DType::bf16;
  Numerics numerics{.scale_rule = ScaleRule::nearest};  // of MX formats: round up
  std::int64_t rope = 0, first = 0, recent = 0;
  bool interleaved = false, mean = false, hadamard = false;
  bool offsets = false, strided = false, specials = false;
  int capability = 9;
};

EmulatorDevice& gpu_of(const Case& c) {
  if (c.capability == 9) return device();
  static EmulatorDevice ten(10, 0, {.instruction_budget = 2'000'000'000}),
      twelve(12, 0, {.instruction_budget = 2'000'000'000});
  return c.capability == 10 ? ten : twelve;
}

/// Blocks of 16 elements that a quantizer finds hard: zeros, any bits, infinities, tiny numbers.
void spoil(Heads& h) {
  std::mt19937 random(7);
  const std::int64_t count = h.batch * h.tokens * h.heads * h.d;
  for (std::int64_t block = 0; block < count; block += 16) {
    const unsigned kind = random() % 10;
    for (std::int64_t i = block; i < block + 16; ++i) {
      if (kind == 0) store_dense(i % 3 == 0 ? -0.0f : 0.0f, h.bytes.data(), h.dtype, i);
      if (kind == 1)
        for (std::int64_t b = 0; b < size_of(h.dtype); ++b)
          h.bytes[static_cast<std::size_t>(i * size_of(h.dtype) + b)] =
              static_cast<std::uint8_t>(random());
      if (kind == 2)
        store_dense(load_dense(h.bytes.data(), h.dtype, i) * 0x1p-24f, h.bytes.data(), h.dtype, i);
    }
    if (kind == 3) store_dense(-INFINITY, h.bytes.data(), h.dtype, block + 9);
    if (kind == 4) store_dense(NAN, h.bytes.data(), h.dtype, block + 3);
  }
}

/// One append, on the host and on the device.
class Append {
 public:
  explicit Append(const Case& c)
      : case_(c),
        batch_(static_cast<std::int64_t>(c.added.size())),
        all_(std::accumulate(c.added.begin(), c.added.end(), 0)),
        k_(heads(c.k_type, 1)),
        v_(heads(c.v_type, 2)),
        positions_(std::max(100, c.before.back() + c.added[0])),
        cache(c.format, c.layout, batch_, c.kv_heads, c.d, c.page, positions_) {
    if (c.specials) spoil(k_), spoil(v_);
    cache.view.k_global_scale = 0.01f;
    cache.view.v_global_scale = 0.037f;
    if (c.first + c.recent > 0) cache.keep(c.first, c.recent);
    std::vector<float> mean;
    for (std::int64_t i = 0; i < c.kv_heads * c.d; ++i)
      mean.push_back(0.01f * static_cast<float>(i % 37));
    if (c.mean) cache.set_mean(mean);
    if (c.hadamard) cache.view.hadamard = 16;
    offsets_.push_back(0);
    for (std::size_t s = 0; s < c.added.size(); ++s) {
      cache.lengths[s] = c.before[s] + c.added[s];
      offsets_.push_back(offsets_.back() + c.added[s]);
    }
    if (c.rope > 0) {
      cos_.resize(static_cast<std::size_t>(positions_ * c.rope / 2)), sin_ = cos_;
      fill_rope_tables(10000.0, positions_, c.rope, cos_, sin_);
    }
  }

  AppendKvOptions options() const {
    AppendKvOptions o{.cache = cache.view, .k = view(k_), .v = view(v_)};
    if (case_.offsets) o.offsets = offsets_.data();
    if (case_.rope > 0)
      o.rope = {cos_.data(), sin_.data(), positions_, case_.rope, case_.interleaved};
    if (case_.format == KvFormat::fp8) return o;
    o.numerics = case_.numerics;
    if (case_.format != KvFormat::nvfp4 && o.numerics.scale_rule == ScaleRule::nearest)
      o.numerics.scale_rule = ScaleRule::rceil;
    return o;
  }

  /// The device's cache, starting from the host's as it is; `table` in place of its own.
  std::vector<std::uint8_t> on_device(const std::vector<std::int32_t>& table = {}) const {
    EmulatorDevice& gpu = gpu_of(case_);
    const DeviceCache there(gpu, cache, table);
    const DeviceBytes k(gpu, k_.bytes), v(gpu, v_.bytes), cos(gpu, test::device_bytes(cos_)),
        sin(gpu, test::device_bytes(sin_)), offsets(gpu, test::device_bytes(offsets_));
    AppendKvOptions o = options();
    o.cache = there.view();
    o.k.data = k.data() + (static_cast<const std::uint8_t*>(o.k.data) - k_.bytes.data());
    o.v.data = v.data() + (static_cast<const std::uint8_t*>(o.v.data) - v_.bytes.data());
    if (o.offsets) o.offsets = reinterpret_cast<const std::int32_t*>(offsets.data());
    if (o.rope.cos) {
      o.rope.cos = reinterpret_cast<const float*>(cos.data());
      o.rope.sin = reinterpret_cast<const float*>(sin.data());
    }
    cuda::append_kv(gpu, o, nullptr);
    return there.bytes();
  }

 private:
  Heads heads(DType type, unsigned seed) const {
    const bool packed = case_.offsets;
    return test::random_heads(type, packed ? 1 : batch_, packed ? all_ + 3 : case_.added[0],
                              case_.kv_heads * (case_.strided ? 3 : 1), case_.d, seed);
  }
  /// Strided: the middle third of the heads.
  HeadsView view(const Heads& h) const {
    HeadsView view = h.view();
    if (!case_.strided) return view;
    view.heads = case_.kv_heads;
    view.token_stride = h.heads * h.d;
    view.batch_stride = h.tokens * view.token_stride;
    if (h.tokens == 1) view.token_stride = view.heads * view.d;  // of no meaning, as frameworks do
    view.data = h.bytes.data() + case_.kv_heads * h.d * size_of(h.dtype);
    return view;
  }

  const Case case_;
  const std::int64_t batch_, all_;
  Heads k_, v_;
  std::vector<float> cos_, sin_;
  std::vector<std::int32_t> offsets_;
  const std::int64_t positions_;

 public:
  OwnedCache cache;
};

::testing::AssertionResult same(const Case& c) {
  Append append(c);
  const std::vector<std::uint8_t> before = DeviceCache::bytes_of(append.cache),
                                  got = append.on_device();
  append_kv(append.options());
  const std::vector<std::uint8_t> want = DeviceCache::bytes_of(append.cache);
  if (want == before) return ::testing::AssertionFailure() << "the host wrote nothing";
  for (std::size_t i = 0; i < want.size(); ++i)
    if (got[i] != want[i])
      return ::testing::AssertionFailure()
             << "byte " << i << " of " << want.size() << " is " << static_cast<int>(got[i])
             << ", wanted " << static_cast<int>(want[i]) << ", before "
             << static_cast<int>(before[i]);
  return ::testing::AssertionSuccess();
}

class AppendKvKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

constexpr CacheLayout layouts[] = {CacheLayout::records, CacheLayout::contiguous, CacheLayout::nhd,
                                   CacheLayout::hnd, CacheLayout::joined};

TEST_F(AppendKvKernels, write_every_format_and_layout) {
  for (const KvFormat format : test::kv_formats)
    for (const CacheLayout layout : layouts)
      for (const std::int64_t page : {16, 64})
        EXPECT_TRUE(same({.format = format, .layout = layout, .page = page}))
            << static_cast<int>(format) << " " << static_cast<int>(layout) << " " << page;
}

TEST_F(AppendKvKernels, take_every_width) {
  for (const KvFormat format : test::kv_formats)
    for (std::int64_t d = 32; d <= 256; d += 32)
      for (const DType type : {DType::bf16, DType::f32})
        EXPECT_TRUE(same({.format = format,
                          .layout = CacheLayout::nhd,
                          .d = d,
                          .kv_heads = 3,
                          .k_type = type,
                          .v_type = DType::f16,
                          .strided = d % 64 == 0}))
            << static_cast<int>(format) << " " << d;
}

TEST_F(AppendKvKernels, have_the_scale_rules_of_numbers_of_any_kind) {
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8})
    for (const ScaleRule rule : scale_rules(format == KvFormat::nvfp4   ? Format::nvfp4
                                            : format == KvFormat::mxfp4 ? Format::mxfp4
                                                                        : Format::mxfp8_e4m3))
      for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
        Case c{.format = format,
               .d = 64,
               .before = {3},
               .added = {40},
               .k_type = type,
               .v_type = type,
               .numerics = {.scale_rule = rule},
               .specials = true};
        EXPECT_TRUE(same(c)) << to_string(rule);
        c.numerics.nan = NanPolicy::drop;
        c.numerics.inf = InfPolicy::nan_block;
        c.numerics.zero_code = ZeroCode::positive;
        EXPECT_TRUE(same(c)) << to_string(rule);
      }
  EXPECT_TRUE(same({.format = KvFormat::fp8, .specials = true}));
}

TEST_F(AppendKvKernels, transform_keys) {
  for (const KvFormat format : test::kv_formats)
    for (const bool interleaved : {false, true})
      for (const std::int64_t rope : {128, 64, 6}) {
        Case c{.format = format, .rope = rope, .first = 2, .recent = 9, .interleaved = interleaved};
        EXPECT_TRUE(same(c));
        c.mean = true;
        EXPECT_TRUE(same(c));
        c.hadamard = c.specials = true;
        EXPECT_TRUE(same(c));
        c.d = 160, c.k_type = DType::f32;
        EXPECT_TRUE(same(c));
        c.numerics.scale_rule =
            format == KvFormat::nvfp4 ? ScaleRule::four_over_six : ScaleRule::search;
        EXPECT_TRUE(same(c));
      }
}

TEST_F(AppendKvKernels, turn_keys_in_registers) {
  for (const KvFormat format : test::kv_formats)
    for (const std::int64_t d : {64, 128, 256})
      for (const DType type : {DType::bf16, DType::f16}) {
        Case c{.format = format,
               .layout = d == 64 ? CacheLayout::hnd : CacheLayout::records,
               .d = d,
               .kv_heads = 3,
               .k_type = type,
               .rope = d,
               .strided = type == DType::f16,
               .specials = true};
        if (format != KvFormat::fp8) c.numerics.nan = NanPolicy::drop;
        EXPECT_TRUE(same(c)) << d;
        c.mean = c.hadamard = true, c.first = 2, c.recent = 9;
        EXPECT_TRUE(same(c)) << d;
        c.rope = 0, c.offsets = true;
        c.numerics.scale_rule = ScaleRule::search;
        EXPECT_TRUE(same(c)) << d;
        if (format != KvFormat::nvfp4) continue;
        c.rope = d, c.numerics.scale_rule = ScaleRule::four_over_six_mae;
        EXPECT_TRUE(same(c)) << d;
      }
}

TEST_F(AppendKvKernels, copy_first_and_recent_tokens) {
  for (const DType type : {DType::bf16, DType::f16, DType::f32})
    for (const std::int64_t first : {0, 4, 64})
      for (const std::int64_t recent : {0, 20, 64})
        EXPECT_TRUE(same({.before = {0, 30},
                          .k_type = type,
                          .v_type = type,
                          .first = first,
                          .recent = recent,
                          .specials = true}))
            << first << " " << recent;
}

TEST_F(AppendKvKernels, take_packed_sequences_of_any_length) {
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp8})
    for (const auto& added : std::vector<std::vector<std::int32_t>>{
             {1, 1, 1, 1, 1, 1}, {0, 3, 0, 0, 50, 1}, {17, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 9}})
      EXPECT_TRUE(same({.format = format,
                        .layout = CacheLayout::hnd,
                        .before = {0, 15, 16, 31, 40, 7},
                        .added = added,
                        .first = 2,
                        .recent = 3,
                        .offsets = true}));
}

// A step of decoding: a token or two of each sequence, from the middle of a product's result.
TEST_F(AppendKvKernels, take_few_tokens) {
  for (const std::int64_t d : {32, 64, 128, 256})
    for (const auto& added : std::vector<std::vector<std::int32_t>>{{1}, {1, 1, 1}, {2, 2}, {5}})
      for (const ScaleRule rule : {ScaleRule::search, ScaleRule::four_over_six})
        EXPECT_TRUE(same({.d = d,
                          .kv_heads = 3,
                          .before = {0, 15, 16},
                          .added = added,
                          .numerics = {.scale_rule = rule},
                          .strided = true,
                          .specials = d == 128}))
            << d << " " << added.size() << " x " << added[0] << " " << to_string(rule);
}

TEST_F(AppendKvKernels, take_many_runs_a_warp) {
  device().set(1);
  for (const std::int64_t d : {32, 96, 128, 256})
    for (const CacheLayout layout : {CacheLayout::contiguous, CacheLayout::hnd})
      for (const std::int32_t before : {0, 3}) {  // runs within pages, and across them
        Case c{.layout = layout, .d = d, .before = {before, 9}, .added = {1037, 1037}};
        c.first = 5, c.recent = 40;
        EXPECT_TRUE(same(c)) << d;
        c.rope = 32, c.format = KvFormat::mxfp8;
        EXPECT_TRUE(same(c)) << d;
      }
  device().set(2);
}

TEST_F(AppendKvKernels, are_the_same_on_blackwell) {
  for (const KvFormat format : test::kv_formats)
    for (const ScaleRule rule : {ScaleRule::nearest, ScaleRule::search, ScaleRule::four_over_six}) {
      if (rule == ScaleRule::four_over_six && format != KvFormat::nvfp4) continue;
      Case c{
          .format = format, .numerics = {.scale_rule = rule}, .specials = true, .capability = 12};
      EXPECT_TRUE(same(c));
      for (const std::int64_t rope : {64, 128}) {
        c.rope = rope, c.mean = c.hadamard = true;
        EXPECT_TRUE(same(c));
      }
    }
}

/// Small calls that take every kernel.
class AppendKvKernelsOf : public AppendKvKernels, public ::testing::WithParamInterface<int> {};

TEST_P(AppendKvKernelsOf, are_executed_all_and_right) {
  for (const KvFormat format : test::kv_formats)
    for (const ScaleRule rule : {ScaleRule::nearest, ScaleRule::search, ScaleRule::full})
      for (const DType type : {DType::bf16, DType::f16, DType::f32})
        for (const std::int64_t rope : {0, 64}) {
          Case c{.format = format,
                 .d = 64,
                 .before = {3},
                 .added = {9},
                 .k_type = type,
                 .v_type = type,
                 .numerics = {.scale_rule = rule},
                 .rope = rope,
                 .capability = GetParam()};
          if (format == KvFormat::fp8 && rule != ScaleRule::nearest) continue;
          if (format != KvFormat::nvfp4 &&
              rule == ScaleRule::full)  // another rounding in its place
            c.numerics = {.scale_rule = ScaleRule::rceil, .rounding = Rounding::nearest_away};
          EXPECT_TRUE(same(c)) << static_cast<int>(format) << to_string(rule) << to_string(type);
        }
  const EmulatorDevice& gpu = gpu_of({.capability = GetParam()});
  EXPECT_TRUE(executed_all(gpu, architecture_of(GetParam()), {"append_"}));
}

INSTANTIATE_TEST_SUITE_P(Capability, AppendKvKernelsOf, ::testing::Values(9, 10, 12),
                         [](const auto& tested) { return std::to_string(tested.param); });

TEST_F(AppendKvKernels, leave_out_what_has_no_place) {
  // Pages that there are not; the other sequence's tokens arrive.
  Append append({.page = 16, .d = 64, .before = {0, 5}, .added = {37, 37}});
  std::vector<std::int32_t> table = append.cache.table;
  const std::int64_t columns = append.cache.view.max_pages;
  for (std::int64_t e = 0; e < columns; ++e)
    table[static_cast<std::size_t>(e)] = e % 2 ? -1 : static_cast<std::int32_t>(1 << 30);
  const std::vector<std::uint8_t> got = append.on_device(table);
  AppendKvOptions second = append.options();
  second.cache.batch = second.k.batch = second.v.batch = 1;
  second.cache.lengths += 1;
  second.cache.page_table += columns;
  for (HeadsView* view : {&second.k, &second.v})
    view->data = static_cast<const std::uint8_t*>(view->data) + 37 * 2 * 64 * 2;
  append_kv(second);
  EXPECT_EQ(got, DeviceCache::bytes_of(append.cache));
}

TEST_F(AppendKvKernels, write_nothing_for_lengths_that_cannot_be) {
  for (const std::int32_t length : {-5, 0, 36, 1000000}) {
    Append append({.d = 64, .before = {0}, .added = {37}, .first = 3, .recent = 5});
    append.cache.lengths[0] = length;
    const std::vector<std::uint8_t> got = append.on_device();
    if (length != 36) {
      EXPECT_EQ(got, DeviceCache::bytes_of(append.cache)) << length;
    }
  }
}

}  // namespace
}  // namespace microscale::emulator
