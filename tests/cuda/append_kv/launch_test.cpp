// append_kv on the device: which kernels serve a call, how tokens are shared out, what is refused.
#include <gtest/gtest.h>

#include "cuda/append_kv/args.hpp"
#include "cuda/operations.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

class AppendCalls : public ::testing::Test {
 protected:
  // Addresses alone count: nothing is read.
  AppendKvOptions options(KvFormat format, std::int64_t batch, std::int64_t tokens,
                          std::int64_t d = 128) {
    const KvPageShape shape{format, 8, d, 64};
    AppendKvOptions o;
    o.cache = kv_cache_of_records(shape, {reinterpret_cast<std::uint8_t*>(std::uintptr_t{1} << 40),
                                          static_cast<std::size_t>(1024 * shape.page_bytes())});
    o.cache.batch = batch;
    o.cache.page_table = reinterpret_cast<const std::int32_t*>(memory_);
    o.cache.max_pages = 64;
    o.cache.lengths = reinterpret_cast<const std::int32_t*>(memory_);
    o.cache.k_global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(memory_));
    o.cache.v_global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(memory_) + 1);
    o.k = {memory_, DType::bf16, batch, tokens, 8, d};
    o.v = o.k;
    if (format == KvFormat::nvfp4) o.numerics.scale_rule = ScaleRule::nearest;
    return o;
  }
  std::vector<std::string> kernels(const AppendKvOptions& o) {
    device_.launches.clear();
    append_kv(device_, o, nullptr);
    std::vector<std::string> names;
    for (const auto& seen : device_.launches) names.push_back(seen.name);
    return names;
  }
  void SetUp() override {
    if (kernel_names("sm_90a").empty()) GTEST_SKIP() << "built without nvcc";
  }

  alignas(256) static inline std::uint8_t memory_[1 << 12];
  test::FakeDevice device_{9, 0};
};

using Names = std::vector<std::string>;

TEST_F(AppendCalls, write_both_sides_at_once_where_one_kernel_serves_them) {
  EXPECT_EQ(kernels(options(KvFormat::nvfp4, 2, 64)),
            Names{"append_kv_registers_nvfp4_bf16_plain"});
  EXPECT_EQ(device_.launches[0].call.grid.z, 2u);
  AppendKvOptions o = options(KvFormat::mxfp8, 2, 64);
  o.v.dtype = DType::f16;
  EXPECT_EQ(kernels(o), (Names{"append_kv_registers_mxfp8_bf16_search",
                               "append_kv_registers_mxfp8_f16_search"}));
  EXPECT_EQ(device_.launches[1].as<append::Args>().sides[0].codes.data, o.cache.v_codes.data);
  o = options(KvFormat::fp8, 2, 64);
  o.cache.hadamard = 16;
  EXPECT_EQ(kernels(o),
            (Names{"append_kv_halves_fp8_bf16_plain", "append_kv_registers_fp8_bf16_plain"}));
  EXPECT_EQ(device_.launches[0].as<append::Args>().sides[0].transformed, 1);
  EXPECT_EQ(device_.launches[1].as<append::Args>().sides[0].transformed, 0);
}

TEST_F(AppendCalls, take_the_kernel_for_any_rows_where_they_must) {
  AppendKvOptions o = options(KvFormat::nvfp4, 2, 64);
  o.numerics.scale_rule = ScaleRule::four_over_six;
  EXPECT_EQ(kernels(o), Names{"append_kv_registers_nvfp4_bf16_search"});
  o.numerics.scale_rule = ScaleRule::full;
  EXPECT_EQ(kernels(o), Names{"append_kv_shared_nvfp4_general"});
  EXPECT_EQ(kernels(options(KvFormat::mxfp4, 2, 64, 96)), Names{"append_kv_shared_mxfp4_search"});
  o = options(KvFormat::nvfp4, 2, 64);
  o.k.dtype = DType::f32;
  EXPECT_EQ(kernels(o),
            (Names{"append_kv_shared_nvfp4_plain", "append_kv_registers_nvfp4_bf16_plain"}));
  o = options(KvFormat::nvfp4, 2, 64);
  o.k.batch_stride = 65 * 8 * 128;  // sequences apart
  EXPECT_EQ(kernels(o),
            (Names{"append_kv_shared_nvfp4_plain", "append_kv_registers_nvfp4_bf16_plain"}));
}

TEST_F(AppendCalls, take_one_token_of_each_sequence_from_wider_rows) {
  AppendKvOptions o = options(KvFormat::nvfp4, 16, 1);
  o.k.token_stride = o.v.token_stride = 8 * 128;  // of one token, it says nothing
  o.k.batch_stride = o.v.batch_stride = 6144;
  EXPECT_EQ(kernels(o), Names{"append_kv_registers_nvfp4_bf16_plain"});
  EXPECT_EQ(device_.launches[0].as<append::Args>().sides[1].token_bytes, 2u * 6144);
  o = options(KvFormat::nvfp4, 1, 1);
  o.k.batch_stride = std::int64_t{1} << 40;
  EXPECT_EQ(kernels(o), Names{"append_kv_registers_nvfp4_bf16_plain"});
}

TEST_F(AppendCalls, turn_keys_in_registers_where_their_halves_are_partners) {
  const auto* const table = reinterpret_cast<const float*>(memory_);
  const auto key_kernel = [&](std::int64_t d, std::int64_t width, bool interleaved, DType type) {
    AppendKvOptions o = options(KvFormat::nvfp4, 2, 64, d);
    o.rope = {table, table, 64, width, interleaved};
    o.k.dtype = type;
    return kernels(o)[0];
  };
  for (const std::int64_t d : {64, 128, 256})
    EXPECT_EQ(key_kernel(d, d, false, DType::f16), "append_kv_halves_nvfp4_f16_plain");
  EXPECT_EQ(key_kernel(128, 64, false, DType::bf16), "append_kv_shared_nvfp4_plain");
  EXPECT_EQ(key_kernel(128, 128, true, DType::bf16), "append_kv_shared_nvfp4_plain");
  EXPECT_EQ(key_kernel(32, 32, false, DType::bf16), "append_kv_shared_nvfp4_plain");
  EXPECT_EQ(key_kernel(128, 128, false, DType::f32), "append_kv_shared_nvfp4_plain");
}

TEST_F(AppendCalls, give_a_warp_more_where_there_is_enough) {
  kernels(options(KvFormat::nvfp4, 64, 1));
  append::Args args = device_.launches[0].as<append::Args>();
  EXPECT_EQ(args.runs, 1);
  EXPECT_EQ(args.turns, 1);
  EXPECT_EQ(device_.launches[0].call.grid.x, 8u);  // 8 runs of 8 tokens, a block their heads
  kernels(options(KvFormat::nvfp4, 16, 4096));
  args = device_.launches[0].as<append::Args>();
  EXPECT_EQ(args.runs, 4);
  EXPECT_EQ(args.turns, 8);
  EXPECT_EQ(device_.launches[0].call.grid.x, 8192u / 8);
}

TEST_F(AppendCalls, say_whether_scales_leave_in_words) {
  EXPECT_EQ((kernels(options(KvFormat::nvfp4, 2, 64)),
             device_.launches[0].as<append::Args>().sides[0].scale_words),
            1);
  AppendKvOptions o = options(KvFormat::nvfp4, 2, 64);
  o.cache.v_scales.data += 1;
  kernels(o);
  EXPECT_EQ(device_.launches[0].as<append::Args>().sides[0].scale_words, 1);
  EXPECT_EQ(device_.launches[0].as<append::Args>().sides[1].scale_words, 0);
}

TEST_F(AppendCalls, take_words_of_scales_of_half_a_row_of_keys) {
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4}) {  // 8 and 4 bytes a row
    AppendKvOptions o = options(format, 2, 64);
    o.cache.hadamard = 16;
    kernels(o);
    EXPECT_EQ(device_.launches[0].as<append::Args>().sides[0].scale_words,
              format == KvFormat::nvfp4);
    EXPECT_EQ(device_.launches[1].as<append::Args>().sides[0].scale_words, 1);
  }
}

TEST_F(AppendCalls, say_whether_pairs_of_rope_are_whole_chunks) {
  const auto chunks = [&](std::int64_t width, bool interleaved, std::int64_t offset) {
    AppendKvOptions o = options(KvFormat::nvfp4, 2, 64);
    const auto* const table = reinterpret_cast<const float*>(memory_) + offset;
    o.rope = {table, table, 64, width, interleaved};
    kernels(o);
    return device_.launches[0].as<append::Args>().rope_chunks;
  };
  EXPECT_EQ(chunks(128, false, 0), 1);
  EXPECT_EQ(chunks(64, false, 4), 1);
  EXPECT_EQ(chunks(128, true, 0), 0);
  EXPECT_EQ(chunks(24, false, 0), 0);
  EXPECT_EQ(chunks(128, false, 1), 0);
}

TEST_F(AppendCalls, do_nothing_without_tokens) {
  EXPECT_TRUE(kernels(options(KvFormat::nvfp4, 2, 0)).empty());
}

TEST_F(AppendCalls, refuse_memory_of_the_host) {
  AppendKvOptions o = options(KvFormat::nvfp4, 2, 64);
  static std::int32_t offsets[3];
  o.offsets = offsets;
  device_.host_only = offsets;
  o.k.batch = o.v.batch = 1;
  test::expect_error(ErrorCode::invalid_argument, "does not have the memory of the offsets",
                     [&] { append_kv(device_, o, nullptr); });
}

TEST_F(AppendCalls, refuse_more_tokens_than_kernels_number) {
  test::expect_error(ErrorCode::unsupported, "numbers up to 2^30 new tokens and heads", [&] {
    append_kv(device_, options(KvFormat::nvfp4, 1 << 14, 1 << 14), nullptr);
  });
}

}  // namespace
}  // namespace microscale::cuda
