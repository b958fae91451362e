// Attention by block-scaled matrix instructions over caches, on the emulator: the same bytes as
// over tensors of the same codes, in every layout; pages that there are not are left out.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/attention/attention.hpp"
#include "cuda/device/kernels.hpp"
#include "device_bytes.hpp"
#include "emulator/device.hpp"
#include "ops/attention_check.hpp"
#include "support/caches.hpp"
#include "support/executed_kernels.hpp"

namespace microscale::emulator {
namespace {

using cuda::DeviceBytes;
using test::CacheLayout;
using test::Heads;
using test::OwnedCache;

EmulatorDevice& device() {
  static EmulatorDevice made(12, 0, {.instruction_budget = 2'000'000'000});
  return made;
}

struct Case {
  CacheLayout layout = CacheLayout::records;
  std::int64_t page = 16, d = 128;
  std::vector<std::int32_t> lengths{75, 40, 0, 130};
  AttentionAccuracy accuracy = AttentionAccuracy::one_term;
  ProbabilityRule rule = ProbabilityRule::exact;
  bool causal = true;
  std::int64_t window = 0;
  int splits = 0;
  std::vector<std::int64_t> absent{};  // entries of sequence 0's page table
  bool without_pages = false;
};

struct Result {
  std::vector<std::uint8_t> o;
  std::vector<float> lse;
};

constexpr std::int64_t q_len = 3, q_heads = 6, kv_heads = 2;

/// Codes of one operand as a packed tensor [1, all tokens, kv_heads, d].
struct Packed {
  std::vector<std::uint8_t> codes, scales;
  Packed(const OwnedCache& cache, const KvPart& code, const KvPart& scale, const Case& c) {
    const std::int64_t of_page = cache.view.page_size;
    for (std::size_t s = 0; s < c.lengths.size(); ++s)
      for (std::int64_t t = 0; t < c.lengths[s]; ++t) {
        if (s == 0 && std::find(c.absent.begin(), c.absent.end(), t / of_page) != c.absent.end())
          continue;
        for (std::int64_t h = 0; h < kv_heads; ++h) {
          const auto append = [&](std::vector<std::uint8_t>& to, const KvPart& part,
                                  std::int64_t count) {
            const std::uint8_t* from = cache.row(part, static_cast<std::int64_t>(s), h, t);
            to.insert(to.end(), from, from + count);
          };
          append(codes, code, c.d / 2);
          append(scales, scale, c.d / 16);
        }
      }
  }
};

class CachedAttention {
 public:
  explicit CachedAttention(const Case& c)
      : c_(c),
        batch_(static_cast<std::int64_t>(c.lengths.size())),
        cache(KvFormat::nvfp4, c.layout, batch_, kv_heads, c.d, c.page, most()),
        q(test::random_heads(DType::bf16, 1, batch_ * q_len, q_heads, c.d, 1)) {
    cache.view.k_global_scale = 0.2f;
    cache.view.v_global_scale = 0.3f;
    cache.append(test::random_heads(DType::f32, batch_, most(), kv_heads, c.d, 2),
                 test::random_heads(DType::f32, batch_, most(), kv_heads, c.d, 3), 0, most());
    cache.lengths = c.lengths;
    for (std::int64_t b = 0; b <= batch_; ++b)
      q_offsets_.push_back(static_cast<std::int32_t>(b * q_len));
  }

  Result of_cache() {
    cuda::Device& gpu = device();
    std::vector<std::int32_t> table = cache.table;
    for (const std::int64_t entry : c_.absent)
      table[static_cast<std::size_t>(entry)] = entry % 2 ? -7 : 1 << 30;
    const DeviceBytes memory(gpu, some(cache.memory)), k_codes(gpu, some(cache.k_codes)),
        k_scales(gpu, some(cache.k_scales)), v_codes(gpu, some(cache.v_codes)),
        v_scales(gpu, some(cache.v_scales)), tables(gpu, some(bytes_of(table))),
        lengths(gpu, bytes_of(cache.lengths)),
        globals(gpu, bytes_of(std::vector<float>{cache.view.k_global_scale.value(),
                                                 cache.view.v_global_scale.value()}));
    KvCache view = cache.view;
    const auto move = [&](KvPart& part) {
      const std::pair<const std::vector<std::uint8_t>*, const DeviceBytes*> homes[] = {
          {&cache.memory, &memory},
          {&cache.k_codes, &k_codes},
          {&cache.k_scales, &k_scales},
          {&cache.v_codes, &v_codes},
          {&cache.v_scales, &v_scales}};
      for (const auto& [host, there] : homes)
        if (!host->empty() && part.data >= host->data() &&
            part.data < host->data() + host->size()) {
          part.data = there->data() + (part.data - host->data());
          return;
        }
    };
    move(view.k_codes), move(view.k_scales), move(view.v_codes), move(view.v_scales);
    if (view.page_table) view.page_table = reinterpret_cast<const std::int32_t*>(tables.data());
    view.lengths = reinterpret_cast<const std::int32_t*>(lengths.data());
    view.k_global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(globals.data()));
    view.v_global_scale =
        GlobalScale::on_device(reinterpret_cast<const float*>(globals.data()) + 1);
    if (c_.without_pages) {
      view.pages = 0;
      view.k_codes = view.k_scales = view.v_codes = view.v_scales = {};
    }
    AttentionOptions o;
    o.cache = view;
    return run(o);
  }

  Result of_tensors() {
    cuda::Device& gpu = device();
    const Packed k(cache, cache.view.k_codes, cache.view.k_scales, c_),
        v(cache, cache.view.v_codes, cache.view.v_scales, c_);
    const DeviceBytes k_codes(gpu, k.codes), k_scales(gpu, k.scales), v_codes(gpu, v.codes),
        v_scales(gpu, v.scales),
        globals(gpu, bytes_of(std::vector<float>{cache.view.k_global_scale.value(),
                                                 cache.view.v_global_scale.value()}));
    const auto tokens = static_cast<std::int64_t>(k.codes.size()) / (kv_heads * c_.d / 2);
    const auto view_of = [&](const DeviceBytes& codes, const DeviceBytes& scales, int which) {
      BlockTensorView view{
          .shape = {tokens * kv_heads, c_.d, Format::nvfp4}, .codes = {}, .scales = {}};
      view.codes = {codes.data(), static_cast<std::size_t>(view.shape.code_bytes())};
      view.scales = {scales.data(), static_cast<std::size_t>(view.shape.scale_bytes())};
      view.global_scale =
          GlobalScale::on_device(reinterpret_cast<const float*>(globals.data()) + which);
      return BlockHeadsView{view, 1, tokens, kv_heads};
    };
    std::vector<std::int32_t> offsets{0};
    for (const std::int32_t length : c_.lengths) offsets.push_back(offsets.back() + length);
    for (std::size_t s = 1; s < offsets.size(); ++s)
      offsets[s] -= offsets.back() - static_cast<std::int32_t>(tokens);
    const DeviceBytes kv_offsets(gpu, bytes_of(offsets));
    AttentionOptions o;
    o.k = view_of(k_codes, k_scales, 0);
    o.v = view_of(v_codes, v_scales, 1);
    o.kv_offsets = reinterpret_cast<const std::int32_t*>(kv_offsets.data());
    return run(o);
  }

 private:
  std::int64_t most() const { return *std::max_element(c_.lengths.begin(), c_.lengths.end()); }
  template <class T>
  static std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(values.data());
    return {first, first + values.size() * sizeof(T)};
  }
  static std::vector<std::uint8_t> some(std::vector<std::uint8_t> bytes) {
    if (bytes.empty()) bytes.resize(16);
    return bytes;
  }
  Result run(AttentionOptions o) {
    cuda::Device& gpu = device();
    Heads out(DType::f32, 1, q.tokens, q_heads, c_.d);
    const DeviceBytes query(gpu, q.bytes), output(gpu, out.bytes),
        offsets(gpu, bytes_of(q_offsets_)), lse(gpu, out.bytes);
    HeadsView view = q.view();
    view.data = query.data();
    o.q = view;
    o.output = out.mutable_view();
    o.output.data = output.data();
    o.log_sum_exp = reinterpret_cast<float*>(lse.data());
    o.q_offsets = reinterpret_cast<const std::int32_t*>(offsets.data());
    o.sequences = batch_;
    o.causal = c_.causal;
    o.window = c_.window;
    o.splits = c_.splits;
    o.numerics.accuracy = c_.accuracy;
    o.numerics.probabilities = c_.rule;
    const AttentionCall call = check_attention(o, true);
    const std::int64_t bytes = cuda::attention::workspace_bytes(gpu, call);
    const DeviceBytes workspace(gpu, bytes);
    cuda::attention::attend(gpu, call, {workspace.data(), static_cast<std::size_t>(bytes)},
                            nullptr);
    Result r{output.to_host(), std::vector<float>(static_cast<std::size_t>(q.tokens * q_heads))};
    gpu.copy_to_host(r.lse.data(), lse.data(), static_cast<std::int64_t>(4 * r.lse.size()),
                     nullptr);
    EXPECT_TRUE(device().last_report.findings.empty());
    return r;
  }

  const Case c_;
  const std::int64_t batch_;
  std::vector<std::int32_t> q_offsets_;

 public:
  OwnedCache cache;
  const Heads q;
};

class AttentionBlockScaledCache : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_names("sm_120f").empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_F(AttentionBlockScaledCache, gives_the_bytes_of_tensors_with_the_same_codes) {
  for (const CacheLayout layout : {CacheLayout::records, CacheLayout::contiguous, CacheLayout::nhd,
                                   CacheLayout::hnd, CacheLayout::joined})
    for (const std::int64_t page : {16, 64})
      for (const std::int64_t d : {64, 128, 256}) {
        Case c{.layout = layout, .page = page, .d = d};
        if (page == 64) c.rule = ProbabilityRule::two_level, c.window = 50, c.splits = 2;
        for (const AttentionAccuracy accuracy :
             {AttentionAccuracy::one_term, AttentionAccuracy::two_term}) {
          c.accuracy = accuracy;
          const bool two = accuracy == AttentionAccuracy::two_term;
          if (two && (d == 256 && page == 64)) continue;  // refused
          if (two && layout != CacheLayout::records) continue;
          CachedAttention attention(c);
          const Result cached = attention.of_cache(), tensors = attention.of_tensors();
          EXPECT_EQ(cached.o, tensors.o) << static_cast<int>(layout) << " " << page << " " << d;
          EXPECT_EQ(cached.lse, tensors.lse);
        }
      }
  EXPECT_TRUE(executed_all(
      device(), "sm_120f",
      {"attention_block_scaled_exact_paged_", "attention_block_scaled_two_level_paged_"}));
}

TEST_F(AttentionBlockScaledCache, leaves_out_pages_that_there_are_not) {
  for (const auto& [rule, splits] : {std::pair{ProbabilityRule::exact, 1},
                                     {ProbabilityRule::two_level, 1},
                                     {ProbabilityRule::exact, 3},
                                     {ProbabilityRule::two_level, 2}}) {
    CachedAttention attention({.lengths = {150, 20},
                               .rule = rule,
                               .causal = false,
                               .splits = splits,
                               .absent = {1, 4, 6}});
    const Result cached = attention.of_cache(), without = attention.of_tensors();
    double off = 0, all = 0;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(cached.o.size()) / 4; ++i) {
      const double a = load_dense(cached.o.data(), DType::f32, i),
                   b = load_dense(without.o.data(), DType::f32, i);
      off += (a - b) * (a - b), all += b * b;
    }
    // Other blocks of keys share a scale.
    EXPECT_LT(std::sqrt(off / all), rule == ProbabilityRule::exact ? 1e-3 : 0.2);
    for (std::size_t i = 0; i < cached.lse.size(); ++i)
      EXPECT_NEAR(cached.lse[i], without.lse[i], 1e-5);
  }
}

TEST_F(AttentionBlockScaledCache, may_have_no_pages) {
  for (const ProbabilityRule rule : {ProbabilityRule::exact, ProbabilityRule::two_level}) {
    const Result r = CachedAttention({.rule = rule, .without_pages = true}).of_cache();
    EXPECT_EQ(r.o, std::vector<std::uint8_t>(r.o.size()));
    for (const float sum : r.lse) EXPECT_EQ(sum, -INFINITY);
  }
}

}  // namespace
}  // namespace microscale::emulator
